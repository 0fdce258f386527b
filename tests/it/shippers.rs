//! The listeners for log shippers, with the shippers themselves where they are installed: each
//! sends numbered records, and the store has each number exactly once.

pub(crate) mod clients;
mod fluent;
pub(crate) mod kills;
mod mongo;
mod relp;
mod syslog;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, PATIENCE, Server, ended_within};

/// Lines that clients send: `number 0`, `number 1` and so on.
pub(crate) fn numbers(count: usize) -> String {
    (0..count).map(|n| format!("number {n}\n")).collect()
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_for(is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "it does not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a query returns a number.
#[track_caller]
pub(crate) fn wait_for_number(server: &Server, query: &str, wanted: u64) {
    let until = Instant::now() + PATIENCE;
    loop {
        // The stream may not exist yet.
        let answer = server.post("/api/v1/sql", &[], query.as_bytes());
        let rows = (answer.status == 200).then(|| answer.json()["rows"].clone());
        let found = rows.and_then(|rows| rows[0].as_object()?.values().next()?.as_u64());
        if found == Some(wanted) {
            return;
        }
        let is_late = Instant::now() > until || found > Some(wanted);
        let log = || server.log();
        assert!(
            !is_late,
            "{query}: {found:?} instead of {wanted}; {}",
            log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for all numbered records of a stream. Returns how often each was stored.
#[track_caller]
fn wait_for_numbers(server: &Server, stream: &str, count: usize) -> BTreeMap<String, u64> {
    let distinct = format!("SELECT count(DISTINCT line) FROM {stream} WHERE line LIKE 'number %'");
    wait_for_number(server, &distinct, count as u64);
    let query = format!(
        "SELECT line, count(*) AS n FROM {stream} WHERE line LIKE 'number %' GROUP BY line"
    );
    let rows = server.sql(&query).into_iter();
    let pair = |row: serde_json::Value| {
        let line = row["line"].as_str().expect("text").to_owned();
        (line, row["n"].as_u64().expect("a count"))
    };
    rows.map(pair).collect()
}

/// Checks that the store has each number once, and nothing in quarantine.
#[track_caller]
fn assert_each_once(server: &Server, stream: &str, count: usize) {
    let stored = wait_for_numbers(server, stream, count);
    for n in 0..count {
        let line = format!("number {n}");
        assert_eq!(stored.get(&line), Some(&1), "{line}");
    }
    assert_eq!(stored.len(), count);
    assert_eq!(
        metric(
            server,
            &format!("logmill_events_quarantined_total{{stream=\"{stream}\"}}")
        ),
        0
    );
}

/// Returns a sample of `/metrics`; 0 where there is none.
fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").status(200).text();
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
    let value = values.find_map(|rest| rest.strip_prefix(' ')?.parse().ok());
    value.unwrap_or(0)
}

/// Returns the block of code of a page of `docs/shippers` that contains a text.
#[track_caller]
pub(crate) fn snippet(page: &str, contains: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs/shippers")
        .join(page);
    let text = std::fs::read_to_string(path).expect("a page");
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        match line.strip_prefix("    ") {
            Some(code) => *blocks.last_mut().expect("one") += &format!("{code}\n"),
            None if line.is_empty() => *blocks.last_mut().expect("one") += "\n",
            None => blocks.push(String::new()),
        }
    }
    let mut found = blocks.into_iter().filter(|block| block.contains(contains));
    let block = found
        .next()
        .unwrap_or_else(|| panic!("{page} has no block with {contains:?}"));
    assert!(
        found.next().is_none(),
        "{page} has two blocks with {contains:?}"
    );
    block
}

/// Returns a program, if it is installed; otherwise the test says that it is skipped.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders
        .map(|folder| folder.join(name))
        .find(|file| file.exists());
    if found.is_none() {
        println!("skipped: {name} is not installed");
    }
    found
}

/// A program in the background, killed when dropped.
pub(crate) struct Background {
    child: Child,
    log: PathBuf,
}

impl Background {
    pub(crate) fn start(home: &Home, command: &mut Command) -> Self {
        let program = Path::new(command.get_program()).file_name();
        let program = program.expect("a program").to_string_lossy();
        let log = PathBuf::from(home.path(&format!("{program}.log")));
        let output = std::fs::File::create(&log).expect("a log");
        let errors = output.try_clone().expect("a second handle");
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .expect("the program starts");
        Self { child, log }
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) {
        ended_within(&mut self.child, PATIENCE).expect("the program ends");
    }

    /// Ends it with SIGTERM, and with it the processes that it has started.
    pub(crate) fn terminate(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .expect("a signal to our own child");
        ended_within(&mut self.child, PATIENCE).expect("the program ends");
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the log of the client:\n{}", self.log());
        }
        // It may have ended already.
        let _ignored = self.child.kill();
        let _ignored = self.child.wait();
    }
}
