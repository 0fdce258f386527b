//! Health, readiness, streams, producers and queries of the server.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use query::output::Output;
use query::{Parameters, Session};
use serde::Serialize;
use serde_json::{Value, json};
use storage::{Name, StreamKind};

use super::answer;
use super::app::App;
use crate::access::{Action, Target};
use crate::intake::Intake;
use crate::serve::Client;

pub(super) async fn health() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let status = app.serving.store.status();
    let unavailable = |why: &str| {
        let why = format!("{why}\n");
        (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
    };
    match status.poisoned {
        Some(why) => unavailable(&why),
        None if app.serving.stop.is_set() => unavailable("stopping"),
        None if status.disk_full => unavailable(
            "the disk is full: writes are refused until there is space, queries are answered",
        ),
        None if status.read_only => "ready, read-only\n".into_response(),
        None => "ready\n".into_response(),
    }
}

/// The client of a request.
pub(super) type Who = Extension<Client>;

pub(super) async fn streams(State(app): State<Arc<App>>, who: Who) -> Response {
    let listed = match app.serving.has_peers() {
        false => Ok(own_streams(&app, &who)),
        true => streams_of_all(&app, &who).await,
    };
    match listed {
        Ok(streams) => answer::json(StatusCode::OK, &streams),
        Err(error) => answer::of_query(&error),
    }
}

fn own_streams(app: &App, who: &Client) -> Vec<Value> {
    let snapshot = app.serving.store.snapshot();
    let known = snapshot.streams().iter().filter(|(name, meta)| {
        let is_own = who.may(Action::Read, Target::Stream(name.as_str()));
        is_own && meta.kind != StreamKind::Quarantine
    });
    known
        .map(|(name, meta)| {
            let sealed: u64 = snapshot.manifest().parts_of(name).map(|p| p.rows).sum();
            let waiting: u64 = snapshot
                .chunks(name.as_str())
                .iter()
                .map(|c| c.events.num_rows() as u64)
                .sum();
            let rollups: Vec<&str> = snapshot
                .manifest()
                .rollups_of(name)
                .map(|r| r.name.as_str())
                .collect();
            json!({
                "name": name.as_str(),
                "kind": meta.kind,
                "events": sealed + waiting,
                "columns": query::column_count(meta),
                "rollups": rollups,
            })
        })
        .collect()
}

/// Lists the streams of this store and of its peers, of one state.
async fn streams_of_all(app: &App, who: &Client) -> query::Result<Vec<Value>> {
    const QUESTION: &str = "SELECT s.name, s.kind, s.events, s.columns, r.rollups FROM \
         (SELECT name, kind, CAST(sum(events) AS BIGINT) AS events, max(columns) AS columns \
         FROM system.streams WHERE kind <> 'quarantine' GROUP BY name, kind) AS s LEFT JOIN \
         (SELECT stream, array_agg(DISTINCT name ORDER BY name) AS rollups \
         FROM system.rollups GROUP BY stream) AS r ON r.stream = s.name ORDER BY s.name";
    let rows = json_of(app, who, QUESTION).await?;
    let mut streams: Vec<Value> =
        serde_json::from_slice(&rows).expect("BUG: the rows are an array of JSON");
    for stream in &mut streams {
        if stream["rollups"].is_null() {
            stream["rollups"] = json!([]);
        }
    }
    Ok(streams)
}

/// Returns the fields of a stream.
pub(super) async fn schema(
    State(app): State<Arc<App>>,
    who: Who,
    Path(name): Path<String>,
) -> Response {
    let name = match Name::new(&name) {
        Ok(name) => name,
        Err(error) => return answer::bad_request(error),
    };
    of_stream(&name, app.serving.schema(&who, &name).await)
}

/// Answers with what was found of a stream.
fn of_stream<T: Serialize>(name: &Name, found: query::Result<Option<T>>) -> Response {
    match found {
        Ok(Some(found)) => answer::json(StatusCode::OK, &found),
        Ok(None) => {
            let message = format!("there is no stream {name}");
            answer::error(StatusCode::NOT_FOUND, "no_stream", &message, None)
        }
        Err(error) => answer::of_query(&error),
    }
}

