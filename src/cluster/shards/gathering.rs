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
    let why = match error {
        Error::Overloaded { what } => what,
        other => other.to_string(),
    };
    Error::Unknown {
        what: format!("{why}; the parts of shard {} are stored", shards.join(", ")),
    }
}

impl std::fmt::Debug for Gathering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathering").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack() -> Ack {
        Ack {
            accepted: 1,
            quarantined: 0,
            first_seq: Some(0),
            last_seq: Some(0),
            duplicate: false,
            shard: None,
        }
    }

    fn busy() -> Error {
        let what = "busy".to_owned();
        Error::Overloaded { what }
    }

    fn wrong() -> Error {
        let what = "wrong".to_owned();
        Error::Invalid { what }
    }

    fn unknown() -> Error {
        let what = "lost".to_owned();
        Error::Unknown { what }
    }

    /// Returns the outcome of a batch with these parts, in any order.
    fn outcome(parts: Vec<storage::Result<Ack>>) -> storage::Result<Vec<Ack>> {
        let (tell, told) = std::sync::mpsc::channel();
        let reply: Reply = Box::new(move |outcome| tell.send(outcome).expect("the test waits"));
        let gathering = Gathering::of(parts.len(), reply);
        for (shard, part) in (0..).zip(parts).collect::<Vec<_>>().into_iter().rev() {
            told.try_recv().expect_err("not before the last part");
            gathering.done(shard, part);
        }
        told.recv().expect("an outcome")
    }

    #[test]
    fn a_refusal_for_now_is_an_unknown_outcome_once_a_part_is_stored() {
        let acks = outcome(vec![Ok(ack()), Ok(ack())]).expect("stored");
        let shards: Vec<Option<u16>> = acks.iter().map(|ack| ack.shard).collect();
        assert_eq!(shards, [Some(0), Some(1)]);
        let refused = outcome(vec![Err(busy()), Err(busy())]).expect_err("refused");
        assert_eq!(refused.kind(), Kind::Overloaded, "nothing is stored");
        for parts in [vec![Ok(ack()), Err(busy())], vec![Err(busy()), Ok(ack())]] {
            let refused = outcome(parts).expect_err("refused");
            assert_eq!(refused.kind(), Kind::Disk, "{refused}");
            assert!(refused.to_string().contains("are stored"), "{refused}");
        }
        // The parts of a batch whose home was stored before.
        let (tell, told) = std::sync::mpsc::channel();
        let reply: Reply = Box::new(move |outcome| tell.send(outcome).expect("the test waits"));
        Gathering::joined(vec![ack()], reply)(Err(busy()));
        let refused = told.recv().expect("told").expect_err("refused");
        assert_eq!(refused.kind(), Kind::Disk, "{refused}");
    }

    #[test]
    fn the_error_that_tells_most_is_told() {
        let told = |parts| outcome(parts).expect_err("refused").kind();
        assert_eq!(told(vec![Err(busy()), Err(unknown())]), Kind::Disk);
        assert_eq!(told(vec![Err(wrong()), Err(unknown())]), Kind::Disk);
        assert_eq!(told(vec![Err(busy()), Err(wrong())]), Kind::Invalid);
        assert_eq!(told(vec![Ok(ack()), Err(wrong())]), Kind::Invalid);
    }
}
