//! The outcomes of a batch's parts, which together are the outcome of the batch.

use std::sync::Arc;

use parking_lot::Mutex;
use storage::{Ack, Error, Kind};

use crate::intake::Reply;

/// Outcomes that are awaited.
pub(super) struct Gathering(Mutex<Option<Open>>);

struct Open {
    left: usize,
    outcomes: Vec<(u16, storage::Result<Ack>)>,
    reply: Reply,
}

impl Gathering {
    /// Awaits so many outcomes, one at least.
    pub(super) fn of(parts: usize, reply: Reply) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Open {
            left: parts,
            outcomes: Vec::with_capacity(parts),
            reply,
        }))))
    }

    /// Returns a reply to further parts of a batch of which these are acknowledged.
    pub(super) fn joined(first: Vec<Ack>, reply: Reply) -> Reply {
        Box::new(move |outcome| match outcome {
            Ok(others) => {
                let mut acks = [first, others].concat();
                acks.sort_by_key(|ack| ack.shard);
                reply(Ok(acks));
            }
            Err(error) => reply(Err(after_some(error, &first))),
        })
    }

    /// Adds the outcome of a part; the last one answers the batch.
    pub(super) fn done(&self, shard: u16, outcome: storage::Result<Ack>) {
        let mut open = self.0.lock();
        let Some(gathered) = open.as_mut() else {
            return;
        };
        gathered.outcomes.push((shard, outcome));
        gathered.left = gathered.left.saturating_sub(1);
        if gathered.left > 0 {
            return;
        }
        let gathered = open.take();
        drop(open);
        if let Some(Open {
            outcomes, reply, ..
        }) = gathered
        {
            reply(of_all(outcomes));
        }
    }
}

/// Returns the outcome of a batch: all acknowledgements by shard, or the error that tells most.
fn of_all(outcomes: Vec<(u16, storage::Result<Ack>)>) -> storage::Result<Vec<Ack>> {
    let (mut acks, mut errors) = (Vec::new(), Vec::new());
    for (shard, outcome) in outcomes {
        match outcome {
            Ok(ack) => acks.push(Ack {
                shard: Some(shard),
                ..ack
            }),
            Err(error) => errors.push(error),
        }
    }
    // Unknown outcomes come first: the parts that were refused do not make them known. Then those
    // that fail again, whatever becomes of the others.
    errors.sort_by_key(|error| match error.kind() {
        Kind::Disk => 0,
        Kind::Invalid | Kind::Conflict => 1,
        _ => 2,
    });
    match errors.into_iter().next() {
        Some(error) => Err(after_some(error, &acks)),
        None => {
            acks.sort_by_key(|ack| ack.shard);
            Ok(acks)
        }
    }
}

/// Returns the error of a batch of which these parts are stored. A refusal for now is an unknown
/// outcome then: sent again without an identity, these parts would count twice.
fn after_some(error: Error, acks: &[Ack]) -> Error {
    let is_for_now = !matches!(error.kind(), Kind::Invalid | Kind::Conflict | Kind::Disk);
    if acks.is_empty() || !is_for_now {
        return error;
    }
    let shards: Vec<String> = acks
        .iter()
        .filter_map(|ack| ack.shard)
        .map(|shard| shard.to_string())
        .collect();
    Error::Unknown {
        what: format!(
            "{error}; the parts of shard {} are stored",
            shards.join(", ")
        ),
    }
}

impl std::fmt::Debug for Gathering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathering").finish_non_exhaustive()
    }
}
