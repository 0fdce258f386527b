//! `GET /loki/api/v1/tail`: the lines of a log query as they become visible, over a WebSocket.
//!
//! # Invariants
//! * A tail takes the feeds and the places of `/api/v1/tail`: its evaluation is bounded as theirs,
//!   and it is one of the tails of its client and of the server.
//! * It follows the streams that the client may read and the selector names when it begins.
//! * The lines from `start` and the following ones neither overlap nor leave a gap: the tail joins
//!   the feeds before it takes the snapshot, and skips batches that the snapshot contains.
//! * A client that does not keep up misses pieces, and is told of them in `dropped_entries`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use futures::stream::{BoxStream, SplitSink, select_all};
use futures::{SinkExt, StreamExt, stream};
use query::logql::{Direction, Expr, LineFilter, LogEntry, LogQuery, LogRange, parse};
use serde_json::{Value as Json, json};
use storage::{Name, StreamKind};
use tokio::sync::broadcast::error::RecvError;

use super::forms::tail_message;
use super::parameters::{Given, LIMIT_MAX, Refused, now, wrong};
use crate::access::{Action, Target};
use crate::serve::Client;
use crate::server::answer;
use crate::server::app::App;
use crate::server::read_call::CallParameters;
use crate::server::status::Who;
use crate::server::tail::feed::{Follow, Piece, Pieces};
use crate::server::tail::{TailPlaces, join, places};

/// Interval of pings; they reveal a dead connection.
const BEAT: Duration = Duration::from_secs(10);
/// Lines from before that are sent first, without `limit`, as in Loki.
const LIMIT_DEFAULT: usize = 100;
/// Nanoseconds before the present of a tail without `start`: an hour, as in Loki.
const SINCE_NS: i64 = 3_600_000_000_000;
/// Most seconds of `delay_for`, as in Loki.
const DELAY_MAX: usize = 5;
/// Most streams that one tail follows.
const STREAMS_MAX: usize = 64;
/// Longest message of a client, which has nothing to say.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Longest reason of a close frame, bytes (RFC 6455, 5.5).
const REASON_BYTES_MAX: usize = 123;

const STOPS: &str = "the server stops";

/// The next piece of a feed, with the name of its stream.
type NextPiece = (Arc<str>, Result<Piece, RecvError>);

/// A tail before its connection is a WebSocket.
struct LiveTail {
    app: Arc<App>,
    feeds: Vec<(Arc<str>, Pieces)>,
    /// Batches that begin before this sequence number are skipped: `first` contains their lines.
    from: u64,
    /// The lines from before.
    first: Option<String>,
    /// The client's share lasts as long as the tail.
    _client: Client,
    _places: TailPlaces,
}

pub(super) async fn tail(
    State(app): State<Arc<App>>,
    who: Who,
    RawQuery(parameters): RawQuery,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            let checked = asked(&parameters);
            return checked.map_or_else(|refused| *refused, |_| rejection.into_response());
        }
    };
    match LiveTail::prepare(&app, &who, &parameters).await {
        Ok(tail) => upgrade
            .max_message_size(MESSAGE_BYTES_MAX)
            .max_frame_size(MESSAGE_BYTES_MAX)
            .on_upgrade(|socket| tail.run(socket)),
        Err(refused) => *refused,
    }
}

