//! Helpers of all tests: running the binary, temporary directories, lines of logs.

#[cfg(feature = "kafka")]
mod broker;
mod ledger;
mod object_store;
mod server;

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

#[cfg(feature = "kafka")]
pub(crate) use broker::Broker;
pub(crate) use ledger::{Batch, File, Ledger, Outcome, write_until_gone};
pub(crate) use object_store::Moto;
pub(crate) use server::{Answer, PATIENCE, Server};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_logmill");
/// The tables of both default rollups.
pub(crate) const LEVEL_TABLES: [&str; 12] = [
    "stats.minutely",
    "stats.hourly",
    "stats.daily",
    "stats.weekly",
    "stats.monthly",
    "stats.yearly",
    "traffic.minutely",
    "traffic.hourly",
    "traffic.daily",
    "traffic.weekly",
    "traffic.monthly",
    "traffic.yearly",
];

/// The end of a command and its output.
#[derive(Debug)]
pub(crate) struct Output {
    /// The exit code, or minus the signal that ended it.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Returns the output, after making sure that the command ended with `code`.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "exit code; stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Returns the standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| {
            panic!("not JSON ({e}):\n{}\nstderr:\n{}", self.stdout, self.stderr)
        })
    }
}

/// Returns the binary, about to run in a directory without a configuration.
pub(crate) fn command() -> Command {
    let mut command = Command::new(BINARY);
    command
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env_remove("LOGMILL_LOG")
        .stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub(crate) fn run<S: AsRef<OsStr>>(args: &[S]) -> Output {
    finish(command().args(args), &[])
}

/// Runs the binary to its end with something on its standard input.
pub(crate) fn run_with_input(args: &[&str], input: &[u8]) -> Output {
    finish(command().args(args).stdin(Stdio::piped()), input)
}

/// Runs any program to its end.
pub(crate) fn finish(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stdin = child.stdin.take();
    let ended = std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // A program that ends early closes its input; its exit code has the rest.
                let _ignored = stdin.write_all(input);
            }
        });
        child.wait_with_output().expect("the program ends")
    });
    Output {
        code: code_of(ended.status),
        stdout: String::from_utf8_lossy(&ended.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

/// Returns the exit code of a child, or minus the signal that ended it; `None` when it still runs
/// after this time.
pub(crate) fn ended_within(child: &mut Child, within: Duration) -> Option<i32> {
    let until = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait().expect("the state of our own child") {
            return Some(code_of(status));
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| -status.signal().unwrap_or(0))
}

/// A temporary directory with a place for a store.
pub(crate) struct Home {
    dir: TempDir,
    /// The store's directory, not created yet.
    pub(crate) data: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("logmill-it-")
            .tempdir()
            .expect("a temporary directory");
        let data = utf8(&dir.path().join("data"));
        Self { dir, data }
    }

    /// Returns the path of a file in this directory.
    pub(crate) fn path(&self, name: &str) -> String {
        utf8(&self.dir.path().join(name))
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file in the temporary directory");
        path
    }

    /// Imports into the stream `access` and returns the figures at the end.
    #[track_caller]
    pub(crate) fn import(&self, file: &str, more: &[&str]) -> Value {
        import(&["--data", &self.data], file, more)
    }

    /// Returns the rows of a query.
    #[track_caller]
    pub(crate) fn sql(&self, query: &str) -> Vec<Value> {
        sql(&["--data", &self.data], query)
    }

    /// Returns the one number of a query.
    #[track_caller]
    pub(crate) fn number(&self, query: &str) -> u64 {
        only_number(&self.sql(query))
    }

    /// Returns the number of events in the stream `access`.
    #[track_caller]
    pub(crate) fn count(&self) -> u64 {
        self.number("SELECT count(*) FROM access")
    }
}

/// Imports a file into the stream `access` of the store at `place` and returns the figures at the
/// end.
#[track_caller]
pub(crate) fn import(place: &[&str], file: &str, more: &[&str]) -> Value {
    let common = ["import", file, "--stream", "access", "--output", "json"];
    let figures = run(&[&common[..], place, more].concat()).code(0).json();
    assert_adds_up(&figures);
    figures
}

/// Checks that lines = accepted + quarantined + empty + skipped.
#[track_caller]
pub(crate) fn assert_adds_up(figures: &Value) {
    let of = |name: &str| figures[name].as_u64().expect("a figure of the import");
    assert_eq!(
        of("lines"),
        of("accepted") + of("quarantined") + of("empty") + of("skipped"),
        "{figures}"
    );
}

/// Returns the rows of a query.
#[track_caller]
pub(crate) fn sql(place: &[&str], query: &str) -> Vec<Value> {
    let args = [&["sql", query, "--output", "json"], place].concat();
    match run(&args).code(0).json() {
        Value::Array(rows) => rows,
        other => panic!("rows are not an array: {other}"),
    }
}

/// Returns the one number in the one row of an answer; null counts as 0.
#[track_caller]
pub(crate) fn only_number(rows: &[Value]) -> u64 {
    let row = rows[0].as_object().expect("a row is an object");
    assert_eq!((rows.len(), row.len()), (1, 1), "{rows:?}");
    let value = row.values().next().expect("a row with a column");
    value
        .as_u64()
        .or(value.is_null().then_some(0))
        .unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Returns a query of `(t, n)`: the sum of hits of every level of both default rollups, and the
/// number of events as `raw`, all of one snapshot.
pub(crate) fn sums_query() -> String {
    let mut query = "SELECT 'raw' AS t, count(*) AS n FROM access".to_owned();
    for table in LEVEL_TABLES {
        query += &format!(" UNION ALL SELECT '{table}' AS t, sum(hits) AS n FROM {table}");
    }
    query
}

/// Verifies both default rollups: no difference at any of their six levels, and every event of the
/// stream recomputed.
#[track_caller]
pub(crate) fn assert_verified(place: &[&str], events: u64) {
    // A few of the random questions are enough: other tests run all of them.
    let verify = ["rollup", "verify", "--questions", "10", "--output", "json"];
    let args = [&verify[..], place].concat();
    let found = run(&args).code(0).json();
    let rollups = found.as_array().expect("an array of rollups");
    let names: Vec<&str> = rollups
        .iter()
        .filter_map(|r| r["rollup"].as_str())
        .collect();
    assert_eq!(names, ["stats", "traffic"]);
    for rollup in rollups {
        assert_eq!(rollup["events"], events, "{rollup}");
        let levels = rollup["levels"].as_array().expect("levels");
        assert_eq!(levels.len(), 6, "{rollup}");
        for level in levels {
            assert_eq!(level["differences"], 0, "{}: {level}", rollup["rollup"]);
            assert!(level["cells"].as_u64() > Some(0), "{level}");
        }
    }
}

/// Returns a line of an access log in the combined format, with its LF. The time is in seconds
/// since 1970.
pub(crate) fn line(host: &str, at_s: i64, path: &str, status: u16, size: u64) -> String {
    let at = chrono::DateTime::from_timestamp(at_s, 0).expect("a time of the calendar");
    let stamp = at.format("%d/%b/%Y:%H:%M:%S +0000");
    format!(
        "{host} - - [{stamp}] \"GET {path} HTTP/1.1\" {status} {size} \"-\" \"it/1.0 (a test)\"\n"
    )
}

/// 1 March 2024, 00:00 UTC, in seconds since 1970: a time that is past whenever the tests run.
pub(crate) const PAST_S: i64 = 1_709_251_200;

/// Returns the path of a committed fixture.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Returns the content of a committed fixture.
pub(crate) fn fixture_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).expect("a committed fixture")
}

