//! A socket with a buffer for each direction, for protocols of messages.
//!
//! # Invariants
//! * Reading can be stopped at any await without losing a byte.
//! * No memory is taken for bytes that have not arrived.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Io;

/// Bytes that are read ahead while the client waits for an answer.
const AHEAD: usize = 64 << 10;

/// A socket with its buffers.
pub(crate) struct BufferedSocket {
    socket: Box<dyn Io>,
    /// Bytes that have come and are not read yet.
    pub(crate) incoming: BytesMut,
    /// Bytes to be sent.
    pub(crate) out: BytesMut,
}

impl std::fmt::Debug for BufferedSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BufferedSocket").finish_non_exhaustive()
    }
}

impl BufferedSocket {
    pub(crate) fn new(socket: Box<dyn Io>) -> Self {
        Self {
            socket,
            incoming: BytesMut::new(),
            out: BytesMut::new(),
        }
    }

    /// Returns the socket without its buffers.
    pub(crate) fn into_inner(self) -> Box<dyn Io> {
        self.socket
    }

    /// Reads until so many bytes have come.
    ///
    /// # Errors
    /// If the connection fails; [`io::ErrorKind::UnexpectedEof`] if the client has gone.
    pub(crate) async fn fill_to(&mut self, bytes: usize) -> io::Result<()> {
        while self.incoming.len() < bytes {
            self.fill().await?;
        }
        Ok(())
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.socket.read_buf(&mut self.incoming).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Waits until the client has gone; reads ahead meanwhile. It never returns while the client
    /// stays.
    pub(crate) async fn gone(&mut self) -> io::Error {
        while self.incoming.len() < AHEAD {
            if let Err(error) = self.fill().await {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Sends what is to be sent.
    ///
    /// # Errors
    /// If the connection fails.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        self.socket.write_all_buf(&mut self.out).await?;
        self.socket.flush().await
    }

    /// Sends what there is, and closes the connection.
    pub(crate) async fn close(mut self) {
        if self.send().await.is_ok() {
            let _ignored = self.socket.shutdown().await;
        }
    }
}
