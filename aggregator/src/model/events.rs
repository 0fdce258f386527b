//! The events of a history and the batches that carry them.

use storage::sim::Random;
use storage::{Batch, Identity, Name, StreamKind};

use super::STREAM;
use crate::testing::{AccessEvent, batch};

/// Returns an event like those of an access log, with nulls and extremes. Sums of sizes stay within
/// 64 bits, but exceed the integers that doubles represent exactly.
pub(super) fn event(random: &mut Random, time: i64) -> AccessEvent {
    let mut some = |prefix: &str, of: u64| {
        let nth = random.below(of + 1);
        (nth > 0).then(|| format!("{prefix}{nth}"))
    };
    let (site, path, host) = (some("site", 2), some("/a/", 2), some("10.0.0.", 12));
    let path = if random.below(3) == 0 {
        some_path(random)
    } else {
        path
    };
    let size = match random.below(12) {
        0 => None,
        1 => Some(0),
        2 => Some(-(random.below(5_000) as i64)),
        3 => Some((1 << 40) + random.below(3) as i64 - 1),
        4 | 5 => Some((1 << 54) + random.below(1_000) as i64),
        _ => Some((random.next_u64() >> (40 + random.below(24))) as i64),
    };
    let status = [None, Some(200), Some(404), Some(500), Some(503)];
    AccessEvent {
        time,
        site,
        path,
        status: status[random.below(5) as usize],
        method: Some("GET".to_owned()),
        host,
        size,
    }
}

fn some_path(random: &mut Random) -> Option<String> {
    let paths = [None, Some("/"), Some("/b/1"), Some("/b/2?x"), Some("")];
    paths[random.below(5) as usize].map(str::to_owned)
}

/// The fate of a batch, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Acknowledged: visible until a power cut, which leaves a prefix of these batches.
    Acknowledged,
    /// Acknowledged as durable: the batch must outlive a power cut.
    Durable,
    /// No acknowledgement came, or an error that leaves the fate open.
    Unknown,
    /// The store does not hold the batch.
    Lost,
}

/// A batch sent to the store.
#[derive(Debug, Clone)]
pub(super) struct SentBatch {
    pub(super) number: u64,
    pub(super) events: Vec<AccessEvent>,
    pub(super) keyed: bool,
    pub(super) received_us: i64,
    pub(super) first_seq: u64,
    pub(super) fate: Fate,
}

impl SentBatch {
    pub(super) fn lives(&self) -> bool {
        matches!(self.fate, Fate::Acknowledged | Fate::Durable)
    }

    pub(super) fn end_seq(&self) -> u64 {
        self.first_seq + self.events.len() as u64
    }

    pub(super) fn build(&self) -> Batch {
        let identity = self.keyed.then(|| Identity::Key {
            key: format!("{STREAM}\0{}", self.number),
            body_hash: self.number,
        });
        Batch {
            stream: Name::new(STREAM).expect("a name"),
            kind: StreamKind::Access,
            received_us: self.received_us,
            source: "model".into(),
            events: batch(&self.events),
            quarantine: Vec::new(),
            identity,
        }
    }
}
