//! `insert`: documents become one batch.
//!
//! # Invariants
//! * The answer counts and names what happened to each document: stored, or failed with its index,
//!   code and reason. Nothing of an ordered insert behind its first failure is stored.
//! * A document without a place among events is in quarantine, whole, except for one that repeats
//!   the `_id` of another of its insert, which its client has.

use std::collections::HashSet;
use std::sync::Arc;

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
