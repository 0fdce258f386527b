//! DataFusion's published SQL tests, the `.slt` files of its package `datafusion-sqllogictest`,
//! with and without our functions and rules: a record that passes without them passes with them.
//!
//! The package is neither a dependency, which would change the features of our DataFusion, nor
//! committed. `cargo info datafusion-sqllogictest@VERSION` puts it among cargo's sources; without
//! it the test says *skipped*. Records that need functions, features or data which are not there
//! fail on both sides; they are counted.
//!
//! # Invariants
//! * Both sides have the same configuration and the same rules but ours.
//! * All files that SQL can name lie below a temporary directory of the side's own.
//! * A record that expects an error may get ours, when a bound of ours comes first: [`BOUND`].
//!   They are counted.
//! * A record may fail by integer arithmetic that wraps without ours: [`OVERFLOW`]. They are
//!   counted with those.
//! * A record that expects a plan may get one with a node of ours that repairs DataFusion:
//!   [`REPAIRS`]. They are counted too.
//! * A file that hangs, or a record that panics, ends its side of that file and nothing else.

mod cells;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::DATAFUSION_VERSION;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::local::LocalFileSystem;
use parking_lot::Mutex;
use sqllogictest::{AsyncDB, DBOutput, Record, Runner, parse_file, strict_column_validator};
use tempfile::TempDir;

use crate::plan::rules::Rules;

use cells::Letter;

/// Number of partitions that the plans in the files were written for.
const PARTITIONS: usize = 4;
/// Files at once.
const THREADS: usize = 2;
/// A record that takes longer hangs.
const RECORD_TIME_MAX: Duration = Duration::from_secs(30);
/// Part of the errors of functions that would produce too much, for rows or for constants.
const BOUND: &str = "; the limit is ";
/// The runner's error for a record that got another error than it expects.
const OTHER_ERROR: &str = "is expected to fail with error";
/// The runner's error for a record that got no error.
const NO_ERROR: &str = "is expected to fail, but actually succeed";
/// Part of the error of integer arithmetic that would wrap.
const OVERFLOW: &str = "Arithmetic overflow: Overflow happened on: ";
/// Marks of a line of a plan that differs on purpose, and why.
const REPAIRS: [(&str, &str); 7] = [
    ("checked_", "integers do not wrap"),
    (
        "cast_to_",
        "casts of filters are kept from the arithmetic of intervals",
    ),
    (
        "ForgetExec",
        "an order that grouping sets break is forgotten",
    ),
    (
        "__whole_",
        "a mean of integers is their exact sum by their number",
    ),
    (
        "sign_of_zero",
        "the first rows by a float begin with zeros below zero",
    ),
    (
        "DynamicFilter",
        "a join of two tables that share a column's name keeps its filters",
    ),
    (
        "PlaceholderRowExec",
        "statistics do not answer what is counted",
    ),
];
/// Plans of this file split a sum in two, which may wrap: such a plan of ours stays whole. Rows are
/// compared.
const SPLIT_SUMS: &str = "aggregates_simplify.slt";
/// Products of intervals and numbers are refused in this file: ours computes them, as PostgreSQL.
const INTERVAL_PRODUCTS: &str = "arith_interval_double.slt";
/// Files that need the functions and the dialect of the crate `datafusion-spark`.
const OF_SPARK: &str = "spark";
/// One in so many files is run, unless all are requested.
const SHARE: usize = 2;

/// A session, with our functions and rules or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Plain,
    Ours,
}

/// Outcome of a record of a file: an error where it does not pass.
type Outcome = Result<(), String>;

/// The outcome of a record, and its place in its file, for people.
struct RecordOutcome {
    at: String,
    outcome: Outcome,
}

#[derive(Debug, Default)]
struct Counts {
    files: usize,
    whole: usize,
    records: usize,
    plain: usize,
    both: usize,
    bounded: usize,
    repaired: usize,
    broken: Vec<String>,
}

