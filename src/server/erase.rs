//! `/api/v1/streams/{name}/erase`: takes the events that pass a condition out of the store.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use storage::Name;

use super::answer;
use super::app::App;
use super::status::Who;
use crate::erase::{EraseRequest, erase as erase_events};

/// Maximum bytes of a condition.
pub(super) const CONDITION_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a body: a node adds the columns of the stream.
pub(super) const BODY_BYTES_MAX: usize = CONDITION_BYTES_MAX + (4 << 20);

/// Handles `POST /api/v1/streams/{name}/erase` with the body `{"where", "dry_run"}`.
pub(super) async fn erase(
    State(app): State<Arc<App>>,
    who: Who,
    Path(stream): Path<String>,
    body: Result<Json<EraseRequest>, JsonRejection>,
) -> Response {
    let Json(request) = match body {
        Ok(request) => request,
        // The body names what is to be forgotten, so the answer does not repeat it.
        Err(_) => {
            return answer::bad_request(
                "the body is not {\"where\": \"SQL expression\", \"dry_run\": false}",
            );
        }
    };
    answer::in_turn(&who, move || {
        let serving = &app.serving;
        let stream = Name::new(&stream)?;
        let with = (&serving.config, &serving.runtime);
        erase_events(with, &serving.store, &stream, &request)
    })
    .await
}
