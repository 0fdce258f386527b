//! New events, filtered and written once for all who follow the same stream under the same
//! condition.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use axum::body::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use parking_lot::Mutex;
use query::TailFilter;
use query::output::{Output, write};
use serde_json::json;
use storage::{Arrived, Name};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

use super::{BATCH_WITHIN, TURNS};
use crate::serve::{Serving, Stop};
use crate::server::answer;

/// Batches kept for a feed that evaluates slowly; then its tails miss some.
const BATCHES: usize = 16;
/// Pieces kept for a client that reads slowly; then it misses some.
const PIECES: usize = 64;
/// A piece is cut after so much text.
const PIECE_BYTES: usize = 256 << 10;
/// A feed waits so long for its slowest client before it goes on without it.
const WAIT_MAX: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const STOP_EVERY: Duration = Duration::from_millis(250);
/// A slice of rows that took less is followed by one twice as long.
const SLICE_WITHIN: Duration = Duration::from_millis(20);

/// Some text for every client of a feed.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Events {
        /// The lowest sequence number of its batch.
        first_seq: u64,
        text: Bytes,
    },
    /// So many batches were not looked at.
    Missed(u64),
    /// The feed ends, and this says why.
    Failed(Bytes),
}

/// Where a client gets them.
pub(super) type Pieces = broadcast::Receiver<Piece>;

/// A stream and a condition.
type Key = (Name, Option<String>);
type Batches = HashMap<Name, broadcast::Sender<Arc<Arrived>>>;

/// All tails of a server.
#[derive(Debug)]
pub(in crate::server) struct Tails {
    places: Arc<Semaphore>,
    most: usize,
    turns: Arc<Semaphore>,
    feeds: Mutex<HashMap<Key, broadcast::Sender<Piece>>>,
    /// New events for the feeds; there while a thread takes them from the store.
    batches: Mutex<Option<Batches>>,
}

impl Tails {
    /// Place for so many.
    pub(in crate::server) fn new(most: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(most)),
            most,
            turns: Arc::new(Semaphore::new(TURNS)),
            feeds: Mutex::default(),
            batches: Mutex::default(),
        }
    }

    /// Number of feeds.
    pub(in crate::server) fn open(&self) -> usize {
        self.most - self.places.available_permits()
    }

    /// A place, while there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Joins the feed of a stream and a condition from now on; the first to join makes it.
    pub(super) fn join(
        self: &Arc<Self>,
        serving: &Arc<Serving>,
        stream: &Name,
        condition: Option<&str>,
    ) -> std::io::Result<Pieces> {
        let key = (stream.clone(), condition.map(str::to_owned));
        let mut feeds = self.feeds.lock();
        if let Some(feed) = feeds.get(&key) {
            return Ok(feed.subscribe());
        }
        let batches = self.batches_of(serving, stream)?;
        let (send, receive) = broadcast::channel(PIECES);
        feeds.insert(key.clone(), send.clone());
        drop(feeds);
        let feed = Feed {
            serving: Arc::clone(serving),
            tails: Arc::clone(self),
            key,
            known: None,
            send,
        };
        tokio::spawn(feed.run(batches));
        Ok(receive)
    }

    fn batches_of(
        self: &Arc<Self>,
        serving: &Arc<Serving>,
        stream: &Name,
    ) -> std::io::Result<broadcast::Receiver<Arc<Arrived>>> {
        let mut batches = self.batches.lock();
        if batches.is_none() {
            // The thread must not hold the store: nobody waits for it when the server ends.
            let (tails, stop) = (Arc::clone(self), serving.stop.clone());
            let arrivals = serving.store.follow();
            std::thread::Builder::new()
                .name("logmill-tail".into())
                .spawn(move || hand_out(&tails, &stop, &arrivals))?;
        }
        let streams = batches.get_or_insert_default();
        let of_stream = streams
            .entry(stream.clone())
            .or_insert_with(|| broadcast::channel(BATCHES).0);
        Ok(of_stream.subscribe())
    }

    /// Forgets a feed that nobody follows; whether it is forgotten.
    fn leave(&self, key: &Key) -> bool {
        let mut feeds = self.feeds.lock();
        let unused = feeds.get(key).is_none_or(|feed| feed.receiver_count() == 0);
        if unused {
            feeds.remove(key);
        }
        unused
    }

    /// Ends a feed for all who follow it.
    fn end(&self, key: &Key) {
        self.feeds.lock().remove(key);
    }
}

/// Gives what comes in to the feeds of its stream, until there is none or the server stops.
fn hand_out(tails: &Tails, stop: &Stop, arrivals: &Receiver<Arrived>) {
    loop {
        let arrived = arrivals.recv_timeout(STOP_EVERY);
        let mut batches = tails.batches.lock();
        let streams = batches.get_or_insert_default();
        streams.retain(|_, feeds| feeds.receiver_count() > 0);
        let closed = matches!(arrived, Err(RecvTimeoutError::Disconnected));
        if closed || streams.is_empty() || stop.is_set() {
            // The next to follow starts another thread.
            *batches = None;
            return;
        }
        let Ok(arrived) = arrived else { continue };
        if let Some(feeds) = streams.get(&arrived.stream) {
            // A feed may have ended in this moment.
            let _ignored = feeds.send(Arc::new(arrived));
        }
    }
}

