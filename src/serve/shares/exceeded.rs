//! The refusal of a client that has reached a limit.

use std::time::Duration;

/// Time after which a refused client may try again, where the limit is no rate.
const AGAIN: Duration = Duration::from_secs(1);

/// A limit that a client has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// The limited resource.
    pub(crate) resource: &'static str,
    pub(crate) most: u64,
    /// Time after which the client may try again.
    pub(crate) wait: Duration,
}

impl Exceeded {
    pub(super) fn new(resource: &'static str, most: u64) -> Self {
        Self {
            resource,
            most,
            wait: AGAIN,
        }
    }

    /// Returns the hint for the client.
    pub(crate) fn hint(&self) -> &'static str {
        "send fewer at once, or raise server.client_share or server.client_requests_per_second"
    }

    /// Returns the message for the client.
    pub(crate) fn message(&self) -> String {
        format!(
            "this account, or the address of a request without one, has reached its share of {} {}",
            self.most, self.resource
        )
    }
}
