//! Clients that hold on to resources of others: tails, slow bodies, unread answers, connections,
//! descriptors.
//!
//! Each of these once held a whole server up; here other clients are answered beside them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::support::{Home, PAST_S, PATIENCE, Server, command, line};

/// Tails of `tails_hold_no_thread_that_others_need`; `LOGMILL_TAILS=5000` is its long form. 512
/// were enough to take all threads.
const TAILS: usize = 520;

fn good() -> String {
    line("203.0.113.1", PAST_S, "/", 200, 10)
}

/// Opens a connection that has sent `request`, `{host}` replaced, and waits.
fn send(server: &Server, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(&server.address).expect("the server listens");
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .expect("a socket that can wait");
    let request = request.replace("{host}", &server.address);
    // If the server has closed already, its answer has the reason.
    let _ignored = socket.write_all(request.as_bytes());
    socket
}

/// Returns the status of the answer that has come or comes, and its head.
fn head(socket: &TcpStream) -> (u16, String) {
    let lines = BufReader::new(socket).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let status = head
        .first()
        .and_then(|line| line.split(' ').nth(1)?.parse().ok());
    (status.unwrap_or(0), head.join("\n").to_ascii_lowercase())
}

/// A body of a thousand bytes of which one is sent.
const SLOW: &str =
    "POST /api/v1/ingest/access HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\nx";

/// Raises the limit of descriptors: this process opens thousands of connections.
fn raise_own_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("a soft limit can be raised");
}

fn sample(server: &Server, name: &str) -> f64 {
    let text = server.get("/metrics").status(200).text();
    let found = text
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
    let found = found.unwrap_or_else(|| panic!("{name} is not there: {text}"));
    found.parse().expect("a number")
}

