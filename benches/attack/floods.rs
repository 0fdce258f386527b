//! Many requests from few addresses: failed logins, requests, queries, and a pipeline.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt;

use super::door::attacker;
use super::house::ADMIN;
use super::http::{self, Answers};
use super::stage::{AGAIN, Stage};

/// Addresses from which passwords are tried.
const GUESSERS: usize = 16;
const PIPELINED: usize = 10_000;
/// Probes a second that the server answers to one address, and as many other requests.
const PIPED_A_SECOND: u64 = 2 * 250;

/// Wrong passwords of many users and of one that exists, wrong tokens and wrong cookies.
pub(crate) fn logins(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let number = stage.of(GUESSERS, 4 * GUESSERS);
        stage
            .all(number, |stage, which| async move {
                let from = attacker((which % GUESSERS) as u8);
                let guess = |turn: usize| guess(&stage.door.host(), which, turn);
                repeat(&stage, from, guess).await;
            })
            .await;
    })
}

/// Returns the request of one guess. Each is another one: a known password costs nothing.
fn guess(host: &str, which: usize, turn: usize) -> Vec<u8> {
    let basic = |user: &str| {
        let pair = BASE64_STANDARD.encode(format!("{user}:guess {which} {turn}"));
        format!("Authorization: Basic {pair}\r\n")
    };
    let header = match turn % 5 {
        0 => basic(&format!("user-{which}-{turn}")),
        1 => basic(ADMIN),
        2 => http::bearer(&format!("lm_{which:032}{turn:032}")),
        3 => format!("Cookie: logmill_session={which:032}{turn:032}\r\n"),
        _ => {
            let body = format!("{{\"user\":\"{ADMIN}\",\"password\":\"guess {which} {turn}\"}}");
            return http::request("POST /api/v1/login", host, "", body.as_bytes());
        }
    };
    http::request("GET /api/v1/streams", host, &header, b"")
}

/// Cheap requests with a valid token, from one address.
pub(crate) fn requests(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let number = stage.of(16, 64);
        let header = http::bearer(&stage.tokens.stolen_reader);
        let request = http::request("GET /api/v1/streams", &stage.door.host(), &header, b"");
        stage
            .all(number, |stage, _| {
                let request = request.clone();
                async move { repeat(&stage, attacker(0), |_| request.clone()).await }
            })
            .await;
    })
}

/// Queries with a valid token, from one address.
pub(crate) fn queries(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let number = stage.of(16, 64);
        stage
            .all(number, |stage, _| async move {
                let header = http::bearer(&stage.tokens.stolen_reader);
                let query = |turn: usize| {
                    let sql = match turn % 2 {
                        0 => "SELECT count(*), max(id) FROM normal",
                        _ => "SELECT max(value * 7 % 1001) FROM generate_series(1, 1000000)",
                    };
                    let host = stage.door.host();
                    http::request("POST /api/v1/sql", &host, &header, sql.as_bytes())
                };
                repeat(&stage, attacker(0), query).await;
            })
            .await;
    })
}

/// Sends requests over one connection, each when the one before it was answered.
async fn repeat(stage: &Stage, from: IpAddr, request: impl Fn(usize) -> Vec<u8>) {
    let mut kept = None;
    for turn in 0.. {
        if stage.is_over() {
            return;
        }
        let connection = match kept.take() {
            Some(connection) => connection,
            None => match stage.within(stage.door.connect(from)).await {
                Some(Ok(connection)) => connection,
                _ => {
                    stage.note("closed");
                    let _ignored = stage.within(tokio::time::sleep(AGAIN)).await;
                    continue;
                }
            },
        };
        match stage
            .within(http::exchange(connection, &request(turn)))
            .await
        {
            Some(Ok((Some(answer), connection))) => {
                stage.note(answer.status.to_string());
                kept = (!answer.closes).then_some(connection);
            }
            Some(_) => {
                stage.note("closed");
                let _ignored = stage.within(tokio::time::sleep(AGAIN)).await;
            }
            None => stage.note("unanswered at the end"),
        }
    }
}

/// Ten thousand requests in one write, over four connections; the answers are read meanwhile. Half
/// are probes, which are never refused: the server must answer them more slowly.
pub(crate) fn pipeline(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let header = http::bearer(&stage.tokens.stolen_reader);
        let host = stage.door.host();
        let pair = [
            http::request("GET /health", &host, "", b""),
            http::request("GET /api/v1/streams", &host, &header, b""),
        ];
        let all: Arc<[u8]> = pair.concat().repeat(PIPELINED / pair.len()).into();
        stage
            .all(4, |stage, _| {
                let all = Arc::clone(&all);
                async move {
                    while !stage.is_over() {
                        let piped = pipe(&stage, &all);
                        let _ignored = stage.within(piped).await;
                    }
                }
            })
            .await;
        let answers: u64 = stage.outcomes().0.values().sum();
        if answers > stage.lasts.as_secs() * PIPED_A_SECOND + PIPED_A_SECOND {
            stage.breaks(format!(
                "{answers} answers to one address: it was not slowed"
            ));
        }
    })
}

async fn pipe(stage: &Stage, requests: &[u8]) {
    let Ok(connection) = stage.door.connect(attacker(0)).await else {
        stage.note("closed");
        return tokio::time::sleep(AGAIN).await;
    };
    let (mut from, mut into) = tokio::io::split(connection);
    let send = async {
        // A server that ends the connection has answered some of them, which counts below.
        let _ignored = into.write_all(requests).await;
        let _ignored = into.flush().await;
    };
    let read = async {
        let mut answers = Answers::new();
        let mut number = 0;
        while number < PIPELINED {
            match answers.next(&mut from).await {
                Ok(Some(answer)) => stage.note(answer.status.to_string()),
                _ => return stage.note("closed"),
            }
            number += 1;
        }
        // More answers than requests would be a fault.
        let pause = std::time::Duration::from_millis(50);
        if let Ok(Ok(Some(answer))) = tokio::time::timeout(pause, answers.next(&mut from)).await {
            stage.breaks(format!("an answer to no request: {}", answer.status));
        }
    };
    tokio::join!(send, read);
}
