//! `POST /loki/api/v1/push`

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use ingest::Encoding;
use ingest::shippers::loki::{decode_json, decode_protobuf};

use super::call::ShipperCall;
use crate::server::answer;
use crate::server::app::App;

/// Returns the routes.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/loki/api/v1/push", post(push))
}

async fn push(call: ShipperCall) -> Response {
    let is_protobuf = call.is_protobuf();
    // A body of protobuf is compressed with snappy, which no header says.
    let unnamed = is_protobuf.then_some(Encoding::Snappy);
    let decode = move |body: &[u8], fixed: Option<&str>| {
        let streams = match is_protobuf {
            true => decode_protobuf(body, fixed),
            false => decode_json(body, fixed),
        };
        match streams {
            Ok(streams) => Ok((streams, ())),
            Err(why) => Err(Box::new(answer::bad_request(format!(
                "the body is no push of Loki: {why}"
            )))),
        }
    };
    let outcomes = match call.store("loki", unnamed, decode).await {
        Ok((outcomes, ())) => outcomes,
        Err(refused) => return *refused,
    };
    let (mut quarantined, mut first) = (0, None);
    for outcome in outcomes {
        match outcome {
            Ok(stored) => {
                quarantined += stored.quarantined.len();
                first = first.or_else(|| stored.quarantined.into_values().next());
            }
            Err(refused) => return *refused,
        }
    }
    // Loki refuses a body of which it could not take all, and so its clients log the reason.
    match first {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(reason) => answer::error(
            StatusCode::BAD_REQUEST,
            "quarantined",
            &format!(
                "{quarantined} entries are kept in quarantine, the others are stored: {reason}"
            ),
            Some("do not send them again; `logmill quarantine explain` shows them"),
        ),
    }
}
