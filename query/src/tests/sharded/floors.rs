//! Levels of several stores whose retention has dropped cells of one of them.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;
use storage::Floor;

use super::{START, several, sorted};
use crate::tests::support::Fixture;
use crate::{Peer, PeerBytes, PeerTables, Result};

const DAY: i64 = 86_400_000_000;

/// A peer that has dropped the cells of a level below a floor.
#[derive(Debug)]
struct Retained(Arc<dyn Peer>, Arc<PeerTables>);

impl Retained {
    fn below(peer: Arc<dyn Peer>, level: &str, from_us: i64) -> Arc<dyn Peer> {
        let mut tables = PeerTables::clone(peer.tables());
        for rollup in &mut tables.rollups {
            let floor = Floor { from_us, late: 0 };
            rollup.floors.insert(level.to_owned(), floor);
        }
        Arc::new(Self(peer, Arc::new(tables)))
    }
}

impl Peer for Retained {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn tables(&self) -> &Arc<PeerTables> {
        &self.1
    }
    fn end_seq(&self) -> u64 {
        self.0.end_seq()
    }
    fn send(&self, request: Bytes) -> BoxFuture<'static, Result<PeerBytes>> {
        self.0.send(request)
    }
}

/// A level begins at the latest floor: below, the cells of a store are missing. Other levels and
/// the events have all of theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_level_begins_at_the_latest_floor_of_its_stores() {
    let (several, one) = several(3, Fixture::with_defaults);
    let floors = [START + DAY, START + 2 * DAY];
    for order in [[0, 1], [1, 0]] {
        let ask = async |sql: &str| {
            let peers = several.peers().into_iter().zip(order);
            let peers = peers.map(|(peer, nth)| Retained::below(peer, "hour", floors[nth]));
            let sources = several.sources(peers.collect(), Vec::new());
            let asked = several.ask(sources, false, sql).await;
            sorted(asked.unwrap_or_else(|e| panic!("{sql}: {e}")).0)
        };
        let all = "SELECT bucket, path, hits, size FROM stats.hourly";
        let kept = format!("{all} WHERE bucket >= TIMESTAMP '2026-10-26T00:00:00Z'");
        let expected = sorted(Value::Array(one.rows(&kept).await));
        assert!(!expected.is_empty());
        assert!(expected.len() < one.rows(all).await.len());
        assert_eq!(ask(all).await, expected);
        for whole in [
            "SELECT bucket, path, hits, size FROM stats.daily",
            "SELECT date_trunc('hour', time) AS h, count(*) AS n FROM access GROUP BY 1",
        ] {
            assert_eq!(
                ask(whole).await,
                sorted(Value::Array(one.rows(whole).await)),
                "{whole}"
            );
        }
    }
}
