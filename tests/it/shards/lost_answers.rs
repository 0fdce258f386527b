//! Answers of a shard that are lost on their way: it has stored its part, or has begun to answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::json;

use super::{ShardedServers, own_events, patiently, post, send};
use crate::support::{PAST_S, line};

/// A way to a server on which answers to requests to one path can be lost.
struct LossyWay {
    url: String,
    /// The number of answers that are still to be lost.
    to_lose: Arc<AtomicU64>,
}

impl LossyWay {
    fn to(server: &str, path: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        // A server knows its own address, and is told this name.
        let port = listener.local_addr().expect("an address").port();
        let url = format!("http://localhost:{port}");
        let to_lose = Arc::<AtomicU64>::default();
        let (server, lose) = (server.to_owned(), Arc::clone(&to_lose));
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection");
                let server = TcpStream::connect(&server).expect("the server listens");
                join(client, server, path, &lose);
            }
        });
        Self { url, to_lose }
    }

    fn lose(&self, answers: u64) {
        self.to_lose.store(answers, Ordering::SeqCst);
    }

    fn has_lost_all(&self) -> bool {
        self.to_lose.load(Ordering::SeqCst) == 0
    }
}

/// Joins both ends of a connection. When an answer is lost, the connection is.
fn join(client: TcpStream, server: TcpStream, path: &'static str, to_lose: &Arc<AtomicU64>) {
    let may_be_lost = Arc::<AtomicBool>::default();
    let copies = |stream: &TcpStream| stream.try_clone().expect("a socket");
    let (mut from_client, mut to_server) = (copies(&client), copies(&server));
    let asks = Arc::clone(&may_be_lost);
    thread::spawn(move || {
        let mut piece = [0; 1 << 16];
        while let Ok(count @ 1..) = from_client.read(&mut piece) {
            let text = String::from_utf8_lossy(&piece[..count]);
            let sent = text.strip_prefix("POST ").unwrap_or_default();
            if sent.starts_with(path) {
                asks.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _gone = to_server.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client, to_lose) = (server, client, Arc::clone(to_lose));
    thread::spawn(move || {
        let mut piece = [0; 1 << 16];
        while let Ok(count @ 1..) = from_server.read(&mut piece) {
            let less = |left: u64| left.checked_sub(1);
            let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
            let is_lost = may_be_lost.swap(false, Ordering::SeqCst)
                && to_lose.fetch_update(set, get, less).is_ok();
            if is_lost || to_client.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _gone = to_client.shutdown(Shutdown::Both);
    });
}

/// Puts such a way between the first server and the last one.
fn lossy(all: &mut ShardedServers, path: &'static str) -> LossyWay {
    let way = LossyWay::to(&all.addresses[2], path);
    all.stop(0);
    all.stop(2);
    let hosts_of = json!([way.url.trim_start_matches("http://")]).to_string();
    all.serve(2, &[("LOGMILL_SERVER__HOSTS", &hosts_of)]);
    let peers = json!([all.url(1), way.url]).to_string();
    all.serve(0, &[("LOGMILL_CLUSTER__PEERS", &peers)]);
    way
}

#[test]
fn a_part_whose_answer_was_lost_is_stored_once() {
    let mut all = ShardedServers::start(&[("access", "host"), ("places", "host")]);
    let hosts = all.hosts();
    let of = |shard: usize, at: i64| line(&hosts[shard][0], PAST_S + at, "/", 200, 10);
    let way = lossy(&mut all, "/api/v1/cluster/batches");
    let gateway = all.at(0);
    send(gateway, "access", "first", &(of(1, 0) + &of(2, 0)));

    // Without a key the server between asks again by itself.
    for (answers, at) in [(1, 1), (3, 2)] {
        way.lose(answers);
        for body in [of(2, at), of(0, at) + &of(1, at) + &of(2, at)] {
            let taken = patiently(|| gateway.post("/api/v1/ingest/access", &[], body.as_bytes()));
            assert_eq!(taken.status(200).json()["duplicate"], false);
            way.lose(answers);
        }
    }
    way.lose(0);
    assert_eq!(own_events(all.at(2), "access"), 1 + 4);
    assert_eq!(own_events(all.at(1), "access"), 1 + 2);

    // With one it says that it does not know, and its client asks again.
    let body = of(0, 3) + &of(1, 3) + &of(2, 3);
    for key in ["a key", "another key", "a third one"] {
        way.lose(1);
        let unknown = post(gateway, "access", key, &body).status(503).json();
        assert_eq!(unknown["error"]["code"], "unknown", "{unknown}");
        send(gateway, "access", key, &body);
        assert_eq!(send(gateway, "access", key, &body)["duplicate"], true);
    }
    assert_eq!(own_events(all.at(2), "access"), 5 + 3);
    assert_eq!(own_events(all.at(1), "access"), 3 + 3);
}

#[test]
fn a_question_is_asked_again_once_when_a_server_is_lost_before_its_first_rows() {
    let mut all = ShardedServers::start(&[("access", "host"), ("places", "host")]);
    let hosts = all.hosts();
    let way = lossy(&mut all, "/api/v1/cluster/requests");
    let of = |shard: usize| line(&hosts[shard][0], PAST_S, "/", 200, 10);
    send(all.at(0), "access", "first", &(of(0) + &of(1) + &of(2)));
    let ask = |to: &str, question: &str| all.at(0).post(to, &[], question.as_bytes());
    for (to, question) in [
        ("/api/v1/sql", "SELECT count(*) AS n FROM access"),
        (
            "/api/v1/sql?partial=1",
            "SELECT count(host) AS n FROM access",
        ),
    ] {
        let all_rows = json!([{ "n": 3 }]);
        let told = patiently(|| ask(to, question)).status(200).json();
        assert_eq!(told["rows"], all_rows);
        // On a busy machine a peer may be late for another reason.
        let is_asked_again = |_| {
            way.lose(1);
            let told = ask(to, question);
            told.status == 200 && told.json()["rows"] == all_rows && way.has_lost_all()
        };
        assert!((0..3).any(is_asked_again), "{question}");
        way.lose(2);
        let refused = ask(to, question).status(503).json();
        assert_eq!(refused["error"]["code"], "unavailable", "{refused}");
        way.lose(0);
    }
}
