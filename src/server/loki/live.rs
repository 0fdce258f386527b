//! `GET /loki/api/v1/tail`: the lines of a log query as they become visible, over a WebSocket.
//!
//! # Invariants
//! * A tail takes the feeds and the places of `/api/v1/tail`: its evaluation is bounded as theirs,
//!   and it is one of the tails of its client and of the server.
//! * It follows the streams that the client may read and the selector names; of a stream that
//!   appears later, from its first line. It ends when its account is removed or changed.
//! * The lines from `start` and the following ones neither overlap nor leave a gap: the tail joins
//!   the feeds before it takes the snapshot, and skips batches that the snapshot contains.
//! * A client that does not keep up misses pieces, and is told of them in `dropped_entries`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use futures::stream::{BoxStream, SelectAll, SplitSink};
use futures::{SinkExt, StreamExt, stream};
use query::GonePeer;
use query::logql::{
    Direction, Expr, LineFilter, LogEntry, LogQuery, LogRange, MatchOp, Matcher, parse,
};
use serde_json::{Value as Json, json};
use storage::{Name, StreamKind};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::forms::tail_message;
use super::parameters::{Given, LIMIT_MAX, Refused, now, wrong};
use crate::access::{Action, Target};
use crate::serve::Client;
use crate::server::answer;
use crate::server::app::App;
use crate::server::connections::StillOpen;
use crate::server::read_call::CallParameters;
use crate::server::status::Who;
use crate::server::tail::choice::{Follow, Followed};
use crate::server::tail::feed::Piece;
use crate::server::tail::pieces::Pieces;
use crate::server::tail::{NO_RIGHTS, TailPlaces, may_still_read, places};

/// Interval of pings; they reveal a dead connection.
const BEAT: Duration = Duration::from_secs(10);
/// Interval of the looks at the account, and for new streams.
const LOOK: Duration = Duration::from_secs(1);
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

/// The label that names a stream.
const STREAM: &str = "stream";
const STOPS: &str = "the server stops";

/// The next piece of a feed.
struct NextPiece {
    stream: Arc<str>,
    piece: Result<Piece, RecvError>,
}

/// A tail before its connection is a WebSocket.
struct LiveTail {
    app: Arc<App>,
    query: LogQuery,
    /// All streams that were considered.
    known: BTreeSet<Name>,
    feeds: SelectAll<BoxStream<'static, NextPiece>>,
    /// The lines from before.
    first: Option<String>,
    /// The client's share lasts as long as the tail.
    client: Client,
    _places: TailPlaces,
}