/// Measures the shard keys that a stream could have, and those of each `key`.
pub(super) async fn shard_keys(
    State(app): State<Arc<App>>,
    who: Who,
    Path(name): Path<String>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Response {
    let name = match Name::new(&name) {
        Ok(name) => name,
        Err(error) => return answer::bad_request(error),
    };
    let of = |wanted: &'static str| {
        let parameters = parameters.iter().filter(move |(name, _)| name == wanted);
        parameters.map(|(_, value)| value.as_str())
    };
    let Some(shards) = of("shards").next_back().and_then(|n| n.parse().ok()) else {
        return answer::bad_request("shards: write a number such as 16");
    };
    let also = match of("key")
        .map(str::parse)
        .collect::<Result<Vec<_>, String>>()
    {
        Ok(also) => also,
        Err(message) => return answer::bad_request(format!("key: {message}")),
    };
    let found = app.serving.shard_keys(&who, &name, shards, &also).await;
    of_stream(&name, found)
}

/// Runs an internal query over system tables and returns its rows as a JSON array.
pub(super) async fn rows(app: &App, who: &Client, query: &str) -> Response {
    match json_of(app, who, query).await {
        Ok(rows) => answer::json_bytes(StatusCode::OK, rows),
        Err(error) => answer::of_query(&error),
    }
}

async fn json_of(app: &App, who: &Client, query: &str) -> query::Result<Vec<u8>> {
    let (base, none) = (Session::default(), Parameters::None);
    let answer = app.serving.ask(who, base, query.into(), none).await?;
    let (schema, batches, _) = answer.collect().await?;
    let mut out = Vec::new();
    query::output::write(Output::Json, &schema, &batches, &mut out)?;
    Ok(out)
}

/// Returns the position of a producer, with its remembered earlier states; `null` if the producer
/// is unknown. With `prefix`, returns the names of the producers that begin with it.
pub(super) async fn source(
    State(app): State<Arc<App>>,
    who: Who,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    let named = parameters
        .get("prefix")
        .or_else(|| parameters.get("producer"));
    if named.is_some_and(|name| !who.may_use_producer(name)) {
        return answer::foreign_producer();
    }
    let intake = Arc::clone(&app.serving.intake);
    let told = tokio::task::spawn_blocking(move || told_of(&*intake, &parameters));
    match told.await {
        Ok(told) => told,
        Err(_) => answer::of_storage(&storage::Error::Closed),
    }
}

/// Answers a question about ordered sources. Blocks.
pub(super) fn told_of(intake: &dyn Intake, parameters: &HashMap<String, String>) -> Response {
    if let Some(prefix) = parameters.get("prefix") {
        return match intake.producers(prefix) {
            Ok(names) => answer::json(StatusCode::OK, &names),
            Err(error) => answer::of_storage(&error),
        };
    }
    let Some(producer) = parameters.get("producer") else {
        return answer::bad_request("name a producer: /api/v1/sources?producer=…");
    };
    let states = match intake.positions(producer) {
        Ok(states) => states,
        Err(error) => return answer::of_storage(&error),
    };
    let state = |p: &storage::SourcePosition| json!({ "to": p.to, "content": p.content });
    let position = states.last().map(|last| {
        let mut position = state(last);
        position["states"] = states.iter().map(state).collect();
        position
    });
    answer::json(StatusCode::OK, &position)
}

pub(super) async fn queries(State(app): State<Arc<App>>, who: Who) -> Response {
    answer::json(StatusCode::OK, &app.serving.queries_for(&who))
}

pub(super) async fn cancel(State(app): State<Arc<App>>, who: Who, Path(id): Path<u64>) -> Response {
    if app.serving.cancel(&who, id) {
        return answer::json(StatusCode::OK, &json!({ "cancelled": id }));
    }
    answer::error(
        StatusCode::NOT_FOUND,
        "no_query",
        &format!("query {id} is not running"),
        None,
    )
}
