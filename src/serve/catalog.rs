//! The catalog of a cluster as a service: read again and again, until the server stops.

use std::sync::Arc;
use std::time::Duration;

use super::{Service, Serving};
use crate::failure::Result;

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);

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
        while !self.0.stop.wait(INTERVAL) {
            shards.follow_catalog();
        }
        Ok(())
    }
}
