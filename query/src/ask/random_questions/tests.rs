//! Random questions, on stores in which they find no fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use storage::StreamKind;

use crate::tests::support::{Fixture, batch, mixture};

/// 2026-10-22T00:00:00Z: Berlin changes its clocks on the 25th.
const START: i64 = 1_792_627_200_000_000;

/// Creates a store with six days in parts and in the memtable, and the rollups that every access
/// log has.
fn fixture() -> Fixture {
    let fixture = Fixture::with_defaults();
    for round in 0..3 {
        let from = START + round * 2 * 86_400_000_000;
        let events = mixture(240, from, 720_000_000);
        fixture.write("access", StreamKind::Access, batch(&events));
        if round < 2 {
            fixture.store.seal().expect("seals");
        }
    }
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn random_questions_are_answered_by_rollups_and_by_raw_events_alike() {
    let fixture = fixture();
    let snapshot = fixture.store.snapshot();
    let engine = &fixture.engine;
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let seed = number("LOGMILL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let questions = number("LOGMILL_QUESTIONS").unwrap_or(100);
    let asked = engine.ask_at_random(&snapshot, None, questions, seed, &|| false);
    let asked = asked.await.expect("asked");
    assert_eq!(asked.shown, Vec::<String>::new(), "LOGMILL_SEED={seed}");
    assert_eq!(asked.reason, None, "LOGMILL_SEED={seed}");
    assert_eq!(
        (asked.asked, asked.differences),
        (questions, 0),
        "{asked:?}"
    );
    assert!(asked.by_rollups * 100 >= questions * 15, "{asked:?}");
    assert_eq!(asked.unanswered, 0, "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_ends_when_it_is_told_to_and_asks_only_what_it_was_asked_for() {
    let fixture = fixture();
    let snapshot = fixture.store.snapshot();
    let looked = AtomicU64::new(0);
    let stop = || looked.fetch_add(1, Ordering::Relaxed) >= 7;
    let asked = fixture
        .engine
        .ask_at_random(&snapshot, None, 1_000, 1, &stop);
    assert_eq!(asked.await.expect("asked").asked, 7);
    let none = fixture
        .engine
        .ask_at_random(&snapshot, Some("nothing"), 10, 1, &|| false);
    assert_eq!(none.await.expect("asked").asked, 0);
    // A stream without events has no question.
    let empty = Fixture::with_defaults();
    let snapshot = Arc::clone(&empty.store.snapshot());
    let asked = empty
        .engine
        .ask_at_random(&snapshot, None, 10, 1, &|| false);
    assert_eq!(asked.await.expect("asked").asked, 0);
}
