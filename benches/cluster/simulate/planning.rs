//! Plans of questions over one shard: the engine chooses parts, and reads none.
//!
//! `EXPLAIN` plans a question to its end, with the pruning of parts, and opens no file. The
//! question is one that no rollup, index or sort order answers.

use std::sync::Arc;
use std::time::Instant;

use arrow::util::display::array_value_to_string;
use chrono::DateTime;
use query::{Engine, NoSystemInfo, Parameters, Session, Sources};
use storage::Snapshot;
use tokio::runtime::Runtime;

use super::shape::{DAY_US, END_US, Shape};
use crate::common::ask::unlimited;

/// Plans of a question, of which the fastest counts. The first fills caches.
const RUNS: usize = 3;
const HOUR_US: i64 = 3_600_000_000;

/// The time to plan a question, and what it reads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Plan {
    pub(crate) ms: f64,
    /// Parts that may have its rows.
    pub(crate) parts: f64,
}

/// Plans over one shard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planned {
    /// Over a store of one part.
    pub(crate) fixed: Plan,
    /// Of a time of which there are no parts.
    none: Plan,
    pub(crate) hour: Plan,
    pub(crate) day: Plan,
    pub(crate) all: Plan,
}

impl Planned {
    /// Returns the time of a plan if no parts but its own were looked at, ms.
    pub(crate) fn without_history(&self, plan: Plan) -> f64 {
        plan.ms - (self.none.ms - self.fixed.ms).max(0.0)
    }

    /// Returns the plans over so many times as many parts. The parts of an hour and of a day stay
    /// as many; those that are looked at are more.
    pub(crate) fn scaled(self, by: f64) -> Self {
        let looking = (self.none.ms - self.fixed.ms).max(0.0);
        let longer = |plan: Plan| Plan {
            ms: plan.ms + looking * (by - 1.0),
            ..plan
        };
        let fixed = self.fixed.ms;
        Self {
            none: longer(self.none),
            hour: longer(self.hour),
            day: longer(self.day),
            all: Plan {
                ms: fixed + (self.all.ms - fixed).max(0.0) * by,
                parts: self.all.parts * by,
            },
            ..self
        }
    }
}

/// Plans questions over a store of one part, and over that of a shape.
pub(crate) fn plan(one: &Arc<Snapshot>, snapshot: &Arc<Snapshot>, shape: &Shape) -> Planned {
    let planner = Planner::new();
    let of = |snapshot: &Arc<Snapshot>, from_us: i64, to_us: i64| {
        let system = Arc::new(NoSystemInfo);
        planner.plan(
            &Sources::one(Arc::clone(snapshot), system),
            (from_us, to_us),
        )
    };
    let from_us = shape.start_us();
    Planned {
        fixed: of(one, i64::MIN, i64::MAX),
        none: of(snapshot, from_us - 2 * DAY_US, from_us - DAY_US),
        hour: of(snapshot, END_US - HOUR_US, END_US),
        day: of(snapshot, END_US - DAY_US, END_US),
        all: of(snapshot, from_us, END_US),
    }
}

/// An engine without the limits of a server.
pub(crate) struct Planner {
    engine: Engine,
    runtime: Runtime,
}

impl Planner {
    pub(crate) fn new() -> Self {
        let (engine, runtime) = unlimited();
        Self { engine, runtime }
    }

    /// Plans the question of a range of time.
    pub(crate) fn plan(&self, sources: &Sources, range_us: (i64, i64)) -> Plan {
        let sql = question(range_us);
        let mut best = Plan {
            ms: f64::INFINITY,
            parts: 0.0,
        };
        for _ in 0..RUNS {
            let began = Instant::now();
            let text = self.explain(sources, &sql);
            let ms = began.elapsed().as_secs_f64() * 1e3;
            best = Plan {
                ms: best.ms.min(ms),
                parts: parts_of(&text),
            };
        }
        best
    }

    fn explain(&self, sources: &Sources, sql: &str) -> String {
        let session = Session::default();
        let asked = self
            .engine
            .ask(sources.clone(), &session, sql.into(), Parameters::None);
        let answer = self
            .runtime
            .block_on(async { asked.await?.collect().await });
        let (_, batches, _) = answer.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let mut text = String::new();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                text += &array_value_to_string(batch.column(1), row).expect("a text");
                text.push('\n');
            }
        }
        text
    }
}

/// Returns a question for a range of time; an end that is the end of all times is left out.
fn question((from_us, to_us): (i64, i64)) -> String {
    let stamp = |at_us: i64| {
        let time = DateTime::from_timestamp_micros(at_us).expect("a time");
        time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    let mut terms = vec!["status = 500".to_owned()];
    if from_us > i64::MIN {
        terms.push(format!("time >= '{}'", stamp(from_us)));
    }
    if to_us < i64::MAX {
        terms.push(format!("time < '{}'", stamp(to_us)));
    }
    let terms = terms.join(" AND ");
    format!("EXPLAIN SELECT host, count(*) AS n FROM access WHERE {terms} GROUP BY host")
}

/// Returns the number of parts that the scans of a plan read; `EXPLAIN` has them before a slash.
fn parts_of(plan: &str) -> f64 {
    let scans = plan.lines().filter(|line| line.contains("StreamScan: "));
    let counts = scans.filter_map(|line| {
        let (_, counts) = line.split_once(", parts=")?;
        counts.split('/').next()?.parse::<f64>().ok()
    });
    counts.sum()
}
