//! File descriptors: how many this process may have, and has.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to what this process may ask for. The usual soft limit of 1,024 is a courtesy
/// to programs that use `select`; a server that keeps to it runs out under load.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let raised = Rlimit {
        // Without a limit of its own the kernel takes so many at most (`fs.nr_open`).
        current: maximum.or(Some(1 << 20)),
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(from = current, to = maximum, "more file descriptors"),
        Err(error) => tracing::warn!(%error, "the limit of file descriptors stays as it is"),
    }
}

/// Maximum number of descriptors; `None` is no limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Number of open descriptors; `None` where the kernel does not say.
pub(crate) fn open() -> Option<usize> {
    // The folder is open itself while it is read.
    Some(
        std::fs::read_dir("/proc/self/fd")
            .ok()?
            .count()
            .saturating_sub(1),
    )
}
