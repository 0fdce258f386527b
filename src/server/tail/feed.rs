//! New events, filtered and formatted once for all clients that follow the same stream under the
//! same condition or log query.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use axum::body::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use parking_lot::Mutex;
use query::TailFilter;
use query::logql::{Expr, LineFilter, parse};
use query::output::{Output, write};
use serde_json::{Value, json};
use storage::{Arrived, Name};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

use super::choice::{Follow, Followed};
use super::{BATCH_WITHIN, EVALUATIONS_MAX};
use crate::serve::{CompiledFilter, Serving, Stop};
use crate::server::loki::tail_message;

/// Batches queued for a feed that evaluates slowly; its tails miss those beyond them.
const BATCHES: usize = 16;
/// Pieces queued for a client that reads slowly; it misses those beyond them.
const PIECES: usize = 64;
/// Text bytes at which a piece is cut.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum time per batch that a feed waits for its slowest client.
const WAIT_MAX: Duration = Duration::from_secs(1);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The next slice of rows is twice as long if this one took less time, otherwise half as long.
const SLICE_WITHIN: Duration = Duration::from_millis(20);

/// A message to every client of a feed.
#[derive(Debug, Clone)]
pub(in crate::server) enum Piece {
    Events {
        /// The lowest sequence number of its batch.
        first_seq: u64,
        text: Bytes,
    },
    /// The feed has skipped this many batches.
    Missed(u64),
    /// The feed ends with this error.
    Failed(Arc<query::Error>),
}

/// The receiving end of a feed.
pub(in crate::server) type OwnPieces = broadcast::Receiver<Piece>;

type Batches = HashMap<Name, broadcast::Sender<Arc<Arrived>>>;

/// All tails of a server.
#[derive(Debug)]
pub(in crate::server) struct Tails {
    permits: Arc<Semaphore>,
    clients_max: usize,
    evaluations: Arc<Semaphore>,
    feeds: Mutex<HashMap<Followed, broadcast::Sender<Piece>>>,
    /// New events by stream; `Some` while a thread takes them from the store.
    batches: Mutex<Option<Batches>>,
}

impl Tails {
    /// Creates the tails of a server, for at most `clients_max` clients.
    pub(in crate::server) fn new(clients_max: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(clients_max)),
            clients_max,
            evaluations: Arc::new(Semaphore::new(EVALUATIONS_MAX)),
            feeds: Mutex::default(),
            batches: Mutex::default(),
        }
    }

    /// Returns the number of clients that follow a stream.
    pub(in crate::server) fn clients(&self) -> usize {
        self.clients_max - self.permits.available_permits()
    }

    /// Returns a permit for one more client, if there is one left.
    pub(in crate::server) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Joins the feed of a choice from now on; the first client creates the feed.
    pub(in crate::server) fn join(
        self: &Arc<Self>,
        serving: &Arc<Serving>,
        key: &Followed,
    ) -> std::io::Result<OwnPieces> {
        let mut feeds = self.feeds.lock();
        if let Some(feed) = feeds.get(key) {
            return Ok(feed.subscribe());
        }
        let batches = self.batches_of(serving, &key.stream)?;
        let (send, receive) = broadcast::channel(PIECES);
        feeds.insert(key.clone(), send.clone());
        drop(feeds);
        let feed = Feed {
            serving: Arc::clone(serving),
            tails: Arc::clone(self),
            key: key.clone(),
            compiled: None,
            lines: None,
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
            // The thread must not hold the store: the server does not wait for the thread when it
            // ends.
            let (tails, stop) = (Arc::clone(self), serving.stop.clone());
            let arrivals = serving.follow();
            std::thread::Builder::new()
                .name("logmill-tail".into())
                .spawn(move || distribute(&tails, &stop, &arrivals))?;
        }
        let streams = batches.get_or_insert_default();
        let of_stream = streams
            .entry(stream.clone())
            .or_insert_with(|| broadcast::channel(BATCHES).0);
        Ok(of_stream.subscribe())
    }

    /// Removes a feed without clients; returns whether it was removed.
    fn leave(&self, key: &Followed) -> bool {
        let mut feeds = self.feeds.lock();
        let unused = feeds.get(key).is_none_or(|feed| feed.receiver_count() == 0);
        if unused {
            feeds.remove(key);
        }
        unused
    }

    /// Removes a feed, so that its present clients are its last.
    fn end(&self, key: &Followed) {
        self.feeds.lock().remove(key);
    }
}

/// Sends new events to the feeds of their stream, until there are no feeds or the server stops.
fn distribute(tails: &Tails, stop: &Stop, arrivals: &Receiver<Arrived>) {
    loop {
        let arrived = arrivals.recv_timeout(STOP_CHECK_INTERVAL);
        let mut batches = tails.batches.lock();
        let streams = batches.get_or_insert_default();
        streams.retain(|_, feeds| feeds.receiver_count() > 0);
        let closed = matches!(arrived, Err(RecvTimeoutError::Disconnected));
        if closed || streams.is_empty() || stop.is_set() {
            // The next client starts another thread.
            *batches = None;
            return;
        }
        let Ok(arrived) = arrived else { continue };
        if let Some(feeds) = streams.get(&arrived.stream) {
            // The feed may have ended at this moment.
            let _ignored = feeds.send(Arc::new(arrived));
        }
    }
}

