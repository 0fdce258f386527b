//! `update`: upserts of counters.
//!
//! An update by `$inc` and `$setOnInsert` alone commutes with all others, so it is stored as
//! events: one for each increment, and one that begins a counter and has its fixed fields.
//!
//! # Invariants
//! * An update is stored whole or not at all, and a repeated one once.
//! * A counter has an event with its fixed fields before its first increment, or in its batch.

use bson::{Bson, Document, doc};
use futures::StreamExt as _;
use ingest::Format;
use query::mongo::{FIXED, begun_counter, counter_text, encoded_bytes, is_counter_id};
use storage::{COUNTER, COUNTER_PATH, INCREMENT, Name};

use super::read::Caller;
use super::write::{BatchRecords, WriteError, WriteTerms, batch_documents, content_hash, store};
use crate::mongo::command::{MongoCommand, number};
use crate::mongo::counters::KnownCounters;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::message::MongoMessage;
use crate::serve::{Length, Serving};

const FIELDS: [&str; 4] = ["ordered", "bypassDocumentValidation", "updates", "let"];
/// Fields of an update that change no meaning of it.
const UPDATE_FIELDS: [&str; 5] = ["q", "u", "upsert", "multi", "hint"];
/// Maximum increments of an update: those of a day by minutes, with room.
const INCREMENTS_MAX: usize = 10_000;
/// Maximum bytes of an `_id` as text, and of a path.
const NAME_BYTES_MAX: usize = 4096;
/// Maximum bytes and levels of the fixed fields of a counter.
const FIXED_BYTES_MAX: usize = 64 << 10;
const FIXED_LEVELS_MAX: usize = 20;
const IMMUTABLE: &str = "events are immutable: a counter takes $inc and $setOnInsert alone";

/// An update of one counter.
#[derive(Debug, PartialEq)]
struct CounterUpdate {
    id: Bson,
    /// The fields that the counter begins with.
    fixed: Document,
    increments: Vec<(String, i64)>,
    is_upsert: bool,
}

/// `update`
pub(super) async fn update(
    caller: &Caller,
    command: &MongoCommand<'_>,
    message: &MongoMessage,
) -> Result<Document> {
    let documents = batch_documents(command, "updates")?;
    command.check_fields(&FIELDS)?;
    let (serving, client) = (caller.serving(), &caller.client);
    let terms = WriteTerms::of(serving, client, command, Format::Counters)?;
    let begun = Begun {
        serving,
        stream: terms.stream.clone(),
        known: &caller.mongo.counters,
    };
    let mut effect = UpdateEffect::default();
    // A repeated update may find its counter begun, and make other events.
    effect.brought.content = Some(content_hash(&documents));
    for (index, bytes) in documents.iter().enumerate() {
        let applied = async {
            let update = CounterUpdate::parse(bytes)?;
            effect.apply(index, update, &begun).await
        };
        if let Err(error) = applied.await {
            effect.brought.errors.push(WriteError {
                index,
                code: error.code,
                message: error.message,
            });
            if terms.ordered {
                break;
            }
        }
    }
    let length = Length::of(message.length());
    let stored = store(serving, client, terms, effect.brought, length).await;
    let stored = stored.inspect_err(|_| begun.forget(&effect.begun))?;
    let mut answer = doc! { "n": effect.matched, "nModified": effect.modified };
    if !effect.upserted.is_empty() {
        answer.insert("upserted", effect.upserted);
    }
    stored.put_failures(&mut answer);
    Ok(answer)
}

/// The events of the updates of a command, and what its answer says of them.
#[derive(Debug, Default)]
struct UpdateEffect {
    brought: BatchRecords,
    matched: i32,
    modified: i32,
    upserted: Vec<Document>,
    /// The texts of the counters that begin.
    begun: Vec<String>,
}

impl UpdateEffect {
    async fn apply(&mut self, index: usize, update: CounterUpdate, all: &Begun<'_>) -> Result<()> {
        let counter = counter_text(&update.id);
        let is_there = all.has(&counter, update.is_upsert).await?;
        if !is_there && !update.is_upsert {
            return Ok(());
        }
        self.matched += 1;
        let event = doc! { COUNTER: &counter, COUNTER_PATH: "", INCREMENT: 0_i64 };
        if is_there {
            self.modified += i32::from(update.increments.iter().any(|(_, by)| *by != 0));
        } else {
            let number = i32::try_from(index).unwrap_or(i32::MAX);
            self.upserted
                .push(doc! { "index": number, "_id": update.id });
            self.begun.push(counter);
            let mut event = event.clone();
            event.insert(FIXED, update.fixed);
            self.push(index, &event)?;
        }
        for (path, by) in update.increments.into_iter().filter(|(_, by)| *by != 0) {
            let mut event = event.clone();
            event.insert(COUNTER_PATH, path);
            event.insert(INCREMENT, by);
            self.push(index, &event)?;
        }
        Ok(())
    }

