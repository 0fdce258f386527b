//! Questions over one store, and over several that have its events.
//!
//!     cargo bench --bench cluster -- [--lines 3000000] [--days 14] [--stores 3] [--runs 5]
//!         [--dir target/bench]
//!
//! The lines are dealt to the stores in pieces of 100, as requests come to servers: the division
//! that is hardest on rollups. All servers run on this machine, so several stores have no more
//! processors than one. Each statement of `--bench queries` is asked at the client, whole answers;
//! the rows of both are compared, but for approximate functions. Then a peer is killed while it
//! answers, and a client goes while all stores compute.
//!
//! With `--simulate` it prints tables of clusters at size instead (`simulate.rs`).

#[path = "../common/mod.rs"]
mod common;
mod simulate;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use client::Client;
use common::{client, statements};
use serde_json::{Value, json};

const LOGMILL: &str = env!("CARGO_BIN_EXE_logmill");
/// Lines of a request.
const PIECE: usize = 100;
/// Largest relative difference of floats, whose sums depend on their order.
const TOLERANCE: f64 = 1e-9;
/// Statements with approximate functions.
const APPROXIMATE: [&str; 3] = ["Q8", "Q9a", "R8"];
/// Bounds: the factor of a statement that takes this many ms on one store, and the ms that any
/// other may take longer.
const LONG_MS: f64 = 50.0;
const FACTOR_MAX: f64 = 1.3;
const LATER_MS_MAX: f64 = 10.0;
/// Time in which a killed peer is told, and in which a question that nobody waits for has ended.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
const ENDED_WITHIN: Duration = Duration::from_millis(200);
/// A question that takes long on every store.
const LONG: &str = "SELECT count(*) FROM access WHERE regexp_replace(user_agent || request, \
                    '([a-z]+)[0-9]*', '<\\1>', 'g') LIKE '%<zz>%<yy>%'";

struct Settings {
    lines: u64,
    days: u32,
    stores: usize,
    runs: usize,
    dir: PathBuf,
}

