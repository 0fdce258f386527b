//! Cursors: answers that a client fetches in batches.
//!
//! # Invariants
//! * A cursor belongs to the account that opened it; to others it does not exist.
//! * Open cursors are bounded in number, for one account and for all, and in the bytes that all of
//!   them hold. One that is not used for [`IDLE_WITHIN`] is closed when another one is opened.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bson::raw::{RawDocumentBuf, cstr};
use bson::{Bson, Document};
use parking_lot::Mutex;
use query::mongo::{Projection, Sort, TopK};
use rand::Rng as _;

use super::command::{MongoCommand, number};
use super::document::{AnswerDocument, DocumentBatch, WaitingDocuments};
use super::error::{CommandError, Result, code};
use super::message::DOCUMENT_BYTES_MAX;
use super::reading::DocumentReading;
use super::source::{ArrivalReading, DocumentSource};
use super::tail::TailReading;

/// Time after which an unused cursor may be closed; MongoDB's is the same.
const IDLE_WITHIN: Duration = Duration::from_secs(600);
/// Maximum open cursors of all clients, and of one account.
const OPEN_MAX: usize = 1000;
const OWNED_MAX: usize = OPEN_MAX / 2;
/// Maximum bytes of documents that all open cursors hold, and those of one account.
const HELD_BYTES_MAX: usize = 256 << 20;
const OWNED_BYTES_MAX: usize = HELD_BYTES_MAX / 2;
/// Time for which a batch of a tailable cursor waits for documents; MongoDB's is the same.
const AWAIT_WITHIN: Duration = Duration::from_secs(1);
/// Maximum time of such a wait.
pub(super) const AWAIT_MAX: Duration = Duration::from_secs(60);
/// Interval at which it looks for new events.
const AWAIT_INTERVAL: Duration = Duration::from_millis(20);
/// Documents of a first batch for a client that names no number.
const FIRST_DOCUMENTS: usize = 101;
/// Maximum bytes of documents that are held to be sorted, as in MongoDB.
const SORT_BYTES_MAX: usize = 100 << 20;

/// The documents of an answer that a client has not fetched.
pub(super) struct MongoCursor {
    source: DocumentSource,
    projection: Option<Projection>,
    skip: u64,
    limit: Option<u64>,
    /// The document that did not fit into a batch.
    next: WaitingDocuments,
    /// Time for which an empty batch waits for documents, where the client names none.
    awaits: Option<Duration>,
}

/// The order of the documents of a cursor.
pub(super) enum CursorOrder {
    /// The order of arrival, if the answer is a short one.
    Arrival,
    /// The last to arrive comes first.
    Latest,
    Fields(Sort),
}

impl CursorOrder {
    /// Reads the order of a command: `sort`, or a hint that names the order of arrival.
    ///
    /// # Errors
    /// If the sort cannot be understood.
    pub(super) fn of(command: &MongoCommand<'_>) -> Result<Self> {
        let sort = command.document("sort")?.filter(|of| !of.is_empty());
        let hint = command.get("hint").and_then(Bson::as_document);
        let natural = |of: &Document| of.get("$natural").cloned();
        let order = match sort {
            Some(sort) if sort.len() > 1 || !sort.contains_key("$natural") => {
                return Ok(Self::Fields(Sort::parse(sort)?));
            }
            Some(sort) => natural(sort),
            None => hint.and_then(natural),
        };
        match order.as_ref().map(number) {
            None | Some(Some(1)) => Ok(Self::Arrival),
            Some(Some(-1)) => Ok(Self::Latest),
            Some(_) => {
                let message = "the order '$natural' is 1 or -1";
                Err(CommandError::new(code::BAD_VALUE, message))
            }
        }
    }
}

impl MongoCursor {
    /// Opens a cursor on the documents of a source.
    pub(super) fn new(source: DocumentSource) -> Self {
        Self {
            source,
            projection: None,
            skip: 0,
            limit: None,
            next: WaitingDocuments::default(),
            awaits: None,
        }
    }

    /// Opens a cursor on a stream that is followed. With `awaits`, a batch waits for documents.
    pub(super) fn tail(
        tail: TailReading,
        projection: Option<Projection>,
        (skip, limit): (u64, Option<u64>),
        awaits: bool,
    ) -> Self {
        Self {
            projection,
            skip,
            limit,
            awaits: awaits.then_some(AWAIT_WITHIN),
            ..Self::new(DocumentSource::Tail(Box::new(tail)))
        }
    }

