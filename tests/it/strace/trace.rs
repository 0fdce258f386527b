//! The calls that strace made fail, read from its output.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// The work that a fault hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Struck {
    /// The start of the server.
    Start,
    /// The sync of a journal segment that is being written.
    JournalSync,
    /// Another call on the journal.
    Journal,
    Manifest,
    /// A part, a tile, identities, or a directory of those.
    Seal,
}

/// A call that failed.
#[derive(Debug)]
pub(super) struct Injected {
    pub(super) struck: Struck,
    /// Time of the call.
    pub(super) at: SystemTime,
    pub(super) delayed: bool,
}

impl Injected {
    /// Waits until a fault has been met.
    #[track_caller]
    pub(super) fn wait(trace: &str, within: Duration) {
        let until = Instant::now() + within;
        while Self::all(trace).is_empty() {
            assert!(Instant::now() < until, "no call fails");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns every call that failed, in the order of their ends. Lines are
    /// `pid seconds call(…) = result`, or the two halves of a call that others came between.
    pub(super) fn all(trace: &str) -> Vec<Self> {
        let text = std::fs::read_to_string(trace).unwrap_or_default();
        // The line that is still being written is left out.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut begun = BTreeMap::new();
        let mut all = Vec::new();
        for line in whole.lines() {
            let mut words = line.split_whitespace();
            let (Some(pid), Some(at)) = (words.next(), words.next()) else {
                continue;
            };
            if line.ends_with("<unfinished ...>") {
                begun.insert(pid, (at, line));
            } else if line.contains("(INJECTED)") {
                let resumed = line.contains(" resumed>");
                let (at, call) = if resumed { begun[pid] } else { (at, line) };
                let at = at.parse().expect("seconds since 1970");
                all.push(Self {
                    struck: struck(call),
                    at: SystemTime::UNIX_EPOCH + Duration::from_secs_f64(at),
                    delayed: call.contains("sync("),
                });
            }
        }
        all
    }
}

fn struck(call: &str) -> Struck {
    if call.contains("/data/journal/") && call.contains("fdatasync(") && !call.contains(".tmp") {
        Struck::JournalSync
    } else if call.contains("/data/journal") {
        Struck::Journal
    } else if call.contains("/data/manifest") {
        Struck::Manifest
    } else {
        Struck::Seal
    }
}
