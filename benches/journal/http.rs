//! Group commit through the real server: clients on connections that stay open, one line each time.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::commit::{CLIENTS, HEADER, Served, print_ratios};
use crate::machine::Account;
use crate::program::Server;
use crate::{Settings, events};

const EVENTS: usize = 4096;

/// Runs the rounds.
pub(crate) fn measure(s: &Settings) {
    let lines = events::lines(&s.logmill, EVENTS);
    let requests = requests(&lines, true);
    println!("{HEADER}  cores: http log sync all");
    let mut rounds = Vec::new();
    for _ in 0..s.rounds {
        let round = CLIENTS.map(|clients| {
            let mut served = serve(s, requests, clients);
            println!(
                "{} {:>12.2} {:.2} {:.2} {:.2}",
                served.columns(),
                served.spent.of("tokio-rt-worker"),
                served.spent.of("logmill-log"),
                served.spent.of("logmill-sync"),
                served.spent.cores,
            );
            served.per_second()
        });
        rounds.push(round.to_vec());
    }
    print_ratios(&rounds);
}

/// Makes requests with one line each. They are never freed, so that the task of every client may
/// read them.
pub(crate) fn requests(lines: &[Vec<u8>], j: bool) -> &'static [Vec<u8>] {
    let request = |line: &Vec<u8>| {
        let head = format!(
            "POST /api/v1/ingest/{}?format=combined&j={j} HTTP/1.1\r\nhost: bench\r\ncontent-length: {}\r\n\r\n",
            events::STREAM,
            line.len()
        );
        [head.as_bytes(), line].concat()
    };
    lines.iter().map(request).collect::<Vec<_>>().leak()
}

fn serve(s: &Settings, requests: &'static [Vec<u8>], clients: usize) -> Served {
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let server = Server::start(&s.logmill, &temporary.path().join("store"), &[]);
    // The first requests make the stream, which costs syncs of its own.
    drive(&server, requests, 1, Duration::from_millis(100));
    let account = Account::open(&server.process().to_string());
    let times = drive(&server, requests, clients, s.time);
    let spent = account.close();
    Served {
        clients,
        times,
        spent,
    }
}

/// Sends requests for a time and returns the duration of each. All clients live in one thread:
/// 256 of them would compete with the server for the cores.
pub(crate) fn drive(
    server: &Server,
    requests: &'static [Vec<u8>],
    clients: usize,
    time: Duration,
) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let until = Instant::now() + time;
        let tasks = (0..clients).map(|i| client(server.address.clone(), requests, i, until));
        tasks.collect::<JoinSet<_>>().join_all().await.concat()
    })
}

async fn client(
    address: String,
    requests: &[Vec<u8>],
    first: usize,
    until: Instant,
) -> Vec<Duration> {
    let mut socket = TcpStream::connect(address).await.expect("connected");
    socket.set_nodelay(true).expect("small requests at once");
    let mut times = Vec::new();
    let mut answer = Vec::with_capacity(4096);
    for request in requests.iter().cycle().skip(first) {
        let began = Instant::now();
        if began >= until {
            break;
        }
        socket.write_all(request).await.expect("sent");
        answer.clear();
        while !is_whole(&answer) {
            let read = socket.read_buf(&mut answer).await.expect("received");
            assert!(read > 0, "the server closed the connection");
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "refused");
        times.push(began.elapsed());
    }
    times
}

/// Returns whether an answer has come to the end that its head announces.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "));
    let length: usize = length.and_then(|l| l.parse().ok()).expect("a length");
    body.len() >= length
}