pub(super) async fn tail(
    State(app): State<Arc<App>>,
    who: Who,
    RawQuery(parameters): RawQuery,
    Extension(open): Extension<StillOpen>,
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
            .on_upgrade(|socket| async move {
                tail.run(socket).await;
                drop(open);
            }),
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
        let mut tail = Self {
            app: Arc::clone(app),
            query,
            known: BTreeSet::new(),
            feeds: SelectAll::new(),
            first: None,
            client: who.clone(),
            _places: places(app, who)?,
        };
        let (all, gone) = app.serving.streams_of_all().await;
        let streams = tail.new_of(all)?;
        if streams.is_empty() {
            return Err(match gone {
                Some(GonePeer { name: peer, why }) => {
                    Box::new(answer::of_query(&query::Error::Peer { peer, why }))
                }
                None => wrong("the selector names no stream"),
            });
        }
        tail.first = tail.follow(&streams, &tail.query.clone(), range).await?;
        Ok(tail)
    }

    /// Returns the streams that were not there before, as far as the client may read them and the
    /// selector names them.
    fn new_of(&mut self, all: BTreeMap<Name, StreamKind>) -> Refused<Vec<Name>> {
        let mut found = Vec::new();
        for (name, kind) in all {
            if self.known.insert(name.clone()) {
                let is_selected = kind != StreamKind::Quarantine
                    && may_still_read(&self.app, &self.client, name.as_str())
                    && LineFilter::new(&self.query, name.as_str())
                        .map_err(|e| Box::new(answer::of_query(&e)))?
                        .is_some();
                found.extend(is_selected.then_some(name));
            }
        }
        Ok(found)
    }

    /// Joins the feeds of streams. Returns the message with their lines from before; `query`
    /// selects these.
    async fn follow(
        &mut self,
        streams: &[Name],
        query: &LogQuery,
        range: LogRange,
    ) -> Refused<Option<String>> {
        if self.feeds.len() + streams.len() > STREAMS_MAX {
            let message = format!("a tail follows at most {STREAMS_MAX} streams");
            return Err(wrong(&message));
        }
        let mut feeds = Vec::with_capacity(streams.len());
        for stream in streams {
            let agreed = self.app.serving.agreed(stream).await;
            let agreed = agreed.map_err(|e| Box::new(answer::of_query(&e)))?;
            let follow = Follow::Logql(self.query.to_string());
            let followed = Followed::of(stream, follow, agreed.as_ref());
            let feed = Pieces::of(&self.app, &followed).await?;
            feeds.push((stream.as_str().into(), feed));
        }
        let past = async {
            let serving = &self.app.serving;
            let question = query.question(range)?;
            let asked = serving.ask_before_following(&self.client, question);
            let (from, answer) = asked.await?;
            let (_, batches, _) = answer.collect().await?;
            let mut lines = LogEntry::read(&batches)?;
            lines.reverse();
            Ok((from, lines))
        };
        let past: query::Result<_> = past.await;
        let (from, lines) = past.map_err(|e| Box::new(answer::of_query(&e)))?;
        for (stream, mut feed) in feeds {
            feed.begin_at(from.clone());
            self.feeds.push(following(stream, feed));
        }
        Ok((!lines.is_empty()).then(|| tail_message(lines, Vec::new())))
    }

    /// Follows the streams that have appeared. Returns the message with their first lines.
    ///
    /// # Errors
    /// The reason why the tail ends.
    async fn look(&mut self) -> Result<Option<Message>, String> {
        let now = self.app.serving.access.renew(self.client.principal());
        if !now.is_some_and(|now| now.may(Action::Read, Target::Visible)) {
            return Err(NO_RIGHTS.to_owned());
        }
        let why = |_| "the tail cannot follow one more stream".to_owned();
        // The streams of a peer that is gone are found when it is back.
        let (all, _) = self.app.serving.streams_of_all().await;
        let streams = self.new_of(all).map_err(why)?;
        if streams.is_empty() {
            return Ok(None);
        }
        // Names of streams mean themselves in a pattern.
        let names: Vec<&str> = streams.iter().map(Name::as_str).collect();
        let mut query = self.query.clone();
        query.matchers.push(Matcher {
            label: STREAM.to_owned(),
            op: MatchOp::Matches,
            value: names.join("|"),
        });
        let range = LogRange {
            start_ns: i64::MIN,
            end_ns: i64::MAX,
            limit: LIMIT_MAX,
            direction: Direction::Backward,
        };
        let lines = self.follow(&streams, &query, range).await.map_err(why)?;
        Ok(lines.map(Message::text))
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
        let after = |interval| tokio::time::interval_at(Instant::now() + interval, interval);
        let (mut looks, mut beats) = (after(LOOK), after(BEAT));
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
                _ = beats.tick() => Ok(Some(Message::Ping(Vec::new().into()))),
                _ = looks.tick() => self.look().await,
                piece = self.feeds.next() => self.message(piece),
            };
            match message {
                Ok(None) => {}
                Ok(Some(message)) => {
                    if !said(&mut send, message, &stop).await {
                        return;
                    }
                }
                // The feeds end when the server stops.
                Err(_) if stop.is_set() => {
                    close(&mut send, close_code::AWAY, STOPS).await;
                    return;
                }
                Err(why) => {
                    close(&mut send, close_code::ERROR, &why).await;
                    return;
                }
            }
        }
    }

    /// Returns the message of a piece; `None` if the client has its lines already.
    ///
    /// # Errors
    /// The reason why the tail ends.
    fn message(&self, piece: Option<NextPiece>) -> Result<Option<Message>, String> {
        let NextPiece { stream, piece } = piece.ok_or("the tail has ended")?;
        if !may_still_read(&self.app, &self.client, &stream) {
            return Err(NO_RIGHTS.to_owned());
        }
        match piece {
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

/// Returns the pieces of a feed until it ends.
fn following(stream: Arc<str>, feed: Pieces) -> BoxStream<'static, NextPiece> {
    let pieces = stream::unfold(Some((stream, feed)), move |state| async move {
        let (stream, mut feed) = state?;
        let piece = feed.recv().await;
        let ends = matches!(piece, Ok(Piece::Failed(_)) | Err(RecvError::Closed));
        let next = (!ends).then(|| (Arc::clone(&stream), feed));
        Some((NextPiece { stream, piece }, next))
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
