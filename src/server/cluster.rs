//! `/api/v1/cluster`: the states that peers read, and their requests.
//!
//! A peer asks for a state of the store, sends requests that read it, and gives it back. Each step
//! has the rights of the account that asks: the token of a state gives none.

pub(super) mod shard;
pub(super) mod snapshots;
mod tail;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use futures::StreamExt;
use query::PeerTables;
use serde_json::json;

use super::app::App;
use super::login::no_store;
use super::status::Who;
use super::{answer, body};
use crate::cluster::{PeerSnapshot, SnapshotRequest};
use crate::failure::Class;
use snapshots::HELD_MAX;

/// Parameters of a request.
pub(super) const PARAMETERS: [&str; 1] = ["snapshot"];
/// Maximum bytes of a request.
const REQUEST_BYTES_MAX: usize = 16 << 20;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/cluster/snapshots", post(hold))
        .route("/api/v1/cluster/snapshots/{id}", delete(give_back))
        .route("/api/v1/cluster/requests", post(request))
        .route("/api/v1/cluster/tail", post(tail::tail))
        .route(
            "/api/v1/cluster/catalog",
            get(shard::catalog).put(shard::change_catalog),
        )
        .route("/api/v1/cluster/shard", get(shard::info))
        .route("/api/v1/cluster/status", get(shard::status))
        .route("/api/v1/cluster/batches", post(shard::take))
        .route("/api/v1/cluster/sources", get(shard::sources))
}

/// `POST /api/v1/cluster/snapshots`: holds the present state of the store for the client, and takes
/// back those that it names.
async fn hold(State(app): State<Arc<App>>, who: Who, body: Body) -> Response {
    let asked = match body::whole(body, REQUEST_BYTES_MAX).await {
        Some(text) if text.is_empty() => Ok(SnapshotRequest::default()),
        Some(text) => serde_json::from_slice::<SnapshotRequest>(&text).map_err(|e| e.to_string()),
        None => Err(format!("it has more than {REQUEST_BYTES_MAX} bytes")),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(why) => {
            let why = format!("the request for a state cannot be read: {why}");
            let hint = "let all servers have one version of logmill";
            return answer::of_class(Class::Invalid, &why, Some(hint));
        }
    };
    for token in &asked.given_back {
        app.snapshots.give_back(who.name(), token);
    }
    let snapshot = app.serving.store.snapshot();
    let tables = PeerTables::of(&snapshot, &who.viewer(&snapshot));
    let Some(token) = app.snapshots.hold(who.name(), Arc::clone(&snapshot)) else {
        return answer::of_class(
            Class::TooMany,
            &format!("{HELD_MAX} states of the store are held for this account"),
            Some("give some back: DELETE /api/v1/cluster/snapshots/TOKEN"),
        );
    };
    let told = PeerSnapshot::of(&snapshot, tables, token, asked.known.as_deref());
    let mut response = answer::json(StatusCode::OK, &told);
    no_store(&mut response);
    response
}

/// `DELETE /api/v1/cluster/snapshots/{id}`: gives a state back.
async fn give_back(State(app): State<Arc<App>>, who: Who, Path(token): Path<String>) -> Response {
    match app.snapshots.give_back(who.name(), &token) {
        true => answer::json(StatusCode::OK, &json!({})),
        false => unknown(),
    }
}

/// `POST /api/v1/cluster/requests?snapshot=`: answers a request over a state. A broken connection
/// cancels it, because it drops the stream.
async fn request(
    State(app): State<Arc<App>>,
    who: Who,
    Query(parameters): Query<HashMap<String, String>>,
    body: Body,
) -> Response {
    let token = parameters.get("snapshot").map_or("", String::as_str);
    let Some(snapshot) = app.snapshots.find(who.name(), token) else {
        return unknown();
    };
    let Some(request) = body::whole(body, REQUEST_BYTES_MAX).await else {
        return answer::error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            &format!("the request of a peer has more than {REQUEST_BYTES_MAX} bytes"),
            None,
        );
    };
    let pieces = app.serving.answer_peer(&who, snapshot, request);
    let pieces = pieces.map(Ok::<Bytes, Infallible>);
    answer::streamed("application/octet-stream", pieces)
}

fn unknown() -> Response {
    answer::error(
        StatusCode::NOT_FOUND,
        "no_snapshot",
        "no state of the store is held under this token: it was given back, it has expired, or it is another account's",
        Some("ask for a new one: POST /api/v1/cluster/snapshots"),
    )
}
