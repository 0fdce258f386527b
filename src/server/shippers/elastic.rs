//! Elasticsearch's `_bulk`, and the calls by which its clients find out what they talk to.
//!
//! The calls that prepare Elasticsearch's storage (templates, policies, pipelines) are answered
//! and have no effect: streams need no preparation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::Path;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use ingest::shippers::elastic::{Bulk, BulkItem, decode};
use serde_json::{Value, json};

use super::call::{Outcome, ShipperCall};
use super::errors;
use crate::server::answer;
use crate::server::app::App;

/// The version in the greeting. Beats refuse a server that is older than they are.
const VERSION: &str = "9.99.0";

/// Returns the routes, which lie both at the root and below `/elasticsearch`.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/_bulk", post(bulk).put(bulk))
        .route("/{index}/_bulk", post(bulk_of_index).put(bulk_of_index))
        .route("/_license", get(license))
        .route("/_xpack", get(features))
        .route("/_cluster/health", get(health))
        .route("/_ilm/policy/{name}", get(nothing).put(acknowledge))
        .route("/_index_template/{name}", get(nothing).put(acknowledge))
        .route("/_component_template/{name}", get(nothing).put(acknowledge))
        .route("/_template/{name}", get(nothing).put(acknowledge))
        .route("/_ingest/pipeline/{name}", get(nothing).put(acknowledge))
        .route("/_data_stream/{name}", get(nothing).put(acknowledge))
}

async fn bulk(call: ShipperCall) -> Response {
    store(call, None).await
}

async fn bulk_of_index(Path(index): Path<String>, call: ShipperCall) -> Response {
    store(call, Some(index)).await
}

async fn store(call: ShipperCall, index: Option<String>) -> Response {
    let began = Instant::now();
    let decoded =
        move |body: &[u8], fixed: Option<&str>| match decode(body, fixed, index.as_deref()) {
            Ok(Bulk { streams, items }) => Ok((streams, items)),
            Err(malformed) => Err(Box::new(answer::bad_request(format!(
                "line {} of the body: {}; nothing of it was stored",
                malformed.line, malformed.reason
            )))),
        };
    match call.store("elasticsearch", None, decoded).await {
        Ok((outcomes, items)) => respond(outcomes, &items, began).await,
        Err(refused) => *refused,
    }
}

/// The outcome of one stream, as its items have it.
enum OfStream {
    Stored {
        first_seq: Option<u64>,
        quarantined: BTreeMap<usize, String>,
    },
    Refused(Box<errors::ErrorParts>),
}

/// Answers with the outcome of each item. A body of which no stream was stored gets the status of
/// its refusal, so that its sender tries again as a whole.
async fn respond(outcomes: Vec<Outcome>, items: &[BulkItem], began: Instant) -> Response {
    let is_refused = |outcome: &Outcome| outcome.is_err();
    if !outcomes.is_empty() && outcomes.iter().all(is_refused) {
        let first = outcomes.into_iter().find_map(Result::err);
        return *first.expect("BUG: all are refused");
    }
    let mut streams = Vec::new();
    for outcome in outcomes {
        streams.push(match outcome {
            Ok(stored) => OfStream::Stored {
                first_seq: stored.first_seq,
                quarantined: stored.quarantined,
            },
            Err(refused) => OfStream::Refused(Box::new(errors::parts(*refused).await)),
        });
    }
    let mut has_errors = false;
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        let answer = match &item.place {
            Err(reason) => Err((400, "illegal_argument_exception", (*reason).to_owned())),
            Ok(place) => match &streams[place.stream] {
                OfStream::Refused(parts) => Err((
                    parts.status.as_u16(),
                    errors::elastic_type(parts.status),
                    parts.message.clone(),
                )),
                OfStream::Stored {
                    first_seq,
                    quarantined,
                } => match quarantined.get(&place.record) {
                    Some(reason) => Err((
                        400,
                        "document_parsing_exception",
                        format!("{reason}; it is kept in quarantine"),
                    )),
                    None => Ok(first_seq.map(|first| first + place.record as u64)),
                },
            },
        };
        has_errors |= answer.is_err();
        answers.push(item_answer(item, answer));
    }
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let body = json!({ "took": took, "errors": has_errors, "items": answers });
    answer::json(StatusCode::OK, &body)
}

/// Returns the answer to one item: its sequence number, or the status, type and reason of its
/// error.
fn item_answer(
    item: &BulkItem,
    outcome: Result<Option<u64>, (u16, &'static str, String)>,
) -> Value {
    let id = item.id.as_ref();
    let answer = match outcome {
        Ok(seq) => {
            let own = || seq.map(|seq| seq.to_string()).unwrap_or_default();
            json!({
                "_index": item.index,
                "_id": id.cloned().unwrap_or_else(own),
                "_version": 1,
                "result": "created",
                "_shards": { "total": 1, "successful": 1, "failed": 0 },
                "_seq_no": seq.unwrap_or_default(),
                "_primary_term": 1,
                "status": 201,
            })
        }
        Err((status, kind, reason)) => json!({
            "_index": item.index,
            "_id": id,
            "status": status,
            "error": { "type": kind, "reason": reason },
        }),
    };
    json!({ item.action: answer })
}

/// Returns whether a request for the page comes from a client of Elasticsearch. A browser asks for
/// HTML, and `curl` for anything.
pub(in crate::server) fn is_greeted(head: &Parts) -> bool {
    let accepts = |headers: &HeaderMap| {
        let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
        Some(accept.contains("json") && !accept.contains("html"))
    };
    let is_product = |headers: &HeaderMap| headers.contains_key("x-elastic-client-meta");
    let path = head.uri.path();
    path == "/" && (accepts(&head.headers).unwrap_or(false) || is_product(&head.headers))
}

/// The greeting by which clients know Elasticsearch.
pub(in crate::server) async fn greeting() -> Response {
    let body = json!({
        "name": "logmill",
        "cluster_name": "logmill",
        "cluster_uuid": "logmill",
        "version": {
            "number": VERSION,
            "build_flavor": "default",
            "build_type": "logmill",
            "build_hash": env!("CARGO_PKG_VERSION"),
            "build_date": "1970-01-01T00:00:00Z",
            "build_snapshot": false,
            "lucene_version": "10.0.0",
            "minimum_wire_compatibility_version": "8.0.0",
            "minimum_index_compatibility_version": "8.0.0",
        },
        "tagline": "You Know, for Search",
    });
    answer::json(StatusCode::OK, &body)
}

async fn license() -> Response {
    let license = json!({ "status": "active", "type": "basic", "mode": "basic" });
    answer::json(StatusCode::OK, &json!({ "license": license }))
}

async fn features() -> Response {
    let ilm = json!({ "available": true, "enabled": true });
    answer::json(StatusCode::OK, &json!({ "features": { "ilm": ilm } }))
}

async fn health() -> Response {
    let body = json!({
        "cluster_name": "logmill",
        "status": "green",
        "timed_out": false,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
    });
    answer::json(StatusCode::OK, &body)
}

/// Answers a question for an object of Elasticsearch's storage. It is there as far as clients need
/// to know: they would create it otherwise, again and again.
async fn nothing() -> Response {
    answer::json(StatusCode::OK, &json!({}))
}

async fn acknowledge() -> Response {
    answer::json(StatusCode::OK, &json!({ "acknowledged": true }))
}
