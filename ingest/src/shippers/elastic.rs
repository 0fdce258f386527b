//! The body of Elasticsearch's `_bulk`: lines of JSON, in which an action precedes its document.
//!
//! Source: the reference of Elasticsearch's bulk API, and the bytes that its clients send. `index`
//! and `create` store a document as an event; its `_id`, if the action has one, is the event's.
//! Events are immutable, so `update` and `delete` are refused item by item.

use serde::Deserialize;
use serde_json::Value;

use super::{RecordsByStream, StreamRecords, stream_name};

/// The stream of documents without an index.
const STREAM: &str = "elastic";

/// A decoded body.
#[derive(Debug, Default)]
pub struct Bulk {
    /// The documents by stream.
    pub streams: Vec<StreamRecords>,
    /// The outcome of each action, in order.
    pub items: Vec<BulkItem>,
}

/// An action of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkItem {
    /// The action: `index`, `create`, `update` or `delete`.
    pub action: &'static str,
    /// The index, as the client names it.
    pub index: String,
    /// The document's own `_id`.
    pub id: Option<String>,
    /// The place of its record, or the reason for which it has none.
    pub place: Result<RecordPlace, &'static str>,
}

/// The place of a record: the rank of its stream, and its own among those of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Rank of the stream in [`Bulk::streams`].
    pub stream: usize,
    /// Rank of the record in the stream.
    pub record: usize,
}

/// A line of the body that is no action, or an action without its document: nothing behind it can
/// be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedBulk {
    /// The line, from 1.
    pub line: u64,
    /// The reason.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Index(ActionTarget),
    Create(ActionTarget),
    Update(ActionTarget),
    Delete(ActionTarget),
}

/// The part of an action that names its document. Routing, versions and pipelines have no meaning
/// here.
#[derive(Deserialize)]
struct ActionTarget {
    #[serde(rename = "_index")]
    index: Option<String>,
    #[serde(rename = "_id")]
    id: Option<Value>,
}

impl Action {
    fn parts(self) -> (&'static str, ActionTarget) {
        match self {
            Self::Index(target) => ("index", target),
            Self::Create(target) => ("create", target),
            Self::Update(target) => ("update", target),
            Self::Delete(target) => ("delete", target),
        }
    }
}

/// Decodes a body. `fixed` is a stream that the request names for all documents, `of_path` the
/// index of actions that name none.
///
/// # Errors
/// [`MalformedBulk`]: the body as a whole is refused, as Elasticsearch does.
pub fn decode(
    body: &[u8],
    fixed: Option<&str>,
    of_path: Option<&str>,
) -> Result<Bulk, MalformedBulk> {
    let mut streams = RecordsByStream::default();
    let mut items = Vec::new();
    let mut lines = body.split(|byte| *byte == b'\n').zip(1_u64..);
    while let Some((line, number)) = lines.next() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let malformed = |reason: String| MalformedBulk {
            line: number,
            reason,
        };
        let action: Action = serde_json::from_slice(line)
            .map_err(|e| malformed(format!("it is no action such as {{\"create\":{{}}}}: {e}")))?;
        let (action, target) = action.parts();
        let id = target.id.map(|id| match id {
            Value::String(id) => id,
            other => other.to_string(),
        });
        let index = target.index.or_else(|| of_path.map(str::to_owned));
        let index = index.unwrap_or_else(|| STREAM.to_owned());
        let place = match action {
            "delete" => Err("events are immutable: none is deleted"),
            _ => {
                let document = lines.next().map(|(line, _)| line);
                let document = document.filter(|line| !line.trim_ascii().is_empty());
                let document =
                    document.ok_or_else(|| malformed("no document follows the action".into()))?;
                match action {
                    "update" => Err("events are immutable: none is updated"),
                    _ => match fixed.map(str::to_owned).or_else(|| stream_name(&index)) {
                        None => Err("the index has no letter or digit to name a stream by"),
                        Some(stream) => {
                            let (stream, records) = streams.of(&stream);
                            records.push_with(|out| write_document(out, document, id.as_deref()));
                            let record = records.len() - 1;
                            Ok(RecordPlace { stream, record })
                        }
                    },
                }
            }
        };
        items.push(BulkItem {
            action,
            index,
            id,
            place,
        });
    }
    Ok(Bulk {
        streams: streams.into_streams(),
        items,
    })
}

/// Appends a document, with the `_id` of its action. Anything but an object stays as it is, and is
/// quarantined as such.
fn write_document(out: &mut Vec<u8>, document: &[u8], id: Option<&str>) {
    let document = document.trim_ascii();
    match (id, document.strip_prefix(b"{")) {
        (Some(id), Some(fields)) => {
            out.extend_from_slice(b"{\"_id\":");
            let written = serde_json::to_writer(&mut *out, id);
            written.expect("BUG: a buffer takes any bytes");
            if !fields.trim_ascii_start().starts_with(b"}") {
                out.push(b',');
            }
            out.extend_from_slice(fields);
        }
        _ => out.extend_from_slice(document),
    }
}

#[cfg(test)]
mod tests;