/// Returns the query, and the lines from before that are sent first.
fn asked(parameters: &Option<String>) -> Refused<(LogQuery, LogRange)> {
    let given = Given(CallParameters::of(
        parameters.as_deref().unwrap_or_default(),
    )?);
    let start_ns = given.time("start")?;
    let limit = given.number("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    // Events come in the order of their arrival, so that there is nothing to wait for.
    if given.text("delay_for") != Some("0") {
        given.number("delay_for", 1, DELAY_MAX)?;
    }
    let range = LogRange {
        start_ns: start_ns.unwrap_or_else(|| now().saturating_sub(SINCE_NS)),
        end_ns: i64::MAX,
        limit,
        direction: Direction::Backward,
    };
    match parse(given.needed("query")?) {
        Ok(Expr::Log(query)) => Ok((query, range)),
        Ok(Expr::Metric(_)) => Err(wrong("a tail follows lines: write a log query")),
        Err(error) => Err(Box::new(answer::of_query(&error))),
    }
}

impl LiveTail {
    async fn prepare(app: &Arc<App>, who: &Client, parameters: &Option<String>) -> Refused<Self> {
        let (query, range) = asked(parameters)?;
        let of_query = |error: query::Error| Box::new(answer::of_query(&error));
        let places = places(app, who)?;
        let mut feeds = Vec::new();
        for stream in streams(app, who, &query).map_err(of_query)? {
            if feeds.len() == STREAMS_MAX {
                let message = format!("a tail follows at most {STREAMS_MAX} streams");
                return Err(wrong(&message));
            }
            let follow = Follow::Logql(query.to_string());
            feeds.push((stream.as_str().into(), join(app, &stream, follow)?));
        }
        if feeds.is_empty() {
            return Err(wrong("the selector names no stream"));
        }
        let past = async {
            let question = query.question(range)?;
            let (from, answer) = app.serving.ask_before_following(who, question).await?;
            let (_, batches, _) = answer.collect().await?;
            let mut lines = LogEntry::read(&batches)?;
            lines.reverse();
            Ok((from, lines))
        };
        let (from, lines) = past.await.map_err(of_query)?;
        Ok(Self {
            app: Arc::clone(app),
            feeds,
            from,
            first: (!lines.is_empty()).then(|| tail_message(lines, Vec::new())),
            _client: who.clone(),
            _places: places,
        })
    }

    /// Sends lines until the client leaves, the server stops or the query fails.
    async fn run(mut self, socket: WebSocket) {
        let (mut send, mut receive) = socket.split();
        let stop = self.app.serving.stop.clone();
        if let Some(first) = self.first.take()
            && !said(&mut send, Message::text(first), &stop).await
        {
            return;
        }
        let feeds = std::mem::take(&mut self.feeds).into_iter();
        let mut pieces = select_all(feeds.map(|(stream, feed)| following(stream, feed)));
        loop {
            let message = tokio::select! {
                () = stop.heard() => {
                    close(&mut send, close_code::AWAY, STOPS).await;
                    return;
                }
                received = receive.next() => match received {
                    None | Some(Err(_) | Ok(Message::Close(_))) => return,
                    Some(Ok(_)) => continue,
                },
                () = tokio::time::sleep(BEAT) => Message::Ping(Vec::new().into()),
                piece = pieces.next() => match self.message(piece) {
                    Ok(None) => continue,
                    Ok(Some(message)) => message,
                    // The feeds end when the server stops.
                    Err(_) if stop.is_set() => {
                        close(&mut send, close_code::AWAY, STOPS).await;
                        return;
                    }
                    Err(why) => {
                        close(&mut send, close_code::ERROR, &why).await;
                        return;
                    }
                },
            };
            if !said(&mut send, message, &stop).await {
                return;
            }
        }
    }

    /// Returns the message of a piece; `None` if the client has its lines already.
    ///
    /// # Errors
    /// The reason why the tail ends.
    fn message(&self, piece: Option<NextPiece>) -> Result<Option<Message>, String> {
        let Some((stream, piece)) = piece else {
            return Err("the tail has ended".into());
        };
        match piece {
            Ok(Piece::Events { first_seq, .. }) if first_seq < self.from => Ok(None),
            Ok(Piece::Events { text, .. }) => {
                let text = Utf8Bytes::try_from(text).map_err(|e| e.to_string())?;
                Ok(Some(Message::Text(text)))
            }
            Ok(Piece::Missed(missed)) | Err(RecvError::Lagged(missed)) => {
                let dropped = vec![dropped(&stream, missed)];
                Ok(Some(Message::text(tail_message(Vec::new(), dropped))))
            }
            Ok(Piece::Failed(error)) => Err(error.to_string()),
            Err(RecvError::Closed) => Err(format!("the stream {stream} has ended")),
        }
    }
}

/// Returns the entry that reports missed batches or pieces of a stream.
fn dropped(stream: &str, missed: u64) -> Json {
    let labels = json!({ "stream": stream, "missed": missed.to_string() });
    json!({ "labels": labels, "timestamp": now().to_string() })
}

/// Returns the streams that a client may read and a selector names.
fn streams(app: &App, who: &Client, query: &LogQuery) -> query::Result<Vec<Name>> {
    let snapshot = app.serving.store.snapshot();
    let mut found = Vec::new();
    for (name, meta) in snapshot.streams() {
        let is_own = who.may(Action::Read, Target::Stream(name.as_str()));
        if is_own
            && meta.kind != StreamKind::Quarantine
            && LineFilter::new(query, name.as_str())?.is_some()
        {
            found.push(name.clone());
        }
    }
    Ok(found)
}

/// Returns the pieces of a feed until it ends.
fn following(stream: Arc<str>, feed: Pieces) -> BoxStream<'static, NextPiece> {
    let pieces = stream::unfold(Some((stream, feed)), |state| async move {
        let (stream, mut feed) = state?;
        let piece = feed.recv().await;
        let ends = matches!(piece, Ok(Piece::Failed(_)) | Err(RecvError::Closed));
        let next = (!ends).then(|| (Arc::clone(&stream), feed));
        Some(((stream, piece), next))
    });
    pieces.boxed()
}

type Sender = SplitSink<WebSocket, Message>;

/// Sends a message; returns whether the client is still there. The connection fails by itself when
/// the client reads nothing for some time.
async fn said(send: &mut Sender, message: Message, stop: &crate::serve::Stop) -> bool {
    tokio::select! {
        () = stop.heard() => {
            close(send, close_code::AWAY, STOPS).await;
            false
        }
        sent = send.send(message) => sent.is_ok(),
    }
}

/// Ends the connection with a reason. A client that does not read it is not waited for.
async fn close(send: &mut Sender, code: u16, why: &str) {
    let mut reason = why.to_owned();
    while reason.len() > REASON_BYTES_MAX {
        reason.pop();
    }
    let frame = CloseFrame {
        code,
        reason: reason.into(),
    };
    let message = Message::Close(Some(frame));
    let _ignored = tokio::time::timeout(Duration::from_secs(1), send.send(message)).await;
}
