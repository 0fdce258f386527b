//! `/api/v1/partitions`: what there is, dropping it by hand, and compaction.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use storage::Name;

use super::{App, answer, rollups, status};
use crate::commands::partition::range;

pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    status::rows(&app, "SELECT * FROM system.partitions").await
}

/// `DELETE /api/v1/partitions?stream=&date=&dry_run=`.
pub(super) async fn drop(
    State(app): State<Arc<App>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    let text = |name: &str| asked.get(name).map_or("", String::as_str);
    let dry = match text("dry_run") {
        "" | "false" | "0" => false,
        "true" | "1" => true,
        other => return answer::bad_request(format!("dry_run={other}: write true or false")),
    };
    let stream = match Name::new(text("stream")) {
        Ok(stream) => stream,
        Err(error) => return answer::of_storage(&error),
    };
    let range_us = match range(text("date")) {
        Ok(range) => range,
        Err(what) => return answer::bad_request(what),
    };
    let store = Arc::clone(&app.store);
    let work = move || store.drop_partitions(&stream, range_us, dry);
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(report)) => answer::json(StatusCode::OK, &report),
        Ok(Err(error)) => answer::of_storage(&error),
        Err(_) => answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the drop failed",
            None,
        ),
    }
}

/// `POST /api/v1/partitions/compact?stream=`: merges parts until nothing is left to merge.
pub(super) async fn compact(
    State(app): State<Arc<App>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    let stream = match asked.get("stream").map(|name| Name::new(name)).transpose() {
        Ok(stream) => stream,
        Err(error) => return answer::of_storage(&error),
    };
    let store = Arc::clone(&app.store);
    rollups::work(move || store.compact_parts(stream.as_ref(), true)).await
}
