//! The time of a handshake.

use std::time::Duration;

use crate::serve::Stop;

/// Maximum time of a handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Waits for a handshake; `None` if it takes too long, or the server stops.
pub(crate) async fn within_handshake<T>(
    stop: &Stop,
    handshake: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        made = tokio::time::timeout(HANDSHAKE_WITHIN, handshake) => made.ok(),
        () = stop.heard() => None,
    }
}
