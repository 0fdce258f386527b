//! Commands whose reader has gone, and imports that are stopped by a signal.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, PAST_S, PATIENCE, Server, command, ended_within, line, run, sample};

/// Runs a command whose standard output has no reader; returns its exit code and standard error.
fn without_reader(args: &[&str]) -> (i32, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let child = command()
        .args(args)
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let ended = child.wait_with_output().expect("the program ends");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code().unwrap_or(-1), stderr)
}

#[test]
fn a_command_whose_reader_has_gone_ends_quietly() {
    let home = Home::new();
    let file = sample();
    let data = home.data.clone();
    home.import(&file, &[]);
    let words = home.file("words.txt", "words\n".repeat(200));
    run(&["import", &words, "--stream", "notes", "--data", &data]).code(1);
    let backup = home.path("backup");
    let day = "2025-01-01";
    let all = "SELECT * FROM access";
    let server = Server::start(&home.path("served"));
    server.ingest(
        "access",
        line("203.0.113.1", PAST_S, "/", 200, 1).repeat(50),
    );
    let own: [&[&str]; 22] = [
        &["import", &file, "--stream", "access"],
        &["import", &file, "--stream", "access", "--output", "json"],
        &["parse", "--explain", &file],
        &["parse", "--explain", &file, "--output", "json"],
        &["sql", all],
        &["sql", all, "--output", "json"],
        &["sql", all, "--output", "ndjson"],
        &["sql", all, "--output", "csv"],
        &["sql", all, "--output", "arrow"],
        &["sql", "SELECT 1", "--explain"],
        &[
            "slice",
            "--host",
            "198.51.100.4",
            "--date",
            day,
            "--stream",
            "access",
        ],
        &["rollup", "status"],
        &["rollup", "verify"],
        &["rollup", "run"],
        &["stream", "list"],
        &["stream", "schema", "access"],
        &["stream", "suggest-shard-key", "access", "--shards", "4"],
        &["partition", "list"],
        &["index", "list"],
        &["quarantine", "list"],
        &["check"],
        &["backup", &backup],
    ];
    for args in own {
        let (code, stderr) = without_reader(&[args, &["--data", &data]].concat());
        assert!(
            code == 0 && !stderr.contains("panicked") && !stderr.contains("pipe"),
            "{args:?} ends with {code}: {stderr}"
        );
    }
    let others: [&[&str]; 5] = [
        &["config", "show"],
        &["sql", all, "--output", "csv", "--server", &server.url],
        &["sql", all, "--output", "json", "--server", &server.url],
        &["stream", "schema", "access", "--server", &server.url],
        &["rollup", "status", "--server", &server.url],
    ];
    for args in others {
        let (code, stderr) = without_reader(args);
        assert!(
            code == 0 && !stderr.contains("panicked") && !stderr.contains("pipe"),
            "{args:?} ends with {code}: {stderr}"
        );
    }
    // A server continues when the reader of its address has gone.
    assert_eq!(server.number("SELECT count(*) FROM access"), 50);
}

/// Output lost on a full disk is a failure: the caller asked for it.
#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        println!("skipped: there is no /dev/full");
        return;
    };
    let told = command()
        .args(["config", "show"])
        .stdout(full)
        .output()
        .expect("the program runs");
    let stderr = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(74), "{stderr}");
    assert!(stderr.contains("standard output"), "{stderr}");
}

fn lines(from: i64, n: i64) -> String {
    let line = |i| line("203.0.113.1", PAST_S + i, &format!("/{i}"), 200, 10);
    (from..from + n).map(line).collect()
}

/// Starts an import that waits for more on its standard input.
fn waiting(home: &Home, file: &str) -> Child {
    command()
        .args([
            "import", file, "-", "--stream", "access", "--source", "live",
        ])
        .args(["--data", &home.data])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("an import")
}

/// Waits until something holds; fails after a time that no machine needs.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} does not come about");
}

fn threads(pid: u32) -> Vec<(String, i64)> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let stats = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (head, fields) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        // The nice value is the seventeenth field behind the name.
        Some((name, fields.split_ascii_whitespace().nth(16)?.parse().ok()?))
    });
    stats.collect()
}

/// An import's user waits for its seals: beside other busy processes they would otherwise come
/// last.
#[test]
fn an_import_seals_with_the_priority_that_it_was_given() {
    let home = Home::new();
    let file = home.file("a.log", lines(0, 100));
    let mut import = waiting(&home, &file);
    let pid = import.id();
    let own = || threads(pid);
    // In a server the maintenance thread lowers its priority.
    until("the thread of maintenance", || {
        own()
            .iter()
            .any(|(name, _)| name.contains("tend") || name.contains("maint"))
    });
    until("the wait for input", || {
        own().iter().any(|(name, _)| name == "logmill-read")
    });
    let threads = own();
    let first = threads[0].1;
    assert!(
        threads.iter().all(|(_, nice)| *nice == first),
        "{threads:?}"
    );
    drop(import.stdin.take());
    assert_eq!(ended_within(&mut import, PATIENCE), Some(0));
}

#[test]
fn an_import_that_is_interrupted_says_what_it_kept_and_how_to_go_on() {
    for signal in [Signal::INT, Signal::TERM] {
        let home = Home::new();
        let file = home.file("a.log", lines(0, 1000));
        let mut import = waiting(&home, &file);
        let mut stdin = import.stdin.take().expect("its input");
        stdin.write_all(lines(0, 10).as_bytes()).expect("a write");
        until("the wait for input", || {
            threads(import.id())
                .iter()
                .any(|(name, _)| name == "logmill-read")
        });
        // The lines imported by now stay; the same command imports the rest.
        let pid = Pid::from_child(&import);
        kill_process(pid, signal).expect("a signal to our own child");
        assert_eq!(ended_within(&mut import, PATIENCE), Some(0));
        let ended = import.wait_with_output().expect("its output");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(stderr.contains("lines are stored"), "{stderr}");
        drop(stdin);
        let again = run(&["import", &file, "--stream", "access", "--data", &home.data]).code(0);
        assert!(!again.stderr.contains("WARN"), "{}", again.stderr);
        assert_eq!(home.count(), 1000);
    }
}

#[test]
fn an_import_says_what_it_found_and_what_to_ask_next() {
    let home = Home::new();
    let args = [
        "import",
        &sample(),
        "--stream",
        "access",
        "--data",
        &home.data,
    ];
    let told = run(&args).code(0).stdout;
    for wanted in ["combined", home.data.as_str(), "logmill sql '"] {
        assert!(told.contains(wanted), "{told}");
    }
    // The query that the message recommends works.
    let next = told
        .lines()
        .find(|l| l.starts_with("next"))
        .expect("a line of advice");
    let sql = next.split('\'').nth(1).expect("a query");
    run(&["sql", sql, "--data", &home.data]).code(0);
}
