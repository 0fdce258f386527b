//! Every question is answered as a plain table of the same rows answers it.
//!
//! A grammar of whole queries ([`queries`]) runs on random stores ([`stores`]) with all
//! optimizations switched on, and on a session without any ([`oracle`]) over rows from a model of
//! the store. The answers are compared ([`compare`]). A query that differs is reported beside a
//! shorter one that does too ([`shrink`]).
//!
//! `LOGMILL_QUESTIONS=200000 cargo test -p logmill-query --lib grammar -- --nocapture` runs as
//! many; `LOGMILL_SEED=7 LOGMILL_QUESTIONS=1` runs those of one store.

mod compare;
mod compound;
mod division;
mod expressions;
mod forms;
mod oracle;
mod peer;
mod queries;
mod shrink;
mod stores;
mod tables;
mod values;

use std::fmt::{self, Display};
use std::ops::AddAssign;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_plan::ExecutionPlan;

use compare::Asked;
use queries::{Question, question};
use shrink::Shrinking;
use stores::World;

use crate::ask::random_questions::rows::AnswerRows;
use crate::tables::sharded::peers_of;
use crate::{Answer, Engine, Parameters, QueryStats, Session, Sources};

/// Queries of one store.
const EACH: usize = 100;
/// Questions of a default run, of a fresh seed.
const QUESTIONS: u64 = 2_000;
/// The same over several stores.
const QUESTIONS_OF_SEVERAL: u64 = 600;
/// Stores that are queried at a time.
const AT_A_TIME: usize = 2;

/// Returns a number that the environment sets.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns whether the differences that follow the first are reported too.
fn keeps_on() -> bool {
    std::env::var_os("LOGMILL_ALL_DIFFERENCES").is_some()
}

/// Coverage of a run: the paths that its queries took.
#[derive(Debug, Default)]
struct Met {
    asked: usize,
    failed: usize,
    empty: usize,
    rewritten: usize,
    mixed: usize,
    indexed: usize,
    narrowed: usize,
    pruned: usize,
    known: usize,
    sliced: usize,
    levels: usize,
    by_peers: usize,
    ruled_out: usize,
    few_cells: usize,
}

impl AddAssign for Met {
    fn add_assign(&mut self, other: Self) {
        self.asked += other.asked;
        self.failed += other.failed;
        self.empty += other.empty;
        self.rewritten += other.rewritten;
        self.mixed += other.mixed;
        self.indexed += other.indexed;
        self.narrowed += other.narrowed;
        self.pruned += other.pruned;
        self.known += other.known;
        self.sliced += other.sliced;
        self.levels += other.levels;
        self.by_peers += other.by_peers;
        self.ruled_out += other.ruled_out;
        self.few_cells += other.few_cells;
    }
}

impl Display for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} questions: {} answered by rollups, {} of them with a rest from raw events; {} by indexes; \
             the first rows found first in {}, slices in {}, parts or partitions left out in {}, known counts {}, \
             levels named in {}, peers asked in {}, ruled out in {} for rows and in {} for cells; {} without a row, {} refused by both",
            self.asked,
            self.rewritten,
            self.mixed,
            self.indexed,
            self.narrowed,
            self.sliced,
            self.pruned,
            self.known,
            self.levels,
            self.by_peers,
            self.ruled_out,
            self.few_cells,
            self.empty,
            self.failed
        )
    }
}

impl Met {
    fn one(world: &World, question: &Question, figures: &QueryStats, plan: &Plan) -> Self {
        let by = |prefix: &str| figures.answered_by.iter().any(|by| by.starts_with(prefix));
        let names_level = tables::LEVELS
            .iter()
            .any(|(name, ..)| question.sql.contains(name));
        let rewritten = by("rollup ") && !names_level;
        let answered = figures.answered_by.iter();
        let answered = answered.filter(|by| by.starts_with("peer ")).count();
        let are_few = (1..world.peers.len()).contains(&answered);
        Self {
            asked: 1,
            rewritten: rewritten.into(),
            mixed: (rewritten && (by("parts ") || by("memtable "))).into(),
            indexed: by("index ").into(),
            narrowed: has(&**plan, "NarrowedExec").into(),
            sliced: has(&**plan, "SliceExec").into(),
            pruned: (figures.parts.examined < figures.parts.total && !by("rollup ")).into(),
            known: by("manifest").into(),
            levels: names_level.into(),
            by_peers: by("peer ").into(),
            ruled_out: asks_few(plan, world.peers.len()).into(),
            few_cells: (names_level && are_few).into(),
            ..Self::default()
        }
    }

    /// Checks the coverage: a grammar that meets nothing finds nothing.
    fn check(&self) {
        let share = |what: &str, met: usize, one_in: usize| {
            assert!(
                met * one_in >= self.asked,
                "{what}: {met} of {}",
                self.asked
            );
        };
        share("rewritten", self.rewritten, 20);
        share("mixed", self.mixed, 80);
        share("indexed", self.indexed, 100);
        share("narrowed", self.narrowed, 80);
        share("pruned", self.pruned, 20);
        share("known counts", self.known, 100);
        share("levels", self.levels, 40);
        share("with rows", self.asked - self.empty - self.failed, 2);
        assert!(
            self.failed * 20 < self.asked,
            "refused: {} of {}",
            self.failed,
            self.asked
        );
    }
}

