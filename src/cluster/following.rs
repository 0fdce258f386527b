//! The new events of peers, as their servers tell them one after the other.
//!
//! # Invariants
//! * Whoever follows a peer follows it again when the connection breaks: the shard may be at
//!   another server by then. Events may have come between, which is told.
//! * A peer that is gone for longer than [`GONE_MAX`] ends the following with an error that names
//!   it: events that nobody shows would be taken for none.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use futures::future::try_join_all;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use hyper::Method;
use query::GonePeer;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::io::StreamReader;

use super::calls::{NoAnswer, PeerServer, broken};
use super::places::PeerPlace;
use super::{Peers, STATE_WITHIN, TAIL};

/// Interval of the frames of a server that has nothing to tell.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// Silence of a server after which it is taken for gone.
const SILENT_MAX: Duration = Duration::from_secs(3);
/// Longest time without a peer.
const GONE_MAX: Duration = Duration::from_secs(10);
/// Pause between two attempts to follow.
const PAUSE: Duration = Duration::from_millis(200);
/// Most bytes of a frame.
const FRAME_BYTES_MAX: usize = 128 << 20;

/// A step of a server's new events, on its way as a line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TailFrame {
    /// There is nothing else to tell; the first frame, too.
    Beat,
    Events {
        /// The lowest sequence number of their batch.
        first_seq: u64,
        text: String,
    },
    /// So many batches were skipped.
    Missed(u64),
    /// The following has ended, with the reason.
    Failed(String),
}

/// The frames of a peer, each with the address of its server. `None` where the peer is followed
/// again: events may have come between, and what comes from here on is new.
pub(crate) type PeerFrames = BoxStream<'static, (Arc<str>, Option<TailFrame>)>;

impl TailFrame {
    pub(crate) fn line(&self) -> Bytes {
        let mut line = serde_json::to_vec(self).expect("BUG: a frame is JSON");
        line.push(b'\n');
        line.into()
    }
}

type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// A connection on which a server tells its new events.
struct OpenTail {
    server: Arc<PeerServer>,
    name: Arc<str>,
    lines: FramedRead<StreamReader<Pieces, Bytes>, LinesCodec>,
}

impl OpenTail {
    /// Waits until the server at a place follows.
    ///
    /// # Errors
    /// A clause, if it does not.
    async fn at(place: &PeerPlace, request: &Bytes) -> Result<Self, String> {
        let opened = Self::try_at(place, request).await;
        place.note_of(&opened);
        opened.map_err(NoAnswer::why)
    }

    async fn try_at(place: &PeerPlace, request: &Bytes) -> Result<Self, NoAnswer> {
        let server = place.fresh_server().await.map_err(NoAnswer::Gone)?;
        let begun = async {
            let answer = server.reach(Method::POST, TAIL, request.clone()).await?;
            let pieces = Body::new(answer.into_body()).into_data_stream();
            let pieces = pieces.map_err(io::Error::other).boxed();
            let codec = LinesCodec::new_with_max_length(FRAME_BYTES_MAX);
            let mut open = Self {
                name: server.name().into(),
                lines: FramedRead::new(StreamReader::new(pieces), codec),
                server: Arc::clone(&server),
            };
            match open.next().await.map_err(NoAnswer::Gone)? {
                TailFrame::Beat => Ok(open),
                TailFrame::Failed(why) => Err(NoAnswer::Refused(why)),
                _ => Err(NoAnswer::Refused(
                    "its events begin in their midst".to_owned(),
                )),
            }
        };
        let late = |_| Err(NoAnswer::Gone("it does not answer in time".to_owned()));
        let begun = timeout(STATE_WITHIN, begun).await.unwrap_or_else(late);
        if begun.is_err() {
            place.forget(&server);
        }
        begun
    }

    async fn next(&mut self) -> Result<TailFrame, String> {
        match timeout(SILENT_MAX, self.lines.next()).await {
            Ok(Some(line)) => {
                let line = line.map_err(|e| broken(&e))?;
                serde_json::from_str(&line).map_err(|e| format!("its events cannot be read: {e}"))
            }
            Ok(None) => Err("it has ended its tails".to_owned()),
            Err(_) => Err("it is silent".to_owned()),
        }
    }
}

impl Peers {
    /// Follows the new events of all peers; `request` has the choice. Returns when all do.
    ///
    /// # Errors
    /// The first peer that does not.
    pub(crate) async fn follow(&self, request: Bytes) -> Result<Vec<PeerFrames>, GonePeer> {
        let following = self.0.iter().map(|place| async {
            let gone = |why| GonePeer {
                name: place.name(),
                why,
            };
            let open = loop {
                match OpenTail::at(place, &request).await {
                    Ok(open) => break open,
                    Err(why) if !place.is_awaited() => return Err(gone(why)),
                    Err(_) => sleep(PAUSE).await,
                }
            };
            Ok(frames(place.clone(), request.clone(), open).boxed())
        });
        try_join_all(following).await
    }
}

/// The following of one place.
struct Following {
    place: PeerPlace,
    request: Bytes,
    name: Arc<str>,
    open: Option<OpenTail>,
    gone_since: Option<Instant>,
}

fn frames(
    place: PeerPlace,
    request: Bytes,
    open: OpenTail,
) -> impl Stream<Item = (Arc<str>, Option<TailFrame>)> {
    let following = Following {
        place,
        request,
        name: Arc::clone(&open.name),
        open: Some(open),
        gone_since: None,
    };
    stream::unfold(Some(following), |following| async {
        let mut following = following?;
        let frame = following.next().await;
        let name = Arc::clone(&following.name);
        let goes_on = !matches!(frame, Some(TailFrame::Failed(_)));
        Some(((name, frame), goes_on.then_some(following)))
    })
}

impl Following {
    /// Returns the next frame; `None` where the peer is followed again.
    async fn next(&mut self) -> Option<TailFrame> {
        loop {
            let why = match &mut self.open {
                Some(open) => match open.next().await {
                    Ok(TailFrame::Beat) => continue,
                    Ok(frame) => return Some(frame),
                    Err(why) => {
                        self.place.forget(&open.server);
                        self.open = None;
                        why
                    }
                },
                None => match OpenTail::at(&self.place, &self.request).await {
                    Ok(open) => {
                        self.name = Arc::clone(&open.name);
                        self.open = Some(open);
                        self.gone_since = None;
                        return None;
                    }
                    Err(why) => why,
                },
            };
            let since = *self.gone_since.get_or_insert_with(Instant::now);
            if since.elapsed() > GONE_MAX {
                return Some(TailFrame::Failed(why));
            }
            sleep(PAUSE).await;
        }
    }
}
