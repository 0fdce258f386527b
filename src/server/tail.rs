//! `GET /api/v1/tail`: events as they become visible, as server-sent events.
//!
//! # Invariants
//! * A waiting tail holds no thread. While there are tails, one thread takes new events from the
//!   store. Tails of the same stream and condition share one feed, which evaluates the condition
//!   once.
//! * At most [`EVALUATIONS_MAX`] evaluations run at once, each of a piece of a batch. A condition
//!   that fails, or takes longer than [`BATCH_WITHIN`] for one batch, ends its tails with an
//!   `error` event.
//! * A client that does not keep up misses pieces, and is notified with a `missed` event.
//! * A tail ends when its account is removed, expires, or may not read the stream any more.
//! * The `last` events and the following ones neither overlap nor leave a gap: the tail joins the
//!   feed before it takes the snapshot, and skips batches that the snapshot contains.

pub(super) mod choice;
pub(super) mod feed;
pub(super) mod pieces;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream;
use query::output::{Output, write};
use storage::Name;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::error::RecvError;

use super::answer;
use super::app::App;
use super::login::no_store;
use super::status::Who;
use crate::access::{Action, Target};
use crate::serve::{Client, Counted, Resource};
use choice::{Follow, Followed};
use feed::Piece;
use pieces::Pieces;

/// Interval of comments while there are no events; they reveal a dead connection.
const BEAT: Duration = Duration::from_secs(10);
/// Maximum evaluations at once.
const EVALUATIONS_MAX: usize = 2;
/// Maximum time of a condition for the events of one batch.
const BATCH_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of past events that are sent first.
const LAST_MAX: usize = 1000;

/// Parameters of a request.
pub(super) const PARAMETERS: [&str; 3] = ["stream", "where", "last"];

pub(super) async fn tail(
    State(app): State<Arc<App>>,
    who: Who,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    match follow(&app, &who, &parameters).await {
        Ok(response) => response,
        Err(refused) => *refused,
    }
}

async fn follow(
    app: &Arc<App>,
    who: &Client,
    parameters: &HashMap<String, String>,
) -> Result<Response, Box<Response>> {
    let wrong = |why: &str| Box::new(answer::bad_request(why));
    let Some(stream) = parameters.get("stream") else {
        return Err(wrong("name a stream: /api/v1/tail?stream=access"));
    };
    let stream = Name::new(stream).map_err(|e| Box::new(answer::of_storage(&e)))?;
    let last = match parameters.get("last").map(|n| n.parse::<usize>()) {
        None => 0,
        Some(Ok(last)) if last <= LAST_MAX => last,
        Some(_) => return Err(wrong(&format!("last: write a number up to {LAST_MAX}"))),
    };
    let condition = parameters
        .get("where")
        .filter(|c| !c.trim().is_empty())
        .cloned();
    let of_query = |e: &query::Error| Box::new(answer::of_query(e));
    let agreed = app.serving.agreed(&stream).await;
    let agreed = agreed.map_err(|e| of_query(&e))?;
    let compiled = app
        .serving
        .filter(&stream, condition.as_deref(), agreed.as_ref());
    let compiled = compiled.map_err(|e| of_query(&e))?;
    if compiled.is_none() {
        let message = format!("there is no stream {stream}");
        let status = StatusCode::NOT_FOUND;
        return Err(Box::new(answer::error(status, "no_stream", &message, None)));
    }
    let places = places(app, who)?;
    let followed = Followed::of(&stream, Follow::Where(condition.clone()), agreed.as_ref());
    let pieces = Pieces::of(app, &followed).await?;
    let mut tail = Tail {
        app: Arc::clone(app),
        who: who.clone(),
        stream: stream.clone(),
        pieces,
        first: Some(Bytes::from_static(b": following\n\n")),
        ended: false,
        _places: places,
    };
    if last > 0 {
        tail.prepare_last(who, &stream, condition.as_deref(), last)
            .await
            .map_err(|e| of_query(&e))?;
    }
    let body = stream::unfold(tail, |mut tail| async move {
        let piece = tail.next().await?;
        Some((Ok::<_, Infallible>(piece), tail))
    });
    let mut response = answer::streamed("text/event-stream", body);
    no_store(&mut response);
    Ok(response)
}

