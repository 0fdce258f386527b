//! Fair shares: a client that takes all that it can get leaves the others theirs.

mod bombs;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, PAST_S, PATIENCE, Server, command, line};

const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 9000000000000)";
/// Requests of a burst: with a rate of two a second, the server would need many seconds for them
/// to pass.
const BURST: usize = 40;

fn token(home: &Home, name: &str, role: &str) -> String {
    let mut create = command();
    create.args(["token", "create", name, "--role", role, "--output", "json"]);
    let output = create.args(["--data", &home.data]).output();
    let created: Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    created["token"].as_str().expect("a token").to_owned()
}

/// Returns a server with an event and a quarantined line, and the tokens of an administrator and of
/// two readers.
fn server(home: &Home, environment: &[(&str, &str)]) -> (Server, String, [String; 2]) {
    let server = Server::start_with(&home.data, environment);
    let event = line("203.0.113.1", PAST_S, "/", 200, 10);
    server.ingest("web", event + "no event\n");
    let admin = token(home, "admin", "admin");
    let readers = ["one", "other"].map(|name| token(home, name, "read"));
    (server, admin, readers)
}

/// Connects from an address of this machine.
fn connect(server: &Server, from: u8) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let address: SocketAddr = server.address.parse().expect("an address");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        let own = SocketAddr::new(IpAddr::from([127, 0, 0, from]), 0);
        socket.bind(own).expect("an address of loopback");
        let connected = socket.connect(address).await.expect("connected");
        connected.into_std().expect("a socket")
    });
    stream.set_nonblocking(false).expect("set");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Sends a request that closes its connection, with the beginning of its body.
fn send(server: &Server, from: u8, request: &str, token: &str, body: (&str, usize)) -> TcpStream {
    let mut stream = connect(server, from);
    let (begun, length) = body;
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{begun}",
        server.address
    );
    // A connection that is closed at once breaks.
    let _ignored = stream.write_all(head.as_bytes());
    stream
}

/// Returns the whole answer, or nothing when the server has closed the connection before.
fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    let _ignored = stream.read_to_string(&mut answer);
    answer
}

fn get(server: &Server, from: u8, target: &str, token: &str) -> String {
    let request = format!("GET {target}");
    answer(send(server, from, &request, token, ("", 0)))
}

fn post(server: &Server, target: &str, token: &str, body: &str) -> TcpStream {
    let request = format!("POST {target}");
    send(server, 1, &request, token, (body, body.len()))
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("closed")
}

fn json(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"))
}

