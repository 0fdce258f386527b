//! Messages of many connections become few batches.
//!
//! The first message of a stream is stored at once. Those that come while its batch is parsed, and
//! within [`PAUSE`] after it, are the next batch: a flood becomes few journal records, and no
//! message waits for others longer than that.
//!
//! # Invariants
//! * The messages of a connection are stored in their order.
//! * All messages that are not stored yet have at most [`WAITING_BYTES_MAX`] bytes; who has more
//!   waits.
//! * A batch holds messages of one account and one stream, within the share of the account.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ingest::{Format, ParseOptions, Records, TimeZone};
use parking_lot::Mutex;
use storage::{Clock, Identity, Name, SystemClock};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use super::{Seldom, held_bytes};
use crate::access::Principal;
use crate::intake::stream_options;
use crate::serve::{Content, Delivery, Length, SHORT_BYTES_MAX, Serving, Share, Submission};

/// Pause between two batches of a stream, unless a whole one waits.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum bytes of the messages of a listener that are not stored yet.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Pause before messages are offered again that the store did not take.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The reading of the messages of a listener.
#[derive(Debug)]
pub(crate) struct GatherOptions {
    /// The source in the quarantine.
    pub(crate) source: &'static str,
    /// The format of streams for which the configuration names none.
    pub(crate) format: Format,
    pub(crate) tz: Option<TimeZone>,
    /// Maximum bytes of one message.
    pub(crate) message_bytes_max: usize,
}

/// The way of messages into the store.
#[derive(Debug)]
pub(crate) struct Gatherer {
    serving: Arc<Serving>,
    options: GatherOptions,
    lanes: Mutex<HashMap<LaneKey, Lane>>,
    room: Arc<Semaphore>,
    failed: Seldom,
}

/// The account and the stream of messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LaneKey {
    who: String,
    stream: Name,
}

/// Batches that wait, while a task of their own stores them one after the other.
#[derive(Debug)]
struct Lane {
    who: Arc<Principal>,
    batches: VecDeque<Gathered>,
    /// A whole batch waits.
    is_full: Arc<Notify>,
}

/// Messages that become one batch.
#[derive(Debug, Default)]
struct Gathered {
    records: Records,
    waiting: Vec<Waiting>,
}

/// A connection that waits for its messages, and the bytes that they count for.
#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Result<(), NotStored>>,
    _held: OwnedSemaphorePermit,
}

/// Reason for which messages were not stored. They may be sent again.
#[derive(Debug, Clone)]
pub(crate) struct NotStored(Arc<str>);

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl NotStored {
    fn because(why: impl fmt::Display) -> Self {
        Self(why.to_string().into())
    }
}