/// The place of a tail among those of its client, and among all.
pub(super) type TailPlaces = (Option<Counted>, OwnedSemaphorePermit);

/// Reason why a tail ends.
pub(super) const NO_RIGHTS: &str =
    "the account of this tail was changed or removed, or may not read the stream any more";

/// Returns whether the account of a client, as it is now, may read a stream.
pub(super) fn may_still_read(app: &App, who: &Client, stream: &str) -> bool {
    let now = app.serving.access.renew(who.principal());
    now.is_some_and(|now| now.may(Action::Read, Target::Stream(stream)))
}

/// Takes a place for a tail.
///
/// # Errors
/// If the client or the server has as many tails as it may have.
pub(super) fn places(app: &App, who: &Client) -> Result<TailPlaces, Box<Response>> {
    let of_client = who.share().take(Resource::Tails, 1);
    let of_client = of_client.map_err(|exceeded| Box::new(answer::of_share(&exceeded)))?;
    Ok((of_client, app.tails.permit().ok_or_else(full)?))
}

fn full() -> Box<Response> {
    let mut response = answer::error(
        StatusCode::SERVICE_UNAVAILABLE,
        "overloaded",
        "the server has reached its limit of open tails",
        Some("close some, or raise server.tails_max"),
    );
    answer::retry_soon(&mut response);
    Box::new(response)
}

/// A client that follows a stream.
struct Tail {
    app: Arc<App>,
    who: Client,
    stream: Name,
    pieces: Pieces,
    /// The first bytes of the response.
    first: Option<Bytes>,
    ended: bool,
    _places: TailPlaces,
}

impl Tail {
    /// Prepares the last past events as the beginning of the response.
    async fn prepare_last(
        &mut self,
        who: &Client,
        stream: &Name,
        condition: Option<&str>,
        last: usize,
    ) -> query::Result<()> {
        // The newline ends a comment in the condition.
        let condition = condition.map_or_else(String::new, |c| format!("WHERE ({c}\n)"));
        let serving = &self.app.serving;
        // Sequence numbers are those of a store.
        let latest = match serving.has_peers() {
            false => "_seq",
            true => "time",
        };
        let text =
            format!("SELECT * FROM \"{stream}\" {condition} ORDER BY {latest} DESC LIMIT {last}");
        let asked = serving.ask_before_following(who, text.as_str().into());
        let (from, answer) = asked.await?;
        self.pieces.begin_at(from);
        let (schema, batches, _) = answer.collect().await?;
        let mut lines = Vec::new();
        write(Output::Ndjson, &schema, &batches, &mut lines)?;
        let mut first = self.first.take().unwrap_or_default().to_vec();
        for line in lines.split(|b| *b == b'\n').rev() {
            feed::event(line, &mut first);
        }
        self.first = Some(first.into());
        Ok(())
    }

    /// Returns the next bytes of the response; `None` ends it.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.ended {
            return None;
        }
        let piece = tokio::select! {
            () = self.app.serving.stop.heard() => return None,
            () = tokio::time::sleep(BEAT) => None,
            piece = self.pieces.recv() => Some(piece),
        };
        if !may_still_read(&self.app, &self.who, self.stream.as_str()) {
            self.ended = true;
            return Some(feed::failed(&answer::rights_error(NO_RIGHTS)));
        }
        match piece {
            None => Some(Bytes::from_static(b": still here\n\n")),
            Some(Ok(Piece::Events { text, .. })) => Some(text),
            Some(Ok(Piece::Missed(missed)) | Err(RecvError::Lagged(missed))) => {
                Some(feed::missed(missed))
            }
            Some(Ok(Piece::Failed(error))) => {
                self.ended = true;
                Some(feed::failed(&answer::query_error(&error)))
            }
            Some(Err(RecvError::Closed)) => None,
        }
    }
}
