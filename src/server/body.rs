//! Reads the body of a request.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use futures::StreamExt;

/// Maximum bytes read of a refused body. A client that still sends when the connection is closed
/// may never read the response.
const REFUSED_BYTES_MAX: usize = 64 << 20;
/// Bytes that are read of a body before other requests of the thread get their turn. A client that
/// is faster than this server always has more.
const STEP_BYTES: usize = 64 << 10;
/// Pause between two steps in the rest of a refused body, which nothing needs soon.
const PACE: Duration = Duration::from_millis(1);
/// Time for the rest of a body whose handler has refused it within.
const PASS_OVER_WITHIN: Duration = Duration::from_secs(1);

/// Reads the whole body; `None` if it is longer than `limit` bytes, or breaks off.
pub(super) async fn whole(body: Body, limit: usize) -> Option<Bytes> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut whole = Vec::with_capacity(if announced > limit { 0 } else { announced });
    let mut pieces = body.into_data_stream();
    let (mut len, mut step) = (0_usize, 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece.ok()?;
        len = len.saturating_add(piece.len());
        if len <= limit {
            whole.extend_from_slice(&piece);
        } else if len - limit > REFUSED_BYTES_MAX {
            return None;
        } else {
            whole = Vec::new();
        }
        step += piece.len();
        if step >= STEP_BYTES {
            step = 0;
            match len <= limit {
                true => tokio::task::yield_now().await,
                false => tokio::time::sleep(PACE).await,
            }
        }
    }
    (len <= limit).then(|| whole.into())
}

/// Reads on, for a second at most, what a client still sends of a body that was refused; `dropped`
/// is called with the bytes.
pub(super) async fn pass_over(rest: &mut BodyDataStream, dropped: impl Fn(usize)) {
    let read = async {
        while let Some(Ok(piece)) = rest.next().await {
            dropped(piece.len());
        }
    };
    let _ended = tokio::time::timeout(PASS_OVER_WITHIN, read).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns a body of so many pieces, and a counter of the pieces read.
    fn body(pieces: usize, bytes: usize) -> (Body, Arc<AtomicUsize>) {
        let read = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&read);
        let pieces = (0..pieces).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(vec![7; bytes])
        });
        (Body::from_stream(futures::stream::iter(pieces)), read)
    }

    #[tokio::test]
    async fn what_is_refused_is_read_to_its_end_or_to_the_bound() {
        let (fits, _) = body(4, 10);
        assert_eq!(whole(fits, 40).await, Some(vec![7; 40].into()));
        let (long, read) = body(5, 10);
        assert_eq!(whole(long, 40).await, None);
        assert_eq!(read.load(Ordering::Relaxed), 5);
        let (endless, read) = body(usize::MAX, 1 << 20);
        assert_eq!(whole(endless, 40).await, None);
        assert_eq!(read.load(Ordering::Relaxed), (REFUSED_BYTES_MAX >> 20) + 1);
    }
}
