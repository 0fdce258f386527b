//! A server that is stopped by a signal: requests under way are finished, everything is sealed,
//! the store is closed. A second signal does not wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::process::Signal;

use crate::support::{
    Home, Ledger, Outcome, PAST_S, PATIENCE, Server, line, run, seed, write_until_gone,
};

const WRITERS: [(&str, &str); 4] = [
    ("a", "w=1"),
    ("b", "j=true"),
    ("c", "w=1"),
    ("d", "w=majority"),
];

#[test]
fn a_server_that_is_told_to_stop_seals_what_it_acknowledged() {
    let mut random = SmallRng::seed_from_u64(seed());
    for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
        let home = Home::new();
        let mut server = Server::start(&home.data);
        let mut ledger = Ledger::begin(&server, &mut random);
        let seeds: [u64; 4] = random.random();
        let after = Duration::from_millis(random.random_range(50..500));
        std::thread::scope(|scope| {
            let server = &server;
            let writers: Vec<_> = std::iter::zip(WRITERS, seeds)
                .map(|((name, concern), seed)| {
                    scope.spawn(move || write_until_gone(server, name, concern, seed, &[]))
                })
                .collect();
            std::thread::sleep(after);
            server.signal(signal);
            for writer in writers {
                ledger.batches.extend(writer.join().expect("a writer"));
            }
        });
        assert_eq!(server.ended(PATIENCE), 0, "{}", server.log());
        assert!(ledger.acknowledged() > WRITERS.len(), "nobody wrote");
        assert_closed(&home, &mut ledger);
    }
}

/// Checks that all events are in parts, and that the next start has nothing to recover.
#[track_caller]
fn assert_closed(home: &Home, ledger: &mut Ledger) {
    let total = ledger.assert_held(|query| home.sql(query));
    assert_eq!(home.number("SELECT sum(rows) FROM system.parts"), total);
    assert_eq!(home.number("SELECT sum(hits) FROM stats.yearly"), total);
    assert_eq!(home.number("SELECT sum(waiting) FROM system.rollups"), 0);
    let checked = run(&["check", &home.data]).code(0);
    assert!(
        checked.stdout.contains(" 0 differences"),
        "{}",
        checked.stdout
    );
    let last = home.number("SELECT max(_seq) FROM access");
    let server = Server::start(&home.data);
    let metrics = server.get("/metrics").status(200).text();
    assert!(metrics.contains("logmill_memtable_bytes 0\n"), "{metrics}");
    ledger.settle(&server);
    // After an unclean stop the numbers would skip ahead.
    let next = server.ingest(
        "access",
        line("203.0.113.1", PAST_S, "/batch/next/0", 200, 1),
    );
    let settled = ledger.batches.iter().map(|b| match b.outcome {
        Outcome::Acknowledged(last_seq) => last_seq,
        Outcome::Refused | Outcome::Unknown => 0,
    });
    let last = settled.max().unwrap_or(0).max(last);
    assert_eq!(next["first_seq"], last + 1);
}

/// A request of which the server has got the first half.
struct Half {
    socket: TcpStream,
    rest: Vec<u8>,
}

impl Half {
    fn send(server: &Server) -> Self {
        let body = line("203.0.113.1", PAST_S, "/half/0", 200, 1).into_bytes();
        let mut socket = TcpStream::connect(&server.address).expect("the server listens");
        let head = format!(
            "POST /api/v1/ingest/access?j=true HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            server.address,
            body.len()
        );
        let (first, rest) = body.split_at(body.len() / 2);
        socket.write_all(head.as_bytes()).expect("the head is sent");
        socket.write_all(first).expect("the first half is sent");
        let rest = rest.to_vec();
        Self { socket, rest }
    }

    /// Waits until the server has read everything sent: nothing lies in the queue of its socket.
    fn is_read(&self) {
        let of = |address: std::io::Result<SocketAddr>| address.expect("connected").port();
        let (server, ours) = (of(self.socket.peer_addr()), of(self.socket.local_addr()));
        await_that("the server reads", || {
            let sockets = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
            sockets.lines().any(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let port = |at: usize| fields.get(at).and_then(|f| f.split_once(':')).map(|f| f.1);
                let queue = fields.get(4).and_then(|f| f.split_once(':')).map(|f| f.1);
                port(1) == Some(&format!("{server:04X}"))
                    && port(2) == Some(&format!("{ours:04X}"))
                    && queue == Some("00000000")
            })
        });
    }

    fn finish(mut self) -> String {
        self.socket
            .write_all(&self.rest)
            .expect("the server reads on");
        let mut answer = String::new();
        self.socket
            .read_to_string(&mut answer)
            .expect("the server answers and closes");
        answer
    }
}

#[track_caller]
fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a signal was delivered: of two pending ones, one would be lost.
#[track_caller]
fn hears(server: &Server) {
    let status = format!("/proc/{}/status", server.pid());
    await_that("the server hears the signal", || {
        let status = std::fs::read_to_string(&status).expect("it is there");
        let mut waiting = status.lines().filter_map(|line| {
            let set = line
                .strip_prefix("SigPnd:")
                .or(line.strip_prefix("ShdPnd:"));
            set.map(str::trim)
        });
        waiting.all(|set| set.chars().all(|digit| digit == '0'))
    });
}

#[test]
fn a_request_under_way_is_finished_before_the_server_ends() {
    let home = Home::new();
    let mut server = Server::start(&home.data);
    let half = Half::send(&server);
    half.is_read();
    server.signal(Signal::TERM);
    hears(&server);
    assert!(!server.is_gone(), "a request is under way");
    let answer = half.finish();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(server.ended(PATIENCE), 0, "{}", server.log());
    assert_eq!(home.number("SELECT sum(rows) FROM system.parts"), 1);
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = Home::new();
        let mut server = Server::start(&home.data);
        server.ingest("access", line("203.0.113.1", PAST_S, "/", 200, 1));
        let half = Half::send(&server);
        half.is_read();
        server.signal(signal);
        hears(&server);
        assert!(!server.is_gone(), "a request is under way");
        // The server does not wait for the other half, which never comes.
        server.signal(signal);
        assert_eq!(server.ended(PATIENCE), 130);
        drop(half);
        // As after a kill: nothing is lost.
        assert_eq!(
            Server::start(&home.data).number("SELECT count(*) FROM access"),
            1
        );
    }
}
