//! `/api/v1/rollups`: lists, runs, verifies, compacts, rebuilds and drops rollups.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;
use storage::Name;

use super::app::App;
use super::status::Who;
use super::{answer, status};
use crate::dates::range;
use crate::verification::{QUESTIONS, ask, sample, verify_snapshot};

pub(super) async fn list(State(app): State<Arc<App>>, who: Who) -> Response {
    status::rows(&app, &who, "SELECT * FROM system.rollups").await
}

/// Updates all rollups with one seal, and applies the retention of their levels.
pub(super) async fn run(State(app): State<Arc<App>>) -> Response {
    let store = Arc::clone(&app.serving.store);
    let seal = move || {
        let report = store.seal()?;
        store.retain_levels()?;
        Ok(report)
    };
    match tokio::task::spawn_blocking(seal).await {
        Ok(Ok(report)) => answer::json(
            StatusCode::OK,
            &json!({
                "last_run": report.cutoff,
                "events": report.events,
                "parts": report.parts,
                "part_bytes": report.part_bytes,
                "tile_files": report.tile_files,
                "tile_bytes": report.tile_bytes,
            }),
        ),
        Ok(Err(error)) => answer::of_storage(&error),
        Err(_) => answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the seal's task failed; see the server's log",
            None,
        ),
    }
}

pub(super) async fn verify(
    State(app): State<Arc<App>>,
    who: Who,
    Path(name): Path<String>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    let share = match parameters.get("sample").map(|s| s.parse()).transpose() {
        Ok(share) => share,
        Err(_) => return answer::bad_request("sample: write a share such as 0.1"),
    };
    let questions = match parameters.get("questions").map(|q| q.parse()).transpose() {
        Ok(questions) => questions.unwrap_or(QUESTIONS),
        Err(_) => return answer::bad_request("questions: write a number such as 100"),
    };
    let snapshot = app.serving.store.snapshot();
    let known = snapshot
        .manifest()
        .rollups
        .iter()
        .any(|r| r.name.as_str() == name);
    if !known {
        return answer::marked_missing(answer::error(
            StatusCode::NOT_FOUND,
            "no_rollup",
            &format!("there is no rollup {name:?}"),
            None,
        ));
    }
    let states_snapshot = Arc::clone(&snapshot);
    let verified = tokio::task::spawn_blocking(move || {
        verify_snapshot(&states_snapshot, Some(&name), sample(share))
    })
    .await;
    let failed = |error: &dyn std::fmt::Display| {
        answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "verify_failed",
            &error.to_string(),
            None,
        )
    };
    match verified {
        Ok(Ok(found)) => {
            let Some(states) = found.into_iter().next() else {
                return answer::marked_missing(answer::error(
                    StatusCode::NOT_FOUND,
                    "no_rollup",
                    "the rollup was dropped meanwhile",
                    None,
                ));
            };
            let stop = || app.serving.stop.is_set();
            let engine = app.serving.engine_of(&who, &snapshot);
            match ask(&engine, &snapshot, states, questions, &stop).await {
                Ok(one) => {
                    let differences = one.differences();
                    app.serving
                        .scrub
                        .mismatches
                        .fetch_add(differences, Ordering::Relaxed);
                    answer::json(StatusCode::OK, &one)
                }
                Err(error) => failed(&error),
            }
        }
        Ok(Err(error)) => failed(&error),
        Err(_) => answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the verification's task failed; see the server's log",
            None,
        ),
    }
}

/// `POST /api/v1/rollups/compact`: merges tiles until nothing is left to merge.
pub(super) async fn compact(State(app): State<Arc<App>>) -> Response {
    let store = Arc::clone(&app.serving.store);
    work(move || store.compact_tiles(true)).await
}

/// `POST /api/v1/rollups/{name}/rebuild?from=&to=`.
pub(super) async fn rebuild(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    let text = |name: &str| parameters.get(name).map_or("", String::as_str);
    let name = match Name::new(&name) {
        Ok(name) => name,
        Err(error) => return answer::of_storage(&error),
    };
    let range_us = match range(&format!("{}..{}", text("from"), text("to"))) {
        Ok(range) => range,
        Err(what) => return answer::bad_request(what),
    };
    let store = Arc::clone(&app.serving.store);
    work(move || store.rebuild(&name, range_us)).await
}

/// Handles `DELETE /api/v1/rollups/{name}`: drops a rollup that the configuration does not name.
pub(super) async fn drop(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let name = match Name::new(&name) {
        Ok(name) => name,
        Err(error) => return answer::of_storage(&error),
    };
    let store = Arc::clone(&app.serving.store);
    work(move || {
        let events = store.drop_rollup(&name)?;
        Ok(json!({ "dropped": name.as_str(), "events": events }))
    })
    .await
}

/// Runs long work on the store, and answers with its report as JSON.
pub(super) async fn work<T: Serialize + Send + 'static>(
    what: impl FnOnce() -> storage::Result<T> + Send + 'static,
) -> Response {
    match tokio::task::spawn_blocking(what).await {
        Ok(Ok(report)) => answer::json(StatusCode::OK, &report),
        Ok(Err(error)) => answer::of_storage(&error),
        Err(_) => answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the request's task failed; see the server's log",
            None,
        ),
    }
}
