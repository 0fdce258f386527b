//! Hints of a question over several stores: each store heeds them.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::several;
use crate::peer_answers::question;
use crate::tables::sharded::request::Request;
use crate::tests::support::Fixture;
use crate::{NoSystemInfo, Parameters, Peer, PeerBytes, PeerTables, Result, Session, Sources};

/// A peer whose requests are kept.
#[derive(Debug)]
struct Recorded(Arc<dyn Peer>, Arc<Mutex<Vec<Bytes>>>);

impl Peer for Recorded {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn tables(&self) -> &Arc<PeerTables> {
        self.0.tables()
    }
    fn end_seq(&self) -> u64 {
        self.0.end_seq()
    }
    fn send(&self, request: Bytes) -> BoxFuture<'static, Result<PeerBytes>> {
        self.1.lock().push(request.clone());
        self.0.send(request)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_answers_by_the_ways_that_the_hints_leave_open() {
    let (several, one) = several(2, Fixture::with_defaults);
    let peer = &several.0[1];
    for store in &several.0 {
        store.store.seal().expect("seals");
    }
    for (hints, by_rollup) in [
        ("", true),
        ("/*+ no_rollup */", false),
        ("/*+ index(host) */", false),
    ] {
        let sql = format!(
            "SELECT {hints} date_trunc('day', time) AS d, count(*) AS n FROM access GROUP BY 1 ORDER BY 1"
        );
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = several.peers().into_iter();
        let recorded = recorded.map(|peer| Arc::new(Recorded(peer, Arc::clone(&requests))) as _);
        let sources = several.sources(recorded.collect(), Vec::new());
        let (rows, _) = several.ask(sources, false, &sql).await.expect("answered");
        assert_eq!(
            rows,
            serde_json::Value::Array(one.rows(&sql).await),
            "{sql}"
        );
        let sent = requests.lock().drain(..).collect::<Vec<_>>();
        let [sent] = &sent[..] else {
            panic!("{} requests", sent.len())
        };
        // The peer answers it once more, with figures.
        let functions = peer.engine.state().task_ctx();
        let Request::Rows { fragment, .. } = Request::decode(sent, &functions).expect("decoded")
        else {
            panic!("of rows")
        };
        let engine = peer.engine.hinted(&fragment.hints);
        let sources = Sources::one(peer.store.snapshot(), Arc::new(NoSystemInfo));
        let (session, none) = (Session::default(), Parameters::None);
        let answer = engine
            .ask(sources, &session, question(fragment), none)
            .await;
        let (_, _, figures) = answer.expect("asked").collect().await.expect("answered");
        let of_rollup = figures.answered_by.iter().any(|s| s.starts_with("rollup "));
        assert_eq!(of_rollup, by_rollup, "{sql}: {:?}", figures.answered_by);
    }
}
