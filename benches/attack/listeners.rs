//! Attacks on the listeners for log shippers (syslog over TCP, RELP, Fluent's forward protocol and
//! OTLP over gRPC), which have no login, and on that for MongoDB's drivers before a login.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::door::{MONGO, attacker};
use super::stage::{AGAIN, Stage};

/// Interval between two bytes of a slow sender.
const DRIP: Duration = Duration::from_secs(1);
/// Bytes that a sender writes at once.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of a message that never ends: many times what a listener keeps of one.
const ENDLESS_BYTES: usize = 64 << 20;

/// A listener as an attacker sees it.
#[derive(Clone, Copy)]
struct Protocol {
    /// Its place among the addresses of the door.
    listener: usize,
    /// The beginning of a message that is half there.
    half: &'static [u8],
    /// The beginning of a message that is longer than any.
    endless: &'static [u8],
}

const PROTOCOLS: [Protocol; 5] = [
    Protocol {
        listener: 0,
        half: b"<13>Nov  3 09:23:38 web1 a: half a mess",
        endless: b"<13>Nov  3 09:23:38 web1 a: ",
    },
    Protocol {
        listener: 1,
        half: b"1 open 85 relp_version=0",
        endless: b"1 open 30 relp_version=0\ncommands=syslog\n2 syslog 999999999 <13>",
    },
    Protocol {
        listener: 2,
        // An array of two: a tag, and entries that do not come; a text of 4 GiB.
        half: b"\x92\xa3app\xdd\x00\x00\x00\x02",
        endless: b"\x92\xa3app\xdb\xff\xff\xff\xff",
    },
    Protocol {
        listener: 3,
        half: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04",
        // A frame that is longer than HTTP/2 allows before it was agreed.
        endless: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    },
    Protocol {
        listener: MONGO,
        // OP_MSG with a command of 300 bytes.
        half: b"\x41\x01\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00\x00\x2c\x01\x00\x00",
        // One of 47 MB.
        endless: b"\x00\x29\xcd\x02\x07\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00\x00",
    },
];

/// Connections with half a message, of which a byte comes each second.
pub(crate) fn held(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let number = stage.of(100, 2000);
        stage
            .all(number, |stage, which| async move {
                while !stage.is_over() {
                    let held = hold(&stage, PROTOCOLS[which % PROTOCOLS.len()]);
                    let outcome = stage.within(held).await;
                    stage.note(outcome.unwrap_or("held"));
                    let _ignored = stage.within(tokio::time::sleep(AGAIN)).await;
                }
            })
            .await;
    })
}

async fn hold(stage: &Stage, protocol: Protocol) -> &'static str {
    let Some(mut stream) = opened(stage, protocol, protocol.half).await else {
        return "closed";
    };
    let mut answer = [0; 4096];
    loop {
        match tokio::time::timeout(DRIP, stream.read(&mut answer)).await {
            Ok(Ok(1..)) => {}
            Ok(_) => return "closed",
            Err(_) if stream.write_all(b"a").await.is_err() => return "closed",
            Err(_) => {}
        }
    }
}

/// Messages that never end, as fast as they are taken.
pub(crate) fn endless(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let number = stage.of(8, 32);
        let piece: Arc<[u8]> = vec![b'a'; PIECE_BYTES].into();
        stage
            .all(number, |stage, which| {
                let piece = Arc::clone(&piece);
                async move {
                    let protocol = PROTOCOLS[which % PROTOCOLS.len()];
                    while !stage.is_over() {
                        let Some(mut stream) = opened(&stage, protocol, protocol.endless).await
                        else {
                            stage.note("closed");
                            let _ignored = stage.within(tokio::time::sleep(AGAIN)).await;
                            continue;
                        };
                        let mut written = 0;
                        while written < ENDLESS_BYTES
                            && let Some(Ok(())) = stage.within(stream.write_all(&piece)).await
                        {
                            written += piece.len();
                        }
                        stage.note(match written < ENDLESS_BYTES {
                            true => "closed",
                            false => "read and passed over",
                        });
                    }
                }
            })
            .await;
    })
}

/// Bytes that are no message of any protocol, and messages among them.
pub(crate) fn garbage(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let number = stage.of(8, 32);
        stage
            .all(number, |stage, which| async move {
                let protocol = PROTOCOLS[which % PROTOCOLS.len()];
                let mut random = SmallRng::seed_from_u64(which as u64);
                while !stage.is_over() {
                    let mut bytes = vec![0; random.random_range(1..PIECE_BYTES)];
                    random.fill(&mut bytes[..]);
                    if random.random_bool(0.5) {
                        bytes.splice(..0, protocol.half.iter().copied());
                    }
                    let Some(mut stream) = opened(&stage, protocol, &bytes).await else {
                        stage.note("closed");
                        let _ignored = stage.within(tokio::time::sleep(AGAIN)).await;
                        continue;
                    };
                    let _ignored = stream.shutdown().await;
                    let mut answer = Vec::new();
                    let read = stage.within(stream.read_to_end(&mut answer)).await;
                    stage.note(match read {
                        Some(_) => "closed",
                        None => "held",
                    });
                }
            })
            .await;
    })
}

/// Connects to a listener and sends the first bytes.
async fn opened(stage: &Stage, protocol: Protocol, bytes: &[u8]) -> Option<TcpStream> {
    let from = attacker(0);
    let connected = stage.door.listener(protocol.listener, from);
    let mut stream = stage.within(connected).await?.ok()?;
    stage.within(stream.write_all(bytes)).await?.ok()?;
    Some(stream)
}
