//! The messages of a connection, on their way in and out.
//!
//! # Invariants
//! * A message is read whole, and has at most the bytes that its reader allows: before the login
//!   few, and no memory is taken for bytes that have not arrived.
//! * Reading can be stopped at any await without losing a byte.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::{Result, SqlError, state};
use super::message::Malformed;
use crate::listen::{BufferedSocket, Io};

/// Bytes of the buffer of answers from which it is sent.
const SEND_AT: usize = 64 << 10;
/// Maximum bytes of a message before the end of the login.
const FIRST_BYTES_MAX: usize = 10_000;
/// Bytes of a message from which it counts as large.
const LARGE: usize = 64 << 10;
/// Maximum time of a message, once its first byte has arrived.
const MESSAGE_WITHIN: Duration = Duration::from_secs(60);

/// The end of a connection.
#[derive(Debug)]
pub(super) enum Broken {
    /// The client has gone.
    Gone,
    /// The client must be told before the connection is closed.
    Fatal(SqlError),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        if error.kind() != io::ErrorKind::UnexpectedEof {
            tracing::debug!(%error, "a connection of a PostgreSQL client broke");
        }
        Self::Gone
    }
}

impl From<Malformed> for Broken {
    fn from(malformed: Malformed) -> Self {
        Self::Fatal(malformed.into())
    }
}

/// A connection of messages.
pub(super) struct Wire {
    pub(super) socket: BufferedSocket,
    /// The client waits for what is in `out`.
    is_asked: bool,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Wire {
    pub(super) fn new(socket: Box<dyn Io>) -> Self {
        Self {
            socket: BufferedSocket::new(socket),
            is_asked: false,
        }
    }

    /// Returns the socket for a handshake. No byte beyond the last message may have been read: it
    /// would be taken for one that came encrypted.
    pub(super) fn into_socket(self) -> Result<Box<dyn Io>, Broken> {
        match self.socket.incoming.is_empty() {
            true => Ok(self.socket.into_inner()),
            false => Err(Malformed("bytes follow the request for encryption").into()),
        }
    }

    /// Reads a message without a kind, as they come before the login.
    pub(super) async fn read_first(&mut self) -> Result<Bytes, Broken> {
        self.socket.fill_to(4).await?;
        let length = self.length(0, FIRST_BYTES_MAX)?;
        self.socket.fill_to(length).await?;
        let mut message = self.socket.incoming.split_to(length).freeze();
        Ok(message.split_off(4))
    }

    /// Reads a message: its kind and its body. The time counts from its first byte. A large one
    /// first takes its part of the memory for all large ones.
    pub(super) async fn read(
        &mut self,
        most: usize,
        large: &Arc<Semaphore>,
    ) -> Result<(u8, Bytes, Option<OwnedSemaphorePermit>), Broken> {
        self.socket.fill_to(1).await?;
        let rest = tokio::time::timeout(MESSAGE_WITHIN, async {
            self.socket.fill_to(5).await?;
            let length = self.length(1, most)?;
            let part = match length > LARGE {
                false => None,
                true => {
                    let kib = u32::try_from(length >> 10).unwrap_or(u32::MAX);
                    let part = Arc::clone(large).acquire_many_owned(kib).await;
                    Some(part.expect("BUG: the semaphore is never closed"))
                }
            };
            self.socket.fill_to(1 + length).await?;
            Ok::<_, Broken>((length, part))
        });
        let (length, part) = rest
            .await
            .map_err(|_| Malformed("a message did not arrive in time"))??;
        let mut message = self.socket.incoming.split_to(1 + length).freeze();
        Ok((message[0], message.split_off(5), part))
    }

    /// Reads a message of the login, of which none is large.
    pub(super) async fn read_small(&mut self) -> Result<(u8, Bytes), Broken> {
        self.socket.fill_to(5).await?;
        let length = self.length(1, FIRST_BYTES_MAX)?;
        self.socket.fill_to(1 + length).await?;
        let mut message = self.socket.incoming.split_to(1 + length).freeze();
        Ok((message[0], message.split_off(5)))
    }

    /// Returns whether the next message may have arrived.
    pub(super) fn has_message(&self) -> bool {
        !self.socket.incoming.is_empty()
    }

    /// Notes that the client waits for the answers so far.
    pub(super) fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Returns whether the client waits for the answers so far.
    pub(super) fn is_due(&self) -> bool {
        self.is_asked
    }

    /// Returns the length of the message whose length is at `at`.
    fn length(&self, at: usize, most: usize) -> Result<usize, Broken> {
        let bytes = self.socket.incoming[at..at + 4]
            .try_into()
            .expect("BUG: four were read");
        let length = usize::try_from(i32::from_be_bytes(bytes)).unwrap_or_default();
        if length < 4 {
            return Err(Malformed("a message has at least its length").into());
        }
        if length > most {
            let message = format!("a message has {length} bytes; the limit is {most}");
            return Err(Broken::Fatal(SqlError::fatal(state::PROTOCOL, message)));
        }
        Ok(length)
    }

    /// Waits until the client has gone. It never returns while the client stays.
    pub(super) async fn gone(&mut self) -> Broken {
        self.socket.gone().await.into()
    }

    /// Sends the answers if there are many.
    pub(super) async fn send_if_full(&mut self) -> Result<(), Broken> {
        match self.socket.out.len() >= SEND_AT {
            true => self.send().await,
            false => Ok(()),
        }
    }

    /// Sends the answers.
    pub(super) async fn send(&mut self) -> Result<(), Broken> {
        self.is_asked = false;
        Ok(self.socket.send().await?)
    }

    /// Sends what there is, and closes the connection.
    pub(super) async fn close(self) {
        self.socket.close().await;
    }
}
