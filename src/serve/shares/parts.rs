//! The parts of the machine that one client can take.

use std::num::NonZeroU32;

use super::Resource;
use crate::config::Config;
use crate::serve::parsing::{self, Length};
use crate::serve::places::Places;
use crate::serve::{DECODED_KIB_MAX, UNACKNOWLEDGED_BYTES_MAX};

/// The part of everything that one client can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The part of each [`Resource`].
    pub(super) counted: [u64; Resource::COUNT],
    pub(super) queries_running: usize,
    pub(super) queries_waiting: usize,
    pub(super) parsing_short: usize,
    pub(super) parsing_long: usize,
    pub(super) computing: usize,
    pub(super) decoded_kib: usize,
    pub(super) per_second: Option<NonZeroU32>,
}

impl Parts {
    /// Returns the parts that the configuration gives.
    pub(crate) fn of(config: &Config, places: Places) -> Self {
        let (server, query) = (&config.server, &config.query);
        let part = |all: u64| ((all as f64 * server.client_share).ceil() as u64).max(1);
        let count = |all: usize| usize::try_from(part(all as u64)).unwrap_or(usize::MAX);
        let connections = part(places.connections as u64);
        let mut counted = [0; Resource::COUNT];
        for (resource, most) in [
            (Resource::Connections, connections),
            (Resource::Requests, connections),
            (Resource::Tails, part(places.tails(server.tails_max) as u64)),
            // A client can always send one body.
            (
                Resource::BodyBytes,
                part(server.bodies_bytes_max.0).max(server.batch_bytes_max.0),
            ),
            (
                Resource::UnacknowledgedBytes,
                part(UNACKNOWLEDGED_BYTES_MAX.into()).max(server.batch_bytes_max.0),
            ),
        ] {
            counted[resource as usize] = most;
        }
        Self {
            counted,
            queries_running: count(query.running_max),
            queries_waiting: query.queued_max,
            parsing_short: count(parsing::most(Length::Short)),
            parsing_long: count(parsing::most(Length::Long)),
            computing: count(parsing::most(Length::Long)),
            decoded_kib: count(DECODED_KIB_MAX),
            per_second: NonZeroU32::new(server.client_requests_per_second),
        }
    }
}
