//! The messages of a connection, on their way in.
//!
//! # Invariants
//! * A message is read whole, and has at most the bytes that its reader allows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::message::{HEADER_BYTES, Header, MalformedMessage};
use crate::listen::BufferedSocket;

/// Bytes of a message from which it counts as large.
const LARGE: usize = 64 << 10;
/// Maximum time of a message, once its first byte has arrived.
const MESSAGE_WITHIN: Duration = Duration::from_secs(60);

/// The end of a connection.
#[derive(Debug)]
pub(super) enum Broken {
    /// The client has gone.
    Gone,
    /// Its bytes are none of this protocol.
    Malformed(MalformedMessage),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        if error.kind() != io::ErrorKind::UnexpectedEof {
            tracing::debug!(%error, "a connection of a MongoDB client broke");
        }
        Self::Gone
    }
}

impl From<MalformedMessage> for Broken {
    fn from(malformed: MalformedMessage) -> Self {
        Self::Malformed(malformed)
    }
}

/// A message as it came.
pub(super) struct Incoming {
    pub(super) header: Header,
    pub(super) bytes: Bytes,
    /// The part of the memory for all large messages.
    pub(super) _large: Option<OwnedSemaphorePermit>,
}

/// Reads a message of at most so many bytes. A large one first takes its part of the memory for all
/// large ones.
pub(super) async fn read(
    socket: &mut BufferedSocket,
    most: usize,
    large: &Arc<Semaphore>,
) -> Result<Incoming, Broken> {
    let read = tokio::time::timeout(MESSAGE_WITHIN, async {
        socket.fill_to(HEADER_BYTES).await?;
        let header = Header::read(&socket.incoming)?;
        if header.length > most {
            let why = "a message is longer than the limit that was told";
            return Err(MalformedMessage(why).into());
        }
        let part = match header.length > LARGE {
            false => None,
            true => {
                let kib = u32::try_from(header.length >> 10).unwrap_or(u32::MAX);
                let part = Arc::clone(large).acquire_many_owned(kib).await;
                Some(part.expect("BUG: the semaphore is never closed"))
            }
        };
        socket.fill_to(header.length).await?;
        Ok::<_, Broken>((header, part))
    });
    let late = |_| MalformedMessage("a message did not arrive in time");
    let (header, _large) = read.await.map_err(late)??;
    let bytes = socket.incoming.split_to(header.length).freeze();
    Ok(Incoming {
        header,
        bytes,
        _large,
    })
}