#[test]
fn what_passes_without_our_functions_and_rules_passes_with_them() {
    let Some(package) = package() else {
        println!(
            "skipped: no published tests; cargo info datafusion-sqllogictest@{DATAFUSION_VERSION} fetches them"
        );
        return;
    };
    let files = files(&package.join("test_files"));
    let share = if std::env::var_os("LOGMILL_FULL").is_some() {
        1
    } else {
        SHARE
    };
    let queue: Mutex<VecDeque<PathBuf>> = Mutex::new(files.into_iter().step_by(share).collect());
    let counts = Mutex::new(Counts::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    // The lock is not held while the file runs.
                    let Some(file) = queue.lock().pop_front() else {
                        return;
                    };
                    compare(&package, &file, &counts);
                }
            });
        }
    });
    let counts = counts.into_inner();
    println!(
        "{} files, {} of them whole; {} records, {} pass without ours, {} with ours too, {} fail as they should by a bound of ours, {} have a plan that was put right",
        counts.files,
        counts.whole,
        counts.records,
        counts.plain,
        counts.both,
        counts.bounded,
        counts.repaired
    );
    assert!(
        counts.plain * 2 > counts.records,
        "fewer than half pass: the runner is wrong"
    );
    assert!(
        counts.broken.is_empty(),
        "{} records pass without our functions and rules and fail with them:\n{}",
        counts.broken.len(),
        counts.broken.join("\n")
    );
}

/// Returns the package of the version of our DataFusion among the sources of cargo.
fn package() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    let name = format!("datafusion-sqllogictest-{DATAFUSION_VERSION}");
    registries
        .filter_map(|registry| Some(registry.ok()?.path().join(&name)))
        .find(|package| package.join("test_files").is_dir())
}

/// Returns all `.slt` files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of the package");
    let mut entries: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    let of = |path: PathBuf| match path.is_dir() {
        true if path.ends_with(OF_SPARK) => Vec::new(),
        true => files(&path),
        false if path.extension().is_some_and(|e| e == "slt") => vec![path],
        false => Vec::new(),
    };
    entries.into_iter().flat_map(of).collect()
}

/// Returns whether a record fails as it should.
fn is_bounded(at: &str, why: &str) -> bool {
    (why.contains(OTHER_ERROR) && why.contains(BOUND))
        || why.contains(OVERFLOW)
        || (why.contains(NO_ERROR) && at.contains(INTERVAL_PRODUCTS))
}

fn is_put_right(at: &str, why: &str) -> bool {
    let query = why.split_once("[SQL] ").map_or("", |(_, query)| query);
    let is_plan = query
        .get(..7)
        .is_some_and(|word| word.eq_ignore_ascii_case("explain"));
    // A node of ours takes more than it must from tables that never end, which a store does not
    // have.
    let endless = "Error during planning: Cannot execute pipeline breaking queries";
    let changed = |line: &&str| line.starts_with(['+', '-']) || line.starts_with(endless);
    let has = |mark: &str| why.lines().filter(changed).any(|line| line.contains(mark));
    is_plan && (at.contains(SPLIT_SUMS) || REPAIRS.iter().any(|(mark, _)| has(mark)))
}

/// Runs a file on both sides and compares the outcomes.
fn compare(package: &Path, file: &Path, counts: &Mutex<Counts>) {
    let plain = run(package, file, Side::Plain);
    let ours = run(package, file, Side::Ours);
    let passed = plain.iter().filter(|told| told.outcome.is_ok()).count();
    let (mut broken, mut bounded, mut repaired) = (Vec::new(), 0, 0);
    for (i, told) in plain.iter().enumerate() {
        if told.outcome.is_err() {
            continue;
        }
        let why = match ours.get(i).map(|ours| &ours.outcome) {
            Some(Ok(())) => continue,
            Some(Err(why)) => why.as_str(),
            None => "it is not reached",
        };
        if is_bounded(&told.at, why) {
            bounded += 1;
        } else if is_put_right(&told.at, why) {
            repaired += 1;
        } else {
            broken.push(format!("{}: {why}", told.at));
        }
    }
    let mut counts = counts.lock();
    counts.files += 1;
    counts.whole += usize::from(passed == plain.len());
    counts.records += plain.len();
    counts.plain += passed;
    counts.both += passed - broken.len() - bounded - repaired;
    counts.bounded += bounded;
    counts.repaired += repaired;
    counts.broken.extend(broken);
}

