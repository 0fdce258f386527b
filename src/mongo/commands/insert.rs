//! `insert`: documents become one batch.
//!
//! # Invariants
//! * The answer counts and names what happened to each document: stored, or failed with its index,
//!   code and reason. Nothing of an ordered insert behind its first failure is stored.
//! * A document without a place among events is in quarantine, whole, except for one that repeats
//!   the `_id` of another of its insert, which its client has.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, RawDocument, doc};
use ingest::{Format, ParseOptions, Parsed, Records};
use storage::{Ack, Clock, Durability, Identity, Name, SystemClock, WriteConcern};
use tokio::sync::oneshot;
use xxhash_rust::xxh3::Xxh3Default;

use crate::access::{Action, Target};
use crate::mongo::command::{Concern, MongoCommand};
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::hello::BATCH_DOCUMENTS_MAX;
use crate::mongo::message::{DOCUMENT_BYTES_MAX, MongoMessage};
use crate::mongo::namespace::Collection;
use crate::mongo::session::MongoConnection;
use crate::serve::{
    Client, Content, Delivery, Length, NotReached, Serving, Submission, reached, submitted_concern,
};

/// The protocol in counters, and the source of quarantined documents.
const PROTOCOL: &str = "mongodb";
const FIELDS: [&str; 4] = [
    "ordered",
    "bypassDocumentValidation",
    "documents",
    "allowImplicitCollectionCreation",
];

/// The documents of an insert that go to the store.
#[derive(Debug, Default)]
struct Brought {
    records: Records,
    /// The index of each record among the documents of the client.
    indexes: Vec<usize>,
    errors: Vec<WriteError>,
}

/// The failure of one document.
#[derive(Debug)]
struct WriteError {
    index: usize,
    code: i32,
    message: String,
}

/// The terms on which documents are stored.
struct Terms {
    stream: Name,
    concern: WriteConcern,
    durability: Durability,
    wtimeout: Option<Duration>,
    identity: Option<String>,
    ordered: bool,
}

/// An insert of which the store has the batch.
struct SubmittedInsert {
    submission: Submission,
    errors: Vec<WriteError>,
    /// Documents that are stored if the batch is.
    stored: u64,
}

/// `insert`
pub(super) async fn insert(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
    message: &MongoMessage,
) -> Result<Document> {
    if command.is_in_transaction() {
        let message =
            "there are no transactions: an insert is one batch, stored whole or not at all";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
    }
    command.check_fields(&FIELDS)?;
    let client = connection.client(command.name)?;
    let serving = Arc::clone(connection.serving());
    let terms = Terms::of(&serving, &client, command)?;
    let documents = command.documents("documents")?;
    if documents.is_empty() || documents.len() > BATCH_DOCUMENTS_MAX {
        let found = documents.len();
        return Err(CommandError::new(
            code::INVALID_LENGTH,
            format!(
                "Write batch sizes must be between 1 and {BATCH_DOCUMENTS_MAX}. Got {found} operations."
            ),
        ));
    }
    let brought = Brought::of(&documents, terms.ordered)?;
    let (durability, wtimeout) = (terms.durability, terms.wtimeout);
    let length = Length::of(message.length());
    let submitted = submit(&serving, &client, terms, brought, length).await?;
    let reached = match submitted.submission {
        Submission::Waiting(waiting) if durability != Durability::Unacknowledged => {
            reached(&*serving.intake, waiting, durability, wtimeout).await
        }
        Submission::Waiting(_) => Ok(Vec::new()),
        Submission::Nothing(ack) => Ok(vec![ack]),
    };
    let mut answer = Document::new();
    let late = match reached {
        Ok(acks) => {
            answer.insert("n", count(&acks, submitted.stored));
            None
        }
        Err(NotReached::TooLate(acks)) => {
            answer.insert("n", count(&acks, submitted.stored));
            wtimeout
        }
        Err(NotReached::Failed(error)) => return Err(error.into()),
    };
    put_errors(&mut answer, submitted.errors);
    if let Some(limit) = late {
        answer.insert("writeConcernError", too_late(limit));
    }
    Ok(answer)
}

