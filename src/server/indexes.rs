//! `/api/v1/indexes`: lists, requests and drops indexes.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use storage::{IndexKind, Name, Store};

use super::app::App;
use super::status::Who;
use super::{answer, status};

pub(super) async fn list(State(app): State<Arc<App>>, who: Who) -> Response {
    status::rows(&app, &who, "SELECT * FROM system.indexes").await
}

/// Handles `POST /api/v1/indexes/{stream}/{field}?covering=`: requests an index. The response is
/// 202 once the request is on the disk, before the index is built.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path((stream, field)): Path<(String, String)>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    let kind = match asked.get("covering").map(String::as_str) {
        None | Some("false") => IndexKind::Inverted,
        Some("true") => IndexKind::Covering,
        Some(other) => {
            let why = format!("covering is true or false, not {other:?}");
            return answer::bad_request(why);
        }
    };
    let create = move |store: &Store, stream: &Name, field: &str| {
        let created = store.create_index(stream, field, kind)?;
        Ok(json!({ "created": created }))
    };
    change(&app, &stream, field, StatusCode::ACCEPTED, create).await
}

/// `DELETE /api/v1/indexes/{stream}/{field}`.
pub(super) async fn drop(
    State(app): State<Arc<App>>,
    Path((stream, field)): Path<(String, String)>,
) -> Response {
    let drop = |store: &Store, stream: &Name, field: &str| {
        store.drop_index(stream, field)?;
        Ok(json!({ "dropped": true }))
    };
    change(&app, &stream, field, StatusCode::OK, drop).await
}

async fn change(
    app: &App,
    stream: &str,
    field: String,
    done: StatusCode,
    change: impl FnOnce(&Store, &Name, &str) -> storage::Result<serde_json::Value> + Send + 'static,
) -> Response {
    match Name::new(stream) {
        Ok(stream) => {
            let work = move |store: &Store| change(store, &stream, &field);
            answer::of_work(done, &app.serving.store, work).await
        }
        Err(error) => answer::bad_request(error),
    }
}
