//! The shard of this server for the other servers of its cluster: parts of batches, positions of
//! ordered sources, and the catalog where this is the first shard.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use storage::{Ack, EncodedBatch, WriteConcern};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::cluster::{CatalogChange, PartAnswer, PartRefusal, ShardedIntake, ToldPosition};
use crate::server::app::App;
use crate::server::status::told_of;
use crate::server::{answer, body};

/// Parameters of a part.
pub(in crate::server) const PART: [&str; 3] = ["shard", "w", "j"];
/// Parameters of a question about sources.
pub(in crate::server) const SOURCE: [&str; 3] = ["producer", "prefix", "key"];

/// Maximum bytes of a part: the rows of a batch may take several times its bytes.
const PART_BYTES_MAX: usize = 1 << 30;
/// Maximum bytes of a change of the catalog.
const CATALOG_BYTES_MAX: usize = 64 << 20;

/// `GET /api/v1/cluster/shard`
pub(super) async fn info(State(app): State<Arc<App>>) -> Response {
    let info = own(&app).map(ShardedIntake::info);
    match info {
        Ok(Some(info)) => answer::json(StatusCode::OK, &info),
        Ok(None) => *no_shard(),
        Err(refused) => *refused,
    }
}

/// `GET /api/v1/cluster/status`
pub(super) async fn status(State(app): State<Arc<App>>) -> Response {
    match own(&app) {
        Ok(shards) => answer::json(StatusCode::OK, &shards.status().await),
        Err(refused) => *refused,
    }
}

/// `POST /api/v1/cluster/batches?shard=&w=&j=`: takes a part of a batch, and answers when its
/// concern is reached. Any answer but 200 means that nothing of it is stored.
pub(super) async fn take(
    State(app): State<Arc<App>>,
    Query(parameters): Query<HashMap<String, String>>,
    body: Body,
) -> Response {
    let taken = async {
        let shards = own(&app)?.clone();
        let asked = parameters.get("shard").and_then(|shard| shard.parse().ok());
        if asked.is_none() || asked != shards.own() {
            return Ok(PartAnswer::OtherShard);
        }
        let text = |name| parameters.get(name).map(String::as_str);
        let concern = WriteConcern::parse(text("w"), Some(text("j") == Some("true")));
        let concern = concern.map_err(|e| Box::new(answer::bad_request(e)))?;
        let Some(bytes) = body::whole(body, PART_BYTES_MAX).await else {
            return Err(Box::new(too_large(PART_BYTES_MAX)));
        };
        app.serving.intake.note_foreground();
        Ok(stored(shards, bytes, concern).await)
    };
    match taken.await {
        Ok(told) => answer::json(StatusCode::OK, &told),
        Err(refused) => *refused,
    }
}

/// Hands a part to the store and waits for its outcome.
async fn stored(shards: ShardedIntake, bytes: Bytes, concern: WriteConcern) -> PartAnswer {
    let (tell, told) = oneshot::channel();
    let submitted = spawn_blocking(move || {
        let reply = move |outcome| {
            // The other server has gone if nobody waits for it.
            let _told = tell.send(outcome);
        };
        shards.take_part(EncodedBatch::read(&bytes)?, concern, reply)
    });
    let outcome: storage::Result<Ack> = match submitted.await {
        Ok(Ok(())) => told.await.unwrap_or(Err(storage::Error::Closed)),
        Ok(Err(refused)) => Err(refused),
        Err(_) => Err(storage::Error::Closed),
    };
    match outcome {
        Ok(ack) => PartAnswer::Stored(ack),
        Err(error) => PartAnswer::Refused(PartRefusal::from(&error)),
    }
}

/// `GET /api/v1/cluster/sources`: what this shard alone knows of ordered sources.
pub(super) async fn sources(
    State(app): State<Arc<App>>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    if let Err(refused) = own(&app) {
        return *refused;
    }
    if let Some(key) = parameters.get("key") {
        return answer::json(StatusCode::OK, &app.serving.store.key_fingerprint(key));
    }
    if let (Some(producer), None) = (parameters.get("producer"), parameters.get("prefix")) {
        let states = app.serving.store.source_states(producer).into_iter();
        let states: Vec<_> = states.map(ToldPosition::from).collect();
        return answer::json(StatusCode::OK, &states);
    }
    told_of(&*app.serving.store, &parameters)
}

/// `GET /api/v1/cluster/catalog`: the text of the catalog, or null.
pub(super) async fn catalog(State(app): State<Arc<App>>) -> Response {
    if let Err(refused) = own(&app) {
        return *refused;
    }
    let store = Arc::clone(&app.serving.store);
    match spawn_blocking(move || store.catalog()).await {
        Ok(Ok(text)) => answer::json(StatusCode::OK, &text),
        Ok(Err(error)) => answer::of_storage(&error),
        Err(_) => answer::of_storage(&storage::Error::Closed),
    }
}

/// `PUT /api/v1/cluster/catalog`: replaces the catalog if it is still the expected one. The
/// answer tells whether it was.
pub(super) async fn change_catalog(State(app): State<Arc<App>>, body: Body) -> Response {
    let is_first = own(&app).map(|shards| shards.own() == Some(0));
    match is_first {
        Ok(true) => {}
        Ok(false) => return answer::bad_request("the server of shard 0 has the catalog"),
        Err(refused) => return *refused,
    }
    let Some(bytes) = body::whole(body, CATALOG_BYTES_MAX).await else {
        return too_large(CATALOG_BYTES_MAX);
    };
    let change: CatalogChange = match serde_json::from_slice(&bytes) {
        Ok(change) => change,
        Err(why) => return answer::bad_request(why),
    };
    let store = Arc::clone(&app.serving.store);
    let replaced =
        spawn_blocking(move || store.replace_catalog(change.expected.as_deref(), &change.text));
    match replaced.await {
        Ok(Ok(is_done)) => answer::json(StatusCode::OK, &is_done),
        Ok(Err(error)) => answer::of_storage(&error),
        Err(_) => answer::of_storage(&storage::Error::Closed),
    }
}

fn own(app: &App) -> Result<&ShardedIntake, Box<Response>> {
    app.serving.shards.as_ref().ok_or_else(no_shard)
}

fn no_shard() -> Box<Response> {
    let why = "this server has no shard of a cluster; set shards and shard of [cluster] there";
    Box::new(answer::bad_request(why))
}

fn too_large(bytes_max: usize) -> Response {
    answer::error(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        &format!("the body has more than {bytes_max} bytes"),
        None,
    )
}
