//! The sync thread: makes written groups durable and acknowledges `j` writes.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::request::Reply;
use crate::error::Error;
use crate::model::Ack;
use crate::store::Shared;

/// A `j` write that waits until all sequence numbers below `until` are synced.
#[derive(Debug)]
pub(in crate::store) struct Waiter {
    pub(super) ack: Ack,
    pub(super) until: u64,
    pub(super) reply: Reply,
}

/// Syncs at once for `j` writes, and every interval for the others. While a sync is under way the
/// next `j` writes gather in the queue, and one sync acknowledges them all.
pub(in crate::store) fn sync_loop(shared: &Arc<Shared>, waiting: &Receiver<Vec<Waiter>>) {
    let interval = Duration::from_millis(shared.options.config.sync_interval_ms.max(1));
    loop {
        let mut waiters = Vec::new();
        match waiting.recv_timeout(interval) {
            Ok(first) => waiters.extend(first),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        waiters.extend(waiting.try_iter().flatten());
        // The lock is checked after each sync, also after an interval without writes.
        let synced = shared.syncer.sync_written();
        match synced.and_then(|durable| shared.check_lock().map(|()| durable)) {
            Ok(durable) => {
                for waiter in waiters {
                    debug_assert!(
                        waiter.until <= durable,
                        "BUG: a waiter comes after its write"
                    );
                    waiter.reply.send(Ok(waiter.ack));
                }
            }
            Err(error) => {
                shared.poison(&error);
                for waiter in waiters {
                    waiter.reply.send(Err(Error::Unknown {
                        what: error.to_string(),
                    }));
                }
                // The journal promises nothing any more; dropping the remaining waiters answers
                // them.
                break;
            }
        }
    }
}
