//! The socket of a connection with its two buffers.
//!
//! # Invariants
//! * A message is read whole, and has at most the bytes that its reader allows. No memory is taken
//!   for bytes that have not arrived.
//! * DocumentReading can be stopped at any await without losing a byte.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::message::{HEADER_BYTES, Header, MalformedMessage};
use crate::listen::Io;

/// Bytes of a message from which it counts as large.
const LARGE: usize = 64 << 10;
/// Maximum time of a message, once its first byte has arrived.
const MESSAGE_WITHIN: Duration = Duration::from_secs(60);
/// Bytes that are read ahead while a command runs.
const AHEAD: usize = 64 << 10;

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
        tracing::debug!(%error, "a connection of a MongoDB client broke");
        Self::Gone
    }
}

impl From<MalformedMessage> for Broken {
    fn from(malformed: MalformedMessage) -> Self {
        Self::Malformed(malformed)
    }
}

/// A socket with its buffers.
pub(super) struct Wire {
    socket: Box<dyn Io>,
    incoming: BytesMut,
    pub(super) out: BytesMut,
}

/// A message as it came.
pub(super) struct Incoming {
    pub(super) header: Header,
    pub(super) bytes: Bytes,
    /// The part of the memory for all large messages.
    pub(super) _large: Option<OwnedSemaphorePermit>,
}

impl Wire {
    pub(super) fn new(socket: Box<dyn Io>) -> Self {
        Self {
            socket,
            incoming: BytesMut::new(),
            out: BytesMut::new(),
        }
    }

    /// Waits for the first byte of the next message.
    pub(super) async fn ready(&mut self) -> Result<(), Broken> {
        self.fill_to(1).await
    }

    /// Reads a message of at most so many bytes. A large one first takes its part of the memory for
    /// all large ones.
    pub(super) async fn read(
        &mut self,
        most: usize,
        large: &Arc<Semaphore>,
    ) -> Result<Incoming, Broken> {
        let read = tokio::time::timeout(MESSAGE_WITHIN, async {
            self.fill_to(HEADER_BYTES).await?;
            let header = Header::read(&self.incoming)?;
            if header.length > most {
                return Err(
                    MalformedMessage("a message is longer than the limit that was told").into(),
                );
            }
            let part = match header.length > LARGE {
                false => None,
                true => {
                    let kib = u32::try_from(header.length >> 10).unwrap_or(u32::MAX);
                    let part = Arc::clone(large).acquire_many_owned(kib).await;
                    Some(part.expect("BUG: the semaphore is never closed"))
                }
            };
            self.fill_to(header.length).await?;
            Ok::<_, Broken>((header, part))
        });
        let late = |_| MalformedMessage("a message did not arrive in time");
        let (header, _large) = read.await.map_err(late)??;
        let bytes = self.incoming.split_to(header.length).freeze();
        Ok(Incoming {
            header,
            bytes,
            _large,
        })
    }

    async fn fill_to(&mut self, bytes: usize) -> Result<(), Broken> {
        while self.incoming.len() < bytes {
            self.fill().await?;
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), Broken> {
        match self.socket.read_buf(&mut self.incoming).await? {
            0 => Err(Broken::Gone),
            _ => Ok(()),
        }
    }

    /// Waits until the client has gone; reads ahead meanwhile. It never returns while the client
    /// stays.
    pub(super) async fn gone(&mut self) -> Broken {
        while self.incoming.len() < AHEAD {
            if let Err(broken) = self.fill().await {
                return broken;
            }
        }
        std::future::pending().await
    }

    /// Sends the answers.
    pub(super) async fn send(&mut self) -> Result<(), Broken> {
        self.socket.write_all_buf(&mut self.out).await?;
        self.socket.flush().await?;
        Ok(())
    }

    /// Closes the connection.
    pub(super) async fn close(mut self) {
        let _ignored = self.socket.shutdown().await;
    }
}
