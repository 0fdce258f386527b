//! Several servers that answer one question: their states, their tokens, and a peer that is gone.

pub(crate) mod follow;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Answer, Home, PAST_S, PATIENCE, Server, command, import, line, run};

/// Events of the three stores: those of the first peer, of the second, and of the server between.
const EVENTS: [usize; 3] = [5, 7, 11];
const ALL: u64 = 23;
const COUNT: &str = "SELECT count(*) AS n FROM access";
const STATES: &str = "/api/v1/cluster/snapshots";
/// Time in which a peer that does not answer is told: 800 ms, and more for a machine that is busy
/// with other tests. `--bench cluster` measures it.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// Returns the variable that names peers.
fn named(urls: &[&str]) -> (&'static str, String) {
    ("LOGMILL_CLUSTER__PEERS", json!(urls).to_string())
}

/// Counts the events of all stores.
#[track_caller]
fn count(server: &Server) -> u64 {
    let told = patiently(|| server.post("/api/v1/sql", &[], COUNT.as_bytes()));
    told["rows"][0]["n"].as_u64().expect("a count")
}

fn lines_of(store: usize) -> String {
    let path = format!("/of/{store}");
    line("203.0.113.1", PAST_S, &path, 200, 10).repeat(EVENTS[store])
}

/// A server and its two peers.
struct Three {
    first: Server,
    second: Server,
    front: Server,
    _homes: [Home; 3],
}

fn three() -> Three {
    let homes = [Home::new(), Home::new(), Home::new()];
    let first = Server::start(&homes[0].data);
    let second = Server::start(&homes[1].data);
    let front = Server::start_over(&homes[2].data, &[&first.url, &second.url]);
    for (store, server) in [&first, &second, &front].into_iter().enumerate() {
        server.ingest("access", lines_of(store));
    }
    Three {
        first,
        second,
        front,
        _homes: homes,
    }
}

/// Returns the number of states that a server holds for others.
fn held(server: &Server) -> u64 {
    let metrics = server.get("/metrics").status(200).text();
    let mut values = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("logmill_cluster_snapshots "));
    let value = values.next().and_then(|n| n.parse().ok());
    value.expect("a gauge of states")
}

#[track_caller]
fn wait_until_nothing_is_held(server: &Server) {
    let until = Instant::now() + PATIENCE;
    while held(server) > 0 {
        assert!(Instant::now() < until, "states are not given back");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a query that fails for want of a peer; returns the message.
#[track_caller]
fn refused(server: &Server, query: &str) -> String {
    let answer = server.post("/api/v1/sql", &[], query.as_bytes());
    let said = answer.status(503).json();
    assert_eq!(said["error"]["code"], "unavailable", "{said}");
    let hint = said["error"]["hint"].as_str().expect("a hint");
    assert!(hint.contains("partial=1"), "{hint}");
    said["error"]["message"]
        .as_str()
        .expect("a message")
        .to_owned()
}

/// Returns an answer without one peer. On a busy machine others may be late.
#[track_caller]
fn partial(server: &Server, query: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = server.post("/api/v1/sql?partial=1", &[], query.as_bytes());
        let answer = answer.status(200).json();
        let missing = answer["stats"]["incomplete"].as_array().map(Vec::len);
        if missing == Some(1) || Instant::now() > until {
            return answer;
        }
    }
}

/// Sends a query until it fails for a reason; returns the message. On a busy machine a peer may be
/// late, which is a reason, too.
#[track_caller]
fn refused_for(server: &Server, said: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let told = refused(server, COUNT);
        let is_late = told.contains("it does not answer");
        if told.contains(said) || !is_late || Instant::now() > until {
            assert!(told.contains(said), "{told}");
            return told;
        }
    }
}

#[track_caller]
fn token(home: &Home, name: &str, role: &str, more: &[&str]) -> String {
    let args = ["token", "create", name, "--role", role, "--output", "json"];
    let args = [&args[..], &["--data", &home.data], more].concat();
    let created = run(&args).code(0).json();
    created["token"].as_str().expect("a token").to_owned()
}

