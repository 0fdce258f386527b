//! `POST /loki/api/v1/push`

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use ingest::Encoding;
use ingest::shippers::loki::{decode_json, decode_protobuf};

use super::call::{ShipperCall, Tally};
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
    let decode = match is_protobuf {
        true => decode_protobuf,
        false => decode_json,
    };
    let names = ("loki", "push of Loki");
    let Tally { quarantined, first } = match call.store_whole(names, unnamed, decode).await {
        Ok(tally) => tally,
        Err(refused) => return *refused,
    };
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
