//! Batches without an identity: the server between gives their parts one, so that it can send a
//! part again whose answer was lost.
//!
//! It is an ordered source itself, of a few *lanes* for each other shard. A part is one range of
//! its lane, from a number to the next, with a hash that no other part has.
//!
//! # Invariants
//! * A lane has one part under way. The next one gets its range when the outcome is known, or when
//!   the shard has told the position of the lane again.
//! * A part that comes late, after its lane has gone on, is refused: its range is taken by another
//!   hash.
//! * Nothing is sent before the servers of all parts are known to be there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use parking_lot::Mutex;
use storage::{Ack, Batch, Error, Identity, WriteConcern};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Gateway;
use super::gathering::Gathering;
use crate::intake::Reply;

/// Lanes to each shard.
const LANES: usize = 8;
/// Time for which a part is sent again, as long as a shared journal waits for the outcome of a
/// batch without an identity.
const AGAIN_FOR: Duration = Duration::from_secs(600);
/// Pauses between attempts, from the first to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The lanes to one shard that are free.
#[derive(Debug)]
pub(super) struct UnnamedLanes {
    places: Arc<Semaphore>,
    free: Mutex<Vec<Lane>>,
}

#[derive(Debug)]
struct Lane {
    producer: String,
    /// The next position; `None` while only the shard knows it.
    next: Option<u64>,
}

impl UnnamedLanes {
    /// Returns the lanes of the server of a store.
    pub(super) fn of(store: &str) -> Self {
        let lane = |number| Lane {
            producer: format!("gateway/{store}/{number}"),
            next: None,
        };
        Self {
            places: Arc::new(Semaphore::new(LANES)),
            free: Mutex::new((0..LANES).map(lane).collect()),
        }
    }

    async fn take(&self) -> (Lane, OwnedSemaphorePermit) {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("BUG: nothing closes the semaphore");
        let lane = self.free.lock().pop();
        (lane.expect("BUG: a lane for each place"), place)
    }
}

/// A part that is sent until its outcome is known.
struct UnnamedPart {
    shard: u16,
    part: Batch,
    concern: WriteConcern,
    /// The hash by which the shard knows it.
    content: u64,
    /// It is the whole batch: a refusal means that nothing of it is stored.
    is_whole: bool,
    may_be_stored: bool,
    until: Instant,
    pause: Duration,
}

impl Gateway {
    /// Hands over the parts of a batch without an identity, if the servers of all are there.
    pub(super) fn hand_over_unnamed(
        self: &Arc<Self>,
        parts: Vec<(u16, Batch)>,
        concern: WriteConcern,
        reply: Reply,
    ) {
        let (own, others): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .partition(|(shard, _)| Some(*shard) == self.own);
        let room = |(shard, part): (u16, Batch)| {
            let bytes = part.events.get_array_memory_size();
            Ok((shard, part, self.room(shard, bytes)?))
        };
        let others: storage::Result<Vec<_>> = others.into_iter().map(room).collect();
        let others = match others {
            Ok(others) => others,
            Err(error) => return reply(Err(error)),
        };
        let this = Arc::clone(self);
        self.runtime.spawn(async move {
            let until = this.owners.moved_until();
            for (shard, _, _) in &others {
                if let Err(what) = this.owners.find_alive(*shard, until).await {
                    return reply(Err(Error::Overloaded { what }));
                }
            }
            let number = own.len() + others.len();
            let is_whole = number == 1;
            let gathering = Gathering::of(number, reply);
            for part in own {
                let (this, gathering) = (Arc::clone(&this), Arc::clone(&gathering));
                spawn_blocking(move || this.hand_over(part, concern, gathering));
            }
            for (shard, part, room) in others {
                let (this, gathering) = (Arc::clone(&this), Arc::clone(&gathering));
                let part = UnnamedPart {
                    shard,
                    part,
                    concern,
                    content: rand::random(),
                    is_whole,
                    may_be_stored: false,
                    until: Instant::now() + AGAIN_FOR,
                    pause: PAUSES.0,
                };
                tokio::spawn(async move {
                    let outcome = this.send_unnamed(part).await;
                    drop(room);
                    gathering.done(shard, outcome);
                });
            }
        });
    }

    async fn send_unnamed(&self, part: UnnamedPart) -> storage::Result<Ack> {
        let lanes = &self.unnamed[usize::from(part.shard)];
        let (mut lane, _place) = lanes.take().await;
        let outcome = self.send_in(&mut lane, part).await;
        lanes.free.lock().push(lane);
        outcome
    }

    /// Sends a part in a lane until its outcome is known, for some time.
    async fn send_in(&self, lane: &mut Lane, mut part: UnnamedPart) -> storage::Result<Ack> {
        let shard = part.shard;
        let mut encoded: Option<(u64, Bytes)> = None;
        loop {
            if lane.next.is_none() {
                match self.owners.position(shard, &lane.producer).await {
                    Ok(position) => lane.next = Some(position.map_or(0, |position| position.to)),
                    Err(what) => {
                        part.goes_on(lane, Error::Overloaded { what }).await?;
                        continue;
                    }
                }
            }
            let from = lane.next.unwrap_or(0);
            let bytes = match encoded.take() {
                Some((at, bytes)) if at == from => bytes,
                _ => part.at(lane, from)?,
            };
            encoded = Some((from, bytes.clone()));
            match self.sent(shard, bytes, part.concern).await {
                // The lane has gone on far beyond, elsewhere: this range was another part's.
                Ok(ack) if ack.duplicate && ack.accepted + ack.quarantined == 0 => {
                    let what = "another server has used the lane".to_owned();
                    lane.next = None;
                    part.goes_on(lane, Error::Overloaded { what }).await?;
                }
                Ok(ack) => {
                    lane.next = Some(from + 1);
                    // An attempt before may have stored it.
                    return Ok(Ack {
                        duplicate: false,
                        ..ack
                    });
                }
                Err(error) => part.goes_on(lane, error).await?,
            }
        }
    }
}

impl UnnamedPart {
    /// Returns the part as a range of a lane.
    fn at(&mut self, lane: &Lane, from: u64) -> storage::Result<Bytes> {
        self.part.identity = Some(Identity::Range {
            producer: lane.producer.clone(),
            from,
            to: from + 1,
            content: self.content,
        });
        Ok(self.part.clone().encode()?.into())
    }

    /// Waits before another attempt.
    ///
    /// # Errors
    /// The outcome, if there is to be none.
    async fn goes_on(&mut self, lane: &mut Lane, error: Error) -> storage::Result<()> {
        let is_refused = match &error {
            // The lane has gone on with another part, for the hash of this one is not there.
            Error::Gap { .. } | Error::KeyReused { .. } => {
                lane.next = None;
                false
            }
            Error::Unknown { .. } => {
                self.may_be_stored = true;
                false
            }
            Error::Overloaded { .. } | Error::DiskFull { .. } => self.is_whole,
            _ => true,
        };
        if Instant::now() > self.until || (is_refused && !self.may_be_stored) {
            // An attempt that is still on its way may be stored later.
            lane.next = None;
            return Err(match error {
                Error::Unknown { .. } => error,
                other if self.may_be_stored => Error::Unknown {
                    what: other.to_string(),
                },
                other => other,
            });
        }
        sleep(self.pause).await;
        self.pause = PAUSES.1.min(self.pause * 2);
        Ok(())
    }
}