fn ask(server: &Server, method: &str, target: &str, token: &str) -> (u16, String) {
    server.raw(&format!(
        "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        server.address
    ))
}

#[test]
fn a_question_reads_the_stores_of_all_peers_and_gives_their_states_back() {
    let all = three();
    for is_sealed in [false, true] {
        if is_sealed {
            for server in [&all.first, &all.second, &all.front] {
                server.seal();
            }
        }
        assert_eq!(count(&all.front), ALL);
        assert_eq!(count(&all.first), 5, "a peer asks its own store");
        let paths = all
            .front
            .sql("SELECT path, count(*) AS n FROM access GROUP BY path ORDER BY path");
        let expected = json!([
            { "path": "/of/0", "n": 5 },
            { "path": "/of/1", "n": 7 },
            { "path": "/of/2", "n": 11 },
        ]);
        assert_eq!(Value::from(paths), expected);
    }
    let more = lines_of(0);
    all.first.ingest("access", &more);
    assert_eq!(count(&all.front), ALL + 5);
    for peer in [&all.first, &all.second] {
        wait_until_nothing_is_held(peer);
    }
    assert_eq!(held(&all.front), 0, "nobody asks the server between");
}

/// Returns an answer of status 200. On a busy machine a peer may be late.
#[track_caller]
fn patiently(ask: impl Fn() -> Answer) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = ask();
        if answer.status != 503 || Instant::now() > until {
            return answer.status(200).json();
        }
    }
}

#[test]
fn levels_and_logql_read_all_stores() {
    let all = three();
    all.first.seal();
    let level = b"SELECT sum(hits) AS n, max(bytes) AS b FROM stats.daily";
    let told = patiently(|| all.front.post("/api/v1/sql", &[], level));
    assert_eq!(told["rows"], json!([{ "n": ALL, "b": 110 }]));
    let counted = format!(
        "/loki/api/v1/query?time={}&query=sum(count_over_time(%7Bstream%3D%22access%22%7D%5B1h%5D))",
        PAST_S + 60
    );
    let told = patiently(|| all.front.get(&counted));
    assert_eq!(told["data"]["result"][0]["value"][1], "23");
}

#[test]
fn lists_and_system_tables_have_what_all_stores_have() {
    let all = three();
    all.second.ingest("other", lines_of(1));
    let garbage = b"no line of an access log";
    let kept = all.second.post("/api/v1/ingest/access", &[], garbage);
    assert_eq!(kept.status(400).json()["quarantined"], 1);
    let listed = patiently(|| all.front.get("/api/v1/streams"));
    let listed = listed.as_array().expect("a list");
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(listed[0]["name"], "access");
    assert_eq!(listed[0]["events"], ALL);
    assert_eq!(
        listed[0]["rollups"],
        json!(["stats", "traffic"]),
        "{listed:?}"
    );
    let fields = patiently(|| all.front.get("/api/v1/streams/other/schema"));
    assert_eq!(fields["events"], EVENTS[1], "{fields}");
    let names = fields["fields"].as_array().expect("fields").iter();
    let mut hosts = names.filter(|field| field["name"] == "host");
    assert_eq!(hosts.next().expect("a column")["values"], EVENTS[1]);
    for (path, of_second) in [
        ("/api/v1/rollups", "other"),
        ("/api/v1/quarantine", "access"),
    ] {
        let rows = patiently(|| all.front.get(path));
        let rows = rows.as_array().expect("a list");
        assert!(
            rows.iter().any(|row| row["stream"] == of_second),
            "{rows:?}"
        );
    }
    let waiting = b"SELECT server FROM system.quarantine WHERE state = 'waiting'";
    let told = patiently(|| all.front.post("/api/v1/sql", &[], waiting));
    assert_eq!(told["rows"], json!([{ "server": all.second.url }]));

    // Tables of the server itself do not ask the others.
    all.first.kill_now();
    all.second.kill_now();
    all.front.get("/api/v1/queries").status(200);
    assert_eq!(all.front.number("SELECT count(*) FROM system.queries"), 1);
    let told = refused(&all.front, "SELECT count(*) FROM system.streams");
    assert!(told.contains(&all.first.address), "{told}");
    for path in ["/api/v1/streams", "/api/v1/partitions", "/api/v1/rollups"] {
        all.front.get(path).status(503);
    }
}

