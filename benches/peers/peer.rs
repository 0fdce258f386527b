//! Another engine, in a process of its own: `peers.py`, driven by lines of JSON.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use arrow::array::RecordBatch;
use arrow::ipc::reader::FileReader;
use serde_json::{Value, json};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/peers.py");
/// Packages of the virtual environment: the newest of this autumn.
const PACKAGES: &str = "duckdb==2.0.0 chdb==4.4.0 pyarrow==26.0.1";

/// One way in which a peer has the data.
pub(crate) struct Form {
    /// The heading of its column.
    pub(crate) title: &'static str,
    /// The engine, one of [`PEERS`].
    pub(crate) peer: &'static str,
    pub(crate) table: &'static str,
    /// Its time column, in the form that DuckDB truncates best to hours and days. The parts' time
    /// has a zone, for which DuckDB needs a calendar.
    pub(crate) at: &'static str,
}

pub(crate) const PEERS: [&str; 2] = ["duckdb", "chdb"];

pub(crate) const FORMS: [Form; 4] = [
    Form {
        title: "DuckDB, our parts",
        peer: "duckdb",
        table: "parts",
        at: "make_timestamp(epoch_us(time))",
    },
    Form {
        title: "DuckDB, its table",
        peer: "duckdb",
        table: "access",
        at: "time",
    },
    Form {
        title: "chdb by host",
        peer: "chdb",
        table: "by_host",
        at: "time",
    },
    Form {
        title: "chdb by time",
        peer: "chdb",
        table: "by_time",
        at: "time",
    },
];

/// The form whose answers are the exact ones.
pub(crate) const EXACT: &Form = &FORMS[1];

/// The source of a peer's forms.
pub(crate) struct Load {
    /// Folder in which the peer may keep them.
    pub(crate) dir: PathBuf,
    pub(crate) threads: usize,
    pub(crate) files: Vec<PathBuf>,
    /// Distinguishes these files from others of the same names.
    pub(crate) of: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: u64,
}

/// A peer that has loaded.
pub(crate) struct Peer {
    child: Child,
    /// The pipe is closed before the child is waited for.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// File for the peer's answers.
    into: PathBuf,
}

/// An answer: the milliseconds of each run, and its rows.
pub(crate) struct Asked {
    pub(crate) ms: Vec<f64>,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Returns the interpreter of a virtual environment, if it has the modules.
pub(crate) fn python(venv: Option<&Path>) -> Option<PathBuf> {
    let python = venv?.join("bin/python");
    let probed = Command::new(&python)
        .args([SCRIPT, "probe"])
        .output()
        .ok()?;
    if !probed.status.success() {
        return None;
    }
    print!("peers: {}", String::from_utf8_lossy(&probed.stdout));
    Some(python)
}

/// Prints the commands that make such an environment.
pub(crate) fn print_commands() {
    println!("The peers are in no environment that --venv names. These make one:");
    println!();
    println!("    python3 -m venv target/peers");
    println!("    target/peers/bin/pip install {PACKAGES}");
    println!();
    println!("skipped; with them: cargo bench --bench peers -- --venv target/peers");
}

impl Peer {
    /// Starts a peer and waits until it has loaded.
    pub(crate) fn start(python: &Path, name: &str, load: &Load) -> Self {
        let mut child = Command::new(python)
            .args([SCRIPT, name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it answered before");
        let questions = child.stdin.take();
        let answers = child.stdout.take().expect("BUG: its output is piped");
        let mut peer = Self {
            child,
            questions,
            answers: BufReader::new(answers),
            into: load.dir.join(format!("{name}.arrow")),
        };
        let loaded = peer.say(&json!({
            "dir": load.dir,
            "threads": load.threads,
            "files": load.files,
            "of": load.of,
            "columns": load.columns,
            "rows": load.rows,
        }));
        let kept = loaded["kept"].as_bool().expect("whether it was kept");
        let seconds = loaded["seconds"].as_f64().expect("seconds");
        println!(
            "{name}: {} in {seconds:.1} s",
            if kept { "opened" } else { "loaded" }
        );
        peer
    }

    /// Runs a query once, and then `runs` times.
    pub(crate) fn ask(&mut self, sql: &str, runs: usize) -> Asked {
        let into = self.into.clone();
        let answer = self.say(&json!({"sql": sql, "runs": runs, "into": into}));
        let ms = answer["ms"].as_array().expect("milliseconds");
        let ms = ms.iter().map(|ms| ms.as_f64().expect("a number"));
        let file = File::open(&into).expect("an answer");
        let reader = FileReader::try_new(BufReader::new(file), None).expect("Arrow");
        let asked = Asked {
            ms: ms.collect(),
            batches: reader.map(|batch| batch.expect("Arrow")).collect(),
        };
        let rows: usize = asked.batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(Some(rows as u64), answer["rows"].as_u64(), "read whole");
        asked
    }

    /// Writes a line and reads a line.
    fn say(&mut self, what: &Value) -> Value {
        let questions = self.questions.as_mut().expect("BUG: open until dropped");
        // A peer that has ended reports why on its standard error, which is ours.
        writeln!(questions, "{what}").expect("the peer listens");
        questions.flush().expect("the peer listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a line");
        assert!(!line.is_empty(), "the peer has ended");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        if let Some(error) = answer.get("error") {
            panic!("{what}: {error}");
        }
        answer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer ends with its input.
        self.questions = None;
        if let Err(error) = self.child.wait() {
            println!("({error})");
        }
        if let Err(error) = std::fs::remove_file(&self.into) {
            println!("({error})");
        }
    }
}