/// Returns the number of stored documents: that of the first copy, if this is another one.
fn count(acks: &[Ack], parsed: u64) -> i32 {
    let counted = match acks {
        [] => parsed,
        acks => acks.iter().map(|ack| ack.accepted).sum(),
    };
    i32::try_from(counted).unwrap_or(i32::MAX)
}

fn put_errors(answer: &mut Document, mut errors: Vec<WriteError>) {
    if errors.is_empty() {
        return;
    }
    errors.sort_by_key(|error| error.index);
    let errors = errors.into_iter().map(|error| {
        let index = i32::try_from(error.index).unwrap_or(i32::MAX);
        Bson::from(doc! { "index": index, "code": error.code, "errmsg": error.message })
    });
    answer.insert("writeErrors", errors.collect::<Vec<_>>());
}

fn too_late(limit: Duration) -> Document {
    doc! {
        "code": code::WRITE_CONCERN_TIMEOUT,
        "codeName": "WriteConcernTimeout",
        "errmsg": format!(
            "waiting for the write concern timed out after {} ms; the documents are stored, and reach the concern by themselves",
            limit.as_millis()
        ),
        "errInfo": { "wtimeout": true },
    }
}

impl Terms {
    fn of(serving: &Serving, client: &Client, command: &MongoCommand<'_>) -> Result<Self> {
        let (database, named) = (command.database()?, command.collection()?);
        let snapshot = serving.store.snapshot();
        let stream = match Collection::of(database, named, &snapshot)? {
            Collection::Stream(stream) => stream,
            Collection::Level { rollup, level } => {
                return Err(CommandError::new(
                    166,
                    format!(
                        "'{rollup}.{level}' is a level of the rollup '{rollup}', which the store itself keeps; insert events into its stream"
                    ),
                ));
            }
        };
        if !client.may(Action::Ingest, Target::Stream(stream.as_str())) {
            return Err(CommandError::new(
                code::UNAUTHORIZED,
                format!("not authorized on {database} to insert into the stream {stream}"),
            ));
        }
        let asked = command.concern()?;
        let concern = match asked {
            Some(Concern { concern, .. }) => concern,
            None => serving.config.concern(stream.as_str())?,
        };
        let durability = serving.intake.gives(concern).map_err(|error| {
            CommandError::new(
                code::UNSATISFIABLE_WRITE_CONCERN,
                format!("{error}; nothing was stored"),
            )
        })?;
        let session = command.retry_identity()?;
        Ok(Self {
            identity: session.map(|session| format!("{stream}\0{session}")),
            stream,
            concern,
            durability,
            wtimeout: asked.and_then(|asked| asked.wtimeout),
            ordered: command.boolean("ordered")?.unwrap_or(true),
        })
    }

    /// Makes the delivery of records.
    fn delivery(self, serving: &Serving, records: Records) -> Delivery {
        let mut options = ParseOptions {
            format: Format::Bson,
            received_us: SystemClock.now_us(),
            ordered: self.ordered,
            multiline: None,
            ..crate::intake::stream_options(&serving.config, self.stream.as_str())
        };
        // A document has no line.
        options.selection.raw_line = false;
        let identity = self.identity.map(|key| {
            let mut hasher = Xxh3Default::new();
            hasher.update(&[u8::from(self.ordered)]);
            hasher.update(records.as_bytes());
            let body_hash = hasher.digest();
            Identity::Key { key, body_hash }
        });
        Delivery {
            counts: serving.arrivals.of(PROTOCOL, &self.stream),
            stream: self.stream,
            source: PROTOCOL.into(),
            identity,
            options,
            content: Content::Records(records),
        }
    }
}

