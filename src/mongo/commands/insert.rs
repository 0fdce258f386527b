//! `insert`: documents become one batch.
//!
//! # Invariants
//! * The answer counts and names what happened to each document: stored, or failed with its index,
//!   code and reason. Nothing of an ordered insert behind its first failure is stored.
//! * A document without a place among events is in quarantine, whole, except for one that repeats
//!   the `_id` of another of its insert, which its client has.

use std::collections::HashSet;
use std::sync::Arc;

use bson::raw::RawBsonRef;
use bson::{Document, RawDocument, doc};
use ingest::Format;

use super::write::{BatchRecords, WriteError, WriteTerms, batch_documents, store};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::message::{DOCUMENT_BYTES_MAX, MongoMessage};
use crate::mongo::session::MongoConnection;
use crate::serve::Length;

const FIELDS: [&str; 4] = [
    "ordered",
    "bypassDocumentValidation",
    "documents",
    "allowImplicitCollectionCreation",
];

/// `insert`
pub(super) async fn insert(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
    message: &MongoMessage,
) -> Result<Document> {
    let documents = batch_documents(command, "documents")?;
    command.check_fields(&FIELDS)?;
    let client = connection.client(command.name)?;
    let serving = Arc::clone(connection.serving());
    let terms = WriteTerms::of(&serving, &client, command, Format::Bson)?;
    let brought = batch_records(&documents, terms.ordered)?;
    let length = Length::of(message.length());
    let stored = store(&serving, &client, terms, brought, length).await?;
    let mut answer = doc! { "n": i32::try_from(stored.count).unwrap_or(i32::MAX) };
    stored.put_failures(&mut answer);
    Ok(answer)
}

/// Takes the documents up to the first failure of an ordered insert.
fn batch_records(documents: &[&[u8]], ordered: bool) -> Result<BatchRecords> {
    let mut brought = BatchRecords::default();
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
        let fault = id.and_then(|(_, value)| fault_of_id(value));
        let failure = match (fault, id) {
            (Some((code, fault)), _) => Some((code, format!("document {index}: {fault}"))),
            (None, Some((id, _))) if !ids.insert(id) => Some((
                code::DUPLICATE_KEY,
                format!(
                    "E11000 duplicate key error: the _id of document {index} is that of another one of this insert: {id:02x?}"
                ),
            )),
            _ => None,
        };
        if let Some((code, message)) = failure {
            brought.errors.push(WriteError {
                index,
                code,
                message,
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

/// Returns the `_id` of a document: the bytes of its type and its value, and the value.
fn id_of(bytes: &[u8]) -> Option<(&[u8], RawBsonRef<'_>)> {
    let document = RawDocument::from_bytes(bytes).ok()?;
    let mut before = 4;
    for element in document.iter_elements() {
        let element = element.ok()?;
        let size = element.size();
        let begin = before;
        before += 1 + element.key().as_str().len() + 1 + size;
        if element.key().as_str() == "_id" {
            return Some((bytes.get(begin..before)?, element.value().ok()?));
        }
    }
    None
}

/// Returns the code and the reason why MongoDB takes no document with this `_id`.
fn fault_of_id(id: RawBsonRef<'_>) -> Option<(i32, &'static str)> {
    match id {
        RawBsonRef::Array(_) => Some((code::INVALID_ID_FIELD, "an _id is no array")),
        RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined => Some((
            code::INVALID_ID_FIELD,
            "an _id is no regular expression, and not undefined",
        )),
        RawBsonRef::Document(fields) => {
            let mut keys = fields.iter_elements().map_while(std::result::Result::ok);
            let begins_with_dollar = keys.any(|field| field.key().as_str().starts_with('$'));
            begins_with_dollar.then_some((
                code::DOLLAR_PREFIXED_FIELD_NAME,
                "a field of an _id does not begin with '$'",
            ))
        }
        _ => None,
    }
}
