//! Responses: JSON, and errors as `{"error":{"code","message","hint"}}` from one table.

use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::TryStream;
use serde::Serialize;
use serde_json::{Value, json};
use storage::Store;

use crate::cluster::MISSING;
use crate::failure::{Class, Failure, USAGE};
use crate::serve::{Client, Exceeded};

/// Returns a JSON response.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => json_bytes(status, bytes),
        Err(e) => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            &e.to_string(),
            None,
        ),
    }
}

/// Returns a response of bytes that are JSON already.
pub(super) fn json_bytes(status: StatusCode, bytes: Vec<u8>) -> Response {
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (status, headers, bytes).into_response()
}

/// Returns a response whose body is a stream of pieces.
pub(super) fn streamed<S>(content_type: &'static str, pieces: S) -> Response
where
    S: TryStream<Ok = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}

/// The code of an error, as an extension of its response: metrics count errors by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code(pub(super) &'static str);

/// Returns an error response.
pub(super) fn error(
    status: StatusCode,
    code: &'static str,
    message: &str,
    hint: Option<&str>,
) -> Response {
    let mut response = json(status, &error_body(code, message, hint));
    response.extensions_mut().insert(Code(code));
    response
}

/// Adds `Retry-After`: a seal or a start takes about a second.
pub(super) fn retry_soon(response: &mut Response) {
    retry_after(response, Duration::ZERO);
}

/// Adds `Retry-After` in whole seconds, more than `wait`.
pub(super) fn retry_after(response: &mut Response, wait: Duration) {
    let seconds = HeaderValue::from(wait.as_secs() + 1);
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
}

fn error_body(code: &str, message: &str, hint: Option<&str>) -> Value {
    json!({ "error": { "code": code, "message": message, "hint": hint } })
}

/// Returns the response to an invalid request.
pub(super) fn bad_request(message: impl std::fmt::Display) -> Response {
    error(
        StatusCode::BAD_REQUEST,
        "invalid",
        &message.to_string(),
        None,
    )
}

/// Returns the response to a failure of the store.
pub(super) fn of_storage(e: &storage::Error) -> Response {
    let class = Class::from(e.kind());
    let hint = match class {
        Class::Overloaded => Some("send it again shortly"),
        Class::DiskFull => Some("free some space; writes resume by themselves"),
        Class::Unknown => Some("the outcome is unknown; send it again with the same key"),
        _ => None,
    };
    let response = of_class(class, &e.to_string(), hint);
    match e {
        storage::Error::Missing { .. } => marked_missing(response),
        _ => response,
    }
}

/// Marks the response to a request that names a thing which this store does not have. A node sends
/// the request to all of its shards, of which others may have it.
pub(super) fn marked_missing(mut response: Response) -> Response {
    let there = HeaderValue::from_static("true");
    response.headers_mut().insert(MISSING, there);
    response
}

/// Returns the body of a failed query whose status has been sent already.
pub(super) fn query_error(e: &query::Error) -> Value {
    error_body(Class::from(e.kind()).codes().code, &e.message(), e.hint())
}

/// Returns the error of an answer that ends because its client may not read it any more.
pub(super) fn rights_error(message: &str) -> Value {
    error_body(Class::Forbidden.codes().code, message, None)
}

/// Returns the response to a failed query.
pub(super) fn of_query(e: &query::Error) -> Response {
    of_class(Class::from(e.kind()), &e.message(), e.hint())
}

/// Returns the response to a request under the name of a source of other streams.
pub(super) fn foreign_producer() -> Response {
    of_class(
        Class::Forbidden,
        "the name of the producer is not one of this account's streams",
        Some(
            "an account of some streams names its producers kind:stream:rest, as in file:web:access.log",
        ),
    )
}

/// Returns the response to a failure of a class.
pub(super) fn of_class(class: Class, message: &str, hint: Option<&str>) -> Response {
    let codes = class.codes();
    let status = StatusCode::from_u16(codes.http).expect("BUG: a status of three digits");
    let mut response = error(status, codes.code, message, hint);
    if codes.retry {
        retry_soon(&mut response);
    }
    response
}

/// Returns the response to a client that has reached its share.
pub(super) fn of_share(exceeded: &Exceeded) -> Response {
    let mut response = of_class(Class::TooMany, &exceeded.message(), Some(exceeded.hint()));
    retry_after(&mut response, exceeded.wait);
    response
}

/// Runs disk work on a thread that may block, and answers with its report.
pub(super) async fn of_work<T: Serialize + Send + 'static>(
    done: StatusCode,
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> storage::Result<T> + Send + 'static,
) -> Response {
    let store = Arc::clone(store);
    match tokio::task::spawn_blocking(move || work(&store)).await {
        Ok(Ok(report)) => json(done, &report),
        Ok(Err(error)) => of_storage(&error),
        Err(_) => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the request's task failed; see the server's log",
            None,
        ),
    }
}

/// Runs `work` as [`on_a_thread`], in a place among the queries of the client.
pub(super) async fn in_turn<T: Serialize + Send + 'static>(
    client: &Client,
    work: impl FnOnce() -> crate::failure::Result<T> + Send + 'static,
) -> Response {
    let place = match client.share().work().await {
        Ok(place) => place,
        Err(error) => return of_query(&error),
    };
    let work = move || {
        let _place = place;
        work()
    };
    on_a_thread(work).await
}

/// Runs `work` on a thread that may block. The work continues after the client disconnects, and
/// its results are kept.
pub(super) async fn on_a_thread<T: Serialize + Send + 'static>(
    work: impl FnOnce() -> crate::failure::Result<T> + Send + 'static,
) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(report)) => json(StatusCode::OK, &report),
        Ok(Err(failure)) => of_failure(&failure),
        Err(_) => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the request's task failed; finished work is kept, see the server's log",
            None,
        ),
    }
}

/// Returns the response to a failure of work that commands do too.
pub(super) fn of_failure(failure: &Failure) -> Response {
    match (failure.storage(), failure.code) {
        (Some(error), _) => of_storage(error),
        (None, USAGE) => bad_request(failure),
        (None, _) => error(
            StatusCode::UNPROCESSABLE_ENTITY,
            "not_done",
            &failure.to_string(),
            None,
        ),
    }
}
