//! The answer of a peer, piece by piece.
//!
//! A task of the server's runtime reads the connection. When the stream is dropped, the task ends
//! and closes the connection, and the peer stops computing.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream};
use hyper::Method;
use query::PeerBytes;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::calls::{PeerServer, broken};

/// Pieces that wait for the query; the peer waits when there are more.
const WAITING_MAX: usize = 4;

/// A step of an answer.
enum PeerStep {
    /// The peer answers.
    Begun,
    Piece(Bytes),
    Ended,
    /// The reason.
    Failed(String),
}

/// Posts a request; returns the stream of its answer.
///
/// # Errors
/// If the peer cannot be reached or refuses the request.
pub(super) async fn of(
    server: Arc<PeerServer>,
    path: String,
    request: Bytes,
) -> query::Result<PeerBytes> {
    let (tell, mut steps) = mpsc::channel(WAITING_MAX);
    let reading = read(Arc::clone(&server), path, request, tell);
    let task = AbortOnDropHandle::new(server.runtime().spawn(reading));
    if let Some(why) = failure(steps.recv().await.as_ref()) {
        return Err(error(&server, why));
    }
    let pieces = stream::unfold(Some((server, steps, task)), |state| async move {
        let (server, mut steps, task) = state?;
        match steps.recv().await {
            Some(PeerStep::Piece(piece)) => Some((Ok(piece), Some((server, steps, task)))),
            Some(PeerStep::Ended) => None,
            other => {
                let why = failure(other.as_ref()).expect("BUG: an answer begins once");
                Some((Err(error(&server, why)), None))
            }
        }
    });
    Ok(pieces.boxed())
}

/// Returns the reason if a step is no step forward. A task that ends without a word was stopped.
fn failure(step: Option<&PeerStep>) -> Option<&str> {
    match step {
        None => Some("this server is stopping"),
        Some(PeerStep::Failed(why)) => Some(why),
        Some(_) => None,
    }
}

fn error(server: &PeerServer, why: &str) -> query::Error {
    query::Error::Peer {
        peer: server.name().to_owned(),
        why: why.to_owned(),
    }
}

/// Reads the answer, and tells its steps until nobody listens.
async fn read(server: Arc<PeerServer>, path: String, request: Bytes, tell: mpsc::Sender<PeerStep>) {
    let ended = match steps(&server, &path, request, &tell).await {
        Ok(()) => PeerStep::Ended,
        Err(why) => PeerStep::Failed(why),
    };
    let _unheard = tell.send(ended).await;
}

async fn steps(
    server: &PeerServer,
    path: &str,
    request: Bytes,
    tell: &mpsc::Sender<PeerStep>,
) -> Result<(), String> {
    let called = server.call(Method::POST, path, request);
    let answer = server.while_alive(called).await??;
    let mut pieces = Body::new(answer.into_body()).into_data_stream();
    let mut step = PeerStep::Begun;
    while tell.send(step).await.is_ok() {
        step = match server.while_alive(pieces.next()).await? {
            Some(piece) => PeerStep::Piece(piece.map_err(|e| broken(&e))?),
            None => break,
        };
    }
    Ok(())
}
