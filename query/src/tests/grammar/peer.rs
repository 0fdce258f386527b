//! DuckDB's answers, over the same rows, to questions that both understand: so that the oracle is
//! not DataFusion alone.
//!
//! `LOGMILL_DUCKDB=DIR cargo test -p logmill-query --lib duckdb -- --nocapture` runs 5,000
//! questions on the DuckDB that is installed in the virtual environment DIR (`python3 -m venv DIR
//! && DIR/bin/pip install duckdb`).

mod words;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use super::stores::World;
use super::tables::LEVELS;
use super::{compare, number};
use crate::NoSystemInfo;
use crate::ask::random_questions::rows::{AnswerRows, Cell, not_among};
use words::{Both, question};

/// Questions of one store.
const EACH: usize = 250;

struct Duckdb {
    process: Child,
    ask: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
}

impl Drop for Duckdb {
    fn drop(&mut self) {
        // The process ends when its input is closed.
        drop(self.ask.take());
        let _ended = self.process.wait();
    }
}

impl Duckdb {
    fn start(venv: &str) -> Self {
        let mut process = Command::new(Path::new(venv).join("bin/python"))
            .args(["-c", include_str!("peer.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("python of {venv}: {e}"));
        let told = process.stdout.take().expect("an output");
        Self {
            ask: process.stdin.take(),
            told: BufReader::new(told),
            process,
        }
    }

    fn ask(&mut self, what: &Value) -> Value {
        let ask = self.ask.as_mut().expect("it runs");
        writeln!(ask, "{what}").expect("written");
        let mut line = String::new();
        self.told.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }
}

/// Writes the rows of the oracle to files.
async fn files(world: &World, folder: &Path) -> BTreeMap<String, String> {
    let levels = LEVELS.iter().map(|(name, ..)| *name);
    let mut files = BTreeMap::new();
    for table in levels.chain(["access", "app"]) {
        let statement = compare::parse(&format!("SELECT * FROM {table}")).expect("parses");
        let (schema, batches) = world.oracle.ask(statement).await.expect("read");
        let path = folder.join(format!("{table}.parquet"));
        let file = File::create(&path).expect("a file");
        let mut writer = ArrowWriter::try_new(file, schema, None).expect("a writer");
        for batch in batches {
            writer.write(&batch).expect("written");
        }
        writer.close().expect("written");
        files.insert(table.to_owned(), path.display().to_string());
    }
    files
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Number(number) => Cell::Fraction(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Cell::Other(text.clone()),
        other => Cell::Other(other.to_string()),
    }
}

/// Returns a cell as DuckDB writes it: stamps without zeros at their end.
fn plain(cell: Cell) -> Cell {
    match cell {
        Cell::Other(text) if text.len() > 20 && text.ends_with('Z') && text.contains('.') => {
            let bare = text.trim_end_matches('Z').trim_end_matches('0');
            Cell::Other(format!("{bare}Z"))
        }
        other => other,
    }
}

async fn found(world: &World, sql: &str) -> Result<Vec<Vec<Cell>>, String> {
    let snapshot = Arc::clone(&world.snapshot);
    let answer = world
        .engine
        .sql(snapshot, Arc::new(NoSystemInfo), sql, None);
    let answer = answer.await.map_err(|e| e.to_string())?;
    let (schema, batches, _) = answer.collect().await.map_err(|e| e.to_string())?;
    let rows = AnswerRows::of(&schema, &batches).rows.into_iter();
    Ok(rows
        .map(|row| row.into_iter().map(plain).collect())
        .collect())
}

/// Describes the difference between our rows and theirs; `None` when there is none, or both
/// refused.
fn difference(ours: &Result<Vec<Vec<Cell>>, String>, theirs: &Value) -> Option<String> {
    let expected = theirs["rows"].as_array();
    match (ours, expected) {
        (Err(_), None) => None,
        (Err(error), Some(_)) => Some(format!("refused: {error}")),
        (Ok(_), None) => Some(format!("DuckDB refuses: {}", theirs["error"])),
        (Ok(rows), Some(expected)) => {
            let expected: Vec<Vec<Cell>> = expected
                .iter()
                .map(|row| row.as_array().expect("a row").iter().map(cell).collect())
                .collect();
            if rows.len() != expected.len() {
                return Some(format!("{} rows for {}", rows.len(), expected.len()));
            }
            let lost = not_among(
                rows.iter().map(Vec::as_slice),
                expected.iter().map(Vec::as_slice),
            );
            lost.map(|row| format!("DuckDB has no row {row:?}; it has {:?}", expected.first()))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_both_understand_has_the_answer_of_duckdb() {
    let Ok(venv) = std::env::var("LOGMILL_DUCKDB") else {
        println!("skipped: LOGMILL_DUCKDB names no virtual environment with DuckDB");
        return;
    };
    let questions = number("LOGMILL_QUESTIONS").unwrap_or(5_000) as usize;
    let first = number("LOGMILL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let keeps_on = std::env::var_os("LOGMILL_ALL_DIFFERENCES").is_some();
    let (mut asked, mut refused, mut rows, mut told) = (0, 0, 0, Vec::new());
    let mut version = String::new();
    for seed in (first..).take(questions.div_ceil(EACH)) {
        let mut world = World::new(seed, 1).await;
        let folder = tempfile::tempdir().expect("a folder");
        let mut duckdb = Duckdb::start(&venv);
        let started = duckdb.ask(&json!(files(&world, folder.path()).await));
        version = started["version"].as_str().expect("a version").to_owned();
        for _ in 0..EACH {
            let Both { ours, theirs } = question(&mut world.values);
            let expected = duckdb.ask(&json!(theirs));
            let found = found(&world, &ours).await;
            asked += 1;
            refused += usize::from(found.is_err());
            rows += usize::from(found.as_ref().is_ok_and(|rows| !rows.is_empty()));
            if let Some(what) = difference(&found, &expected) {
                told.push(format!("LOGMILL_SEED={seed}: {ours}\n  {theirs}\n  {what}"));
                assert!(keeps_on, "{}", told.join("\n\n"));
            }
        }
    }
    println!(
        "{asked} questions from seed {first} beside DuckDB {version}: {rows} with rows, {refused} refused by both, \
         {} differ",
        told.len()
    );
    assert!(told.is_empty(), "{}", told.join("\n\n"));
    assert!(
        refused * 20 < asked && rows * 2 > asked,
        "{refused} {rows} of {asked}"
    );
}
