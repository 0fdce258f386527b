//! A batch of a command that writes: its terms, the way into the store, and the part of the answer
//! that is the same for all.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, doc};
use ingest::{Format, ParseOptions, Parsed, Records};
use storage::{Ack, Clock, Durability, Identity, Name, StreamKind, SystemClock, WriteConcern};
use tokio::sync::oneshot;
use xxhash_rust::xxh3::Xxh3Default;

use crate::access::{Action, Target};
use crate::mongo::command::MongoCommand;
use crate::mongo::concern::Concern;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::hello::BATCH_DOCUMENTS_MAX;
use crate::mongo::namespace::Collection;
use crate::serve::{
    Client, Content, Delivery, Length, NotReached, Serving, Submission, reached, submitted_concern,
};

/// The protocol in counters, and the source of quarantined documents.
const PROTOCOL: &str = "mongodb";

/// The documents of a command that go to the store.
#[derive(Debug, Default)]
pub(super) struct BatchRecords {
    pub(super) records: Records,
    /// The index of each record among the documents of the client.
    pub(super) indexes: Vec<usize>,
    pub(super) errors: Vec<WriteError>,
    /// The hash by which a repeated command is recognised, if it is not that of the records.
    pub(super) content: Option<u64>,
}

/// The failure of one document.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) index: usize,
    pub(super) code: i32,
    pub(super) message: String,
}

/// The terms on which documents are stored.
pub(super) struct WriteTerms {
    pub(super) stream: Name,
    format: Format,
    concern: WriteConcern,
    durability: Durability,
    wtimeout: Option<Duration>,
    identity: Option<String>,
    pub(super) ordered: bool,
}

/// A batch that the store has.
struct SubmittedBatch {
    submission: Submission,
    errors: Vec<WriteError>,
    /// Documents that are stored if the batch is.
    stored: u64,
}

/// The outcome of a batch.
pub(super) struct StoredBatch {
    /// Documents that are stored: those of the first copy, if this is another one.
    pub(super) count: u64,
    errors: Vec<WriteError>,
    /// The limit that passed before the concern was reached.
    late: Option<Duration>,
}

impl StoredBatch {
    /// Returns the first failure of a batch that has to be stored whole.
    ///
    /// # Errors
    /// The failure, or the concern was not reached in time.
    pub(super) fn succeed(self) -> Result<()> {
        if let Some(failed) = self.errors.into_iter().next() {
            return Err(CommandError::new(failed.code, failed.message));
        }
        match self.late {
            Some(limit) => {
                let message = too_late(limit).get_str("errmsg").unwrap_or("").to_owned();
                Err(CommandError::new(code::WRITE_CONCERN_TIMEOUT, message))
            }
            None => Ok(()),
        }
    }

    /// Adds the failures to an answer.
    pub(super) fn put_failures(self, answer: &mut Document) {
        let mut errors = self.errors;
        if !errors.is_empty() {
            errors.sort_by_key(|error| error.index);
            let errors = errors.into_iter().map(|error| {
                let index = i32::try_from(error.index).unwrap_or(i32::MAX);
                Bson::from(doc! { "index": index, "code": error.code, "errmsg": error.message })
            });
            answer.insert("writeErrors", errors.collect::<Vec<_>>());
        }
        if let Some(limit) = self.late {
            answer.insert("writeConcernError", too_late(limit));
        }
    }
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

impl WriteTerms {
    /// Reads the terms of a command.
    ///
    /// # Errors
    /// If the collection is no stream, if the client may not write into it, or if the store cannot
    /// give the concern.
    pub(super) fn of(
        serving: &Serving,
        client: &Client,
        command: &MongoCommand<'_>,
        format: Format,
    ) -> Result<Self> {
        let into = (command.database()?, command.collection()?);
        Self::into_collection(serving, client, command, into, format)
    }

    /// Reads the terms of a command that writes into a collection.
    ///
    /// # Errors
    /// As those of [`WriteTerms::of`].
    pub(super) fn into_collection(
        serving: &Serving,
        client: &Client,
        command: &MongoCommand<'_>,
        (database, named): (&str, &str),
        format: Format,
    ) -> Result<Self> {
        let snapshot = serving.store.snapshot();
        let stream = match Collection::of(database, named, &snapshot)? {
            Collection::Stream(stream) => stream,
            Collection::Level { rollup, level } => {
                return Err(CommandError::new(
                    code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                    format!(
                        "'{rollup}.{level}' is a level of the rollup '{rollup}', which the store itself keeps: it counts each event of its stream, and a counter would count it twice; insert events"
                    ),
                ));
            }
        };
        if !client.may(Action::Ingest, Target::Stream(stream.as_str())) {
            return Err(CommandError::new(
                code::UNAUTHORIZED,
                format!("{} may not write into the stream {stream}", client.name()),
            ));
        }
        let counts = |kind| kind == StreamKind::Counters;
        let kind = snapshot.streams().get(&stream).map(|meta| meta.kind);
        if kind.is_some_and(|kind| counts(kind) != counts(format.kind())) {
            let name = command.name;
            let reason = match counts(format.kind()) {
                true => {
                    "holds events, which are immutable: insert another one, and let a rollup count"
                }
                false => "holds counters: update them with $inc and upsert",
            };
            let message = format!("'{name}' is not for the stream {stream}: it {reason}");
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
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
            format,
            concern,
            durability,
            wtimeout: asked.and_then(|asked| asked.wtimeout),
            ordered: command.boolean("ordered")?.unwrap_or(true),
        })
    }