/// Returns the path of the sample log.
pub(crate) fn sample() -> String {
    utf8(&fixture("sample.log"))
}

/// Returns the folder of real logs, if there is one.
pub(crate) fn test_data() -> Option<PathBuf> {
    let folder = std::env::var_os("LOGMILL_TEST_DATA").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: LOGMILL_TEST_DATA does not name a folder of real logs");
    }
    folder
}

/// Returns a Python that can run the oracle, if there is one.
pub(crate) fn python() -> Option<&'static str> {
    let found = ["python3", "python"].into_iter().find(|name| {
        let able = Command::new(name)
            .args([
                "-c",
                "import sys, zoneinfo; sys.exit(sys.version_info < (3, 9))",
            ])
            .output();
        able.is_ok_and(|o| o.status.success())
    });
    if found.is_none() {
        println!("skipped: there is no Python 3.9 or later");
    }
    found
}

/// Returns a number that a variable of the environment sets.
pub(crate) fn knob(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Err(_) => default,
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text}: write a number")),
    }
}

/// Returns the seed of a test with chance in it; a different one for each run: the moments differ
/// anyway.
pub(crate) fn seed() -> u64 {
    let seed = knob("LOGMILL_SEED", u64::from(std::process::id()));
    println!("LOGMILL_SEED={seed}");
    seed
}

/// Decodes base64 (RFC 4648, padded), the form of bytes in JSON.
pub(crate) fn base64(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => panic!("{other:?} is no digit of base64"),
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    out
}

fn utf8(path: &Path) -> String {
    path.to_str().expect("a path of UTF-8").to_owned()
}
