//! `POST /api/v1/cluster/tail`: the new events of this store that another server has chosen.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream;
use tokio::sync::broadcast::error::RecvError;

use crate::cluster::{BEAT, TailFrame};
use crate::serve::Client;
use crate::server::app::App;
use crate::server::login::no_store;
use crate::server::status::Who;
use crate::server::tail::choice::{Follow, Followed};
use crate::server::tail::feed::{OwnPieces, Piece};
use crate::server::tail::{NO_RIGHTS, TailPlaces, may_still_read, pieces, places};
use crate::server::{answer, body};

/// Maximum bytes of a choice: the columns of a stream are the most of it.
const CHOICE_BYTES_MAX: usize = 4 << 20;

pub(super) async fn tail(State(app): State<Arc<App>>, who: Who, body: Body) -> Response {
    match follow(&app, &who, body).await {
        Ok(response) => response,
        Err(refused) => *refused,
    }
}

async fn follow(app: &Arc<App>, who: &Client, body: Body) -> Result<Response, Box<Response>> {
    let choice = body::whole(body, CHOICE_BYTES_MAX).await;
    let followed: Option<Followed> = choice.and_then(|text| serde_json::from_slice(&text).ok());
    let Some(followed) = followed else {
        let why = "this is no choice of events; let all servers have one version of logmill";
        return Err(Box::new(answer::bad_request(why)));
    };
    if !may_still_read(app, who, followed.stream.as_str()) {
        let message = format!("there is no stream {}", followed.stream);
        let status = StatusCode::NOT_FOUND;
        return Err(Box::new(answer::error(status, "no_stream", &message, None)));
    }
    let condition = match &followed.follow {
        Follow::Where(condition) => condition.as_deref(),
        Follow::Logql(_) => None,
    };
    let of_query = |e: query::Error| Box::new(answer::of_query(&e));
    let agreed = followed.agreed().map_err(of_query)?;
    let serving = &app.serving;
    let compiled = serving.filter(&followed.stream, condition, agreed.as_ref());
    compiled.map_err(of_query)?;
    let telling = Telling {
        _places: places(app, who)?,
        pieces: pieces::own(app, &followed)?,
        app: Arc::clone(app),
        who: who.clone(),
        followed,
        has_begun: false,
    };
    let frames = stream::unfold(Some(telling), |telling| async {
        let mut telling = telling?;
        let frame = telling.next().await?;
        let goes_on = !matches!(frame, TailFrame::Failed(_));
        Some((
            Ok::<Bytes, Infallible>(frame.line()),
            goes_on.then_some(telling),
        ))
    });
    let mut response = answer::streamed("application/x-ndjson", frames);
    no_store(&mut response);
    Ok(response)
}

/// Another server that follows this store.
struct Telling {
    app: Arc<App>,
    who: Client,
    followed: Followed,
    pieces: OwnPieces,
    has_begun: bool,
    _places: TailPlaces,
}

impl Telling {
    /// Returns the next frame; `None` ends them.
    async fn next(&mut self) -> Option<TailFrame> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(TailFrame::Beat);
        }
        let piece = tokio::select! {
            () = self.app.serving.stop.heard() => return None,
            () = tokio::time::sleep(BEAT) => None,
            piece = self.pieces.recv() => Some(piece),
        };
        if !may_still_read(&self.app, &self.who, self.followed.stream.as_str()) {
            return Some(TailFrame::Failed(NO_RIGHTS.to_owned()));
        }
        Some(match piece {
            None => TailFrame::Beat,
            Some(Ok(Piece::Events { first_seq, text })) => TailFrame::Events {
                first_seq,
                text: String::from_utf8_lossy(&text).into_owned(),
            },
            Some(Ok(Piece::Missed(missed)) | Err(RecvError::Lagged(missed))) => {
                TailFrame::Missed(missed)
            }
            Some(Ok(Piece::Failed(error))) => TailFrame::Failed(error.to_string()),
            Some(Err(RecvError::Closed)) => return None,
        })
    }
}
