//! Clients that hold connections: slow headers, slow bodies, none at all, and half a handshake.
//!
//! All come from one address. The server gives an address half of its places, so that attackers at
//! several addresses could take all: no bound here is about them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::door::{Connection, attacker};
use super::stage::{AGAIN, Stage};

/// Interval between two bytes of a slow client.
const DRIP: Duration = Duration::from_secs(1);
/// A little less than the server's patience with headers and with silence.
const DEADLINE: Duration = Duration::from_millis(9500);
/// The outcome of a connection that the server had and closed at its deadline.
pub(crate) const OVERDUE: &str = "closed when overdue";
/// First bytes of a handshake of TLS 1.3: a record of 512 bytes that never come.
const HELLO_BEGINS: [u8; 6] = [22, 3, 1, 2, 0, 1];
/// Descriptors that this process needs for other things.
const OTHERS: u64 = 200;

/// The conduct of one client.
#[derive(Clone)]
struct Conduct {
    from: IpAddr,
    /// The handshake of TLS is not made.
    is_raw: bool,
    opening: Vec<u8>,
    drip: Option<u8>,
}

pub(crate) fn headers(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    let opening = format!(
        "GET /health HTTP/1.1\r\nHost: {}\r\nX-Slow: ",
        stage.door.host()
    );
    Box::pin(async move {
        let number = stage.of(200, 2000);
        let conduct = Conduct {
            from: attacker(0),
            is_raw: false,
            opening: opening.into_bytes(),
            drip: Some(b'a'),
        };
        hold(&stage, number, |_| conduct.clone()).await;
    })
}

pub(crate) fn bodies(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    let opening = format!(
        "POST /api/v1/ingest/slow HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 1000000\r\n\r\n",
        stage.door.host(),
        stage.tokens.stolen_shipper
    );
    Box::pin(async move {
        let number = stage.of(200, 2000);
        let conduct = Conduct {
            from: attacker(0),
            is_raw: false,
            opening: opening.into_bytes(),
            drip: Some(b'a'),
        };
        hold(&stage, number, |_| conduct.clone()).await;
    })
}

/// Connections without a byte.
pub(crate) fn idle(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let wanted = stage.of(1000, 10_000);
        // A connection is one descriptor here and one in the server, which has the same limit.
        let room = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from(room.saturating_sub(OTHERS)).unwrap_or(usize::MAX);
        if room < wanted {
            println!("    only {room} of {wanted} idle connections: the hard limit of descriptors");
        }
        hold(&stage, wanted.min(room), |_| Conduct {
            from: attacker(0),
            is_raw: false,
            opening: Vec::new(),
            drip: None,
        })
        .await;
    })
}

/// Handshakes of which one half stops within the first message, the other before the second.
pub(crate) fn handshakes(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let number = stage.of(200, 1000);
        let hello = stage.door.client_hello();
        hold(&stage, number, |which| Conduct {
            from: attacker(0),
            is_raw: true,
            opening: match which % 2 {
                0 => HELLO_BEGINS.to_vec(),
                _ => hello.clone(),
            },
            drip: None,
        })
        .await;
    })
}

/// Runs `number` clients, each of which connects again whenever its connection was closed.
async fn hold(stage: &Arc<Stage>, number: usize, conduct: impl Fn(usize) -> Conduct) {
    stage
        .all(number, |stage, which| {
            let conduct = conduct(which);
            async move {
                while !stage.is_over() {
                    let held = hold_one(&stage, &conduct);
                    let outcome = stage.within(held).await;
                    stage.note(outcome.unwrap_or_else(|| "held".to_owned()));
                    let _ignored = stage.within(tokio::time::sleep(AGAIN)).await;
                }
            }
        })
        .await;
}

/// Holds one connection until the server ends it; returns the server's answer.
async fn hold_one(stage: &Stage, conduct: &Conduct) -> String {
    let began = Instant::now();
    let connected = match conduct.is_raw {
        true => {
            let connected = stage.door.tcp(conduct.from).await;
            connected.map(|stream| Box::new(stream) as Connection)
        }
        false => stage.door.connect(conduct.from).await,
    };
    let Ok(mut connection) = connected else {
        return "closed".to_owned();
    };
    if connection.write_all(&conduct.opening).await.is_err() || connection.flush().await.is_err() {
        return "closed".to_owned();
    }
    let mut outcome = None;
    let mut bytes = [0; 4096];
    loop {
        let read = tokio::time::timeout(DRIP, connection.read(&mut bytes)).await;
        match read {
            Ok(Ok(read)) if read > 0 => {
                let text = String::from_utf8_lossy(&bytes[..read]);
                if let Some(status) = text.strip_prefix("HTTP/1.1 ").and_then(|t| t.get(..3)) {
                    outcome = Some(status.to_owned());
                }
            }
            Ok(_) => break,
            Err(_) => {
                if let Some(drip) = conduct.drip
                    && (connection.write_all(&[drip]).await.is_err()
                        || connection.flush().await.is_err())
                {
                    break;
                }
            }
        }
    }
    let closed = match began.elapsed() >= DEADLINE {
        true => OVERDUE,
        false => "closed",
    };
    outcome.unwrap_or_else(|| closed.to_owned())
}