/// A filter for the stream as it is now, with the number of its columns.
pub(super) fn filter(
    serving: &Serving,
    stream: &Name,
    condition: Option<&str>,
) -> query::Result<Option<Known>> {
    let snapshot = serving.store.snapshot();
    let Some(meta) = snapshot.streams().get(stream) else {
        return Ok(None);
    };
    let id_prefix = snapshot.manifest().id_prefix();
    Ok(Some(Known {
        columns: meta.columns.len(),
        filter: Arc::new(TailFilter::new(
            &serving.engine,
            meta,
            id_prefix,
            condition,
        )?),
    }))
}

/// A filter that was made for so many columns.
#[derive(Debug, Clone)]
pub(super) struct Known {
    columns: usize,
    filter: Arc<TailFilter>,
}

/// One stream under one condition.
#[derive(Debug)]
struct Feed {
    serving: Arc<Serving>,
    tails: Arc<Tails>,
    key: Key,
    known: Option<Known>,
    send: broadcast::Sender<Piece>,
}

impl Feed {
    async fn run(mut self, mut batches: broadcast::Receiver<Arc<Arrived>>) {
        loop {
            let arrived = tokio::select! {
                () = self.serving.stop.heard() => break,
                () = self.send.closed() => match self.tails.leave(&self.key) {
                    true => return,
                    false => continue,
                },
                arrived = batches.recv() => arrived,
            };
            match arrived {
                Ok(arrived) => {
                    if let Err(error) = self.pass_on(arrived).await {
                        // Whoever joins from now on gets another feed.
                        self.tails.end(&self.key);
                        self.send(Piece::Failed(failed(&error)));
                        return;
                    }
                }
                Err(RecvError::Lagged(missed)) => self.send(Piece::Missed(missed)),
                Err(RecvError::Closed) => break,
            }
        }
        self.tails.end(&self.key);
    }

    /// Without clients nobody misses it.
    fn send(&self, piece: Piece) {
        let _ignored = self.send.send(piece);
    }

    async fn pass_on(&mut self, arrived: Arc<Arrived>) -> query::Result<()> {
        // A column that came since the filter was made needs a new one; `_seq` is none of the
        // stream's.
        let columns = arrived.events.num_columns();
        if self
            .known
            .as_ref()
            .is_none_or(|known| known.columns + 1 < columns)
        {
            let (stream, condition) = &self.key;
            self.known = filter(&self.serving, stream, condition.as_deref())?;
        }
        let Some(known) = self.known.clone() else {
            return Ok(());
        };
        let seqs = arrived.events.column_by_name("_seq");
        let seqs = seqs.and_then(|c| c.as_primitive_opt::<UInt64Type>());
        let first_seq = seqs.and_then(arrow::compute::min).unwrap_or(u64::MAX);
        let mut work = Work {
            filter: known.filter,
            arrived,
            row: 0,
            rows: 1,
            spent: Duration::ZERO,
        };
        let mut waited = Duration::ZERO;
        while work.row < work.arrived.events.num_rows() {
            let turn = Arc::clone(&self.tails.turns).acquire_owned().await;
            let done = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let text = work.piece();
                (work, text)
            });
            let (after, text) = done.await.map_err(std::io::Error::other)?;
            work = after;
            let text = text?;
            if text.is_empty() {
                continue;
            }
            while self.send.len() + 1 >= PIECES && waited < WAIT_MAX {
                tokio::time::sleep(LOOK_EVERY).await;
                waited += LOOK_EVERY;
            }
            self.send(Piece::Events { first_seq, text });
        }
        Ok(())
    }
}

/// A batch that is filtered piece by piece.
#[derive(Debug)]
struct Work {
    filter: Arc<TailFilter>,
    arrived: Arc<Arrived>,
    /// The first row that is yet to be looked at.
    row: usize,
    /// Rows of the next slice: few of them where a condition is expensive.
    rows: usize,
    spent: Duration,
}

impl Work {
    /// The next rows that pass, as events.
    fn piece(&mut self) -> query::Result<Bytes> {
        let (events, mut text) = (&self.arrived.events, Vec::new());
        while self.row < events.num_rows() && text.len() < PIECE_BYTES {
            let rows = self.rows.min(events.num_rows() - self.row);
            let began = Instant::now();
            let passed = self.filter.filter(&events.slice(self.row, rows))?;
            self.row += rows;
            let took = began.elapsed();
            self.spent += took;
            if self.spent > BATCH_WITHIN && self.row < events.num_rows() {
                return Err(query::Error::Limit {
                    limit: "the time of a tail's condition",
                    message: format!(
                        "the condition took more than {} s for {} of {} events that came together",
                        BATCH_WITHIN.as_secs(),
                        self.row,
                        events.num_rows()
                    ),
                    hint: "follow with a cheaper condition",
                });
            }
            self.rows = match took < SLICE_WITHIN {
                true => rows * 2,
                false => (rows / 2).max(1),
            };
            let mut lines = Vec::new();
            write(Output::Ndjson, &self.filter.schema(), &[passed], &mut lines)?;
            for line in lines.split(|b| *b == b'\n') {
                event(line, &mut text);
            }
        }
        Ok(text.into())
    }
}

/// A line as an event.
pub(super) fn event(line: &[u8], text: &mut Vec<u8>) {
    if !line.is_empty() {
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(line);
        text.extend_from_slice(b"\n\n");
    }
}

/// Says to a client that it does not get everything.
pub(super) fn missed(pieces: u64) -> Bytes {
    format!("event: missed\ndata: {}\n\n", json!({ "missed": pieces })).into()
}

/// Says to a client why its tail ends.
fn failed(error: &query::Error) -> Bytes {
    format!("event: error\ndata: {}\n\n", answer::query_error(error)).into()
}
