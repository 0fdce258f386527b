//! Fair shares: a client that takes all that it can get leaves the others theirs.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use serde_json::Value;

use crate::support::{Home, PAST_S, PATIENCE, Server, command, line};

fn token(home: &Home, name: &str, role: &str) -> String {
    let mut create = command();
    create.args(["token", "create", name, "--role", role, "--output", "json"]);
    let output = create.args(["--data", &home.data]).output();
    let created: Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    created["token"].as_str().expect("a token").to_owned()
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

/// Sends a request that closes its connection; returns the whole answer, or nothing when the
/// server has closed it before.
fn ask(mut stream: TcpStream, target: &str, token: &str) -> String {
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n",
        stream.peer_addr().expect("connected")
    );
    let mut answer = String::new();
    // A connection that is closed at once breaks either of the two.
    let _ignored = stream.write_all(request.as_bytes());
    let _ignored = stream.read_to_string(&mut answer);
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("closed")
}

#[test]
fn a_flood_of_requests_is_slowed_for_its_address_and_its_account_alone() {
    let home = Home::new();
    let per_second = [("LOGMILL_SERVER__CLIENT_REQUESTS_PER_SECOND", "20")];
    let server = Server::start_with(&home.data, &per_second);
    server.ingest("web", line("203.0.113.1", PAST_S, "/", 200, 10));
    let (one, other) = (token(&home, "one", "read"), token(&home, "other", "read"));
    let streams = |from, token: &str| ask(connect(&server, from), "/api/v1/streams", token);
    let answers: Vec<_> = (0..60).map(|_| streams(2, &one)).collect();
    let slowed = answers.iter().find(|answer| status(answer) == "429");
    let slowed = slowed.unwrap_or_else(|| panic!("nothing was slowed: {answers:?}"));
    assert!(slowed.contains("retry-after: 1\r\n"), "{slowed}");
    assert!(slowed.contains("share of 20 requests a second"), "{slowed}");
    assert_eq!(status(&answers[0]), "200");
    // The account is slowed elsewhere too; the address is for others; anyone else is not.
    assert_eq!(status(&streams(3, &one)), "429");
    assert_eq!(status(&streams(2, &other)), "429");
    assert_eq!(status(&streams(4, &other)), "200");
    // Failed logins are requests as well, and probes are none.
    let failed: Vec<_> = (0..60).map(|_| streams(5, "lm_wrong")).collect();
    assert!(failed.iter().any(|answer| status(answer) == "429"));
    let probes = (0..60).map(|_| ask(connect(&server, 5), "/health", ""));
    assert!({ probes }.all(|answer| status(&answer) == "200"));
}

#[test]
fn one_address_has_half_of_the_connections() {
    let home = Home::new();
    let few = [("LOGMILL_SERVER__CONNECTIONS_MAX", "8")];
    let server = Server::start_with(&home.data, &few);
    let reader = token(&home, "reader", "read");
    let idle: Vec<_> = (0..4).map(|_| connect(&server, 2)).collect();
    // Their requests come after the server has accepted them.
    let until = std::time::Instant::now() + PATIENCE;
    let beyond = loop {
        let answer = ask(connect(&server, 2), "/api/v1/streams", &reader);
        if status(&answer) == "429" || std::time::Instant::now() > until {
            break answer;
        }
    };
    assert!(beyond.contains("share of connections"), "{beyond}");
    assert_eq!(status(&ask(connect(&server, 2), "/health", "")), "200");
    for _ in 0..20 {
        let other = ask(connect(&server, 3), "/api/v1/streams", &reader);
        assert_eq!(status(&other), "200", "{other}");
    }
    drop(idle);
    let until = std::time::Instant::now() + PATIENCE;
    while status(&ask(connect(&server, 2), "/api/v1/streams", &reader)) != "200" {
        assert!(
            std::time::Instant::now() < until,
            "the connections count still"
        );
    }
}