#[test]
fn a_peer_that_was_killed_is_named_and_left_out_of_a_partial_answer() {
    let all = three();
    assert_eq!(count(&all.front), ALL);
    all.first.kill_now();
    let began = Instant::now();
    let told = refused(&all.front, COUNT);
    assert!(began.elapsed() < TOLD_WITHIN, "{:?}", began.elapsed());
    assert!(told.contains(&all.first.address), "{told}");
    assert!(!told.contains(&all.second.address), "{told}");
    let answer = partial(&all.front, COUNT);
    assert_eq!(answer["rows"], json!([{ "n": 18 }]));
    let missing = &answer["stats"]["incomplete"];
    assert_eq!(missing, &json!([all.first.url]));
    // Nothing of a question that failed stays behind.
    wait_until_nothing_is_held(&all.second);
}

#[test]
fn a_peer_that_hangs_is_named_in_time() {
    let all = three();
    assert_eq!(count(&all.front), ALL);
    all.second.signal(Signal::STOP);
    let began = Instant::now();
    let told = refused(&all.front, COUNT);
    assert!(began.elapsed() < TOLD_WITHIN, "{:?}", began.elapsed());
    // On a busy machine the other peer may be late, too, and at any moment of the question.
    let said = |peer: &Server| told.starts_with(&format!("peer {}: it does not answer", peer.url));
    assert!(said(&all.second) || said(&all.first), "{told}");
    all.second.signal(Signal::CONT);
    assert_eq!(count(&all.front), ALL);
    // The states that were told too late are given back as well.
    wait_until_nothing_is_held(&all.second);
}

#[test]
fn a_peer_gets_the_token_of_the_configuration_and_answers_within_its_rights() {
    let (home, front) = (Home::new(), Home::new());
    let peer = Server::start(&home.data);
    peer.ingest("access", lines_of(0));
    peer.ingest("hidden", lines_of(1));
    let reader = token(&home, "reader", "read", &["--stream", "access"]);
    let sender = token(&home, "sender", "ingest", &[]);
    let other = token(&front, "other", "read", &[]);
    let served = |token: Option<&str>| {
        let (peers, url) = named(&[&peer.url]);
        let mut environment = vec![(peers, url)];
        let file = token.map(|token| front.file("token", token));
        environment.extend(file.map(|file| ("LOGMILL_CLUSTER__TOKEN_FILE", file)));
        let environment: Vec<_> = environment.iter().map(|(k, v)| (*k, &**v)).collect();
        let server = Home::new();
        (Server::start_with(&server.data, &environment), server)
    };
    // A tail of a peer, too: of another stream it finds none.
    let header = format!("Bearer {reader}");
    for stream in ["hidden", "nothing"] {
        let choice = json!({ "stream": stream, "follow": { "where": null }, "agreed": null });
        let headers = [("Authorization", header.as_str())];
        let told = peer.post(
            "/api/v1/cluster/tail",
            &headers,
            choice.to_string().as_bytes(),
        );
        told.status(404);
    }
    for (token, said) in [
        (None, "it answered 401 Unauthorized: "),
        (Some(&*other), "it answered 401 Unauthorized: "),
        (Some(&*sender), "it answered 403 Forbidden: "),
    ] {
        let (server, _home) = served(token);
        let told = refused_for(&server, said);
        assert!(told.contains(&peer.url), "{told}");
        assert!(token.is_none_or(|token| !told.contains(token)), "{told}");
    }
    let (server, _home) = served(Some(&reader));
    assert_eq!(count(&server), 5);
    let hidden = server.post("/api/v1/sql", &[], b"SELECT * FROM hidden");
    hidden.status(400);
    for server in [&server, &peer] {
        assert!(!server.log().contains(&reader), "a token is in the log");
    }
}

