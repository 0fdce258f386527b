//! Cursors: answers that a client fetches in batches.
//!
//! # Invariants
//! * A cursor belongs to the account that opened it; to others it does not exist.
//! * Cursors are bounded in number, and in the bytes that each holds. One that is not used for
//!   [`IDLE_WITHIN`] is closed when another one is opened.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use parking_lot::Mutex;
use query::mongo::{Projection, Sort, TopK};
use rand::Rng as _;

use super::error::{CommandError, Result, code};
use super::message::DOCUMENT_BYTES_MAX;
use super::reading::DocumentReading;

/// Time after which an unused cursor may be closed; MongoDB's is the same.
const IDLE_WITHIN: Duration = Duration::from_secs(600);
/// Maximum open cursors of all clients.
const OPEN_MAX: usize = 1000;
/// Documents of a first batch for a client that names no number.
const FIRST_DOCUMENTS: usize = 101;
/// Bytes of documents that are read ahead, so that a query of few documents ends at once and does
/// not wait for the next batch of its client.
const AHEAD_BYTES: usize = 4 << 20;
/// Maximum bytes of documents that are held to be sorted, as in MongoDB.
const SORT_BYTES_MAX: usize = 100 << 20;

/// The documents of an answer that a client has not fetched.
pub(super) struct MongoCursor {
    reading: Option<DocumentReading>,
    projection: Option<Projection>,
    skip: u64,
    limit: Option<u64>,
    /// Documents that are read, each with its bytes.
    ready: VecDeque<(Document, usize)>,
}

impl MongoCursor {
    /// Opens a cursor on documents that match. With a sort it reads all of them first; without one
    /// a short answer comes in the order of arrival.
    ///
    /// # Errors
    /// The errors of reading, and a sort of too many bytes.
    pub(super) async fn open(
        mut reading: DocumentReading,
        sort: Option<Sort>,
        projection: Option<Projection>,
        (skip, limit): (u64, Option<u64>),
    ) -> Result<Self> {
        let mut cursor = Self {
            reading: None,
            projection,
            skip,
            limit,
            ready: VecDeque::new(),
        };
        match sort {
            Some(sort) => {
                let most = limit.map(|limit| limit.saturating_add(skip));
                let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
                let mut sorted = TopK::new(sort, most, SORT_BYTES_MAX);
                while let Some((_, document)) = reading.next().await? {
                    sorted.push(document)?;
                }
                for document in sorted.finish() {
                    cursor.take(document);
                }
            }
            None => cursor.begin(reading).await?,
        }
        Ok(cursor)
    }

    /// Reads the beginning: all of a short answer, which is put into the order of arrival.
    async fn begin(&mut self, mut reading: DocumentReading) -> Result<()> {
        let (mut first, mut bytes) = (Vec::new(), 0);
        let most = self
            .limit
            .map_or(u64::MAX, |limit| limit.saturating_add(self.skip));
        let mut has_ended = false;
        while bytes < AHEAD_BYTES && !has_ended {
            let Some((seq, document)) = reading.next().await? else {
                has_ended = true;
                break;
            };
            bytes += size_of(&document);
            first.push((seq, document));
            has_ended = first.len() as u64 >= most;
        }
        match has_ended {
            true => first.sort_by_key(|(seq, _)| *seq),
            false => self.reading = Some(reading),
        }
        first
            .into_iter()
            .for_each(|(_, document)| self.take(document));
        Ok(())
    }

    /// Takes the next document that matches, unless it is skipped or one too many.
    fn take(&mut self, document: Document) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        match &mut self.limit {
            Some(0) => return,
            Some(limit) => *limit -= 1,
            None => {}
        }
        let document = match &self.projection {
            Some(projection) => projection.apply(&document),
            None => document,
        };
        let bytes = size_of(&document);
        self.ready.push_back((document, bytes));
    }

    /// Returns the next documents: at most so many, and no more bytes than a message takes.
    ///
    /// # Errors
    /// The errors of reading; the cursor has ended then.
    pub(super) async fn batch(&mut self, documents: usize) -> Result<Vec<Bson>> {
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        loop {
            let is_full = batch.len() >= documents;
            let next = self.ready.front().map(|(_, bytes)| *bytes);
            match next {
                _ if is_full && (next.is_some() || self.reading.is_none()) => break,
                Some(bytes) if batch_bytes > 0 && batch_bytes + bytes > DOCUMENT_BYTES_MAX => break,
                Some(bytes) if !is_full => {
                    batch_bytes += bytes;
                    let (document, _) = self.ready.pop_front().expect("BUG: it is there");
                    batch.push(document.into());
                }
                _ => {
                    if !self.read().await? {
                        break;
                    }
                }
            }
        }
        Ok(batch)
    }

    /// Reads one more document. Returns whether there may be others.
    async fn read(&mut self) -> Result<bool> {
        if self.limit == Some(0) {
            self.reading = None;
        }
        let Some(reading) = &mut self.reading else {
            return Ok(false);
        };
        match reading.next().await? {
            Some((_, document)) => self.take(document),
            None => self.reading = None,
        }
        Ok(self.reading.is_some())
    }

    fn has_more(&self) -> bool {
        !self.ready.is_empty() || (self.reading.is_some() && self.limit != Some(0))
    }
}

fn size_of(document: &Document) -> usize {
    document.to_vec().map_or(0, |bytes| bytes.len())
}

/// A cursor between two batches.
struct OpenCursor {
    cursor: MongoCursor,
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
    ) -> Result<Document> {
        let documents = options.documents.unwrap_or(FIRST_DOCUMENTS);
        let batch = cursor.batch(documents).await?;
        let id = match cursor.has_more() && !options.is_single {
            true => self.keep(None, cursor, options)?,
            false => 0,
        };
        Ok(doc! { "cursor": { "firstBatch": batch, "id": id, "ns": options.namespace } })
    }

    /// Answers with the next batch of a cursor.
    ///
    /// # Errors
    /// If there is no such cursor of this owner, and the errors of reading.
    pub(super) async fn next(&self, id: i64, options: BatchOptions<'_>) -> Result<Document> {
        let mut cursor = self.take(id, options)?;
        let batch = cursor
            .batch(options.documents.unwrap_or(usize::MAX))
            .await?;
        let id = match cursor.has_more() {
            true => self.keep(Some(id), cursor, options)?,
            false => 0,
        };
        Ok(doc! { "cursor": { "nextBatch": batch, "id": id, "ns": options.namespace } })
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

    fn keep(&self, id: Option<i64>, cursor: MongoCursor, options: BatchOptions<'_>) -> Result<i64> {
        let mut all = self.0.lock();
        if id.is_none() {
            all.retain(|_, open| open.used.elapsed() < IDLE_WITHIN);
            if all.len() >= OPEN_MAX {
                let message =
                    format!("{OPEN_MAX} cursors are open; read them to their ends, or close them");
                return Err(CommandError::new(code::TOO_MANY_CURSORS, message));
            }
        }
        // An identifier that nobody guesses.
        let id = id.unwrap_or_else(|| rand::rng().random_range(1..i64::MAX));
        let open = OpenCursor {
            cursor,
            owner: options.owner.to_owned(),
            namespace: options.namespace.to_owned(),
            used: Instant::now(),
        };
        all.insert(id, open);
        Ok(id)
    }
}
