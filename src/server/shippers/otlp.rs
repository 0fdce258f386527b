//! `POST /v1/logs`: OTLP over HTTP, in protobuf or JSON.
//!
//! Source: the specification of OTLP, "OTLP/HTTP". Records in quarantine are rejected ones of a
//! partial success, which exporters must not send again.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use ingest::shippers::otlp::{decode_json, decode_protobuf};
use prost::Message;
use serde_json::json;

use super::call::{ShipperCall, Tally};
use crate::server::answer;
use crate::server::app::App;

/// `ExportLogsServiceResponse`
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// `ExportLogsPartialSuccess`
#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_log_records: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// Returns the routes.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/logs", post(logs))
        .route("/v1/traces", post(no_logs))
        .route("/v1/metrics", post(no_logs))
}

async fn logs(call: ShipperCall) -> Response {
    let is_protobuf = call.is_protobuf();
    let decode = match is_protobuf {
        true => decode_protobuf,
        false => decode_json,
    };
    let tally = call.store_whole(("otlp", "export of logs"), None, decode);
    match tally.await {
        Ok(Tally { quarantined, first }) => respond(is_protobuf, quarantined, first),
        Err(refused) => *refused,
    }
}

fn respond(is_protobuf: bool, rejected: usize, first: Option<String>) -> Response {
    let message = first.map(|reason| format!("they are kept in quarantine: {reason}"));
    if !is_protobuf {
        let body = match message {
            None => json!({}),
            Some(message) => json!({ "partialSuccess": {
                "rejectedLogRecords": rejected.to_string(),
                "errorMessage": message,
            }}),
        };
        return answer::json(StatusCode::OK, &body);
    }
    let response = ExportResponse {
        partial_success: message.map(|error_message| PartialSuccess {
            rejected_log_records: i64::try_from(rejected).unwrap_or(i64::MAX),
            error_message,
        }),
    };
    let content_type = HeaderValue::from_static("application/x-protobuf");
    let headers = [(header::CONTENT_TYPE, content_type)];
    (headers, response.encode_to_vec()).into_response()
}

/// Refuses traces and metrics, with a status that exporters do not try again.
async fn no_logs() -> Response {
    answer::error(
        StatusCode::NOT_FOUND,
        "not_logs",
        "Logmill stores logs; it takes neither traces nor metrics",
        Some("send them elsewhere, or set the exporter of this signal to none"),
    )
}