type Plan = Arc<dyn ExecutionPlan>;

/// Returns whether a part of a plan asks some of these peers, and not all.
fn asks_few(plan: &Plan, peers: usize) -> bool {
    let asked = peers_of(&**plan).count();
    (1..peers).contains(&asked) || plan.children().into_iter().any(|c| asks_few(c, peers))
}

fn has(plan: &dyn ExecutionPlan, name: &str) -> bool {
    plan.name() == name || plan.children().into_iter().any(|child| has(&**child, name))
}

/// Starts a query at once or, every other one, after it was prepared: the prepared schema is that
/// of the answer.
async fn start(engine: &Engine, sources: Sources, sql: &str) -> crate::Result<Answer> {
    let session = Session::default();
    if sql.len().is_multiple_of(2) {
        let none = Parameters::None;
        return engine.ask(sources, &session, sql.into(), none).await;
    }
    let prepared = engine.prepare(sources, &session, sql.into()).await?;
    let described = columns(prepared.schema());
    let answer = prepared.start(Parameters::None).await?;
    assert_eq!(described, columns(&answer.schema), "{sql}");
    Ok(answer)
}

/// The names and types of columns.
fn columns(schema: &SchemaRef) -> Vec<(String, DataType)> {
    let fields = schema.fields().iter();
    fields
        .map(|f| (f.name().clone(), f.data_type().clone()))
        .collect()
}

/// Runs a query on both sides; returns their difference, if there is one, and the engine's paths.
async fn ask(world: &World, question: &Question, sql: &str) -> (Option<String>, Met) {
    let Ok(asked) = Asked::of(sql) else {
        return (None, Met::default());
    };
    let hinted = question.of(sql);
    let found = async {
        let answer = start(&world.engine, world.sources(), &hinted).await?;
        let plan = Arc::clone(answer.plan());
        let (schema, batches, figures) = answer.collect().await?;
        let met = Met::one(world, question, &figures, &plan);
        Ok::<_, crate::Error>((AnswerRows::of(&schema, &batches), met))
    };
    let found = found.await;
    let keys = |columns: usize| asked.sorted(columns.saturating_sub(asked.added()));
    let expected = world.oracle.ask_sorted(asked.oracle.clone(), keys).await;
    let expected = expected.map(|(schema, batches)| AnswerRows::of(&schema, &batches));
    match (found, expected) {
        (Ok((found, mut met)), Ok(expected)) => {
            met.empty = usize::from(found.rows.is_empty());
            let difference = asked.difference(&found, &expected).map(|what| {
                format!(
                    "{what}\n  found {}\n  expected {}",
                    found.shown(),
                    expected.shown()
                )
            });
            (difference, met)
        }
        (Err(error), Err(_)) => {
            if std::env::var_os("LOGMILL_REFUSED").is_some() {
                println!("refused by both: {error}: {hinted}");
            }
            let met = Met {
                asked: 1,
                failed: 1,
                ..Met::default()
            };
            (None, met)
        }
        (Err(error), Ok(expected)) => {
            let error = error.to_string();
            let allowed = ONE_SIDED.iter().any(|(text, _)| error.contains(text));
            let difference = format!("refused: {error}\n  expected {}", expected.shown());
            let met = Met {
                asked: 1,
                failed: 1,
                ..Met::default()
            };
            ((!allowed).then_some(difference), met)
        }
        (Ok((found, met)), Err(error)) => {
            let error = error.to_string();
            // The engine computes nothing for no rows, so nothing can fail.
            let asks_none = found.rows.is_empty() && sql.contains(" LIMIT 0");
            let mut known = ONE_SIDED.iter().chain(&OF_THE_ORACLE);
            let allowed = asks_none || known.any(|(text, _)| error.contains(text));
            let difference = format!("found {}\n  the oracle refuses: {error}", found.shown());
            ((!allowed).then_some(difference), met)
        }
    }
}

/// Errors that the oracle alone may meet, and why.
const OF_THE_ORACLE: [(&str, &str); 1] = [(
    "Casting from Time64(ns) to Timestamp",
    "DataFusion casts a bound of a time of day back to a stamp where a table tells bounds",
)];

/// Errors that one side alone may meet, and why.
const ONE_SIDED: [(&str, &str); 5] = [
    (
        "Cannot cast timezone to different timezone",
        "a value that fails may be computed for rows which another term lets out first",
    ),
    ("Timestamp out of range", "the same"),
    (
        "Selectivity is out of limit",
        "DataFusion refuses its own estimate of how many rows a filter leaves",
    ),
    (
        "Physical plan does not support logical expression",
        "the oracle has too few of DataFusion's rules for some sub-queries",
    ),
    (
        "does not satisfy order requirements",
        "DataFusion loses a known order of computed keys behind a projection",
    ),
];

