//! `GET /api/v1/tail`: events as they become visible, as server-sent events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use query::TailFilter;
use query::output::{Output, write};
use storage::{Arrived, Name};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{App, answer};

/// A comment is sent this often when nothing comes, so that a dead connection is noticed.
const BEAT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Pieces kept for a client that reads slowly; then it misses events.
const PIECES: usize = 64;

pub(super) async fn tail(
    State(app): State<Arc<App>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    if let Some(unknown) = asked
        .keys()
        .find(|k| !["stream", "where"].contains(&k.as_str()))
    {
        return answer::bad_request(format!(
            "unknown parameter {unknown:?}; there are stream and where"
        ));
    }
    let Some(stream) = asked.get("stream") else {
        return answer::bad_request("name a stream: /api/v1/tail?stream=access");
    };
    let stream = match Name::new(stream) {
        Ok(stream) => stream,
        Err(error) => return answer::of_storage(&error),
    };
    let condition = asked.get("where").filter(|c| !c.trim().is_empty()).cloned();
    let first = match filter(&app, &stream, condition.as_deref()) {
        Ok(first) => first,
        Err(error) => return answer::of_query(&error),
    };
    if first.is_none() {
        return answer::error(
            StatusCode::NOT_FOUND,
            "no_stream",
            &format!("there is no stream {stream}"),
            None,
        );
    }
    let (send, receive) = mpsc::channel::<Result<Bytes, Infallible>>(PIECES);
    let arrivals = app.store.follow();
    tokio::task::spawn_blocking(move || {
        follow(&app, &stream, condition.as_deref(), &arrivals, &send)
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, Body::from_stream(ReceiverStream::new(receive))).into_response()
}

/// A filter for the stream as it is now, with the number of its columns.
fn filter(
    app: &App,
    stream: &Name,
    condition: Option<&str>,
) -> query::Result<Option<(usize, TailFilter)>> {
    let snapshot = app.store.snapshot();
    let Some(meta) = snapshot.streams().get(stream) else {
        return Ok(None);
    };
    let filter = TailFilter::new(
        &app.engine,
        meta,
        snapshot.manifest().id_prefix(),
        condition,
    )?;
    Ok(Some((meta.columns.len(), filter)))
}

type Pieces = mpsc::Sender<Result<Bytes, Infallible>>;

fn follow(
    app: &App,
    stream: &Name,
    condition: Option<&str>,
    arrivals: &crossbeam_channel::Receiver<Arrived>,
    send: &Pieces,
) {
    let mut known: Option<(usize, TailFilter)> = None;
    let mut quiet = Duration::ZERO;
    if send
        .blocking_send(Ok(Bytes::from_static(b": following\n\n")))
        .is_err()
    {
        return;
    }
    while !app.stop.is_set() {
        let piece = match arrivals.recv_timeout(LOOK_EVERY) {
            Ok(arrived) if arrived.stream == *stream => {
                // A column that came since the filter was made needs a new one.
                let columns = arrived.events.num_columns();
                if known.as_ref().is_none_or(|(seen, _)| *seen + 1 < columns) {
                    known = filter(app, stream, condition).ok().flatten();
                }
                known
                    .as_ref()
                    .and_then(|(_, filter)| events(filter, &arrived))
            }
            Ok(_) => None,
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => return,
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                quiet += LOOK_EVERY;
                (quiet >= BEAT).then(|| Bytes::from_static(b": still here\n\n"))
            }
        };
        if let Some(piece) = piece {
            quiet = Duration::ZERO;
            if send.blocking_send(Ok(piece)).is_err() {
                return;
            }
        } else if send.is_closed() {
            return;
        }
    }
}

/// The rows that pass, each as one event.
fn events(filter: &TailFilter, arrived: &Arrived) -> Option<Bytes> {
    let rows = filter
        .filter(&arrived.events)
        .ok()
        .filter(|rows| rows.num_rows() > 0)?;
    let mut lines = Vec::new();
    write(Output::Ndjson, &filter.schema(), &[rows], &mut lines).ok()?;
    let mut out = Vec::with_capacity(lines.len() * 11 / 10);
    for line in lines.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.extend_from_slice(b"\n\n");
    }
    Some(out.into())
}
