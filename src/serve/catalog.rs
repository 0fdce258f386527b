//! The catalog and the shards of a cluster, looked at again and again until the server stops.

use std::sync::Arc;
use std::time::Duration;

use super::{Service, Serving};
use crate::failure::Result;

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// Readings of the catalog for one look at the shards.
const READINGS: u32 = 5;

/// Follows the catalog of a server that has a shard.
pub(super) struct FollowCatalog(pub(super) Arc<Serving>);

impl Service for FollowCatalog {
    fn name(&self) -> &'static str {
        "catalog"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let Some(shards) = &self.0.shards else {
            return Ok(());
        };
        for reading in 0_u32.. {
            shards.follow_catalog();
            if reading.is_multiple_of(READINGS) {
                shards.begin_look();
            }
            if self.0.stop.wait(INTERVAL) {
                break;
            }
        }
        Ok(())
    }
}
