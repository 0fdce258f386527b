//! The connection of a shipper, with TLS or without.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// A connection after its handshake.
pub(crate) struct Caller {
    pub(crate) io: Box<dyn Io>,
    pub(crate) address: IpAddr,
    /// The user that its certificate names.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) stop: Stop,
    /// The time at which a message was first found to have begun and not to be whole.
    began: Option<Instant>,
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

    /// Notes that a message became whole: what follows is another one.
    pub(crate) fn end_message(&mut self) {
        self.began = None;
    }
}
