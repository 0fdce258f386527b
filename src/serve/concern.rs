//! Write concerns of listeners: the wait for one, with a limit or without.

use std::time::{Duration, Instant};

use storage::{Ack, Durability, WriteConcern};
use tokio::sync::oneshot;

use crate::intake::Intake;

/// Interval at which a wait with a limit looks for the sync of its batch.
const SYNC_POLL: Duration = Duration::from_millis(2);

/// The reason for which the write concern of a batch was not reached.
#[derive(Debug)]
pub(crate) enum NotReached {
    /// The store did not take the batch, or the outcome is unknown.
    Failed(storage::Error),
    /// The time was over. The acknowledgements are there when the batch is stored; it reaches its
    /// concern by itself.
    TooLate(Vec<Ack>),
}

/// Returns the concern under which a batch is submitted. Under a time limit the waiter itself waits
/// for the sync, if it can: see [`reached`].
pub(crate) fn submitted_concern(
    intake: &dyn Intake,
    concern: WriteConcern,
    durability: Durability,
    has_limit: bool,
) -> WriteConcern {
    match has_limit && durability == Durability::Synced && intake.tells_syncs() {
        true => WriteConcern::ACKNOWLEDGED,
        false => concern,
    }
}

/// Waits until the concern is reached, or `wtimeout` is over: then the batch is stored, or will be,
/// but the concern was not reached in time.
///
/// # Errors
/// The reason for which it was not reached.
pub(crate) async fn reached(
    intake: &dyn Intake,
    waiting: oneshot::Receiver<storage::Result<Vec<Ack>>>,
    durability: Durability,
    wtimeout: Option<Duration>,
) -> Result<Vec<Ack>, NotReached> {
    let began = Instant::now();
    let answered = match wtimeout {
        None => waiting.await,
        Some(limit) => tokio::time::timeout(limit, waiting)
            .await
            .map_err(|_| NotReached::TooLate(Vec::new()))?,
    };
    let acks = match answered {
        Ok(Ok(acks)) => acks,
        Ok(Err(error)) => return Err(NotReached::Failed(error)),
        Err(_) => return Err(NotReached::Failed(storage::Error::Closed)),
    };
    // Under a limit the batch was submitted with w=1, so that its sequence numbers are known when
    // the sync is late; the rest of the concern is waited for here.
    if let (Some(limit), Durability::Synced) = (wtimeout, durability) {
        while !intake.is_synced(&acks) {
            if began.elapsed() >= limit {
                return Err(NotReached::TooLate(acks));
            }
            tokio::time::sleep(SYNC_POLL).await;
        }
    }
    Ok(acks)
}