/// Returns the outcome of each query and statement of a file, as far as it runs.
fn run(package: &Path, file: &Path, side: Side) -> Vec<RecordOutcome> {
    let (send, receive) = channel();
    let (package, file) = (package.to_owned(), file.to_owned());
    // The thread is left to itself when it hangs: nothing can end a thread.
    let thread = std::thread::Builder::new()
        .stack_size(16 << 20)
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime
                .expect("a runtime")
                .block_on(records(&package, &file, side, &send));
        });
    let thread = thread.expect("a thread");
    let mut told = Vec::new();
    loop {
        match receive.recv_timeout(RECORD_TIME_MAX) {
            Ok(one) => told.push(one),
            Err(RecvTimeoutError::Timeout) => return told,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // A panic has printed its message.
    let _ended = thread.join();
    told
}

async fn records(package: &Path, file: &Path, side: Side, told: &Sender<RecordOutcome>) {
    let sandbox = Sandbox::new(package);
    let context = sandbox.context(side);
    let mut runner = Runner::new(|| async { Ok(Session(context.clone(), side)) });
    runner.add_label(Session::NAME);
    runner.with_column_validator(strict_column_validator);
    let records: Vec<Record<Letter>> = parse_file(file).expect("a published file");
    for record in records {
        let at = match &record {
            Record::Statement { loc, .. } | Record::Query { loc, .. } => loc.to_string(),
            Record::Halt { .. } => break,
            // System records would run a shell.
            Record::System { .. } => continue,
            _ => String::new(),
        };
        let outcome = runner.run_async(record).await;
        if at.is_empty() {
            continue;
        }
        let outcome = outcome.map(drop).map_err(|e| e.to_string());
        if told.send(RecordOutcome { at, outcome }).is_err() {
            return;
        }
    }
}

/// A file system of its own for a file: what SQL calls `/a` is `a` below a temporary directory,
/// which holds the few data files of the package.
struct Sandbox {
    dir: TempDir,
}

impl Sandbox {
    fn new(package: &Path) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let data = dir.path().join(cells::here()).join("data");
        std::fs::create_dir_all(&data).expect("a folder");
        let published = std::fs::read_dir(package.join("data"))
            .into_iter()
            .flatten();
        for file in published.map(|entry| entry.expect("an entry")) {
            std::fs::copy(file.path(), data.join(file.file_name())).expect("a copy");
        }
        Self { dir }
    }

    fn context(&self, side: Side) -> SessionContext {
        let config = SessionConfig::new().with_target_partitions(PARTITIONS);
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features();
        let state = match side {
            Side::Plain => builder.build(),
            Side::Ours => crate::plan::planner::with_ours(builder, 16 << 20).expect("registered"),
        };
        let context = SessionContext::new_with_state(state);
        let files = LocalFileSystem::new_with_prefix(self.dir.path()).expect("a file system");
        let every_file = ObjectStoreUrl::local_filesystem();
        context.register_object_store(every_file.as_ref(), Arc::new(files));
        context
    }
}

/// A session as the runner sees it.
struct Session(SessionContext, Side);

impl Session {
    const NAME: &str = "Datafusion";
}

/// An error, spelled as the files expect it.
#[derive(Debug, thiserror::Error)]
#[error("DataFusion error: {}", .0.strip_backtrace())]
struct Failed(#[from] DataFusionError);

#[async_trait]
impl AsyncDB for Session {
    type Error = Failed;
    type ColumnType = Letter;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, Failed> {
        let frame = self.0.sql(sql).await?;
        let task = Arc::new(frame.task_ctx());
        let plan = match self.1 {
            Side::Plain => frame.create_physical_plan().await?,
            Side::Ours => {
                let (state, plan) = frame.into_parts();
                let rules = Rules::new();
                let (plan, shape) = rules.optimize(plan, &state)?;
                rules.physical(plan, shape, state).await?.0
            }
        };
        let types = cells::types(&plan.schema());
        let rows = cells::rows(&collect(plan, task).await?)?;
        Ok(match types.is_empty() {
            true => DBOutput::StatementComplete(0),
            false => DBOutput::Rows { types, rows },
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        Self::NAME
    }
}
