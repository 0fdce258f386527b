//! File descriptors of this process: the limit and the number in use.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit. The usual soft limit of 1,024 exists for programs that
/// use `select`; a server runs out of it under load.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let raised = Rlimit {
        // Without a hard limit, the kernel's maximum is used (`fs.nr_open`).
        current: maximum.or(Some(1 << 20)),
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(
            from = current,
            to = maximum,
            "raised the limit of file descriptors"
        ),
        Err(error) => tracing::warn!(%error, "could not raise the limit of file descriptors"),
    }
}

/// Returns the maximum number of descriptors; `None` is no limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the number of open descriptors; `None` if the kernel does not report it.
pub(crate) fn open() -> Option<usize> {
    // The directory itself is open while it is read.
    Some(
        std::fs::read_dir("/proc/self/fd")
            .ok()?
            .count()
            .saturating_sub(1),
    )
}