#[test]
fn each_peer_gets_a_token_of_its_own_store() {
    let (home, other, front) = (Home::new(), Home::new(), Home::new());
    let peers = [Server::start(&home.data), Server::start(&other.data)];
    let mut tokens = String::new();
    for (store, (peer, home)) in peers.iter().zip([&home, &other]).enumerate() {
        peer.ingest("access", lines_of(store));
        let token = token(home, "front", "read", &[]);
        tokens += &format!("{} {token}\n", peer.url);
    }
    let file = front.file("tokens", tokens);
    let (name, urls) = named(&[&peers[0].url, &peers[1].url]);
    let environment = [(name, &*urls), ("LOGMILL_CLUSTER__TOKEN_FILE", &*file)];
    let server = Server::start_with(&front.data, &environment);
    assert_eq!(count(&server), 12);
}

#[test]
fn a_client_of_some_streams_sees_no_others_of_the_peers() {
    let (home, front) = (Home::new(), Home::new());
    let peer = Server::start(&home.data);
    peer.ingest("access", lines_of(0));
    peer.ingest("db", lines_of(1));
    let server = Server::start_over(&front.data, &[&peer.url]);
    let scoped = token(&front, "scoped", "read", &["--stream", "acc*"]);
    let header = format!("Authorization: Bearer {scoped}");
    assert_eq!(server.sql_as(&header, COUNT), json!([{ "n": 5 }]));
    let bearer = format!("Bearer {scoped}");
    let headers = [("Authorization", bearer.as_str())];
    let hidden = server.post("/api/v1/sql", &headers, b"SELECT * FROM db");
    let told = hidden.status(400).text();
    assert!(told.contains("not found"), "{told}");
}

#[test]
fn a_state_belongs_to_its_account() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access", lines_of(0));
    let ann = token(&home, "ann", "read", &[]);
    let bob = token(&home, "bob", "read", &[]);
    let (status, told) = ask(&server, "POST", STATES, &ann);
    assert_eq!(status, 200, "{told}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let state = told["token"].as_str().expect("a token");
    assert!(state.len() >= 22, "128 bits: {state}");
    assert_eq!(told["store"].as_str().map(str::len), Some(32));
    assert!(told["tables"]["streams"]["access"].is_object(), "{told}");
    let requests = format!("/api/v1/cluster/requests?snapshot={state}");
    let given_back = format!("{STATES}/{state}");
    for (method, target) in [("POST", &requests), ("DELETE", &given_back)] {
        let (status, told) = ask(&server, method, target, &bob);
        assert_eq!(status, 404, "{method} {target}: {told}");
        assert!(told.contains("another account's"), "{told}");
    }
    assert_eq!(ask(&server, "POST", &requests, &ann).0, 200);
    assert_eq!(ask(&server, "DELETE", &given_back, &ann).0, 200);
    for (method, target) in [("POST", &requests), ("DELETE", &given_back)] {
        assert_eq!(ask(&server, method, target, &ann).0, 404, "{target}");
    }
}

#[test]
fn the_states_of_an_account_and_the_bytes_of_a_request_are_bounded() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let hold = || -> Answer { server.post(STATES, &[], b"") };
    let mut last = String::new();
    for _ in 0..256 {
        let told = hold().status(200).json();
        told["token"]
            .as_str()
            .expect("a token")
            .clone_into(&mut last);
    }
    assert_eq!(held(&server), 256);
    let told = hold().status(429);
    assert_eq!(told.json()["error"]["code"], "too_many_requests");
    assert!(!told.header("retry-after").is_empty());
    let request = format!("/api/v1/cluster/requests?snapshot={last}");
    let long = vec![0; (16 << 20) + 1];
    server.post(&request, &[], &long).status(413);
    server.delete(&format!("{STATES}/{last}")).status(200);
    assert_eq!(held(&server), 255);
    hold().status(200);
}

