//! Errors of other layers (rights, shares, routes) in the form of Prometheus' API.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde_json::Value as Json;

use super::forms::error_body;

/// Maximum bytes of an error of another layer.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Gives an error of a path of this API its form; others stay as they are.
pub(crate) async fn in_form(path: &str, response: Response) -> Response {
    let status = response.status();
    if !path.starts_with("/prometheus/") || status.is_success() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, ERROR_BYTES_MAX).await;
    let bytes = bytes.unwrap_or_default();
    let error = serde_json::from_slice::<Json>(&bytes).unwrap_or_default();
    let Some(message) = error["error"]["message"].as_str() else {
        return Response::from_parts(head, Body::from(bytes));
    };
    let message = match error["error"]["hint"].as_str() {
        Some(hint) => format!("{message}; {hint}"),
        None => message.to_owned(),
    };
    let kind = match status.as_u16() {
        404 => "not_found",
        429 | 503 => "unavailable",
        500.. => "internal",
        _ => "bad_data",
    };
    let body = error_body(kind, &message).to_string();
    head.headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    Response::from_parts(head, Body::from(body))
}
