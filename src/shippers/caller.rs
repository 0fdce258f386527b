//! The connection of a shipper, with TLS or without.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::sync::OwnedSemaphorePermit;

use crate::listen::{Accepted, Io, within_handshake};
use crate::serve::{Serving, Stop};
use crate::tls::{Alpn, FIRST_BYTE};

/// A connection without a byte for this time is closed. Shippers keep theirs open while they have
/// nothing to send, and most lose a message that they write into a closed one; the kernel finds
/// out about machines that have gone.
const SILENT_WITHIN: Duration = Duration::from_secs(24 * 3600);
/// A message that has begun must be whole within this time.
const PART_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of a message that are read as fast as they come: far more than any that is kept whole.
const FULL_SPEED_BYTES: usize = 1 << 20;
/// Bytes a second in which the rest of a message is passed over, so that endless ones do not take
/// the machine from others.
const PASSED_OVER_A_SECOND: f64 = (4 << 20) as f64;

/// A connection after its handshake.
pub(crate) struct Caller {
    pub(crate) io: Box<dyn Io>,
    pub(crate) address: IpAddr,
    /// The user that its certificate names.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) stop: Stop,
    /// The time at which a message was first found to have begun and not to be whole.
    began: Option<Instant>,
    /// The bytes that were read since the last message became whole.
    part_bytes: usize,
    /// The time before which nothing more is read of a long message.
    rests_until: Option<tokio::time::Instant>,
    _place: OwnedSemaphorePermit,
}

impl Caller {
    /// Waits for the first byte, and makes the handshake of TLS if that is one of it. Returns
    /// `None` when the client sends none or fails the handshake, or the server stops. A client
    /// beyond this machine that does not encrypt is refused where the server can.
    pub(crate) async fn of(mut accepted: Accepted, serving: &Serving, alpn: Alpn) -> Option<Self> {
        let places = Arc::clone(&serving.connections.shippers);
        let Ok(place) = places.try_acquire_owned() else {
            tracing::debug!(ends = ?accepted.ends(), "a connection was closed: shippers have half of server.connections_max");
            return None;
        };
        accepted.keep_alive();
        let address = accepted.ends()?.client.ip().to_canonical();
        let stop = accepted.stop.clone();
        let first = tokio::select! {
            first = tokio::time::timeout(SILENT_WITHIN, accepted.first_byte()) => first.ok()??,
            () = stop.heard() => return None,
        };
        let begins_encrypted = first == FIRST_BYTE;
        let (io, user): (Box<dyn Io>, _) = match accepted.tls.take() {
            Some(tls) if begins_encrypted => {
                let handshake = tls.accept(accepted.into_socket(), alpn);
                match within_handshake(&stop, handshake).await? {
                    Ok((stream, user)) => (Box::new(stream), user),
                    Err(error) => {
                        tracing::debug!(%error, "a TLS handshake failed");
                        return None;
                    }
                }
            }
            None if begins_encrypted => {
                tracing::warn!(%address, "a sender speaks TLS, and this server has no certificate: set cert and key of [tls]");
                return None;
            }
            Some(_) if !address.is_loopback() && !serving.config.server.insecure_plaintext => {
                tracing::warn!(%address, "a sender does not encrypt: let it use TLS, or serve with --insecure-plaintext");
                return None;
            }
            _ => (Box::new(accepted.into_socket()), None),
        };
        Some(Self {
            io,
            address,
            user,
            stop,
            began: None,
            part_bytes: 0,
            rests_until: None,
            _place: place,
        })
    }

    /// Returns the time that the client has for its next byte, between messages or within one.
    pub(crate) fn limit(&mut self, is_within_a_message: bool) -> Duration {
        match is_within_a_message {
            // In all, and not from byte to byte.
            true => {
                let began = *self.began.get_or_insert_with(Instant::now);
                PART_WITHIN.saturating_sub(began.elapsed())
            }
            false => {
                self.began = None;
                SILENT_WITHIN
            }
        }
    }

    /// Reads some bytes behind those in `bytes`; 0 at the end of the connection. Within a long
    /// message it waits before it reads on. No byte is lost when its future is dropped.
    ///
    /// # Errors
    /// If the connection fails.
    pub(crate) async fn read(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
        if let Some(until) = self.rests_until {
            tokio::time::sleep_until(until).await;
        }
        let read = self.io.read_buf(bytes).await?;
        self.part_bytes = self.part_bytes.saturating_add(read);
        let is_long = self.part_bytes > FULL_SPEED_BYTES;
        self.rests_until = is_long.then(|| {
            let rest = Duration::from_secs_f64(read as f64 / PASSED_OVER_A_SECOND);
            tokio::time::Instant::now() + rest
        });
        Ok(read)
    }

    /// Notes that a message became whole: what follows is another one.
    pub(crate) fn end_message(&mut self) {
        self.began = None;
        self.part_bytes = 0;
        self.rests_until = None;
    }
}