#[test]
fn tails_hold_no_thread_that_others_need() {
    raise_own_limit();
    let asked = std::env::var("LOGMILL_TAILS").ok();
    let tails: usize = asked.map_or(TAILS, |n| n.parse().expect("a number"));
    let home = Home::new();
    let (most, connections) = (tails.to_string(), (2 * tails + 100).to_string());
    let server = Server::start_with(
        &home.data,
        &[
            ("LOGMILL_SERVER__TAILS_MAX", &most),
            ("LOGMILL_SERVER__CONNECTIONS_MAX", &connections),
        ],
    );
    server.ingest("access", good());
    let tail = "GET /api/v1/tail?stream=access HTTP/1.1\r\nHost: {host}\r\n\r\n";
    let open: Vec<TcpStream> = (0..tails).map(|_| send(&server, tail)).collect();
    for socket in &open {
        assert_eq!(head(socket).0, 200);
    }
    // All work that needs a thread continues.
    server.ingest("access?j=true", good());
    assert_eq!(server.number("SELECT count(*) FROM access"), 2);
    server.seal();
    assert_eq!(sample(&server, "logmill_tails"), tails as f64);
    let threads = sample(&server, "process_threads");
    assert!(threads < 100.0, "{threads} threads for {tails} tails");
    let (status, head) = head(&send(&server, tail));
    assert_eq!(status, 503, "{head}");
    assert!(head.contains("retry-after: "), "{head}");
    for socket in [&open[0], &open[tails - 1]] {
        let mut lines = BufReader::new(socket).lines().map_while(Result::ok);
        let event = lines.find(|line| line.starts_with("data: "));
        assert!(event.is_some_and(|e| e.contains("\"status\":200")));
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn health_answers_and_signals_are_heard_at_any_number_of_connections() {
    let home = Home::new();
    let server = Server::start_with(
        &home.data,
        &[
            ("LOGMILL_SERVER__CONNECTIONS_MAX", "20"),
            ("LOGMILL_SERVER__BODY_TIME_MAX", "5s"),
        ],
    );
    // Slow bodies take all places; of the other connections some send nothing at all, some send
    // slowly.
    let slow: Vec<TcpStream> = (0..20).map(|_| send(&server, SLOW)).collect();
    let more: Vec<TcpStream> = (0..150)
        .map(|n| send(&server, ["", "GET / HT"][n % 2]))
        .collect();
    for path in ["/health", "/ready", "/metrics"] {
        server.get(path).status(200);
    }
    let event = good();
    let whole = format!(
        "POST /api/v1/ingest/access HTTP/1.1\r\nHost: {{host}}\r\nContent-Length: {}\r\n\r\n{event}",
        event.len()
    );
    let (status, refused) = head(&send(&server, &whole));
    assert_eq!(status, 503, "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    // A body that does not end is cut off, and its place is free again.
    for socket in &slow {
        assert_eq!(head(socket).0, 408);
    }
    drop(slow);
    while head(&send(&server, &whole)).0 != 200 {
        std::thread::yield_now();
    }
    let slow: Vec<TcpStream> = (0..40).map(|_| send(&server, SLOW)).collect();
    assert_eq!(server.stop(), Some(0));
    drop((slow, more));
}

#[test]
fn bytes_of_bodies_under_way_are_bounded() {
    let home = Home::new();
    let server = Server::start_with(
        &home.data,
        &[
            ("LOGMILL_SERVER__BATCH_BYTES_MAX", "64KiB"),
            ("LOGMILL_SERVER__BODIES_BYTES_MAX", "128KiB"),
        ],
    );
    let part = format!(
        "POST /api/v1/ingest/access HTTP/1.1\r\nHost: {{host}}\r\nTransfer-Encoding: chunked\r\n\r\nf000\r\n{}\r\n",
        "x".repeat(0xf000)
    );
    let held: Vec<TcpStream> = (0..2).map(|_| send(&server, &part)).collect();
    while sample(&server, "logmill_http_body_bytes") < (2 * 0xf000) as f64 {
        std::thread::yield_now();
    }
    let (status, head) = head(&send(&server, &part));
    assert_eq!(status, 503, "{head}");
    assert!(head.contains("retry-after: "), "{head}");
    // Small bodies still fit, and the large ones when the others are over.
    server.ingest("access", good());
    drop(held);
    while sample(&server, "logmill_http_body_bytes") > 0.0 {
        std::thread::yield_now();
    }
    server.ingest("access", good().repeat(500));
}

#[test]
fn an_answer_that_nobody_reads_gives_its_place_back() {
    let home = Home::new();
    let server = Server::start_with(
        &home.data,
        &[
            ("LOGMILL_QUERY__RUNNING_MAX", "1"),
            ("LOGMILL_QUERY__TIME_MAX", "0s"),
            ("LOGMILL_QUERY__ROWS_MAX", "0"),
            ("LOGMILL_QUERY__RESULT_BYTES_MAX", "0"),
            ("LOGMILL_SERVER__ANSWER_TIME_MAX", "1s"),
        ],
    );
    let sql = "SELECT repeat('x', 1000) FROM generate_series(1, 100000000)";
    let request = format!(
        "POST /api/v1/sql HTTP/1.1\r\nHost: {{host}}\r\nAccept: text/csv\r\nContent-Length: {}\r\n\r\n{sql}",
        sql.len()
    );
    let mut unread = send(&server, &request);
    let mut first = [0; 12];
    unread.read_exact(&mut first).expect("the answer begins");
    assert_eq!(&first, b"HTTP/1.1 200");
    // The unread answer has the only place, and would keep it for as long as its connection is
    // there.
    assert_eq!(server.number("SELECT 1 AS one"), 1);
    drop(unread);
}

#[test]
fn descriptors_are_raised_and_connections_leave_some_for_the_store() {
    let home = Home::new();
    let limited = |limits: &str| {
        let mut shell = Command::new("sh");
        let script = format!("ulimit {limits} && exec \"$0\" \"$@\"");
        shell.args(["-c", &script]).arg(command().get_program());
        Server::try_start(shell, &home.data, &[]).expect("starts")
    };
    let server = limited("-S -n 64");
    assert!(sample(&server, "process_max_fds") > 64.0);
    server.ingest("access", good());
    assert_eq!(server.stop(), Some(0));
    // The limit cannot be raised: many more connections come than there are descriptors.
    let server = limited("-n 128");
    let open: Vec<TcpStream> = (0..200).map(|_| send(&server, SLOW)).collect();
    server.get("/health").status(200);
    drop(open);
    // The server notices by and by that they have ended.
    let until = Instant::now() + PATIENCE;
    while server.get("/api/v1/queries").status == 503 {
        assert!(Instant::now() < until, "{}", server.log());
    }
    let held: Vec<TcpStream> = (0..50).map(|_| send(&server, SLOW)).collect();
    for _ in 0..5 {
        server.ingest("access?j=true", good());
        server.seal();
    }
    assert_eq!(server.number("SELECT count(*) FROM access"), 6);
    drop(held);
    assert_eq!(
        server.stop(),
        Some(0),
        "a want of descriptors ended nothing"
    );
    let log = std::fs::read_to_string(format!("{}.log", home.data)).expect("the log");
    assert!(log.contains("ulimit -n"), "{log}");
}

/// Follows with these parameters until the server ends the tail; returns its last event.
fn last_of(server: &Server, query: &str, after: impl FnOnce()) -> (String, Value) {
    let request =
        format!("GET /api/v1/tail?{query} HTTP/1.1\r\nHost: {{host}}\r\nConnection: close\r\n\r\n");
    let socket = send(server, &request);
    let mut lines = BufReader::new(&socket).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == ": following"), "it does not begin");
    after();
    let (mut kind, mut data) = (String::new(), Value::Null);
    for line in lines {
        if let Some(named) = line.strip_prefix("event: ") {
            named.clone_into(&mut kind);
        } else if let Some(said) = line.strip_prefix("data: ") {
            data = serde_json::from_str(said).expect("JSON");
        }
    }
    (kind, data)
}

#[test]
fn a_condition_that_fails_or_takes_too_long_ends_its_tail_with_an_error() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access", good());
    let fails = "stream=access&where=1/(status-404)%3E0";
    let bad = line("203.0.113.1", PAST_S, "/", 404, 10);
    let (kind, said) = last_of(&server, fails, || {
        server.ingest("access", bad.as_bytes());
    });
    assert_eq!(kind, "error", "{said}");
    assert!(said["error"]["message"].is_string(), "{said}");
    let slow = "stream=access&where=levenshtein(repeat(request,100),repeat(request,99))%3E%3D0";
    let (kind, said) = last_of(&server, slow, || {
        server.ingest("access", good().repeat(2000));
    });
    assert_eq!(kind, "error", "{said}");
    // Other clients continue, with a new feed for the same condition too.
    server.ingest("access", good());
    let (kind, _) = last_of(&server, fails, || {
        server.ingest("access", bad.as_bytes());
    });
    assert_eq!(kind, "error");
}