impl Gatherer {
    pub(crate) fn new(serving: &Arc<Serving>, options: GatherOptions) -> Arc<Self> {
        Arc::new(Self {
            serving: Arc::clone(serving),
            options,
            lanes: Mutex::default(),
            room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)),
            failed: Seldom::default(),
        })
    }

    /// Returns when the store has reached the write concern of the stream.
    ///
    /// # Errors
    /// If the messages were not stored.
    pub(crate) async fn store(
        self: &Arc<Self>,
        who: &Arc<Principal>,
        stream: &Name,
        records: &Records,
    ) -> Result<(), NotStored> {
        let (reply, outcome) = oneshot::channel();
        let waiting = Waiting {
            reply,
            _held: self.held(records).await,
        };
        if let Some(key) = self.add(who, stream, records, waiting) {
            tokio::spawn(Arc::clone(self).run_lane(key));
        }
        outcome.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Stores messages as one batch under an identity; a batch that was stored before is not
    /// stored again.
    ///
    /// # Errors
    /// If the messages were not stored.
    pub(crate) async fn store_once(
        self: &Arc<Self>,
        who: &Arc<Principal>,
        stream: &Name,
        records: Records,
        identity: Identity,
    ) -> Result<(), NotStored> {
        let _held = self.held(&records).await;
        let submission = self.submit(who, stream, records, Some(identity)).await;
        let stored = acknowledged(submission).await;
        stored.inspect_err(|why| self.log_failure(stream, why))
    }

    /// Stores messages whose sender waits for no answer: offers them until the store takes them.
    /// Messages that it refuses while the server stops are counted as refused.
    pub(crate) async fn store_surely(
        self: Arc<Self>,
        who: Arc<Principal>,
        stream: Name,
        records: Records,
    ) {
        let stop = &self.serving.stop;
        while self.store(&who, &stream, &records).await.is_err() {
            tokio::select! {
                () = tokio::time::sleep(RETRY_AFTER) => {}
                () = stop.heard() => {
                    let lost = records.len();
                    self.serving.intake.count_refused(&stream, lost as u64);
                    tracing::error!(%stream, lost, "the server stops, and the store did not take messages that their sender does not send again");
                    return;
                }
            }
        }
    }

    async fn held(&self, records: &Records) -> OwnedSemaphorePermit {
        let bytes = held_bytes(records);
        let bytes = u32::try_from(bytes.min(WAITING_BYTES_MAX)).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.room).acquire_many_owned(bytes).await;
        held.expect("BUG: the room is never closed")
    }

    /// Adds messages to the last batch that waits, if they fit. Returns the key of a lane that is
    /// new.
    fn add(
        &self,
        who: &Arc<Principal>,
        stream: &Name,
        records: &Records,
        waiting: Waiting,
    ) -> Option<LaneKey> {
        let key = LaneKey {
            who: who.name().to_owned(),
            stream: stream.clone(),
        };
        let mut lanes = self.lanes.lock();
        let is_new = !lanes.contains_key(&key);
        let lane = lanes.entry(key.clone()).or_insert_with(|| Lane {
            who: Arc::clone(who),
            batches: VecDeque::new(),
            is_full: Arc::default(),
        });
        lane.who = Arc::clone(who);
        let fits = |last: &mut Gathered| last.records.bytes() + records.bytes() <= SHORT_BYTES_MAX;
        if !lane.batches.back_mut().is_some_and(fits) {
            lane.batches.push_back(Gathered::default());
        }
        if lane.batches.len() > 1 {
            lane.is_full.notify_one();
        }
        let last = lane.batches.back_mut().expect("BUG: one was added");
        last.records.append(records);
        last.waiting.push(waiting);
        is_new.then_some(key)
    }

    /// Stores the batches of a lane until none waits.
    async fn run_lane(self: Arc<Self>, key: LaneKey) {
        while let Some((who, batch, is_full)) = self.next(&key) {
            let bytes = batch.records.bytes();
            let submission = self.submit(&who, &key.stream, batch.records, None).await;
            let (this, stream) = (Arc::clone(&self), key.stream.clone());
            // The next batch is parsed while this one is synced.
            tokio::spawn(async move {
                let stored = acknowledged(submission).await;
                if let Err(why) = &stored {
                    this.log_failure(&stream, why);
                }
                for waiting in batch.waiting {
                    // A connection that has gone has nobody to tell.
                    let _ignored = waiting.reply.send(stored.clone());
                }
            });
            if bytes < SHORT_BYTES_MAX / 2 {
                let _either = tokio::time::timeout(PAUSE, is_full.notified()).await;
            }
        }
    }

    /// Takes the next batch of a lane, which ends without one.
    fn next(&self, key: &LaneKey) -> Option<(Arc<Principal>, Gathered, Arc<Notify>)> {
        let mut lanes = self.lanes.lock();
        let lane = lanes.get_mut(key)?;
        match lane.batches.pop_front() {
            Some(batch) => Some((Arc::clone(&lane.who), batch, Arc::clone(&lane.is_full))),
            None => {
                lanes.remove(key);
                None
            }
        }
    }

    /// Parses messages and hands their batch to the store.
    async fn submit(
        &self,
        who: &Arc<Principal>,
        stream: &Name,
        records: Records,
        identity: Option<Identity>,
    ) -> Result<Submission, NotStored> {
        let concern = self.serving.config.concern(stream.as_str());
        let concern = concern.map_err(NotStored::because)?;
        let length = Length::of(records.bytes());
        let delivery = Delivery {
            stream: stream.clone(),
            source: self.options.source.into(),
            identity,
            options: self.parse_options(stream),
            content: Content::Records(records),
            counts: self.serving.arrivals.of(self.options.source, stream),
        };
        let share = self.share(who).await;
        let place = self.serving.parsing.place(&share, length).await;
        let intake = Arc::clone(&self.serving.intake);
        intake.note_foreground();
        let (send, submitted) = oneshot::channel();
        let job = move || {
            let parsed = delivery.parse(&*intake).map_err(NotStored::because);
            let submitted = parsed.and_then(|parsed| {
                let submitted = parsed.submit(&*intake, concern, length);
                submitted.map_err(NotStored::because)
            });
            // A sender that has gone does not learn it.
            let _ignored = send.send(submitted);
        };
        self.serving.parsing.run(place, job);
        submitted.await.unwrap_or_else(|_| Err(closed()))
    }

    fn parse_options(&self, stream: &Name) -> ParseOptions {
        let by_config = stream_options(&self.serving.config, stream.as_str());
        ParseOptions {
            format: match by_config.format {
                Format::Auto => self.options.format.clone(),
                named => named,
            },
            tz: self.options.tz.clone(),
            received_us: SystemClock.now_us(),
            record_bytes_max: self.options.message_bytes_max,
            ..by_config
        }
    }

    /// Waits for a place in the share of an account.
    async fn share(&self, who: &Arc<Principal>) -> Share {
        let local = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
        loop {
            match self.serving.shares.request(local, Some(who)) {
                Ok(share) => return share,
                Err(exceeded) => tokio::time::sleep(exceeded.wait.max(PAUSE)).await,
            }
        }
    }

    fn log_failure(&self, stream: &Name, why: &NotStored) {
        if self.failed.is_due() {
            let source = self.options.source;
            tracing::warn!(%stream, %why, "{source}: messages were not stored");
        }
    }
}

/// Waits until the store has reached the write concern of a batch.
async fn acknowledged(submission: Result<Submission, NotStored>) -> Result<(), NotStored> {
    match submission? {
        Submission::Nothing(_) => Ok(()),
        Submission::Waiting(waiting) => match waiting.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(why)) => Err(NotStored::because(why)),
            Err(_) => Err(closed()),
        },
    }
}

fn closed() -> NotStored {
    NotStored::because(storage::Error::Closed)
}