#[test]
fn a_peer_that_serves_the_store_of_another_does_not_count_twice() {
    let (home, other) = (Home::new(), Home::new());
    let peer = Server::start(&other.data);
    peer.ingest("access", lines_of(0));
    let reading = Server::start_reading(&other.data);
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = unused.local_addr().expect("an address").to_string();
    drop(unused);
    let own = format!("http://{address}");
    let (name, urls) = named(&[&own, &peer.url]);
    let server = Server::start_at(&home.data, &address, &[(name, &urls)]);
    server.ingest("access", lines_of(2));
    let said = format!("peer {own}: it serves the same store as this server");
    refused_for(&server, &said);
    assert_eq!(partial(&server, COUNT)["rows"], json!([{ "n": 16 }]));
    server.stop();
    let server = Server::start_over(&home.data, &[&peer.url, &reading.url]);
    let said = format!(
        "peer {}: it serves the same store as {}",
        reading.url, peer.url
    );
    refused_for(&server, &said);
    assert_eq!(partial(&server, COUNT)["rows"], json!([{ "n": 16 }]));
}

#[test]
fn a_peer_is_asked_over_tls_and_only_if_it_is_trusted() {
    let (home, front) = (Home::new(), Home::new());
    let out = home.path("tls");
    run(&["tls", "self-signed", "--out", &out, "--name", "127.0.0.1"]).code(0);
    let (cert, key) = (format!("{out}/cert.pem"), format!("{out}/key.pem"));
    let peer = Server::start_with(
        &home.data,
        &[("LOGMILL_TLS__CERT", &cert), ("LOGMILL_TLS__KEY", &key)],
    );
    let file = home.file("access.log", lines_of(0));
    import(&["--server", &peer.url, "--ca-file", &cert], &file, &[]);
    let (name, urls) = named(&[&peer.url]);
    let server = Server::start_with(&front.data, &[(name, &urls)]);
    refused_for(&server, "certificate");
    server.stop();
    let trusted = [(name, &*urls), ("LOGMILL_CLUSTER__CA_FILE", &cert)];
    let server = Server::start_with(&front.data, &trusted);
    assert_eq!(count(&server), 5);
}

#[test]
fn wrong_peers_are_told_at_the_start() {
    let home = Home::new();
    let serve = |peer: &str| run(&["serve", &home.data, "--peer", peer]);
    for (peer, said) in [
        ("127.0.0.1:7070", "write it as http://host:7070"),
        ("http://a:1/path", "write it as http://host:7070"),
        ("http://ann:secret@a:1", "leave user and password out"),
    ] {
        let told = serve(peer).code(2).stderr;
        assert!(told.contains("--peer: "), "{told}");
        assert!(told.contains(said), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
    let missing = home.path("missing");
    let empty = home.file("empty", "");
    for (name, value, said) in [
        ("PEERS", "[\"a:1\"]", "[cluster] peers: "),
        ("TOKEN_FILE", &*missing, "[cluster] token_file = "),
        ("TOKEN_FILE", &*empty, "the file holds no token"),
        ("CA_FILE", &*missing, "not readable"),
        ("CA_FILE", &*empty, "not a certificate in PEM"),
        ("REPLICAS", "3", "reserved for stores of several nodes"),
    ] {
        let mut command = command();
        let args = ["serve", &home.data, "--http", "127.0.0.1:0"];
        command
            .args(args)
            .args(["--postgres", "off", "--peer", "http://a:1"])
            .env(format!("LOGMILL_CLUSTER__{name}"), value);
        let told = crate::support::finish(&mut command, &[]).code(78).stderr;
        assert!(told.contains(said), "{name}={value}: {told}");
    }
}
