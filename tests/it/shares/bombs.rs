//! Bodies that are decompressed in vain: their client rests behind each, over whatever connection
//! and route the next one comes.

use std::io::Write;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use super::token;
use crate::support::{Home, Server};

/// Bombs that are sent one after the other.
const BOMBS: usize = 5;
/// Least factor by which they take longer from one account than from as many accounts. Four rests
/// of nine times a bomb's own time come to seven times and more.
const SLOWER: u32 = 3;

/// Returns zeros beyond the limit of a body, in gzip.
fn bomb() -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let zeros = vec![0; 1 << 20];
    for _ in 0..129 {
        out.write_all(&zeros).expect("packed");
    }
    out.finish().expect("packed")
}

/// Sends a bomb of each of these accounts, each over a connection of its own. Returns how long all
/// took.
fn send<'a>(
    server: &Server,
    path: &str,
    tokens: impl Iterator<Item = &'a String>,
    bomb: &[u8],
) -> Duration {
    let began = Instant::now();
    for token in tokens {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", &*bearer),
            ("Content-Encoding", "gzip"),
            ("Connection", "close"),
        ];
        server.post(path, &headers, bomb).status(413);
    }
    began.elapsed()
}

#[test]
fn a_client_that_sends_bombs_rests_between_them_and_others_do_not() {
    let home = Home::new();
    let limit = [("LOGMILL_SERVER__BATCH_BYTES_MAX", "128MiB")];
    let server = Server::start_with(&home.data, &limit);
    let tokens = (0..=BOMBS).map(|n| token(&home, &format!("sender{n}"), "ingest"));
    let tokens: Vec<String> = tokens.collect();
    let (one, others) = tokens.split_first().expect("accounts");
    let bomb = bomb();
    let live = "/api/v1/ingest/web?format=combined";
    // A client has half of the places of live bodies, one of those of bulk requests.
    let cores = available_parallelism().map_or(1, usize::from);
    let paths = [
        Some(format!("{live}&bulk=true")),
        (cores < 4).then(|| live.to_owned()),
    ];
    for path in paths.into_iter().flatten() {
        let all = send(&server, &path, others.iter(), &bomb);
        let alone = send(&server, &path, std::iter::repeat_n(one, BOMBS), &bomb);
        println!("{path}: {all:?} from {BOMBS} accounts, {alone:?} from one");
        assert!(alone > all * SLOWER, "{path}: {alone:?}, {all:?}");
    }
}
