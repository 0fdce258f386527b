//! Sends a request of an operator on to the servers of the shards, and makes one answer of theirs.
//!
//! # Invariants
//! * A shard that has not told success is named in an error, with those that have. All of these
//!   requests may be sent again: work that is done is not done twice.
//! * The work goes on when the client disconnects.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode, Uri};
use axum::response::Response;
use percent_encoding::percent_decode_str;
use query::{PeerTables, StreamColumns, agreed_stream};
use serde_json::Value;
use storage::Name;

use super::reports;
use crate::cluster::{ShardReply, ShardRequest};
use crate::erase::EraseRequest;
use crate::failure::Class;
use crate::serve::Client;
use crate::server::app::App;
use crate::server::routes::{Route, decode};
use crate::server::{answer, body, erase};

const ERASE: &str = "/api/v1/streams/{name}/erase";
const PARTITIONS: &str = "/api/v1/partitions";
const ROLLUPS: &str = "/api/v1/rollups";
/// Updates all rollups of a store.
const RUN: &str = "/api/v1/rollups/run";

type TablesOfShards = Vec<(u16, Arc<PeerTables>)>;
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
    let tables = match app.serving.tables_of_shards().await {
        Ok(tables) => tables,
        Err(error) => return answer::of_query(&error),
    };
    let sent = Arc::clone(app);
    let work = tokio::spawn(async move {
        let _place = place;
        let subject = Subject::of(route, &head.uri);
        let shards = subject.shards(&tables);
        let request = match request_to_shards(route, &head, body, &subject, &tables) {
            Ok(request) => request,
            Err(error) => return answer::of_query(&error),
        };
        let intake = sent.serving.shards.as_ref();
        let intake = intake.expect("BUG: a node has shards");
        one_answer(route, intake.send_to(shards, &request).await)
    });
    work.await.unwrap_or_else(|_| {
        answer::of_class(
            Class::Internal,
            "the request's task failed; see the server's log",
            None,
        )
    })
}

/// The things that a request names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Subject {
    stream: Option<String>,
    field: Option<String>,
    rollup: Option<String>,
}

impl Subject {
    fn of(route: &Route, uri: &Uri) -> Self {
        let mut subject = Self::default();
        let is_of_rollups = route.path.starts_with(ROLLUPS);
        for (pattern, segment) in route.path.split('/').zip(uri.path().split('/')) {
            let text = || percent_decode_str(segment).decode_utf8().ok();
            let text = || text().map(|text| text.into_owned());
            match pattern {
                "{name}" if is_of_rollups => subject.rollup = text(),
                "{name}" | "{stream}" => subject.stream = text(),
                "{field}" => subject.field = text(),
                _ => {}
            }
        }
        // The quarantine of a stream may be at shards that have no event of it.
        if route.path.starts_with(PARTITIONS) {
            let pairs = uri.query().unwrap_or_default().split('&');
            let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
            subject.stream = pairs.find_map(|(name, value)| {
                (decode(name)? == "stream").then(|| decode(value)).flatten()
            });
        }
        subject
    }

    /// Returns the shards that have the things; all if none has them, so that they say so.
    fn shards(&self, tables: &TablesOfShards) -> Vec<u16> {
        let having = |has: &dyn Fn(&PeerTables) -> bool| -> Vec<u16> {
            let having = tables.iter().filter(|(_, tables)| has(tables));
            having.map(|(shard, _)| *shard).collect()
        };
        let has_rollup = |tables: &PeerTables| {
            let mut rollups = tables.rollups.iter();
            (self.rollup.as_ref()).is_none_or(|name| rollups.any(|r| r.name.as_str() == name))
        };
        let has_stream =
            |tables: &PeerTables| self.stream.is_none() || self.columns(tables).is_some();
        let has_column = |tables: &PeerTables| match (&self.field, self.columns(tables)) {
            (Some(field), Some(of)) => of.columns.iter().any(|column| *column.name == **field),
            _ => true,
        };
        let all = |_: &PeerTables| true;
        let having_things =
            |tables: &PeerTables| has_rollup(tables) && has_stream(tables) && has_column(tables);
        let choices: [&dyn Fn(&PeerTables) -> bool; 3] = [&having_things, &has_stream, &all];
        let mut choices = choices.into_iter().map(having);
        choices
            .find(|shards| !shards.is_empty())
            .unwrap_or_default()
    }

    /// Returns the columns of the stream in a shard.
    fn columns<'a>(&self, tables: &'a PeerTables) -> Option<&'a StreamColumns> {
        let name = Name::new(self.stream.as_deref()?).ok()?;
        tables.streams.get(&name)
    }
}

/// Returns the request as the servers of the shards get it.
///
/// # Errors
/// If the stream of an erasure is of different kinds in two shards.
fn request_to_shards(
    route: &Route,
    head: &Parts,
    body: Bytes,
    subject: &Subject,
    tables: &TablesOfShards,
) -> query::Result<ShardRequest> {
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let body = match serde_json::from_slice::<EraseRequest>(&body) {
        Ok(mut request) if route.path == ERASE => {
            // A condition reads what all shards know: a column that one lacks is null there.
            let known = tables
                .iter()
                .filter_map(|(_, tables)| subject.columns(tables));
            request.columns = agreed_stream(None, known)?.map(|stream| StreamColumns {
                kind: stream.kind,
                columns: stream.columns,
            });
            serde_json::to_vec(&request)
                .expect("BUG: a request is JSON")
                .into()
        }
        // A shard explains what is wrong with it.
        _ => body,
    };
    Ok(ShardRequest {
        method: head.method.clone(),
        path: path.to_owned(),
        body,
    })
}

/// Returns the answer that those of the shards are together.
fn one_answer(route: &Route, replies: Replies) -> Response {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (shard, reply) in replies {
        match reply {
            Ok(reply) if reply.status.is_success() => done.push((shard, reply)),
            failure => failed.push((shard, failure)),
        }
    }
    if failed.is_empty() {
        return report(route, &done);
    }
    let is_refused = |failure: &Result<ShardReply, String>| match failure {
        Ok(reply) => reply.status.is_client_error(),
        Err(_) => false,
    };
    let class = match failed.iter().all(|(_, failure)| is_refused(failure)) {
        true => Class::Invalid,
        false => Class::Unavailable,
    };
    let reasons = failed.into_iter().map(|(shard, failure)| match failure {
        Ok(reply) => (shard, reply.refusal()),
        Err(why) => (shard, why),
    });
    let reasons: Vec<(u16, String)> = reasons.collect();
    let are_alike = reasons.iter().all(|(_, why)| *why == reasons[0].1);
    let message = match are_alike && done.is_empty() {
        true => reasons[0].1.clone(),
        false => {
            let said = reasons
                .iter()
                .map(|(shard, why)| format!("shard {shard}: {why}"));
            let done = done.iter().map(|(shard, _)| format!("shard {shard}: done"));
            said.chain(done).collect::<Vec<_>>().join("; ")
        }
    };
    let hint = match class {
        Class::Invalid => None,
        _ => Some("send it again: work that is done is not done twice"),
    };
    answer::of_class(class, &message, hint)
}

/// Returns the answer to a request that all have done.
fn report(route: &Route, done: &[(u16, ShardReply)]) -> Response {
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
    if let (RUN, Some(report)) = (route.path, report.as_object_mut()) {
        // Each shard has numbers of its own.
        report.remove("last_run");
    }
    let status = done
        .first()
        .map_or(StatusCode::OK, |(_, reply)| reply.status);
    answer::json(status, &report)
}

#[cfg(test)]
mod tests;