    /// Opens a cursor on documents that match. To sort them it reads all of them first.
    ///
    /// # Errors
    /// The errors of reading, and a sort of too many bytes.
    pub(super) async fn open(
        mut reading: DocumentReading,
        order: CursorOrder,
        projection: Option<Projection>,
        (skip, limit): (u64, Option<u64>),
    ) -> Result<Self> {
        let most = limit.map_or(u64::MAX, |limit| limit.saturating_add(skip));
        let source = match order {
            CursorOrder::Fields(sort) => DocumentSource::Ready(sorted(reading, sort, most).await?),
            CursorOrder::Latest => DocumentSource::Ready(latest(reading, most).await?),
            CursorOrder::Arrival => {
                if projection.is_none() {
                    reading.encode();
                }
                DocumentSource::Reading(Box::new(ArrivalReading::begin(reading, most).await?))
            }
        };
        Ok(Self {
            projection,
            skip,
            limit,
            ..Self::new(source)
        })
    }

    /// Returns the next documents: at most so many, and no more bytes than a message takes.
    ///
    /// # Errors
    /// The errors of reading; the cursor has ended then.
    pub(super) async fn batch(&mut self, documents: usize) -> Result<DocumentBatch> {
        let (mut batch, mut batch_bytes) = (DocumentBatch::default(), 0);
        while batch.len() < documents {
            if self.next.is_empty() {
                match self.read().await? {
                    Some(document) => self.next.push(document),
                    None => break,
                }
            }
            batch_bytes += self.next.next_bytes().unwrap_or(0);
            if !batch.is_empty() && batch_bytes > DOCUMENT_BYTES_MAX {
                break;
            }
            if let Some(document) = self.next.pop() {
                batch.push(document)?;
            }
        }
        Ok(batch)
    }

    /// Returns the next batch, after a wait for its first document: as long as the client asks for,
    /// if the cursor waits at all.
    ///
    /// # Errors
    /// The errors of [`MongoCursor::batch`].
    async fn awaited_batch(
        &mut self,
        documents: usize,
        within: Option<Duration>,
    ) -> Result<DocumentBatch> {
        let begun = Instant::now();
        let within = self.awaits.map(|usual| within.unwrap_or(usual));
        loop {
            let batch = self.batch(documents).await?;
            let is_waiting = within.is_some_and(|within| begun.elapsed() < within);
            if !batch.is_empty() || !is_waiting || !self.has_more() {
                return Ok(batch);
            }
            tokio::time::sleep(AWAIT_INTERVAL).await;
        }
    }

    /// Reads the next document that is not skipped, up to the limit.
    async fn read(&mut self) -> Result<Option<AnswerDocument>> {
        if self.limit == Some(0) {
            return Ok(None);
        }
        loop {
            let Some(document) = self.source.next().await? else {
                return Ok(None);
            };
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.limit = self.limit.map(|limit| limit - 1);
            return Ok(Some(match &self.projection {
                Some(projection) => {
                    AnswerDocument::new(projection.apply(&document.into_document())?)
                }
                None => document,
            }));
        }
    }

    /// Returns the bytes of the documents that it holds.
    fn held_bytes(&self) -> usize {
        self.source.held_bytes() + self.next.bytes()
    }

    fn has_more(&self) -> bool {
        !self.next.is_empty() || !(self.source.has_ended() || self.limit == Some(0))
    }
}

/// Reads all documents, and returns the first of a sort.
async fn sorted(mut reading: DocumentReading, sort: Sort, most: u64) -> Result<WaitingDocuments> {
    let most = usize::try_from(most).ok();
    let mut sorted = TopK::new(sort, most, SORT_BYTES_MAX);
    while let Some((_, document)) = reading.next().await? {
        sorted.push(document.into_document())?;
    }
    Ok(sorted.finish().into_iter().collect())
}

/// Reads all documents, and returns the last ones to arrive, the very last first.
async fn latest(mut reading: DocumentReading, most: u64) -> Result<WaitingDocuments> {
    let (mut kept, mut kept_bytes, mut count) = (BTreeMap::new(), 0, 0_u64);
    while let Some((seq, document)) = reading.next().await? {
        kept_bytes += document.bytes();
        // Documents of a level have no number of their own.
        kept.insert((seq, count), document);
        count += 1;
        if kept.len() as u64 > most {
            let first = kept.pop_first();
            kept_bytes -= first.map_or(0, |(_, document)| document.bytes());
        }
        if kept_bytes > SORT_BYTES_MAX {
            let message = format!(
                "the documents of {{$natural: -1}} need more than {SORT_BYTES_MAX} bytes; use a limit"
            );
            return Err(CommandError::new(
                code::QUERY_EXCEEDED_MEMORY_LIMIT,
                message,
            ));
        }
    }
    let mut documents = WaitingDocuments::default();
    for document in kept.into_values().rev() {
        documents.push(document);
    }
    Ok(documents)
}

