//! Limits of a query and its end: the work of the real program, not the answer alone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Home, PAST_S, PATIENCE, Server, command, ended_within, line};

/// A join that compares all with all and finds nothing. Its smallest step is one row of `b` with
/// all of `a`.
const COMPARES: &str = "SELECT count(*) FROM generate_series(1, 50000) a \
                        JOIN generate_series(1, 90000000) b ON a.value * 7 = b.value + a.value * a.value";
/// A join whose rows each meet a third of all others, and none of whose pairs passes.
const MEETS: &str = "SELECT count(*) FROM generate_series(1, 50000) a JOIN generate_series(1, 90000000) b \
                     ON a.value % 3 = b.value % 3 AND a.value + b.value < 0";
/// Rows without end.
const COUNTS: &str = "SELECT count(*) FROM generate_series(1, 9000000000000)";

/// Returns the processor seconds of a process; Linux counts a hundredth at a time.
fn spent(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it is there");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split(' ').skip(12).take(2);
    ticks.filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Waits until the condition holds.
#[track_caller]
fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks that a server stops computing an ended query: no query is left, and from some moment on
/// the processor time of its process stands still.
#[track_caller]
fn comes_to_rest(server: &Server, what: &str) {
    await_that(&format!("no query is listed after {what}"), || {
        let found = server.get("/api/v1/queries").status(200).json();
        found.as_array().is_some_and(Vec::is_empty)
    });
    await_that(&format!("nothing is computed after {what}"), || {
        let before = spent(server.pid());
        std::thread::sleep(Duration::from_millis(300));
        spent(server.pid()) - before <= 0.01
    });
}

/// Waits until one query runs that has taken some time; returns its number.
#[track_caller]
fn await_one(server: &Server) -> u64 {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = server.get("/api/v1/queries").status(200).json();
        let query = &found[0];
        if query["elapsed_ms"].as_u64() > Some(300) && query["state"] == "running" {
            return query["id"].as_u64().expect("a number");
        }
        assert!(Instant::now() < until, "no query runs: {found}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn post(server: &Server, sql: &str) -> TcpStream {
    let mut socket = TcpStream::connect(&server.address).expect("the server listens");
    let (host, length) = (&server.address, sql.len());
    let request = format!(
        "POST /api/v1/sql HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{sql}"
    );
    socket.write_all(request.as_bytes()).expect("sent");
    socket
}

#[test]
fn a_query_that_is_stopped_computes_no_more() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for sql in [COMPARES, MEETS, COUNTS] {
        let socket = post(&server, sql);
        let id = await_one(&server);
        await_that("it computes", || spent(server.pid()) > 0.1);
        server.delete(&format!("/api/v1/queries/{id}")).status(200);
        comes_to_rest(&server, &format!("DELETE of {sql}"));
        drop(socket);

        let socket = post(&server, sql);
        await_one(&server);
        drop(socket);
        comes_to_rest(&server, &format!("a closed connection of {sql}"));

        let mut asking = command()
            .args(["sql", sql, "--server", &server.url])
            .spawn()
            .expect("the binary starts");
        await_one(&server);
        kill_process(Pid::from_child(&asking), Signal::INT).expect("a signal to our own child");
        comes_to_rest(&server, &format!("Ctrl-C of {sql}"));
        asking.wait().expect("it ends");
    }
}

#[test]
fn ctrl_c_ends_a_query_over_a_directory() {
    let home = Home::new();
    Server::start(&home.data).stop();
    let temp = home.path("temp");
    std::fs::create_dir(&temp).expect("a directory");
    // The sort spills to disk beyond its memory.
    let sorts = "SELECT value FROM generate_series(1, 9000000000) ORDER BY value * 7919 % 1000003";
    for sql in [COMPARES, sorts] {
        let mut asking = command()
            .args(["sql", sql, "--data", &home.data])
            .envs([
                ("TMPDIR", &*temp),
                ("LOGMILL_QUERY__MEMORY_BYTES_MAX", "64MiB"),
            ])
            .spawn()
            .expect("the binary starts");
        let process = asking.id();
        await_that("it computes", || {
            let ended = asking.try_wait().expect("our own child");
            assert!(ended.is_none(), "{sql} ended by itself: {ended:?}");
            spent(process) > 1.0
        });
        kill_process(Pid::from_child(&asking), Signal::INT).expect("a signal to our own child");
        let code = ended_within(&mut asking, PATIENCE);
        assert_eq!(code, Some(130), "{sql}");
        assert_eq!(files(temp.as_ref()), 0, "temporary files of {sql}");
    }
}

fn files(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a directory").flatten();
    let of = |entry: std::fs::DirEntry| match entry.path().is_dir() {
        true => files(&entry.path()),
        false => 1,
    };
    entries.map(of).sum()
}

fn resident_mib(process: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).expect("it is there");
    let pages = statm.split(' ').nth(1).and_then(|f| f.parse::<u64>().ok());
    (pages.expect("a number of pages") * 4096) >> 20
}