#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE / 5;
    while !is_so() {
        assert!(Instant::now() < end, "it does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends many requests at once; returns the first answer that slows the client, if there is one.
fn burst(server: &Server, froms: &[u8], request: &str, token: &str) -> Option<String> {
    let from = froms.iter().cycle().take(BURST);
    let sent: Vec<_> = from
        .map(|from| send(server, *from, request, token, ("", 0)))
        .collect();
    let mut answers = sent.into_iter().map(answer);
    answers.find(|answer| status(answer) == "429")
}

#[test]
fn a_flood_is_slowed_for_its_account_or_for_requests_without_one() {
    let home = Home::new();
    let per_second = [("LOGMILL_SERVER__CLIENT_REQUESTS_PER_SECOND", "2")];
    let (server, _, [one, other]) = server(&home, &per_second);
    let streams = "GET /api/v1/streams";
    assert_eq!(status(&get(&server, 2, "/api/v1/streams", &one)), "200");
    // One account at many addresses.
    let many: Vec<u8> = (10..10 + BURST as u8).collect();
    let slowed = burst(&server, &many, streams, &one).expect("it is slowed");
    assert!(slowed.contains("retry-after: 1\r\n"), "{slowed}");
    assert!(slowed.contains("share of 2 requests a second"), "{slowed}");
    // The address of the flood serves another account.
    assert!(burst(&server, &[2], streams, &one).is_some());
    assert_eq!(status(&get(&server, 2, "/api/v1/streams", &other)), "200");
    // Requests that are refused count for their address, whatever refuses them.
    for (from, request) in [
        (3, streams),
        (4, "GET /metrics"),
        (5, "GET /nothing"),
        (6, "PATCH /api/v1/sql"),
        (7, "GET /api/v1/streams?unknown=1"),
    ] {
        let slowed = burst(&server, &[from], request, "lm_wrong");
        assert!(slowed.is_some(), "{request}");
    }
    // A valid token in the midst of them passes.
    let third = token(&home, "third", "read");
    let before: Vec<_> = (0..BURST)
        .map(|_| send(&server, 3, streams, "lm_wrong", ("", 0)))
        .collect();
    let valid = send(&server, 3, streams, &third, ("", 0));
    let after = burst(&server, &[3], streams, "lm_wrong");
    assert_eq!(status(&answer(valid)), "200");
    assert!(after.is_some());
    drop(before);
    assert_eq!(burst(&server, &[3], "GET /health", ""), None);
}

#[test]
fn one_address_has_half_of_the_connections_and_a_proxy_has_no_share() {
    let home = Home::new();
    let few = [
        ("LOGMILL_SERVER__CONNECTIONS_MAX", "16"),
        ("LOGMILL_SERVER__PROXIES", "[\"127.0.0.5\"]"),
    ];
    let (server, _, [reader, _]) = server(&home, &few);
    let streams = |from| get(&server, from, "/api/v1/streams", &reader);
    let hold = |from, many| -> Vec<_> { (0..many).map(|_| connect(&server, from)).collect() };
    let idle = hold(2, 8);
    until(|| status(&streams(2)) == "429");
    let beyond = streams(2);
    assert!(beyond.contains("share of connections"), "{beyond}");
    assert!(beyond.contains("server.proxies"), "{beyond}");
    for _ in 0..20 {
        assert_eq!(status(&streams(3)), "200");
    }
    // Silent connections in all places of those beyond the share keep no supervisor out.
    let silent = hold(2, 100);
    for _ in 0..5 {
        assert_eq!(status(&get(&server, 2, "/health", "")), "200");
    }
    drop((idle, silent));
    until(|| status(&streams(2)) == "200");
    let of_proxy = hold(5, 10);
    for _ in 0..20 {
        assert_eq!(status(&streams(5)), "200");
    }
    drop(of_proxy);
}

#[test]
fn the_operator_gets_in_where_a_proxy_on_this_machine_holds_all_connections() {
    let home = Home::new();
    let few = [("LOGMILL_SERVER__CONNECTIONS_MAX", "8")];
    let (server, _, [reader, _]) = server(&home, &few);
    for others in [0, 4] {
        // First the share of the address is full, then the server.
        let held: Vec<_> = (0..4).map(|_| connect(&server, 1)).collect();
        let more: Vec<_> = (0..others).map(|_| connect(&server, 2)).collect();
        until(|| status(&get(&server, 1, "/api/v1/streams", &reader)) == "429");
        let mut list = command();
        list.args(["token", "list", "--data", &home.data]);
        let listed = list.output().expect("it runs");
        let told = String::from_utf8_lossy(&listed.stderr);
        assert!(listed.status.success(), "{told}");
        assert!(String::from_utf8_lossy(&listed.stdout).contains("other"));
        drop((held, more));
        until(|| status(&get(&server, 1, "/api/v1/streams", &reader)) == "200");
    }
}

#[test]
fn queries_of_every_route_wait_in_the_line_of_their_client() {
    let home = Home::new();
    let limits = [
        ("LOGMILL_QUERY__RUNNING_MAX", "2"),
        ("LOGMILL_QUERY__QUEUED_MAX", "7"),
        ("LOGMILL_QUERY__TIME_MAX", "0s"),
    ];
    let (server, admin, [one, other]) = server(&home, &limits);
    let queries = || json(&get(&server, 1, "/api/v1/queries", &admin));
    let count = |state: &str| {
        let queries = queries();
        let all = queries.as_array().expect("a list");
        all.iter().filter(|query| query["state"] == state).count()
    };
    let endless = post(&server, "/api/v1/sql", &one, ENDLESS);
    until(|| count("running") == 1);
    let waiting: Vec<_> = [
        "/api/v1/partitions",
        "/api/v1/indexes",
        "/api/v1/rollups",
        "/api/v1/quarantine",
        "/api/v1/streams/web/schema",
    ]
    .iter()
    .map(|path| send(&server, 1, &format!("GET {path}"), &one, ("", 0)))
    .collect();
    let tail = send(
        &server,
        1,
        "GET /api/v1/tail?stream=web&last=1",
        &one,
        ("", 0),
    );
    let cancelled = post(&server, "/api/v1/sql", &one, "SELECT 1 AS cancelled");
    until(|| count("queued") == 7);
    let refused = answer(post(&server, "/api/v1/sql", &one, "SELECT 1"));
    assert_eq!(status(&refused), "429", "{refused}");
    assert!(refused.contains("7 are waiting"), "{refused}");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    // The other place is for others.
    for _ in 0..5 {
        let answered = answer(post(&server, "/api/v1/sql", &other, "SELECT 1"));
        assert_eq!(status(&answered), "200", "{answered}");
    }
    // A query in the line of its client can be cancelled.
    let all = queries();
    let mut all = all.as_array().expect("a list").iter();
    let own = all.find(|query| query["sql"] == "SELECT 1 AS cancelled");
    let request = format!("DELETE /api/v1/queries/{}", own.expect("listed")["id"]);
    let done = answer(send(&server, 1, &request, &one, ("", 0)));
    assert_eq!(status(&done), "200", "{done}");
    assert_eq!(status(&answer(cancelled)), "409");
    // The client goes, and its place is for the next.
    assert_eq!(count("queued"), 6);
    drop(endless);
    for stream in waiting {
        let answer = answer(stream);
        assert_eq!(status(&answer), "200", "{answer}");
    }
    let lines = BufReader::new(tail).lines().map_while(Result::ok);
    let mut events = lines.filter(|line| line.starts_with("data: "));
    assert!(events.next().is_some());
}

#[test]
fn one_client_has_half_of_the_tails() {
    let home = Home::new();
    let (server, _, [one, other]) = server(&home, &[("LOGMILL_SERVER__TAILS_MAX", "4")]);
    let follow = |token: &str| {
        let stream = send(&server, 1, "GET /api/v1/tail?stream=web", token, ("", 0));
        let mut begun = String::new();
        let mut lines = BufReader::new(stream.try_clone().expect("a socket"));
        lines.read_line(&mut begun).expect("an answer");
        (stream, status(&begun).to_owned())
    };
    let held = [follow(&one), follow(&one)];
    assert!(held.iter().all(|(_, status)| status == "200"));
    assert_eq!(follow(&one).1, "429");
    let refused = get(&server, 1, "/api/v1/tail?stream=web", &one);
    assert!(refused.contains("share of 2 tails"), "{refused}");
    let others = [follow(&other), follow(&other)];
    assert!(others.iter().all(|(_, status)| status == "200"));
    drop(held);
    until(|| follow(&one).1 == "200");
}

/// Returns the bytes of bodies under way.
fn body_bytes(server: &Server, admin: &str) -> usize {
    let text = get(server, 1, "/metrics", admin);
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("logmill_http_body_bytes "));
    value
        .and_then(|value| value.parse().ok())
        .expect("a number")
}

#[test]
fn one_client_has_half_of_the_bytes_of_bodies() {
    let home = Home::new();
    let limits = [
        ("LOGMILL_SERVER__BATCH_BYTES_MAX", "64KiB"),
        ("LOGMILL_SERVER__BODIES_BYTES_MAX", "128KiB"),
        ("LOGMILL_SERVER__BODY_TIME_MAX", "60s"),
    ];
    let (server, admin, _) = server(&home, &limits);
    let [one, other] = ["shipper", "backup"].map(|name| token(&home, name, "ingest"));
    let event = line("203.0.113.1", PAST_S, "/", 200, 10);
    let whole = event.repeat(60_000 / event.len());
    let ingest = "POST /api/v1/ingest/web";
    let begun = &whole[..whole.len() - 1];
    let held = send(&server, 1, ingest, &one, (begun, whole.len()));
    until(|| body_bytes(&server, &admin) == begun.len());
    // The announced length is enough to refuse it.
    let refused = answer(send(&server, 1, ingest, &one, ("", whole.len())));
    assert_eq!(status(&refused), "429", "{refused}");
    assert!(refused.contains("bytes of bodies under way"), "{refused}");
    let others = answer(post(&server, "/api/v1/ingest/web", &other, &whole));
    assert_eq!(status(&others), "200", "{others}");
    drop(held);
    until(|| body_bytes(&server, &admin) == 0);
    let again = answer(post(&server, "/api/v1/ingest/web", &one, &whole));
    assert_eq!(status(&again), "200", "{again}");
}

#[test]
fn one_client_parses_its_share_and_neither_another_nor_a_short_body_waits_for_it() {
    let home = Home::new();
    // One of the places where bodies of a length are parsed.
    let (server, admin, _) = server(&home, &[("LOGMILL_SERVER__CLIENT_SHARE", "0.1")]);
    let [one, other] = ["shipper", "backup"].map(|name| token(&home, name, "ingest"));
    let event = line("203.0.113.1", PAST_S, "/", 200, 10);
    let of_bytes = |bytes: usize| event.repeat(bytes / event.len());
    let (large, long) = (of_bytes(16 << 20), of_bytes(512 << 10));
    let ingest = |token: &str, body: &str| post(&server, "/api/v1/ingest/web", token, body);
    let seq = |stream: TcpStream| {
        let answer = answer(stream);
        assert_eq!(status(&answer), "200", "{answer}");
        let first = json(&answer)["first_seq"].as_u64();
        first.expect("a number")
    };
    let parsed = ingest(&one, &large);
    until(|| body_bytes(&server, &admin) >= large.len());
    let (next, short, others) = (
        ingest(&one, &long),
        ingest(&one, &event),
        ingest(&other, &event),
    );
    let (parsed, next) = (seq(parsed), seq(next));
    let (short, others) = (seq(short), seq(others));
    assert!(short < parsed, "the short one waited: {short} {parsed}");
    assert!(others < parsed, "the other waited: {others} {parsed}");
    assert!(next > parsed, "it took a second place: {next} {parsed}");
    // The place of a client that goes is free when its body is parsed.
    for _ in 0..3 {
        drop(ingest(&one, &event.repeat(10_000)));
    }
    seq(ingest(&one, &event));
    seq(ingest(&one, &long));
}

#[test]
fn too_many_probes_and_requests_wait_and_no_probe_is_refused() {
    let home = Home::new();
    let (server, _, _) = server(&home, &[]);
    // More in one write than an address may send in a second.
    let number = 1000;
    let probe = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    let last = probe.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let mut stream = connect(&server, 2);
    let began = Instant::now();
    let all = probe.repeat(number - 1) + &last;
    let mut into = stream.try_clone().expect("a socket");
    let sent = std::thread::spawn(move || {
        // The server reads no further while a request waits.
        let _ignored = into.write_all(all.as_bytes());
    });
    let mut answers = BufReader::new(&mut stream).lines().map_while(Result::ok);
    let mut answered = 0;
    while began.elapsed() < Duration::from_secs(2)
        && let Some(line) = answers.next()
    {
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            assert!(rest.starts_with("200"), "{rest}");
            answered += 1;
        }
    }
    assert!((150..number).contains(&answered), "{answered} answers");
    assert_eq!(status(&get(&server, 3, "/health", "")), "200");
    drop(answers);
    let _ignored = stream.shutdown(std::net::Shutdown::Both);
    sent.join().expect("it ends");
}