/// A cursor between two batches.
struct OpenCursor {
    cursor: MongoCursor,
    held_bytes: usize,
    owner: String,
    namespace: String,
    used: Instant,
}

/// The open cursors of all connections.
#[derive(Default)]
pub(super) struct Cursors(Mutex<HashMap<i64, OpenCursor>>);

impl std::fmt::Debug for Cursors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cursors")
            .field(&self.0.lock().len())
            .finish()
    }
}

/// The part of a command that its batch is made by.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchOptions<'a> {
    pub(super) owner: &'a str,
    /// The database and the collection, as the client names them.
    pub(super) namespace: &'a str,
    /// Maximum documents; `None` for as many as fit.
    pub(super) documents: Option<usize>,
    /// The cursor ends with the first batch.
    pub(super) is_single: bool,
    /// Time for which a cursor that waits for documents does.
    pub(super) within: Option<Duration>,
}

impl Cursors {
    /// Answers with the first batch of a cursor, and keeps it if there is more.
    ///
    /// # Errors
    /// The errors of reading, or too many cursors are open.
    pub(super) async fn first(
        &self,
        mut cursor: MongoCursor,
        options: BatchOptions<'_>,
    ) -> Result<RawDocumentBuf> {
        let documents = options.documents.unwrap_or(FIRST_DOCUMENTS);
        let batch = cursor.batch(documents).await?;
        let id = match cursor.has_more() && !options.is_single {
            true => self.keep(None, cursor, options)?,
            false => 0,
        };
        Ok(batch.answer(cstr!("firstBatch"), id, options.namespace))
    }

    /// Answers with the next batch of a cursor.
    ///
    /// # Errors
    /// If there is no such cursor of this owner, and the errors of reading.
    pub(super) async fn next(&self, id: i64, options: BatchOptions<'_>) -> Result<RawDocumentBuf> {
        let mut cursor = self.take(id, options)?;
        let documents = options.documents.unwrap_or(usize::MAX);
        let batch = cursor.awaited_batch(documents, options.within).await?;
        let id = match cursor.has_more() {
            true => self.keep(Some(id), cursor, options)?,
            false => 0,
        };
        Ok(batch.answer(cstr!("nextBatch"), id, options.namespace))
    }

    /// Closes a cursor. Returns whether there was one of this owner.
    pub(super) fn close(&self, id: i64, options: BatchOptions<'_>) -> bool {
        self.take(id, options).is_ok()
    }

    fn take(&self, id: i64, options: BatchOptions<'_>) -> Result<MongoCursor> {
        let mut all = self.0.lock();
        let is_own =
            |open: &&OpenCursor| open.owner == options.owner && open.namespace == options.namespace;
        match all.get(&id).filter(is_own) {
            Some(_) => Ok(all.remove(&id).expect("BUG: it was found").cursor),
            None => Err(CommandError::new(
                code::CURSOR_NOT_FOUND,
                format!("cursor id {id} not found"),
            )),
        }
    }

    fn keep(
        &self,
        id: Option<i64>,
        mut cursor: MongoCursor,
        options: BatchOptions<'_>,
    ) -> Result<i64> {
        cursor.source.pack()?;
        cursor.next.pack()?;
        let mut all = self.0.lock();
        all.retain(|_, open| open.used.elapsed() < IDLE_WITHIN);
        let owned = all.values().filter(|open| open.owner == options.owner);
        if all.len() >= OPEN_MAX || owned.clone().count() >= OWNED_MAX {
            let message = "too many cursors are open; read them to their ends, or close them";
            return Err(CommandError::new(code::TOO_MANY_CURSORS, message));
        }
        let held_bytes = cursor.held_bytes();
        let held = |open: &OpenCursor| open.held_bytes;
        let all_bytes = held_bytes + all.values().map(held).sum::<usize>();
        let owned_bytes = held_bytes + owned.map(held).sum::<usize>();
        if all_bytes > HELD_BYTES_MAX || owned_bytes > OWNED_BYTES_MAX {
            let message = "open cursors hold too many documents; ask for fewer, or close others";
            return Err(CommandError::new(code::TOO_MANY_CURSORS, message));
        }
        // An identifier that nobody guesses.
        let id = id.unwrap_or_else(|| rand::rng().random_range(1..i64::MAX));
        let open = OpenCursor {
            cursor,
            held_bytes,
            owner: options.owner.to_owned(),
            namespace: options.namespace.to_owned(),
            used: Instant::now(),
        };
        all.insert(id, open);
        Ok(id)
    }
}