fn settings() -> Settings {
    let mut s = Settings {
        lines: 3_000_000,
        days: 14,
        stores: 3,
        runs: 5,
        dir: "target/bench".into(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--lines" => s.lines = value().parse().expect("a number"),
            "--days" => s.days = value().parse().expect("a number"),
            "--stores" => s.stores = value().parse().expect("a number"),
            "--runs" => s.runs = value().parse().expect("a number"),
            "--dir" => s.dir = value().into(),
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    s
}

fn main() {
    if std::env::args().any(|arg| arg == "--simulate") {
        simulate::run(std::env::args().skip(1));
        return;
    }
    let s = settings();
    let (one, several) = stores(&s);
    let one = Client::start(&one, false);
    let mut peers: Vec<Client> = several[1..]
        .iter()
        .map(|d| Client::start(d, false))
        .collect();
    let urls: Vec<String> = peers.iter().map(Client::url).collect();
    let urls = json!(urls).to_string();
    let off = ("LOGMILL_STORAGE__TENDS", "false");
    let front = Client::start_with(&several[0], &[off, ("LOGMILL_CLUSTER__PEERS", &urls)]);
    let text = |sql: &str| {
        let row = one.rows(sql).remove(0);
        let value = row.as_object().and_then(|row| row.values().next().cloned());
        value
            .and_then(|v| v.as_str().map(str::to_owned))
            .expect("a text")
    };
    let host = text(
        "SELECT host FROM access WHERE time >= '2026-11-09' AND time < '2026-11-10' GROUP BY host ORDER BY count(*) DESC, host LIMIT 1 OFFSET 150",
    );
    let path = text(
        "SELECT path FROM stats.monthly GROUP BY path ORDER BY sum(hits) DESC, path LIMIT 1 OFFSET 100",
    );
    let hot =
        text("SELECT path FROM stats.monthly GROUP BY path ORDER BY sum(hits) DESC, path LIMIT 1");
    let mut all = statements::raw(&host, &path, &hot);
    all.extend(statements::rollups(&hot));
    println!(
        "{:<4} {:<42} {:>9} {:>9} {:>7}",
        "", "", "one ms", "all ms", "factor"
    );
    let mut beyond = Vec::new();
    for (name, what, sql) in &all {
        let (a, b) = (one.ask(sql, s.runs).ms, front.ask(sql, s.runs).ms);
        let factor = b / a;
        let is_within = match a > LONG_MS {
            true => factor <= FACTOR_MAX,
            false => b - a <= LATER_MS_MAX,
        };
        let mark = if is_within { "" } else { "  beyond its bound" };
        println!("{name:<4} {what:<42} {a:>9.2} {b:>9.2} {factor:>7.2}{mark}");
        if !is_within {
            beyond.push(*name);
        }
        if !APPROXIMATE.contains(name) {
            compare(name, sorted(one.rows(sql)), sorted(front.rows(sql)));
        }
    }
    println!("beyond their bounds: {beyond:?}");
    goes(&front, &peers);
    dies(&front, &mut peers);
}

/// Makes one store of all lines, and several stores of its pieces; those that are there stay.
fn stores(s: &Settings) -> (PathBuf, Vec<PathBuf>) {
    let name = format!("{}-{}-{}", s.lines, s.days, s.stores);
    let log = s.dir.join(format!("cluster-{}-{}.log", s.lines, s.days));
    let one = s.dir.join(format!("cluster-{}-{}", s.lines, s.days));
    std::fs::create_dir_all(&s.dir).expect("a directory");
    if !log.exists() {
        let (lines, days) = (s.lines.to_string(), s.days.to_string());
        run(&["demo", "--lines", &lines, "--days", &days, "--out"], &log);
    }
    import(&log, &one);
    let of = |nth: usize, what: &str| s.dir.join(format!("cluster-{name}-{nth}{what}"));
    let parts: Vec<PathBuf> = (0..s.stores).map(|nth| of(nth, ".log")).collect();
    let several: Vec<PathBuf> = (0..s.stores).map(|nth| of(nth, "")).collect();
    if !several.iter().all(|store| store.exists()) {
        deal(&log, &parts);
    }
    for (part, store) in parts.iter().zip(&several) {
        import(part, store);
        let _gone_already = std::fs::remove_file(part);
    }
    (one, several)
}

fn import(log: &Path, store: &Path) {
    if !store.exists() {
        let place = store.to_str().expect("a path of text");
        run(&["import", "--stream", "access", "--data", place], log);
    }
}

fn run(args: &[&str], last: &Path) {
    let status = Command::new(LOGMILL).args(args).arg(last).status();
    assert!(status.expect("runs").success(), "{args:?} failed");
}

fn deal(log: &Path, parts: &[PathBuf]) {
    let parts = parts.iter().map(|part| File::create(part).expect("a file"));
    let mut parts: Vec<_> = parts.map(BufWriter::new).collect();
    let lines = BufReader::new(File::open(log).expect("a log")).split(b'\n');
    for (nth, line) in lines.enumerate() {
        let at = nth / PIECE % parts.len();
        let mut line = line.expect("a line");
        line.push(b'\n');
        parts[at].write_all(&line).expect("written");
    }
}

/// Sorts rows by what is equal in both answers, without the ids that each store gives.
fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    for row in &mut rows {
        if let Some(row) = row.as_object_mut() {
            row.remove("_id");
        }
    }
    rows.sort_by_cached_key(|row| {
        let members = row.as_object().expect("a row").values();
        let exact = members.filter(|value| !value.is_f64());
        exact.map(ToString::to_string).collect::<Vec<_>>()
    });
    rows
}

fn compare(name: &str, one: Vec<Value>, several: Vec<Value>) {
    // The first rows of all are some of those with the same time.
    if name == "Q3b" {
        let times = |rows: &[Value]| {
            let times = rows.iter().map(|row| row["time"].to_string());
            let mut times: Vec<String> = times.collect();
            times.sort();
            times
        };
        assert!(times(&one) == times(&several), "{name}: other times");
        return;
    }
    assert_eq!(one.len(), several.len(), "{name}");
    for (a, b) in one.iter().zip(&several) {
        let (a, b) = (a.as_object().expect("a row"), b.as_object().expect("a row"));
        for (column, value) in a {
            let is_same = match (value.as_f64(), b[column].as_f64()) {
                (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(1.0),
                _ => *value == b[column],
            };
            assert!(is_same, "{name}: {a:?} and {b:?}");
        }
    }
}

/// Sends a question and does not wait for its answer.
fn begin(server: &Client, sql: &str) -> TcpStream {
    let url = server.url();
    let host = url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(host).expect("connected");
    let head = format!(
        "POST /api/v1/sql HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{sql}",
        sql.len()
    );
    socket.write_all(head.as_bytes()).expect("sent");
    socket
}

fn running(server: &Client) -> usize {
    let sql = "SELECT count(*) AS n FROM system.queries WHERE state = 'running'";
    // The question itself is one.
    let n = server.rows(sql).remove(0)["n"].as_u64().expect("a count");
    usize::try_from(n).expect("a number") - 1
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    began.elapsed()
}

/// A client goes while all stores compute.
fn goes(front: &Client, peers: &[Client]) {
    let socket = begin(front, LONG);
    wait_for("it runs everywhere", || {
        peers.iter().all(|peer| running(peer) > 0)
    });
    drop(socket);
    let took = wait_for("it ends", || peers.iter().all(|peer| running(peer) == 0));
    println!(
        "a client goes: all peers are idle after {} ms",
        took.as_millis()
    );
    assert!(took < ENDED_WITHIN, "{took:?}");
}

/// A peer is killed while it answers.
fn dies(front: &Client, peers: &mut Vec<Client>) {
    let socket = begin(front, LONG);
    wait_for("it runs everywhere", || {
        peers.iter().all(|peer| running(peer) > 0)
    });
    let killed = peers.remove(0);
    let url = killed.url();
    drop(killed);
    let began = Instant::now();
    let mut answer = String::new();
    for line in BufReader::new(socket).lines() {
        answer += &line.expect("an answer");
        if answer.contains(&url) {
            break;
        }
    }
    let took = began.elapsed();
    println!("a peer is killed: told after {} ms", took.as_millis());
    assert!(
        answer.contains(&url) && took < TOLD_WITHIN,
        "{took:?}: {answer}"
    );
}