/// A stream and a choice of its events, while clients follow them.
#[derive(Debug)]
struct Feed {
    serving: Arc<Serving>,
    tails: Arc<Tails>,
    key: Followed,
    compiled: Option<CompiledFilter>,
    /// The lines of a log query.
    lines: Option<Arc<LineFilter>>,
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
                        // Clients that join from now on get another feed.
                        self.tails.end(&self.key);
                        self.send(Piece::Failed(Arc::new(error)));
                        return;
                    }
                }
                Err(RecvError::Lagged(missed)) => self.send(Piece::Missed(missed)),
                Err(RecvError::Closed) => break,
            }
        }
        self.tails.end(&self.key);
    }

    /// Sends a piece; without clients it is dropped.
    fn send(&self, piece: Piece) {
        let _ignored = self.send.send(piece);
    }

    /// Compiles the choice for the present columns of the stream.
    fn compile(&mut self) -> query::Result<()> {
        let stream = &self.key.stream;
        let condition = match &self.key.follow {
            Follow::Where(condition) => condition.as_deref(),
            Follow::Logql(text) => {
                if let Expr::Log(query) = parse(text)? {
                    self.lines = LineFilter::new(&query, stream.as_str())?.map(Arc::new);
                }
                None
            }
        };
        let agreed = self.key.agreed()?;
        self.compiled = self.serving.filter(stream, condition, agreed.as_ref())?;
        Ok(())
    }

    async fn pass_on(&mut self, arrived: Arc<Arrived>) -> query::Result<()> {
        // A new column of the stream needs a new filter. The batch has one column more than the
        // stream: `_seq`.
        let columns = arrived.events.num_columns();
        if self
            .compiled
            .as_ref()
            .is_none_or(|compiled| compiled.columns + 1 < columns)
        {
            self.compile()?;
        }
        let Some(compiled) = self.compiled.clone() else {
            return Ok(());
        };
        let seqs = arrived.events.column_by_name("_seq");
        let seqs = seqs.and_then(|c| c.as_primitive_opt::<UInt64Type>());
        let first_seq = seqs.and_then(arrow::compute::min).unwrap_or(u64::MAX);
        let mut batch = BatchFilter {
            filter: compiled.filter,
            lines: self.lines.clone(),
            arrived,
            row: 0,
            rows: 1,
            spent: Duration::ZERO,
        };
        let mut waited = Duration::ZERO;
        while batch.row < batch.arrived.events.num_rows() {
            let permit = Arc::clone(&self.tails.evaluations).acquire_owned().await;
            let done = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                let text = batch.piece();
                (batch, text)
            });
            let (after, text) = done.await.map_err(std::io::Error::other)?;
            batch = after;
            let text = text?;
            if text.is_empty() {
                continue;
            }
            while self.send.len() + 1 >= PIECES && waited < WAIT_MAX {
                tokio::time::sleep(CHECK_INTERVAL).await;
                waited += CHECK_INTERVAL;
            }
            self.send(Piece::Events { first_seq, text });
        }
        Ok(())
    }
}

/// A batch that is filtered slice by slice.
#[derive(Debug)]
struct BatchFilter {
    filter: Arc<TailFilter>,
    lines: Option<Arc<LineFilter>>,
    arrived: Arc<Arrived>,
    /// The next row to filter.
    row: usize,
    /// Rows of the next slice: few if the condition is expensive.
    rows: usize,
    spent: Duration,
}

impl BatchFilter {
    /// Formats the next matching rows as events, up to about [`PIECE_BYTES`].
    fn piece(&mut self) -> query::Result<Bytes> {
        let (events, mut text) = (&self.arrived.events, Vec::new());
        let (mut found, mut found_bytes) = (Vec::new(), 0);
        while self.row < events.num_rows() && text.len() + found_bytes < PIECE_BYTES {
            let rows = self.rows.min(events.num_rows() - self.row);
            let began = Instant::now();
            let passed = self.filter.filter(&events.slice(self.row, rows))?;
            if let Some(filter) = &self.lines {
                let lines = filter.lines(&passed)?;
                found_bytes += lines
                    .iter()
                    .map(|(_, entry)| entry.line.len())
                    .sum::<usize>();
                found.extend(lines);
            }
            self.row += rows;
            let took = began.elapsed();
            self.spent += took;
            if self.spent > BATCH_WITHIN && self.row < events.num_rows() {
                return Err(query::Error::Limit {
                    limit: "the time of a tail's condition",
                    message: format!(
                        "the condition took more than {} s for {} of {} events that arrived together",
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
            if self.lines.is_none() {
                let mut lines = Vec::new();
                write(Output::Ndjson, &self.filter.schema(), &[passed], &mut lines)?;
                for line in lines.split(|b| *b == b'\n') {
                    event(line, &mut text);
                }
            }
        }
        match found.is_empty() {
            true => Ok(text.into()),
            false => Ok(tail_message(found, Vec::new()).into()),
        }
    }
}

/// Appends a line as an event.
pub(super) fn event(line: &[u8], text: &mut Vec<u8>) {
    if !line.is_empty() {
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(line);
        text.extend_from_slice(b"\n\n");
    }
}

/// Formats the event that reports missed batches or pieces.
pub(super) fn missed(pieces: u64) -> Bytes {
    format!("event: missed\ndata: {}\n\n", json!({ "missed": pieces })).into()
}

/// Formats the event that reports why a tail ends.
pub(super) fn failed(error: &Value) -> Bytes {
    format!("event: error\ndata: {error}\n\n").into()
}