    fn push(&mut self, index: usize, event: &Document) -> Result<()> {
        let event = event.to_vec().map_err(|error| {
            CommandError::new(
                code::BAD_VALUE,
                format!("the update is no document: {error}"),
            )
        })?;
        self.brought.records.push(&event);
        self.brought.indexes.push(index);
        Ok(())
    }
}

impl CounterUpdate {
    /// Reads an update.
    ///
    /// # Errors
    /// If it is another update than that of a counter.
    fn parse(bytes: &[u8]) -> Result<Self> {
        let update = Document::from_reader(bytes)
            .map_err(|e| CommandError::new(code::INVALID_BSON, format!("not BSON: {e}")))?;
        if let Some(other) = update
            .keys()
            .find(|name| !UPDATE_FIELDS.contains(&name.as_str()))
        {
            let message = format!("'updates.{other}' is not supported: {IMMUTABLE}");
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
        }
        let missing = |name: &str| {
            let message = format!("'updates.{name}' is missing, or is no document");
            CommandError::new(code::TYPE_MISMATCH, message)
        };
        let query = update.get_document("q").map_err(|_| missing("q"))?;
        let change = match update.get("u") {
            Some(Bson::Document(change)) => change,
            Some(Bson::Array(_)) => {
                let message = format!("an update by a pipeline is not supported: {IMMUTABLE}");
                return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
            }
            _ => return Err(missing("u")),
        };
        let (id, mut fixed) = named_counter(query)?;
        let (mut increments, mut paths) = (Vec::new(), Vec::new());
        for (operator, fields) in change {
            let fields = match (operator.as_str(), fields) {
                ("$inc" | "$setOnInsert", Bson::Document(fields)) => fields,
                _ => {
                    let message = format!("'{operator}' is not supported: {IMMUTABLE}");
                    return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
                }
            };
            for (path, value) in fields {
                paths.push(checked(path)?);
                match operator.as_str() {
                    "$inc" => increments.push((path.clone(), increment(path, value)?)),
                    _ => put(&mut fixed, path, value.clone())?,
                }
            }
        }
        check_conflicts(paths)?;
        check_fixed(&fixed)?;
        if increments.len() > INCREMENTS_MAX {
            let found = increments.len();
            let message = format!("an update has {found} increments; the most is {INCREMENTS_MAX}");
            return Err(CommandError::new(code::BAD_VALUE, message));
        }
        let is_upsert = matches!(update.get("upsert"), Some(Bson::Boolean(true)));
        Ok(Self {
            id,
            fixed,
            increments,
            is_upsert,
        })
    }
}

/// Returns the `_id` of the counter that a filter names, and the fixed fields that it gives.
fn named_counter(query: &Document) -> Result<(Bson, Document)> {
    let (mut id, mut fixed) = (None, Document::new());
    for (name, value) in query {
        let value = equal_value(name, value)?;
        match name.as_str() {
            "_id" => id = Some(value),
            name => put(&mut fixed, name, value)?,
        }
    }
    let id = id.ok_or_else(|| {
        let message = "the filter of an update names its counter: {_id: …}";
        CommandError::new(code::COMMAND_NOT_SUPPORTED, message)
    })?;
    if !is_counter_id(&id) || counter_text(&id).len() > NAME_BYTES_MAX {
        let message = format!(
            "the _id {id} is long, or has an array, a decimal or another value that no counter is found by; use a text or an integer"
        );
        return Err(CommandError::new(code::BAD_VALUE, message));
    }
    Ok((id, fixed))
}

/// Returns the value that a field of the filter must have.
fn equal_value(name: &str, value: &Bson) -> Result<Bson> {
    let refused = || {
        let message = format!(
            "the condition on '{name}' is no equality: a counter is found by its _id, and begins with the fields that equal a value"
        );
        CommandError::new(code::COMMAND_NOT_SUPPORTED, message)
    };
    if name.starts_with('$') {
        return Err(refused());
    }
    match value {
        Bson::Document(operators) if operators.keys().any(|key| key.starts_with('$')) => {
            let mut operators = operators.iter();
            match (operators.next(), operators.next()) {
                (Some((operator, value)), None) if operator == "$eq" => Ok(value.clone()),
                _ => Err(refused()),
            }
        }
        Bson::RegularExpression(_) => Err(refused()),
        value => Ok(value.clone()),
    }
}

