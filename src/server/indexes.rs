//! `/api/v1/indexes`: what there is, and what is wanted.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use storage::{Name, Store};

use super::{App, answer, status};

pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    status::rows(&app, "SELECT * FROM system.indexes").await
}

/// `POST /api/v1/indexes/{stream}/{field}`: wants an index; 202 once that is on the disk, before it is
/// made.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path((stream, field)): Path<(String, String)>,
) -> Response {
    change(&app, &stream, field, |store, stream, field| {
        let created = store.create_index(stream, field)?;
        Ok((StatusCode::ACCEPTED, json!({ "created": created })))
    })
    .await
}

/// `DELETE /api/v1/indexes/{stream}/{field}`.
pub(super) async fn drop(
    State(app): State<Arc<App>>,
    Path((stream, field)): Path<(String, String)>,
) -> Response {
    change(&app, &stream, field, |store, stream, field| {
        store.drop_index(stream, field)?;
        Ok((StatusCode::OK, json!({ "dropped": true })))
    })
    .await
}

type Changed = storage::Result<(StatusCode, serde_json::Value)>;

async fn change(
    app: &App,
    stream: &str,
    field: String,
    change: fn(&Store, &Name, &str) -> Changed,
) -> Response {
    let stream = match Name::new(stream) {
        Ok(stream) => stream,
        Err(error) => return answer::bad_request(error),
    };
    let store = Arc::clone(&app.store);
    match tokio::task::spawn_blocking(move || change(&store, &stream, &field)).await {
        Ok(Ok((status, body))) => answer::json(status, &body),
        Ok(Err(error)) => answer::of_storage(&error),
        Err(_) => answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "it failed",
            None,
        ),
    }
}