    /// Makes the delivery of records.
    fn delivery(self, serving: &Serving, records: Records, content: Option<u64>) -> Delivery {
        let mut options = ParseOptions {
            format: self.format,
            received_us: SystemClock.now_us(),
            ordered: self.ordered,
            multiline: None,
            ..crate::intake::stream_options(&serving.config, self.stream.as_str())
        };
        // A document has no line.
        options.selection.raw_line = false;
        let identity = self.identity.map(|key| {
            let content = content.unwrap_or_else(|| content_hash(&[records.as_bytes()]));
            let body_hash = content ^ u64::from(self.ordered);
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

/// Returns the documents of a command, which become one batch.
///
/// # Errors
/// If they are too many or none, or belong to a transaction.
pub(super) fn batch_documents<'a>(
    command: &MongoCommand<'a>,
    field: &str,
) -> Result<Vec<&'a [u8]>> {
    let name = command.name;
    if command.is_in_transaction() {
        let message =
            format!("there are no transactions: '{name}' is one batch, stored whole or not at all");
        return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
    }
    let documents = command.documents(field)?;
    if documents.is_empty() || documents.len() > BATCH_DOCUMENTS_MAX {
        let found = documents.len();
        let message = format!(
            "'{name}.{field}' has from 1 to {BATCH_DOCUMENTS_MAX} documents, and not {found}"
        );
        return Err(CommandError::new(code::INVALID_LENGTH, message));
    }
    Ok(documents)
}

/// Returns the hash of the content of a command.
pub(super) fn content_hash(pieces: &[&[u8]]) -> u64 {
    let mut hasher = Xxh3Default::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.digest()
}

/// Stores a batch, and waits for its concern.
///
/// # Errors
/// If nothing was stored, or the outcome is unknown.
pub(super) async fn store(
    serving: &Serving,
    client: &Client,
    terms: WriteTerms,
    brought: BatchRecords,
    length: Length,
) -> Result<StoredBatch> {
    let (durability, wtimeout) = (terms.durability, terms.wtimeout);
    let submitted = submit(serving, client, terms, brought, length).await?;
    let reached = match submitted.submission {
        Submission::Waiting(waiting) if durability != Durability::Unacknowledged => {
            reached(&*serving.intake, waiting, durability, wtimeout).await
        }
        Submission::Waiting(_) => Ok(Vec::new()),
        Submission::Nothing(ack) => Ok(vec![ack]),
    };
    let (acks, late) = match reached {
        Ok(acks) => (acks, None),
        // The store has not numbered them yet, and may never store them.
        Err(NotReached::TooLate(acks)) if acks.is_empty() => {
            let what = "the time was over before the documents were stored".to_owned();
            return Err(storage::Error::Unknown { what }.into());
        }
        Err(NotReached::TooLate(acks)) => (acks, wtimeout),
        Err(NotReached::Failed(error)) => return Err(error.into()),
    };
    let count = |acks: &[Ack]| acks.iter().map(|ack| ack.accepted).sum();
    Ok(StoredBatch {
        count: match acks.is_empty() {
            true => submitted.stored,
            false => count(&acks),
        },
        errors: submitted.errors,
        late,
    })
}

/// Parses the documents where that may take time, and hands the batch to the store.
async fn submit(
    serving: &Serving,
    client: &Client,
    terms: WriteTerms,
    brought: BatchRecords,
    length: Length,
) -> Result<SubmittedBatch> {
    serving.intake.note_foreground();
    let ordered = terms.ordered;
    let (intake, has_limit) = (&*serving.intake, terms.wtimeout.is_some());
    let submitted = submitted_concern(intake, terms.concern, terms.durability, has_limit);
    let delivery = terms.delivery(serving, brought.records, brought.content);
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
            Ok(SubmittedBatch {
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
            code::INTERNAL_ERROR,
            "the write failed; see the server's log",
        ))
    })
}

/// Adds the failures of quarantined documents; an ordered batch ends with its first failure.
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