/// Returns a path that can be that of a number.
fn checked(path: &str) -> Result<&str> {
    let is_good = |name: &str| !name.is_empty() && !name.starts_with('$');
    let is_id = path == "_id" || path.starts_with("_id.");
    match path.split('.').all(is_good) && !is_id && path.len() <= NAME_BYTES_MAX {
        true => Ok(path),
        false => {
            let message = format!("'{path}' is no path of a number or a field");
            Err(CommandError::new(code::BAD_VALUE, message))
        }
    }
}

/// Returns an increment.
fn increment(path: &str, value: &Bson) -> Result<i64> {
    number(value).ok_or_else(|| {
        let message = format!("the increment of '{path}' is {value}; it must be an integer");
        CommandError::new(code::TYPE_MISMATCH, message)
    })
}

/// Checks that no path of an update is that of another, or lies inside of it.
fn check_conflicts(mut paths: Vec<&str>) -> Result<()> {
    // A path is followed by those inside of it.
    paths.sort_unstable_by(|a, b| a.split('.').cmp(b.split('.')));
    for pair in paths.windows(2) {
        let below = pair[1].strip_prefix(pair[0]);
        if below.is_some_and(|below| below.is_empty() || below.starts_with('.')) {
            let message = format!("'{}' is in conflict with '{}'", pair[1], pair[0]);
            return Err(CommandError::new(
                code::CONFLICTING_UPDATE_OPERATORS,
                message,
            ));
        }
    }
    Ok(())
}

/// Checks that the fixed fields can be stored: were they kept in quarantine, the increments beside
/// them would be stored alone.
fn check_fixed(fixed: &Document) -> Result<()> {
    let bytes = encoded_bytes(fixed);
    if bytes > FIXED_BYTES_MAX || !has_levels(fixed, FIXED_LEVELS_MAX) {
        let message = format!(
            "the fixed fields of a counter have {bytes} bytes; the most is {FIXED_BYTES_MAX}, in {FIXED_LEVELS_MAX} levels"
        );
        return Err(CommandError::new(code::BAD_VALUE, message));
    }
    Ok(())
}

/// Returns whether a document has no more levels.
fn has_levels(document: &Document, most: usize) -> bool {
    fn within(value: &Bson, most: usize) -> bool {
        match value {
            Bson::Document(document) => has_levels(document, most),
            Bson::Array(items) => most > 0 && items.iter().all(|item| within(item, most - 1)),
            _ => true,
        }
    }
    most > 0 && document.values().all(|value| within(value, most - 1))
}

/// Puts a field at a path with dots.
fn put(fields: &mut Document, path: &str, value: Bson) -> Result<()> {
    let conflict = || {
        let message = format!("'{path}' is in conflict with another field of the update");
        CommandError::new(code::CONFLICTING_UPDATE_OPERATORS, message)
    };
    let mut names = checked(path)?.split('.').peekable();
    let mut at = fields;
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            return match at.insert(name, value) {
                None => Ok(()),
                Some(_) => Err(conflict()),
            };
        }
        let below = at.entry(name.to_owned()).or_insert_with(|| doc! {}.into());
        at = below.as_document_mut().ok_or_else(conflict)?;
    }
    Ok(())
}

/// The counters of a stream that have begun.
struct Begun<'a> {
    serving: &'a Serving,
    stream: Name,
    known: &'a KnownCounters,
}

impl Begun<'_> {
    /// Returns whether a counter has begun. One that has not is noted as begun if `begins`.
    async fn has(&self, counter: &str, begins: bool) -> Result<bool> {
        if !self.known.note(&self.stream, counter) {
            return Ok(true);
        }
        let found = self.is_stored(counter).await;
        if !(begins && found.is_ok()) {
            self.known.forget(&self.stream, counter);
        }
        found
    }

    async fn is_stored(&self, counter: &str) -> Result<bool> {
        if self.serving.shards.is_some() {
            let why = "counters are not kept in a cluster of shards: insert events, and let a rollup count";
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, why));
        }
        let snapshot = self.serving.store.snapshot();
        if !snapshot.streams().contains_key(&self.stream) {
            return Ok(false);
        }
        let question = begun_counter(&self.stream, counter);
        let mut answer = self.serving.ask_itself(question).await?;
        while let Some(batch) = answer.stream.next().await {
            if batch?.num_rows() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn forget(&self, counters: &[String]) {
        for counter in counters {
            self.known.forget(&self.stream, counter);
        }
    }
}

#[cfg(test)]
mod tests;
