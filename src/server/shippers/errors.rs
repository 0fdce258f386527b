//! Errors in the forms of the protocols: the body `{"error":{"code","message","hint"}}` becomes the
//! one that the clients of a protocol read.

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prost::Message;
use serde_json::{Value, json};

use super::call::is_protobuf;
use super::elastic::is_greeted;

/// Maximum bytes of an error's body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The header by which Elasticsearch's clients know that they talk to it.
const PRODUCT: HeaderName = HeaderName::from_static("x-elastic-product");

/// The protocol in whose form an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum ErrorForm {
    /// The form of the API.
    Own,
    Elastic,
    Hec,
    /// OTLP with bodies of protobuf, or of JSON.
    Otlp {
        is_protobuf: bool,
    },
}

/// The parts of an error.
#[derive(Debug)]
pub(super) struct ErrorParts {
    pub(super) status: StatusCode,
    code: String,
    pub(super) message: String,
    hint: Option<String>,
    /// The code of Splunk's collector, where the handler knows it.
    hec: Option<u64>,
    /// The rank of the event that is invalid, from 0.
    event: Option<u64>,
}

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message)]
pub(in crate::server) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(in crate::server) code: i32,
    #[prost(string, tag = "2")]
    pub(in crate::server) message: String,
}

impl ErrorForm {
    /// Returns the form of a request.
    pub(in crate::server) fn of(head: &Parts) -> Self {
        let path = head.uri.path();
        if path.starts_with("/services/collector") {
            Self::Hec
        } else if path.starts_with("/v1/") {
            let is_protobuf = is_protobuf(&head.headers);
            Self::Otlp { is_protobuf }
        } else if path.starts_with("/elasticsearch")
            || path.starts_with("/_")
            || path.ends_with("/_bulk")
            || is_greeted(head)
        {
            Self::Elastic
        } else {
            Self::Own
        }
    }

    /// Writes a response in this form.
    pub(in crate::server) async fn write(self, response: Response) -> Response {
        let status = response.status();
        let is_error = status.is_client_error() || status.is_server_error();
        let mut response = match self {
            Self::Own => return response,
            _ if !is_error => response,
            _ => self.rewrite(response).await,
        };
        if self == Self::Elastic {
            let product = HeaderValue::from_static("Elasticsearch");
            response.headers_mut().insert(PRODUCT, product);
        }
        response
    }

    async fn rewrite(self, response: Response) -> Response {
        let (mut head, body) = response.into_parts();
        let parts = parts(Response::from_parts(head.clone(), body)).await;
        let text = parts.text();
        let body = match self {
            Self::Own => unreachable!("BUG: its errors stay as they are"),
            Self::Elastic => elastic(&parts),
            Self::Hec => {
                let code = parts.hec.unwrap_or_else(|| hec_code(head.status));
                let mut body = json!({ "text": text, "code": code });
                if let Some(event) = parts.event {
                    body["invalid-event-number"] = json!(event);
                }
                body
            }
            Self::Otlp { is_protobuf } => {
                // Only some statuses are tried again by exporters; these are not among them.
                if matches!(
                    head.status,
                    StatusCode::INSUFFICIENT_STORAGE | StatusCode::REQUEST_TIMEOUT
                ) {
                    head.status = StatusCode::SERVICE_UNAVAILABLE;
                }
                let code = rpc_code(head.status);
                if is_protobuf {
                    let status = RpcStatus {
                        code,
                        message: text,
                    };
                    return otlp_response(head, status.encode_to_vec());
                }
                json!({ "code": code, "message": text })
            }
        };
        let body = body.to_string();
        head.headers.remove(header::CONTENT_LENGTH);
        (head, body).into_response()
    }
}

fn otlp_response(mut head: axum::http::response::Parts, body: Vec<u8>) -> Response {
    head.headers.remove(header::CONTENT_LENGTH);
    let protobuf = HeaderValue::from_static("application/x-protobuf");
    head.headers.insert(header::CONTENT_TYPE, protobuf);
    (head, body).into_response()
}

impl ErrorParts {
    fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Reads the parts of an error.
pub(super) async fn parts(response: Response) -> ErrorParts {
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), BODY_BYTES_MAX).await;
    let body: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let text = |name: &str| body["error"][name].as_str().map(str::to_owned);
    let reason = status.canonical_reason().unwrap_or("refused");
    ErrorParts {
        status,
        code: text("code").unwrap_or_else(|| "invalid".to_owned()),
        message: text("message").unwrap_or_else(|| reason.to_owned()),
        hint: text("hint"),
        hec: body["error"]["hec"].as_u64(),
        event: body["error"]["event"].as_u64(),
    }
}

/// Returns Elasticsearch's name of an error.
pub(super) fn elastic_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => "security_exception",
        404 => "resource_not_found_exception",
        413 => "content_too_long_exception",
        429 => "es_rejected_execution_exception",
        503 | 507 => "unavailable_shards_exception",
        504 => "timeout_exception",
        500 => "exception",
        _ => "illegal_argument_exception",
    }
}

fn elastic(parts: &ErrorParts) -> Value {
    let kind = elastic_type(parts.status);
    let text = parts.text();
    json!({
        "error": {
            "root_cause": [{ "type": kind, "reason": text }],
            "type": kind,
            "reason": text,
            "code": parts.code,
            "message": parts.message,
            "hint": parts.hint,
        },
        "status": parts.status.as_u16(),
    })
}

/// Returns the code of Splunk's collector.
fn hec_code(status: StatusCode) -> u64 {
    match status.as_u16() {
        401 => 2,
        403 => 4,
        400..=499 => 6,
        503 | 507 => 9,
        _ => 8,
    }
}

/// Returns the code of gRPC, by the table of `google.rpc.Code`.
fn rpc_code(status: StatusCode) -> i32 {
    match status.as_u16() {
        401 => 16,
        403 => 7,
        404 => 5,
        413 | 429 => 8,
        400..=499 => 3,
        503 => 14,
        504 => 4,
        _ => 13,
    }
}
