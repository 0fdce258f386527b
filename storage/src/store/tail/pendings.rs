//! The requests whose messages were appended and not read back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::store::log::{Request, bytes_of};

/// Time after which a request is answered as unknown while its message is neither read back nor
/// known to never count.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const ANONYMOUS_ANSWER_MAX: Duration = Duration::from_secs(600);

/// A message that is not known to be in the journal, and the reason.
#[derive(Debug)]
pub(super) struct LostMessage {
    pub(super) number: u64,
    pub(super) why: String,
}

/// Guarded by `Tail.pending`, a leaf among the locks of the store.
#[derive(Debug, Default)]
pub(super) struct Pendings {
    /// Requests by the number of their message.
    pub(super) groups: BTreeMap<u64, PendingGroup>,
    pub(super) bytes: usize,
    /// The last message that is not known to count, and the reason.
    pub(super) failed: Option<(u64, String)>,
    /// True when no more groups come.
    pub(super) is_closed: bool,
}

/// Requests of one message.
#[derive(Debug)]
pub(super) struct PendingGroup {
    since: Instant,
    requests: Vec<Request>,
}

impl PendingGroup {
    /// Returns whether its requests are answered though their outcome is not known. A sender
    /// without an identity could only send again what may be stored, so it waits for longer.
    fn is_due(&self) -> bool {
        let has_identity = |request: &Request| request.record.identity.is_some();
        let max = match self.requests.iter().all(has_identity) {
            true => ANSWER_MAX,
            false => ANONYMOUS_ANSWER_MAX,
        };
        self.since.elapsed() >= max
    }
}

impl Pendings {
    /// Adds a group, or gives it back when nobody reads any more.
    pub(super) fn add(&mut self, number: u64, group: Vec<Request>) -> Result<(), Vec<Request>> {
        if self.is_closed {
            return Err(group);
        }
        self.bytes += bytes_of(&group);
        let group = PendingGroup {
            since: Instant::now(),
            requests: group,
        };
        self.groups.insert(number, group);
        Ok(())
    }

    /// Notes that a message is not known to count.
    pub(super) fn fail(&mut self, number: u64, why: String) {
        let is_later = |(known, _): &(u64, String)| number > *known;
        if self.failed.as_ref().is_none_or(is_later) {
            self.failed = Some((number, why));
        }
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Vec<Request>> {
        let group = self.groups.remove(&number)?.requests;
        self.bytes -= bytes_of(&group);
        Some(group)
    }

    /// Takes the oldest group if it has waited for too long.
    pub(super) fn take_due(&mut self) -> Option<Vec<Request>> {
        let (number, _) = self.groups.first_key_value().filter(|(_, g)| g.is_due())?;
        self.take(*number)
    }

    /// Takes the groups of messages before this one.
    pub(super) fn take_before(&mut self, number: u64) -> Vec<Request> {
        let later = self.groups.split_off(&number);
        let before = std::mem::replace(&mut self.groups, later);
        let taken = before.into_values().flat_map(|group| group.requests);
        let taken: Vec<Request> = taken.collect();
        self.bytes -= bytes_of(&taken);
        taken
    }
}
