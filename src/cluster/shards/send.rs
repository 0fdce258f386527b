//! A part on its way to the server of its shard.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use serde::{Deserialize, Serialize};
use storage::{Ack, Batch, Error, Identity, WriteConcern};

use super::Gateway;
use super::gathering::Gathering;
use crate::cluster::BATCHES;
use crate::cluster::calls::{CallFailure, PeerServer};

/// The answer of a server to a part.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartAnswer {
    /// It is stored.
    Stored(Ack),
    /// The store has refused it, or does not know the outcome.
    Refused(PartRefusal),
    /// The server has another shard.
    OtherShard,
}

/// An error of a store, as a server tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartRefusal {
    KeyReused {
        key: String,
    },
    Gap {
        producer: String,
        from: u64,
        known: u64,
    },
    Invalid {
        what: String,
    },
    DiskFull {
        path: String,
    },
    /// Nothing is stored.
    ForNow {
        what: String,
    },
    Unknown {
        what: String,
    },
}

/// The outcome of an attempt to send a part.
enum SentPart {
    Decided(storage::Result<Ack>),
    /// The server has another shard now.
    Moved,
    NotTaken(Error),
}

impl From<&Error> for PartRefusal {
    fn from(error: &Error) -> Self {
        match error {
            Error::KeyReused { key } => Self::KeyReused { key: key.clone() },
            Error::Gap {
                producer,
                from,
                known,
            } => Self::Gap {
                producer: producer.clone(),
                from: *from,
                known: *known,
            },
            Error::Invalid { what } => Self::Invalid { what: what.clone() },
            Error::DiskFull { path } => Self::DiskFull {
                path: path.display().to_string(),
            },
            Error::Overloaded { what } => Self::ForNow { what: what.clone() },
            Error::ReadOnly { .. } | Error::Locked { .. } => Self::ForNow {
                what: error.to_string(),
            },
            Error::Unknown { what } => Self::Unknown { what: what.clone() },
            // Of other errors a store does not tell whether the batch is stored.
            other => Self::Unknown {
                what: other.to_string(),
            },
        }
    }
}

impl PartRefusal {
    /// Returns the error of a part that a server at `place` has refused.
    fn error(self, place: &str) -> Error {
        match self {
            Self::KeyReused { key } => Error::KeyReused { key },
            Self::Gap {
                producer,
                from,
                known,
            } => Error::Gap {
                producer,
                from,
                known,
            },
            Self::Invalid { what } => Error::Invalid { what },
            Self::DiskFull { path } => Error::DiskFull {
                path: PathBuf::from(format!("{place}, {path}")),
            },
            Self::ForNow { what } => Error::Overloaded {
                what: format!("{place}: {what}"),
            },
            Self::Unknown { what } => Error::Unknown {
                what: format!("{place}: {what}"),
            },
        }
    }
}

impl Gateway {
    /// Sends a part to the server of another shard. Waits for room for it.
    pub(super) fn send(
        self: &Arc<Self>,
        shard: u16,
        part: Batch,
        concern: WriteConcern,
        gathering: Arc<Gathering>,
    ) {
        let turn = match &part.identity {
            Some(Identity::Range { producer, .. }) => Some(self.lanes.turn(shard, producer)),
            _ => None,
        };
        let bytes: Bytes = match part.encode() {
            Ok(bytes) => bytes.into(),
            Err(error) => return gathering.done(shard, Err(error)),
        };
        let sent = match self.room(shard, bytes.len()) {
            Ok(room) => room,
            Err(error) => return gathering.done(shard, Err(error)),
        };
        let this = Arc::clone(self);
        self.runtime.spawn(async move {
            let mut turn = turn;
            if let Some(turn) = &mut turn {
                turn.comes().await;
            }
            let outcome = this.sent(shard, bytes, concern).await;
            drop((turn, sent));
            gathering.done(shard, outcome);
        });
    }

    /// Sends a part once, when its shard has a server. Returns its outcome.
    pub(super) async fn sent(
        &self,
        shard: u16,
        part: Bytes,
        concern: WriteConcern,
    ) -> storage::Result<Ack> {
        let path = format!("{BATCHES}?shard={shard}&w={}&j={}", concern.w, concern.j);
        let until = self.owners.moved_until();
        let mut has_moved = false;
        loop {
            let not_taken = match self.sent_now(shard, &path, part.clone()).await {
                SentPart::Decided(outcome) => return outcome,
                // The successor of a server is asked at once.
                SentPart::Moved if !std::mem::replace(&mut has_moved, true) => continue,
                SentPart::Moved => Error::Overloaded {
                    what: format!("shard {shard} is being moved"),
                },
                SentPart::NotTaken(error) => error,
            };
            if !self.owners.look_again(until).await {
                return Err(not_taken);
            }
        }
    }

    async fn sent_now(&self, shard: u16, path: &str, part: Bytes) -> SentPart {
        let server = match self.owners.find(shard).await {
            Ok(server) => server,
            Err(what) => return SentPart::NotTaken(Error::Overloaded { what }),
        };
        let place = format!("shard {shard} at {}", server.name());
        match answer(&server, path, part).await {
            Ok(PartAnswer::Stored(ack)) => {
                self.owners.note_alive(shard);
                SentPart::Decided(Ok(ack))
            }
            Ok(PartAnswer::Refused(refusal)) => {
                if let PartRefusal::ForNow { .. } | PartRefusal::Unknown { .. } = refusal {
                    self.owners.note_refusal(shard);
                }
                SentPart::Decided(Err(refusal.error(&place)))
            }
            Ok(PartAnswer::OtherShard) => {
                self.owners.forget(shard);
                SentPart::Moved
            }
            Err(CallFailure::NotTaken(why)) => {
                self.owners.forget(shard);
                SentPart::NotTaken(PartRefusal::ForNow { what: why }.error(&place))
            }
            Err(CallFailure::Unknown(why)) => {
                self.owners.doubt(shard);
                SentPart::Decided(Err(PartRefusal::Unknown { what: why }.error(&place)))
            }
        }
    }
}

async fn answer(
    server: &Arc<PeerServer>,
    path: &str,
    part: Bytes,
) -> Result<PartAnswer, CallFailure> {
    let asked = server.while_alive(server.post_once(path, part)).await;
    let text = asked.map_err(CallFailure::Unknown)??;
    serde_json::from_slice(&text).map_err(|why| {
        CallFailure::Unknown(format!(
            "its answer cannot be read ({why}): let all servers have one version of logmill"
        ))
    })
}
