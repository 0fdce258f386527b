//! The new events of peers, as their servers tell them one after the other.
//!
//! # Invariants
//! * Whoever follows a peer follows it again when the connection breaks: the shard may be at
//!   another server by then. Events may have come between, which is told.
//! * A peer that is gone for longer than [`GONE_MAX`] ends the following with an error that names
//!   it: events that nobody shows would be taken for none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use futures::future::try_join_all;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use hyper::Method;
use query::GonePeer;
use tokio::time::{sleep, timeout};

use super::calls::{PeerServer, broken};
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
/// Most bytes of the text of a frame.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Bytes before the text of a frame: its kind, a number, and the length of the text.
const HEAD: usize = 1 + 8 + 4;

/// A step of a server's new events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TailFrame {
    /// There is nothing else to tell; the first frame, too.
    Beat,
    Events {
        /// The lowest sequence number of their batch.
        first_seq: u64,
        text: Bytes,
    },
    /// So many batches were skipped.
    Missed(u64),
    /// The following has ended, with the reason.
    Failed(String),
}

/// The frames of a peer, each with the address of its server.
pub(crate) type PeerFrames = BoxStream<'static, (Arc<str>, TailFrame)>;

impl TailFrame {
    pub(crate) fn encode(&self) -> Bytes {
        let (kind, number, text) = match self {
            Self::Beat => (0, 0, &[][..]),
            Self::Events { first_seq, text } => (1, *first_seq, &text[..]),
            Self::Missed(batches) => (2, *batches, &[][..]),
            Self::Failed(why) => (3, 0, why.as_bytes()),
        };
        let mut bytes = Vec::with_capacity(HEAD + text.len());
        bytes.push(kind);
        bytes.extend_from_slice(&number.to_le_bytes());
        let length = u32::try_from(text.len()).expect("BUG: the text of a frame is short");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(text);
        bytes.into()
    }

    /// Takes the first frame from the bytes that have come; `None` if it is not whole yet.
    ///
    /// # Errors
    /// A clause, if they are no frame.
    fn take(came: &mut Vec<u8>) -> Result<Option<Self>, String> {
        let Some((head, rest)) = came.split_at_checked(HEAD) else {
            return Ok(None);
        };
        let number = u64::from_le_bytes(head[1..9].try_into().expect("eight bytes"));
        let length = u32::from_le_bytes(head[9..].try_into().expect("four bytes"));
        let length = usize::try_from(length).expect("64 bits");
        if length > TEXT_BYTES_MAX {
            return Err("its events cannot be read".to_owned());
        }
        let Some(text) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = match head[0] {
            0 => Self::Beat,
            1 => Self::Events {
                first_seq: number,
                text: Bytes::copy_from_slice(text),
            },
            2 => Self::Missed(number),
            3 => Self::Failed(String::from_utf8_lossy(text).into_owned()),
            _ => return Err("its events cannot be read".to_owned()),
        };
        came.drain(..HEAD + length);
        Ok(Some(frame))
    }
}

/// A connection on which a server tells its new events.
struct OpenTail {
    server: Arc<PeerServer>,
    name: Arc<str>,
    pieces: BoxStream<'static, Result<Bytes, axum::Error>>,
    came: Vec<u8>,
}

impl OpenTail {
    /// Waits until the server at a place follows.
    ///
    /// # Errors
    /// A clause, if it does not.
    async fn at(place: &PeerPlace, request: &Bytes) -> Result<Self, String> {
        let server = place.fresh_server().await?;
        let begun = async {
            let called = server.call(Method::POST, TAIL, request.clone());
            let mut open = Self {
                name: server.name().into(),
                pieces: Body::new(called.await?.into_body())
                    .into_data_stream()
                    .boxed(),
                came: Vec::new(),
                server: Arc::clone(&server),
            };
            match open.next().await? {
                TailFrame::Beat => Ok(open),
                TailFrame::Failed(why) => Err(why),
                _ => Err("its events begin in their midst".to_owned()),
            }
        };
        let begun = timeout(STATE_WITHIN, begun).await;
        let begun = begun.unwrap_or_else(|_| Err("it does not answer in time".to_owned()));
        if begun.is_err() {
            place.forget(&server);
        }
        begun
    }

    async fn next(&mut self) -> Result<TailFrame, String> {
        loop {
            if let Some(frame) = TailFrame::take(&mut self.came)? {
                return Ok(frame);
            }
            match timeout(SILENT_MAX, self.pieces.next()).await {
                Ok(Some(piece)) => self.came.extend(piece.map_err(|e| broken(&e))?),
                Ok(None) => return Err("it has ended its tails".to_owned()),
                Err(_) => return Err("it is silent".to_owned()),
            }
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
            let open = OpenTail::at(place, &request).await.map_err(gone)?;
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
) -> impl Stream<Item = (Arc<str>, TailFrame)> {
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
        let goes_on = !matches!(frame, TailFrame::Failed(_));
        Some(((name, frame), goes_on.then_some(following)))
    })
}

impl Following {
    async fn next(&mut self) -> TailFrame {
        loop {
            let why = match &mut self.open {
                Some(open) => match open.next().await {
                    Ok(TailFrame::Beat) => continue,
                    Ok(frame) => return frame,
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
                        return TailFrame::Missed(1);
                    }
                    Err(why) => why,
                },
            };
            let since = *self.gone_since.get_or_insert_with(Instant::now);
            if since.elapsed() > GONE_MAX {
                return TailFrame::Failed(why);
            }
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let frames = [
            TailFrame::Beat,
            TailFrame::Events {
                first_seq: 7,
                text: Bytes::from_static(b"data: {}\n\n"),
            },
            TailFrame::Missed(3),
            TailFrame::Failed("why".to_owned()),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(TailFrame::encode).collect();
        for cut in 0..=bytes.len() {
            let (mut came, mut read) = (Vec::new(), Vec::new());
            for piece in [&bytes[..cut], &bytes[cut..]] {
                came.extend_from_slice(piece);
                while let Some(frame) = TailFrame::take(&mut came).expect("a frame") {
                    read.push(frame);
                }
            }
            assert_eq!(read, frames, "{cut}");
        }
        assert!(TailFrame::take(&mut vec![9; 13]).is_err());
        let mut long = vec![1; 9];
        long.extend(u32::MAX.to_le_bytes());
        assert!(TailFrame::take(&mut long).is_err());
    }
}
