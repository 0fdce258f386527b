//! The new events of a choice, of this store and of its peers.
//!
//! # Invariants
//! * Each store evaluates the choice over its own events, with the columns upon which all agree. A
//!   peer follows before the choice is followed at all, and has a position of its own: batches that
//!   begin before it are skipped.
//! * A peer that is gone ends the following with an error that names it.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use futures::StreamExt;
use futures::stream::SelectAll;
use tokio::sync::broadcast::error::RecvError;

use super::choice::Followed;
use super::feed::{OwnPieces, Piece};
use crate::cluster::{PeerFrames, TailFrame};
use crate::serve::Positions;
use crate::server::answer;
use crate::server::app::App;

/// The pieces of all stores.
pub(in crate::server) struct Pieces {
    own: OwnPieces,
    peers: SelectAll<PeerFrames>,
    from: Positions,
}

impl Pieces {
    /// Follows a choice of events from now on.
    ///
    /// # Errors
    /// If a peer does not follow it, or the server can start no thread.
    pub(in crate::server) async fn of(
        app: &App,
        followed: &Followed,
    ) -> Result<Self, Box<Response>> {
        let own = own(app, followed)?;
        let mut all = Self {
            own,
            peers: SelectAll::new(),
            from: Positions::default(),
        };
        if app.serving.has_peers() {
            let request = serde_json::to_vec(followed).expect("BUG: a choice is JSON");
            let following = app.serving.follow_peers(request.into()).await;
            let following = following.map_err(|e| Box::new(answer::of_query(&e)))?;
            all.peers.extend(following);
        }
        Ok(all)
    }

    /// Skips what is there before some positions.
    pub(in crate::server) fn begin_at(&mut self, positions: Positions) {
        self.from = positions;
    }

    /// Returns the next piece. No piece is lost when the call is cancelled.
    ///
    /// # Errors
    /// As [`OwnPieces`].
    pub(in crate::server) async fn recv(&mut self) -> Result<Piece, RecvError> {
        loop {
            let piece = tokio::select! {
                piece = self.own.recv() => match piece? {
                    Piece::Events { first_seq, .. } if first_seq < self.from.own => continue,
                    piece => piece,
                },
                Some((server, frame)) = self.peers.next() => match frame {
                    None => {
                        // Another store may be there by now, with numbers of its own.
                        self.from.peers.remove(&*server);
                        Piece::Missed(1)
                    }
                    Some(TailFrame::Beat) => continue,
                    Some(TailFrame::Events { first_seq, text }) => {
                        let from = self.from.peers.get(&*server);
                        if from.is_some_and(|from| first_seq < *from) {
                            continue;
                        }
                        Piece::Events {
                            first_seq,
                            text: text.into(),
                        }
                    }
                    Some(TailFrame::Missed(batches)) => Piece::Missed(batches),
                    Some(TailFrame::Failed(why)) => {
                        let peer = server.to_string();
                        Piece::Failed(Arc::new(query::Error::Peer { peer, why }))
                    }
                },
            };
            return Ok(piece);
        }
    }
}

/// Joins the feed of this store.
///
/// # Errors
/// If the server can start no thread.
pub(in crate::server) fn own(app: &App, followed: &Followed) -> Result<OwnPieces, Box<Response>> {
    let pieces = app.tails.join(&app.serving, followed);
    pieces.map_err(|e| {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Box::new(answer::error(status, "unavailable", &e.to_string(), None))
    })
}
