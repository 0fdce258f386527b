//! Sends a request of an operator on to the servers of all shards, and makes one answer of theirs.
//!
//! # Invariants
//! * Success means that all shards have done the work, or have nothing of what the request names.
//!   A shard that has failed is named in an error, with those that have done it.
//! * A shard that lacks a stream has nothing to erase, and each of the others reads the columns of
//!   all. So an erasure has no other refusals than wrong ones.
//! * The work goes on when the client disconnects.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use query::StreamColumns;
use serde_json::{Value, json};
use storage::Name;

use super::reports;
use crate::cluster::{ShardReply, ShardRequest};
use crate::erase::EraseRequest;
use crate::failure::Class;
use crate::serve::{Client, Serving, StreamOfAll};
use crate::server::app::App;
use crate::server::routes::Route;
use crate::server::{answer, body, erase};

const ERASE: &str = "/api/v1/streams/{name}/erase";
/// Updates all rollups of a store.
const RUN: &str = "/api/v1/rollups/run";

type Replies = Vec<(u16, Result<ShardReply, String>)>;

/// Answers a request by what the servers of the shards answer.
pub(in crate::server) async fn send_on(
    app: &Arc<App>,
    route: &'static Route,
    request: Request<Body>,
) -> Response {
    let (head, body) = request.into_parts();
    let Some(body) = body::whole(body, erase::CONDITION_BYTES_MAX).await else {
        return answer::bad_request(format!(
            "the body is cut off, or has more than {} bytes",
            erase::CONDITION_BYTES_MAX
        ));
    };
    let client = head.extensions.get::<Client>();
    let client = client.expect("BUG: a request of an operator has a client");
    let place = match client.share().work().await {
        Ok(place) => place,
        Err(error) => return answer::of_query(&error),
    };
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let mut request = ShardRequest {
        method: head.method.clone(),
        path: path.to_owned(),
        body,
    };
    let mut others = Vec::new();
    if route.path == ERASE {
        let stream = head.uri.path().split('/').nth(4).unwrap_or_default();
        match stream_of_all(&app.serving, stream).await {
            Ok(stream) => {
                others = stream.beside_shards;
                request.body = with_columns(request.body, stream.columns);
            }
            Err(error) => return answer::of_query(&error),
        }
    }
    let sent = Arc::clone(app);
    let work = tokio::spawn(async move {
        let _place = place;
        let intake = sent.serving.shards.as_ref();
        let intake = intake.expect("BUG: a node has shards");
        one_answer(route, intake.send_to_all(&request).await, &others)
    });
    work.await.unwrap_or_else(|_| {
        answer::of_class(
            Class::Internal,
            "the request's task failed; see the server's log",
            None,
        )
    })
}

async fn stream_of_all(serving: &Serving, stream: &str) -> query::Result<StreamOfAll> {
    match Name::new(stream) {
        Ok(stream) => serving.stream_of_all(&stream).await,
        // The shards explain what is wrong with the name.
        Err(_) => Ok(StreamOfAll::default()),
    }
}

/// Adds the columns of a stream to the body of an erasure. Its condition reads what all shards
/// know: a column that one of them lacks is null there.
fn with_columns(body: Bytes, columns: Option<StreamColumns>) -> Bytes {
    match serde_json::from_slice::<EraseRequest>(&body) {
        Ok(mut request) => {
            request.columns = columns;
            let body = serde_json::to_vec(&request);
            body.expect("BUG: a request is JSON").into()
        }
        // The shards explain what is wrong with it.
        Err(_) => body,
    }
}

/// Returns the answer that those of the shards are together; `others` are stores that have the
/// stream of an erasure and are no shards.
fn one_answer(route: &Route, replies: Replies, others: &[String]) -> Response {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (shard, reply) in replies {
        match reply {
            Ok(reply) if reply.status.is_success() => done.push((shard, reply)),
            failure => failed.push((shard, failure)),
        }
    }
    if !done.is_empty() {
        let is_missing = |reply: &ShardReply| reply.is_missing;
        failed.retain(|(_, failure)| !failure.as_ref().is_ok_and(is_missing));
    }
    if failed.is_empty() {
        return report(route, &done, others);
    }
    let has_failed = |class| {
        failed
            .iter()
            .any(|(_, failure)| class_of(route, failure) == class)
    };
    let mut classes = [Class::Internal, Class::Unavailable].into_iter();
    let class = classes.find(|class| has_failed(*class));
    let class = class.unwrap_or(Class::Invalid);
    let reasons = failed.iter().map(|(shard, failure)| match failure {
        Ok(reply) => (shard, reply.refusal()),
        Err(why) => (shard, why.clone()),
    });
    let reasons: Vec<(&u16, String)> = reasons.collect();
    let are_alike = reasons.iter().all(|(_, why)| *why == reasons[0].1);
    let message = match are_alike && done.is_empty() && class == Class::Invalid {
        true => reasons[0].1.clone(),
        false => {
            let said = reasons.iter();
            let said = said.map(|(shard, why)| format!("shard {shard}: {why}"));
            let done = done.iter().map(|(shard, _)| format!("shard {shard}: done"));
            said.chain(done).collect::<Vec<_>>().join("; ")
        }
    };
    let hint = (class == Class::Unavailable).then_some("send it again: it goes on where it was");
    answer::of_class(class, &message, hint)
}

/// Returns the class of a failure: the request is wrong for this shard, may succeed later, or has
/// found a fault.
fn class_of(route: &Route, failure: &Result<ShardReply, String>) -> Class {
    let Ok(reply) = failure else {
        return Class::Unavailable;
    };
    // A replay that was broken off; an erasure has a wrong condition.
    let is_broken_off = || route.path != ERASE && reply.code().as_deref() == Some("not_done");
    match reply.status {
        StatusCode::UNPROCESSABLE_ENTITY if is_broken_off() => Class::Unavailable,
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY => {
            Class::Invalid
        }
        StatusCode::INTERNAL_SERVER_ERROR => Class::Internal,
        _ => Class::Unavailable,
    }
}

/// Returns the answer to a request that all have done.
fn report(route: &Route, done: &[(u16, ShardReply)], others: &[String]) -> Response {
    let mut report = Value::Null;
    for (shard, reply) in done {
        match serde_json::from_slice(&reply.body) {
            Ok(other) => reports::add(&mut report, other),
            Err(error) => {
                let why = format!(
                    "the report of shard {shard} cannot be read ({error}): let all servers have one version of logmill"
                );
                return answer::of_class(Class::Internal, &why, None);
            }
        }
    }
    if let Some(report) = report.as_object_mut() {
        if route.path == RUN {
            // Each shard has numbers of its own.
            report.remove("last_run");
        }
        if !others.is_empty() {
            report.insert("not_asked".to_owned(), json!(others));
        }
    }
    let status = done.first().map(|(_, reply)| reply.status);
    answer::json(status.unwrap_or(StatusCode::OK), &report)
}

#[cfg(test)]
mod tests;