#[test]
fn what_queries_hold_stays_near_their_limit_and_others_are_answered() {
    const LIMIT_MIB: u64 = 256;
    let home = Home::new();
    let temp = home.path("temp");
    std::fs::create_dir(&temp).expect("a directory");
    let environment = [
        ("LOGMILL_QUERY__MEMORY_BYTES_MAX", "256MiB"),
        ("LOGMILL_QUERY__TIME_MAX", "4s"),
        ("TMPDIR", &*temp),
    ];
    let server = Server::start_with(&home.data, &environment);
    server.ingest("access", line("203.0.113.1", PAST_S, "/a", 200, 10));
    server.sql("SELECT count(*) FROM access");
    let before = resident_mib(server.pid());
    for sql in [
        "SELECT length(string_agg(repeat('x', 1000) || value, ',')) FROM generate_series(1, 9000000000)",
        "SELECT array_length(array_agg(value)) FROM generate_series(1, 9000000000)",
        "SELECT value % 10, length(string_agg(repeat('x', 1000) || value, ',')) FROM generate_series(1, 9000000000) GROUP BY 1",
        "SELECT count(DISTINCT value) FROM generate_series(1, 9000000000)",
        "SELECT value, count(*) FROM generate_series(1, 9000000000) GROUP BY 1",
    ] {
        let (answer, peak) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| server.post("/api/v1/sql", &[], sql.as_bytes()));
            let mut peak = 0;
            while !asking.is_finished() {
                peak = peak.max(resident_mib(server.pid()));
                std::thread::sleep(Duration::from_millis(2));
            }
            (asking.join().expect("no panic"), peak)
        });
        let error = answer.status(422).json();
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("query."), "{sql}: {message}");
        assert!(error["error"]["hint"].is_string(), "{error}");
        let most = before + LIMIT_MIB + LIMIT_MIB / 4;
        assert!(peak <= most, "{sql}: {peak} MiB after {before}");
        assert_eq!(server.number("SELECT count(*) FROM access"), 1);
    }
    // The threads of a stopped query have the lowest priority.
    await_that("spilled files are removed", || files(temp.as_ref()) == 0);
}

#[test]
fn progress_tells_what_waits_and_how_far_the_others_are() {
    let home = Home::new();
    let environment = [("LOGMILL_QUERY__RUNNING_MAX", "1")];
    let server = Server::start_with(&home.data, &environment);
    let lines: String = (0..1000)
        .map(|i| line("203.0.113.1", PAST_S + i, "/a", 200, 10))
        .collect();
    server.ingest("access", &lines);
    server.seal();
    server.ingest("access", line("203.0.113.2", PAST_S, "/b", 200, 10));
    // The query reads the whole stream, then compares it with rows without end.
    let slow = "SELECT count(*) FROM (SELECT /*+ no_rollup */ max(length(path)) AS longest FROM access) a \
                CROSS JOIN generate_series(1, 9000000000000) b WHERE b.value % 7 = a.longest";
    let first = post(&server, slow);
    await_one(&server);
    let second = post(&server, "SELECT 1");
    let until = Instant::now() + PATIENCE;
    let queries = loop {
        let found = server.get("/api/v1/queries").status(200).json();
        if found.as_array().is_some_and(|q| q.len() == 2) && found[0]["percent"] == 100.0 {
            break found;
        }
        assert!(Instant::now() < until, "{found}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let (runs, waits) = (&queries[0], &queries[1]);
    assert_eq!(runs["state"], "running");
    assert_eq!(runs["rows_examined"], 1001, "{runs}");
    assert_eq!(runs["rows_total"], 1001, "{runs}");
    assert_eq!(runs["parts"]["examined"], 1, "{runs}");
    assert_eq!(runs["partitions"]["examined"], 1, "{runs}");
    assert!(runs["bytes_read"].as_u64() > Some(0), "{runs}");
    assert_eq!(waits["state"], "queued", "{waits}");
    assert_eq!(waits["percent"], Value::Null, "{waits}");
    drop((first, second));
}

#[test]
fn an_error_after_the_first_rows_is_the_last_line_of_ndjson_and_no_whole_answer() {
    let home = Home::new();
    let server = Server::start_with(&home.data, &[("LOGMILL_QUERY__ROWS_MAX", "20000")]);
    let sql = "SELECT value FROM generate_series(1, 90000)";
    for (form, says) in [("application/x-ndjson", true), ("text/csv", false)] {
        let mut socket = TcpStream::connect(&server.address).expect("the server listens");
        let (host, length) = (&server.address, sql.len());
        let request = format!(
            "POST /api/v1/sql HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: {form}\r\nContent-Length: {length}\r\n\r\n{sql}"
        );
        socket.write_all(request.as_bytes()).expect("sent");
        let mut text = Vec::new();
        // The server cuts the connection off.
        let _broken = socket.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(
            !text.ends_with("\r\n0\r\n\r\n"),
            "{form} ends as a whole answer"
        );
        let last = text.lines().rev().find(|line| line.starts_with('{'));
        let last: Option<Value> = last.and_then(|line| serde_json::from_str(line).ok());
        let told = last.and_then(|last| last["error"]["message"].as_str().map(str::to_owned));
        assert_eq!(
            told.is_some_and(|told| told.contains("query.rows_max")),
            says,
            "{form}"
        );
    }
}
