//! A query that still computes after its answer has ended stays listed and keeps its place.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::stats::QueryState;
use crate::tables::system::{SourceInfo, SystemInfo};
use crate::tests::support::Fixture;
use crate::{Engine, EngineOptions, Kind, Limits, Line, NoSystemInfo, Session};

/// A step that cannot be stopped: the thread that plans the table waits until the test releases
/// it.
#[derive(Debug)]
struct Step {
    begun: Mutex<Sender<()>>,
    /// Closed to release the step.
    release: Mutex<Receiver<()>>,
}

impl SystemInfo for Step {
    fn sources(&self) -> Vec<SourceInfo> {
        // The test drops the receiver once it has seen enough steps.
        let _begun = self.begun.lock().send(());
        let _closed = self.release.lock().recv();
        Vec::new()
    }
}

const STEP: &str = "SELECT count(*) FROM system.sources";

fn engine(time: Option<Duration>) -> Engine {
    let options = EngineOptions {
        limits: Limits {
            time,
            running: 1,
            queued: 4,
            ..Limits::default()
        },
        target_partitions: 2,
        ..EngineOptions::default()
    };
    Engine::new(options).expect("starts")
}

/// Waits until the condition is true. Only a failing test reaches the bound.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it does not come");
}

/// Ways in which an answer ends before its plan.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    ClientLeft,
    Cancelled,
    TimeIsOver,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_computes_on_stays_listed_and_keeps_its_place() {
    let fixture = Fixture::without_rollups();
    let mut time = Duration::from_millis(50);
    let mut all = vec![Ends::TimeIsOver, Ends::Cancelled, Ends::ClientLeft];
    while let Some(ends) = all.pop() {
        let engine = engine((ends == Ends::TimeIsOver).then_some(time));
        let ((begun, begins), (release, waits)) = (channel(), channel());
        let step = Step {
            begun: Mutex::new(begun),
            release: Mutex::new(waits),
        };
        let (asking, snapshot) = (engine.clone(), fixture.store.snapshot());
        let asked =
            tokio::spawn(async move { asking.sql(snapshot, Arc::new(step), STEP, None).await });
        let begins = tokio::task::spawn_blocking(move || begins.recv().map(|()| begins));
        let Ok(_begins) = begins.await.expect("no panic") else {
            // The query reached its time limit before it was planned.
            assert_eq!(ends, Ends::TimeIsOver);
            time *= 4;
            all.push(ends);
            continue;
        };
        let id = engine.queries()[0].id;
        match ends {
            Ends::ClientLeft => asked.abort(),
            Ends::Cancelled => assert!(engine.cancel(id)),
            Ends::TimeIsOver => {}
        }
        match asked.await {
            Ok(answer) => {
                let error = answer.expect_err("it has no answer");
                let kind = match ends {
                    Ends::Cancelled => Kind::Cancelled,
                    _ => Kind::Resources,
                };
                assert_eq!(error.kind(), kind, "{error}");
            }
            Err(error) => assert!(error.is_cancelled() && ends == Ends::ClientLeft),
        }
        until(|| engine.queries()[0].state == QueryState::Stopping).await;

        let (asking, snapshot) = (engine.clone(), fixture.store.snapshot());
        let next = tokio::spawn(async move {
            let answer = asking.sql(snapshot, Arc::new(NoSystemInfo), "SELECT 1", None);
            answer.await?.collect().await
        });
        until(|| engine.waiting() == 1).await;
        let states: Vec<_> = engine.queries().iter().map(|query| query.state).collect();
        assert_eq!(
            states,
            [QueryState::Stopping, QueryState::Queued],
            "{ends:?}"
        );

        drop(release);
        let answer = next.await.expect("no panic");
        match ends {
            Ends::TimeIsOver => drop(answer),
            _ => assert_eq!(answer.expect("a place is free").1[0].num_rows(), 1),
        }
        until(|| engine.queries().is_empty()).await;
        until(|| engine.threads_are_idle()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_whose_answer_was_taken_is_listed_no_more() {
    let fixture = Fixture::without_rollups();
    let engine = engine(None);
    for sql in [
        "SELECT 1",
        "SELECT nothing",
        "SELECT value FROM generate_series(1, 99999)",
    ] {
        let system = Arc::new(NoSystemInfo);
        let answer = engine
            .sql(fixture.store.snapshot(), system, sql, None)
            .await;
        if let Ok(answer) = answer {
            answer.collect().await.expect("rows");
        }
        // The task of a query that failed may end just after its error has arrived.
        let answered = Instant::now();
        while !engine.queries().is_empty() {
            assert!(answered.elapsed() < Duration::from_secs(2), "{sql}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_waits_in_its_own_line_until_its_last_query_computes_no_more() {
    let fixture = Fixture::without_rollups();
    let all = Engine::new(EngineOptions {
        limits: Limits {
            time: None,
            running: 2,
            queued: 1,
            ..Limits::default()
        },
        ..EngineOptions::default()
    });
    let all = all.expect("starts");
    let line = Line::new(1, 2);
    let one = all.within(Session {
        line: Some(line.clone()),
        ..Session::default()
    });
    let ask = |engine: &Engine, system: Arc<dyn SystemInfo>, sql: &'static str| {
        let (engine, snapshot) = (engine.clone(), fixture.store.snapshot());
        tokio::spawn(async move {
            let answer = engine.sql(snapshot, system, sql, None).await?;
            answer.collect().await
        })
    };
    let select = |engine: &Engine| ask(engine, Arc::new(NoSystemInfo), "SELECT 1");
    let ((begun, begins), (release, waits)) = (channel(), channel());
    let step = Step {
        begun: Mutex::new(begun),
        release: Mutex::new(waits),
    };
    let left = ask(&one, Arc::new(step), STEP);
    let begins = tokio::task::spawn_blocking(move || begins.recv().map(|()| begins));
    let _begins = begins.await.expect("no panic").expect("it begins");
    left.abort();
    until(|| all.queries()[0].state == QueryState::Stopping).await;

    let cancelled = select(&one);
    until(|| line.waiting() == 1).await;
    let next = select(&one);
    until(|| line.waiting() == 2).await;
    let refused = select(&one).await.expect("no panic").map(drop);
    let refused = refused.expect_err("the line is full");
    assert_eq!(refused.kind(), Kind::ShareBusy, "{refused}");
    assert_eq!(all.waiting(), 0, "they wait in the line of all");
    assert!(select(&all).await.expect("no panic").is_ok());

    let listed = all.queries();
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert_eq!(listed[1].state, QueryState::Queued);
    assert!(all.cancel(listed[1].id));
    let error = cancelled.await.expect("no panic").map(drop);
    assert_eq!(error.expect_err("cancelled").kind(), Kind::Cancelled);

    drop::<Sender<()>>(release);
    let rows = next.await.expect("no panic").expect("its turn").1;
    assert_eq!(rows[0].num_rows(), 1);
    until(|| !line.is_used()).await;
}
