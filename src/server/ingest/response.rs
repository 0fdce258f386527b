//! Answers to a request that brings lines.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use ingest::Parsed;
use serde_json::json;
use storage::{Ack, Durability};

use crate::server::answer;

/// Failed items that an answer lists; the others are counted.
const ERRORS_MAX: usize = 1000;

/// The part of an answer that the parse decides; the store's acknowledgement is the other.
pub(super) struct ParseSummary {
    empty: u64,
    by_reason: BTreeMap<&'static str, u64>,
    /// There were lines, and no format that is known fits any.
    has_no_format: bool,
    hides_lines: bool,
    errors: Vec<FailedItem>,
    omitted: u64,
}

/// An item that is in quarantine.
struct FailedItem {
    index: u64,
    reason: String,
}

impl ParseSummary {
    pub(super) fn of(parsed: &Parsed) -> Self {
        let errors = parsed.quarantine.iter().take(ERRORS_MAX);
        let errors: Vec<FailedItem> = errors
            .map(|q| FailedItem {
                index: q.index,
                reason: format!("{}: {}", q.reason, q.detail),
            })
            .collect();
        let omitted = (parsed.quarantine.len() - errors.len()) as u64;
        Self {
            empty: parsed.empty,
            has_no_format: parsed.has_no_format(),
            hides_lines: parsed.hides_lines,
            by_reason: parsed.reasons(),
            errors,
            omitted,
        }
    }
}

/// Answers with the outcome of a batch. Lines that have no known format are kept, and refused all
/// the same: their sender must not take them for events.
pub(super) fn success(acks: &[Ack], summary: &ParseSummary, durability: Durability) -> Response {
    let (first_seq, last_seq) = sequences(acks);
    let errors = summary.errors.iter();
    let errors: Vec<_> = errors
        .map(|e| json!({ "index": e.index, "reason": e.reason }))
        .collect();
    let mut body = json!({
        "accepted": acks.iter().map(|ack| ack.accepted).sum::<u64>(),
        "quarantined": acks.iter().map(|ack| ack.quarantined).sum::<u64>(),
        "quarantined_by_reason": summary.by_reason,
        "empty": summary.empty,
        "errors": errors,
        "errors_omitted": summary.omitted,
        "first_seq": first_seq,
        "last_seq": last_seq,
        "duplicate": acks.iter().all(|ack| ack.duplicate),
        "concern": given(durability),
    });
    if let Some(parts) = parts(acks) {
        body["parts"] = parts;
    }
    let has_items = acks.iter().any(|ack| ack.first_seq.is_some());
    if !summary.has_no_format || !has_items {
        return answer::json(StatusCode::OK, &body);
    }
    let (fate, hint) = match summary.hides_lines {
        false => (
            "all are kept in quarantine",
            "send format=plain to store each line as it is; `logmill quarantine replay --format plain` turns the quarantined lines into events",
        ),
        true => (
            "quarantine counts them, without their text: fields of the stream are anonymised",
            "send a format whose fields are known, or set quarantine_raw = true for the stream to see the lines",
        ),
    };
    body["error"] = json!({
        "code": "no_format",
        "message": format!("no line is an access-log line or a JSON object; {fate}"),
        "hint": hint,
    });
    answer::json(StatusCode::BAD_REQUEST, &body)
}

/// Answers a request with `w=0` before its batch is parsed.
pub(super) fn unacknowledged() -> Response {
    answer::json(StatusCode::ACCEPTED, &json!({}))
}

/// Returns the first and the last sequence number of a batch: of one store. The numbers of several
/// stores have no order between them.
fn sequences(acks: &[Ack]) -> (Option<u64>, Option<u64>) {
    match acks {
        [ack] => (ack.first_seq, ack.last_seq),
        _ => (None, None),
    }
}

/// Returns the parts of a batch that was divided among shards.
fn parts(acks: &[Ack]) -> Option<serde_json::Value> {
    let part = |ack: &Ack| {
        json!({
            "shard": ack.shard,
            "first_seq": ack.first_seq,
            "last_seq": ack.last_seq,
        })
    };
    (acks.len() > 1).then(|| acks.iter().map(part).collect())
}

/// Returns the write concern that was given, as answers spell it.
fn given(durability: Durability) -> serde_json::Value {
    json!({
        "w": u8::from(durability != Durability::Unacknowledged),
        "j": durability == Durability::Synced,
    })
}

/// Answers that the write concern was not reached in time; there are acknowledgements when the
/// batch is stored.
pub(super) fn too_late(limit: Duration, acks: &[Ack]) -> Response {
    let (first_seq, last_seq) = sequences(acks);
    let message = format!(
        "the write concern was not reached within {} ms",
        limit.as_millis()
    );
    let hint = match acks {
        [_, ..] => {
            "the batch is stored under these sequence numbers and reaches the concern by itself"
        }
        [] => "the outcome is unknown; send it again with the same key",
    };
    answer::json(
        StatusCode::GATEWAY_TIMEOUT,
        &json!({
            "error": { "code": "write_concern_timeout", "message": message, "hint": hint },
            "first_seq": first_seq,
            "last_seq": last_seq,
        }),
    )
}

/// Refuses a request with `w=0` while too many of them are not taken yet.
pub(super) fn too_many_unacknowledged() -> Response {
    let mut response = answer::error(
        StatusCode::SERVICE_UNAVAILABLE,
        "overloaded",
        "too many w=0 requests are waiting; nothing of this one was stored",
        Some("send it again later, or ask for w=1 and wait for the answer"),
    );
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Refuses a body that has reached a limit.
pub(super) fn too_large(error: ingest::Error) -> Response {
    let hint = match error {
        ingest::Error::Ratio { .. } => "send batches of at most 32 MiB, decompressed",
        _ => "send it in pieces, or raise server.batch_bytes_max",
    };
    answer::error(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        &error.to_string(),
        Some(hint),
    )
}