/// Runs the questions of a world of some stores; the first that differs is reported.
async fn ask_all(seed: u64, stores: usize, questions: usize) -> (Met, Vec<String>) {
    let mut world = World::new(seed, stores).await;
    let (mut all, mut differences) = (Met::default(), Vec::new());
    for nth in 0..questions {
        let question = question(&mut world.values);
        let (difference, met) = ask(&world, &question, &question.sql).await;
        all += met;
        if let Some(difference) = difference {
            let mut shrinking = Shrinking::of(&question.sql);
            while let Some(shorter) = shrinking.shorter() {
                let (differs, _) = ask(&world, &question, &shorter).await;
                shrinking.tried(shorter, differs.is_some());
            }
            let shorter = shrinking.shortest;
            let (of_shorter, _) = ask(&world, &question, &shorter).await;
            let told = format!(
                "LOGMILL_SEED={seed}, question {nth}: {}\n  {difference}\nshorter: {}\n  {}",
                question.hinted(),
                question.of(&shorter),
                of_shorter.unwrap_or_default()
            );
            differences.push(told);
            if !keeps_on() {
                break;
            }
        }
    }
    (all, differences)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_has_the_answer_of_a_plain_table() {
    let (all, questions) = ask_worlds(QUESTIONS, |_| 1).await;
    // Few questions may miss anything, so coverage needs many.
    if questions >= 1_000 {
        all.check();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_over_several_stores_has_the_answer_of_a_plain_table() {
    let (all, questions) = ask_worlds(QUESTIONS_OF_SEVERAL, |seed| 2 + seed as usize % 2).await;
    assert!(all.by_peers * 2 > all.asked, "{all}");
    if questions >= 1_000 {
        assert!(all.failed * 20 < all.asked, "{all}");
        assert!(all.ruled_out * 40 > all.asked && all.few_cells > 0, "{all}");
    }
}

/// Asks so many questions, or as many as the environment sets, in worlds of `stores` stores for
/// each seed.
async fn ask_worlds(questions: u64, stores: impl Fn(u64) -> usize) -> (Met, usize) {
    let questions = number("LOGMILL_QUESTIONS").unwrap_or(questions) as usize;
    let first = number("LOGMILL_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_secs() % 1_000_000_007)
    });
    println!("LOGMILL_SEED={first}");
    let worlds = questions.div_ceil(EACH) as u64;
    let (mut all, mut told) = (Met::default(), Vec::new());
    let mut running = tokio::task::JoinSet::new();
    for seed in first..first + worlds {
        if running.len() >= AT_A_TIME
            && let Some(done) = running.join_next().await
        {
            let (met, differences) = done.expect("asked");
            all += met;
            told.extend(differences);
        }
        if !told.is_empty() && !keeps_on() {
            break;
        }
        running.spawn(ask_all(seed, stores(seed), EACH));
    }
    while let Some(done) = running.join_next().await {
        let (met, differences) = done.expect("asked");
        all += met;
        told.extend(differences);
    }
    println!("{all}");
    assert!(
        told.is_empty(),
        "{} differ:\n{}",
        told.len(),
        told.join("\n\n")
    );
    (all, questions)
}

/// Functions that no question asks, by how their names begin, and why.
const NOT_ASKED: [(&str, &[&str]); 4] = [
    (
        "each time another value",
        &["random", "uuid", "now", "current_", "today", "version"],
    ),
    (
        "of lists, maps, structs and unions, which no column has",
        &[
            "array_",
            "list_",
            "arrays_",
            "lists_",
            "make_array",
            "make_list",
            "flatten",
            "cardinality",
            "empty",
            "string_to_",
            "range",
            "generate_series",
            "map",
            "element_at",
            "named_struct",
            "struct",
            "row",
            "get_field",
            "union_",
            "inner_product",
            "dot_product",
            "cosine_distance",
        ],
    ),
    (
        "of types, files and metadata, which tables in memory have otherwise",
        &[
            "arrow_metadata",
            "arrow_field",
            "with_metadata",
            "input_file_name",
            "file_row_index",
            "cast_to_type",
            "try_cast_to_type",
            "arrow_try_cast",
        ],
    ),
    (
        "of the overflow column and of states, which have tests of their own",
        &["attr", "hist_", "distinct_"],
    ),
];

#[test]
fn every_function_is_asked_or_it_is_said_why_not() {
    let engine = Engine::new(crate::EngineOptions::default()).expect("an engine");
    let forms: Vec<String> = forms::all().map(str::to_lowercase).collect();
    let forms = forms.join("\n");
    let mut missing = Vec::new();
    for function in engine.state().scalar_functions().values() {
        let mut names = vec![function.name()];
        names.extend(function.aliases().iter().map(String::as_str));
        let is_asked = names.iter().any(|n| forms.contains(&format!("{n}(")));
        let left_out = NOT_ASKED.iter().flat_map(|(_, names)| names.iter());
        let mut left_out = left_out.filter(|begin| function.name().starts_with(**begin));
        if !is_asked && left_out.next().is_none() {
            missing.push(function.name().to_owned());
        }
    }
    missing.sort();
    missing.dedup();
    assert_eq!(missing, Vec::<String>::new());
}
