//! Attacks on the listener for MongoDB's drivers: wrong logins, and commands of a stolen account.

use std::io;
use std::sync::Arc;

use bson::{Bson, Document, doc};
use futures::future::BoxFuture;

use super::door::{MONGO, attacker};
use super::driver::{Driver, binary};
use super::house::ADMIN;
use super::stage::{AGAIN, Stage};

/// Addresses from which passwords are tried.
const GUESSERS: usize = 16;
/// Levels of a filter: more than a command may have.
const LEVELS: usize = 300;

/// Wrong tokens, and wrong passwords of a user that exists.
pub(crate) fn logins(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    run(stage, Attack::Logins)
}

/// Cursors that nobody reads, and commands that take long, need much memory or are nested too deep.
pub(crate) fn commands(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    run(stage, Attack::Commands)
}

#[derive(Clone, Copy)]
enum Attack {
    Logins,
    Commands,
}

fn run(stage: Arc<Stage>, attack: Attack) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let number = stage.of(GUESSERS, 4 * GUESSERS);
        stage
            .all(number, |stage, which| async move {
                while !stage.is_over() {
                    repeat(&stage, which, attack).await;
                    let _ignored = stage.within(tokio::time::sleep(AGAIN)).await;
                }
            })
            .await;
    })
}

/// Attacks over one connection, until it ends.
async fn repeat(stage: &Stage, which: usize, attack: Attack) {
    let from = attacker((which % GUESSERS) as u8);
    let connecting = stage.within(stage.door.listener(MONGO, from)).await;
    let Some(Ok(connection)) = connecting else {
        return stage.note("closed");
    };
    let mut driver = Driver(Box::new(connection));
    for turn in 0.. {
        let acting = async {
            match attack {
                Attack::Logins => driver.guess(turn).await,
                Attack::Commands => {
                    driver
                        .misuse(&stage.tokens.stolen_reader, turn, which)
                        .await
                }
            }
        };
        match stage.within(acting).await {
            None => return stage.note("unanswered at the end"),
            Some(Err(_)) => return stage.note("closed"),
            Some(Ok(answer)) => stage.note(outcome(&answer)),
        }
    }
}

fn outcome(answer: &Document) -> String {
    match answer.get_i32("code") {
        Ok(code) => code.to_string(),
        Err(_) => "ok".to_owned(),
    }
}

impl Driver {
    async fn guess(&mut self, turn: usize) -> io::Result<Document> {
        if turn.is_multiple_of(2) {
            return self.log_in("token", &format!("lm_{turn:064}")).await;
        }
        let first = format!("n,,n={ADMIN},r=nonce{turn}").into_bytes();
        let command = doc! {
            "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": binary(first), "$db": "admin",
        };
        let challenge = self.ask(&command).await?;
        let Ok(bytes) = challenge.get_binary_generic("payload") else {
            return Ok(challenge);
        };
        let text = String::from_utf8_lossy(bytes);
        let nonce = text.split(',').next().unwrap_or_default();
        let last = format!("c=biws,{nonce},p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
        let conversation = challenge.get("conversationId").cloned();
        let command = doc! {
            "saslContinue": 1, "conversationId": conversation.unwrap_or(Bson::Int32(1)),
            "payload": binary(last.into_bytes()), "$db": "admin",
        };
        self.ask(&command).await
    }

    async fn misuse(&mut self, token: &str, turn: usize, which: usize) -> io::Result<Document> {
        if turn.is_multiple_of(16) {
            return self.log_in("token", token).await;
        }
        let find = |filter: Document| doc! { "find": "normal", "filter": filter, "$db": "logmill" };
        let command = match (turn + which) % 6 {
            0 | 1 => doc! { "find": "normal", "batchSize": 1, "$db": "logmill" },
            2 => {
                let nested = (0..LEVELS).fold(doc! { "a": 1 }, |below, _| doc! { "a": below });
                find(nested)
            }
            3 => {
                let range = doc! { "$range": [0, 100_000] };
                let group = doc! { "_id": "$_id", "many": { "$push": range } };
                doc! {
                    "aggregate": "normal", "pipeline": [{ "$group": group }], "cursor": {},
                    "maxTimeMS": 500, "$db": "logmill",
                }
            }
            4 => {
                let pattern = doc! { "$regex": "[ab]{0,3000}a[ab]{2000}[^ab]" };
                find(doc! { "text": pattern })
            }
            _ => find(doc! { "_id": { "$in": (0..100_000).collect::<Vec<i32>>() } }),
        };
        self.ask(&command).await
    }
}
