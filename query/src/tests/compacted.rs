//! Compaction of parts changes no answer, neither of the store nor of a reader with an older
//! snapshot.

use std::sync::Arc;

use serde_json::Value;
use storage::{ReadOnlyStore, RealFs, Snapshot, StreamKind};

use super::support::{DAY_US, Fixture, batch, example, mixture};

/// 2000-10-09T00:00:00Z.
const START: i64 = 971_049_600_000_000;
const QUERIES: [&str; 12] = [
    "SELECT * FROM access ORDER BY _id",
    "SELECT count(*), min(time), max(time) FROM access",
    "SELECT count(*) FROM access WHERE time >= '2000-10-10T00:00:00Z' AND time < '2000-10-11T00:00:00Z'",
    "SELECT host, count(*), sum(response_size) FROM access GROUP BY host ORDER BY host",
    "SELECT path, count(*) FROM access WHERE host = 'beta' GROUP BY path ORDER BY 2 DESC, 1",
    "SELECT status, count(*) FROM access WHERE path IS NULL GROUP BY status ORDER BY status",
    "SELECT _seq, host, time FROM access WHERE _seq >= 100 AND _seq < 140 ORDER BY _seq",
    "SELECT request, count(*) FROM access GROUP BY request ORDER BY 2 DESC, 1",
    "SELECT DISTINCT referrer, user_agent FROM access ORDER BY 1, 2",
    "SELECT date_trunc('hour', time) AS hour, count(*) FROM access GROUP BY 1 ORDER BY 1",
    "SELECT * FROM stats.hourly ORDER BY bucket, path",
    "SELECT * FROM traffic.daily ORDER BY bucket, status",
];

async fn answers(fixture: &Fixture, snapshot: &Arc<Snapshot>) -> Vec<Vec<Value>> {
    let mut answers = Vec::new();
    for sql in QUERIES {
        let answer = fixture.query_of(Arc::clone(snapshot), sql, None).await;
        answers.push(answer.unwrap_or_else(|e| panic!("{sql}: {e}")).0);
    }
    answers
}

/// Makes three days in many seals, each with some events of all days, and some events in the
/// memtable.
fn in_pieces() -> Fixture {
    let fixture = Fixture::with_defaults();
    let events = mixture(3_000, START, DAY_US / 1_000);
    for nth in 0..20 {
        let mut some: Vec<_> = events.iter().skip(nth).step_by(21).cloned().collect();
        if nth == 7 {
            some.push(example());
        }
        fixture.write("access", StreamKind::Access, batch(&some));
        fixture.store.seal().expect("seals");
    }
    let rest: Vec<_> = events.iter().skip(20).step_by(21).cloned().collect();
    fixture.write("access", StreamKind::Access, batch(&rest));
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_same_before_and_after_compaction_of_parts() {
    let fixture = in_pieces();
    let now = fixture.store.snapshot();
    let reader = ReadOnlyStore::open(Arc::new(RealFs), now.data_dir()).expect("a reader");
    let before = answers(&fixture, &now).await;
    assert!(before.iter().all(|rows| !rows.is_empty()));
    drop(now);
    let report = fixture.store.compact_parts(None, true).expect("compacts");
    assert!(report.merged >= 60 && report.edits >= 1, "{report:?}");
    let after = fixture.store.snapshot();
    let parts = &after.manifest().parts;
    assert_eq!(parts.len(), 3, "{report:?} {parts:#?}");
    for ((sql, before), after) in QUERIES
        .iter()
        .zip(&before)
        .zip(answers(&fixture, &after).await)
    {
        assert_eq!(&after, before, "{sql}");
    }
    // Later changes of the store do not affect a reader of an earlier snapshot.
    fixture.store.seal().expect("seals");
    fixture.store.compact_parts(None, true).expect("compacts");
    let held = reader.snapshot();
    assert_eq!(held.manifest().parts.len(), 60);
    for ((sql, before), held) in QUERIES
        .iter()
        .zip(&before)
        .zip(answers(&fixture, &held).await)
    {
        assert_eq!(&held, before, "{sql}");
    }
}