impl Brought {
    /// Takes the documents up to the first failure of an ordered insert.
    fn of(documents: &[&[u8]], ordered: bool) -> Result<Self> {
        let mut brought = Self::default();
        let mut ids = HashSet::new();
        for (index, bytes) in documents.iter().enumerate() {
            if bytes.len() > DOCUMENT_BYTES_MAX {
                return Err(CommandError::new(
                    code::BSON_OBJECT_TOO_LARGE,
                    format!(
                        "document {index} has {} bytes; the limit is {DOCUMENT_BYTES_MAX}",
                        bytes.len()
                    ),
                ));
            }
            let id = id_of(bytes);
            if let Some(id) = id.filter(|id| !ids.insert(*id)) {
                brought.errors.push(WriteError {
                    index,
                    code: code::DUPLICATE_KEY,
                    message: format!(
                        "E11000 duplicate key error: the _id of document {index} is that of another one of this insert: {id:02x?}"
                    ),
                });
                if ordered {
                    break;
                }
                continue;
            }
            brought.indexes.push(index);
            brought.records.push(bytes);
        }
        Ok(brought)
    }
}

/// Returns the `_id` of a document as bytes: those of its type and its value.
fn id_of(bytes: &[u8]) -> Option<&[u8]> {
    let document = RawDocument::from_bytes(bytes).ok()?;
    let mut before = 4;
    for element in document.iter_elements() {
        let element = element.ok()?;
        let size = element.size();
        let begin = before;
        before += 1 + element.key().as_str().len() + 1 + size;
        if element.key().as_str() == "_id" {
            return bytes.get(begin..before);
        }
    }
    None
}

/// Parses the documents where that may take time, and hands the batch to the store.
async fn submit(
    serving: &Serving,
    client: &Client,
    terms: Terms,
    brought: Brought,
    length: Length,
) -> Result<SubmittedInsert> {
    serving.intake.note_foreground();
    let ordered = terms.ordered;
    let submitted = submitted_concern(terms.concern, terms.durability, terms.wtimeout.is_some());
    let delivery = terms.delivery(serving, brought.records);
    let (intake, indexes) = (Arc::clone(&serving.intake), brought.indexes);
    let (mut errors, (send, done)) = (brought.errors, oneshot::channel());
    let place = serving.parsing.place(client.share(), length).await;
    serving.parsing.run(place, move || {
        let job = || {
            let parsed = delivery.parse(&*intake).map_err(|error| {
                CommandError::new(code::BAD_VALUE, format!("{error}; nothing was stored"))
            })?;
            add_failed(&mut errors, &parsed.parsed, &indexes, ordered);
            let stored = parsed.parsed.events.num_rows() as u64;
            let submission = parsed.submit(&*intake, submitted, length)?;
            Ok(SubmittedInsert {
                submission,
                errors,
                stored,
            })
        };
        // The client has gone if nobody waits for this.
        let _ignored = send.send(job());
    });
    done.await.unwrap_or_else(|_| {
        Err(CommandError::new(
            1,
            "the insert failed; see the server's log",
        ))
    })
}

/// Adds the failures of quarantined documents; an ordered insert ends with its first failure.
fn add_failed(errors: &mut Vec<WriteError>, parsed: &Parsed, indexes: &[usize], ordered: bool) {
    let index_of = |rank: u64| {
        let rank = usize::try_from(rank).unwrap_or(usize::MAX);
        indexes.get(rank).copied().unwrap_or(rank)
    };
    errors.extend(parsed.quarantine.iter().map(|item| WriteError {
        index: index_of(item.index),
        code: code_of(item.reason),
        message: format!(
            "{}: {}; the document is kept in quarantine",
            item.reason, item.detail
        ),
    }));
    if let (true, Some(stopped)) = (ordered, parsed.stopped_at) {
        let last = index_of(stopped);
        errors.retain(|error| error.index <= last);
    }
}

/// Returns MongoDB's code for a reason of the quarantine.
fn code_of(reason: &str) -> i32 {
    match reason {
        "too_deep" => code::OVERFLOW,
        "bad_bson" => code::INVALID_BSON,
        "too_large" => code::BSON_OBJECT_TOO_LARGE,
        _ => code::BAD_VALUE,
    }
}
