//! Retention: selects the partitions of raw events that a stream drops, by age and by bytes.
//!
//! The selection is a pure function of the manifest, the limits and the time.
//!
//! # Guarantees
//! * Whole partitions are dropped, oldest first. The rollups count their events as before.
//! * Age: a partition is dropped when its end is at least that far in the past, measured both
//!   from now and from the newest events of the stream. So no younger partition is dropped, and
//!   an imported archive stays.
//! * A few events with wrong timestamps cause no drop. The newest events are those of the newest
//!   partition that, together with all later ones, holds as many events as a usual partition (the
//!   median, at least two; no partition contributes more than that, so a day with a flood of
//!   events counts as one day). Fewer events than that, however far in the future, do not count
//!   as the newest. This delays a drop, as a rule by one partition.
//! * The floors of levels are measured from the same time: `newest_of`, and when raw events are
//!   gone `usual_newest` of the finest level's events.
//! * Bytes: the parts of a stream have at most that many bytes, except that its newest partition
//!   stays whatever its size.
//! * A detached partition is under the operator's control: neither it nor events that arrived for
//!   it since are dropped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::Retention;
use crate::manifest::{Manifest, PartMeta};
use crate::model::Name;
use crate::part::partition_end;

/// Reason for which a partition is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The partition is older than its stream's age limit.
    Age,
    /// The stream has more bytes than its limit.
    Bytes,
}

/// A partition to be dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Stream of the partition.
    pub stream: Name,
    /// Start of the partition, microseconds since 1970.
    pub partition_us: i64,
    /// Number of its parts.
    pub parts: usize,
    /// Number of its events.
    pub events: u64,
    /// Bytes of its parts.
    pub bytes: u64,
    /// Limit that it exceeds.
    pub why: Why,
}

/// Totals of one partition of a stream.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    end_us: i64,
    newest_us: i64,
    parts: usize,
    events: u64,
    bytes: u64,
    detached: bool,
}

/// Returns the partitions to be dropped, stream by stream, oldest first. When the time is not
/// trusted (`None`), no partition is dropped for its age.
pub(crate) fn choose(
    manifest: &Manifest,
    limits: &BTreeMap<Name, Retention>,
    now_us: Option<i64>,
) -> Vec<Leaving> {
    let mut all = Vec::new();
    for (stream, limits) in limits {
        let held = held(manifest, stream);
        let mut bytes: u64 = held.values().map(|h| h.bytes).sum();
        let newest_us = newest(&held);
        let limit_us = limits.age_us.zip(now_us).zip(newest_us);
        let limit_us = limit_us.map(|((age, now), newest)| now.min(newest).saturating_sub(age));
        let last = held.keys().next_back().copied();
        for (partition_us, partition) in held {
            let old = limit_us.is_some_and(|limit| partition.end_us <= limit);
            let much = limits.bytes.is_some_and(|most| bytes > most);
            let why = match (old, much) {
                (true, _) => Why::Age,
                (false, true) if last != Some(partition_us) => Why::Bytes,
                _ => continue,
            };
            if partition.detached {
                continue;
            }
            bytes -= partition.bytes;
            all.push(Leaving {
                stream: stream.clone(),
                partition_us,
                parts: partition.parts,
                events: partition.events,
                bytes: partition.bytes,
                why,
            });
        }
    }
    all
}

fn held(manifest: &Manifest, stream: &Name) -> BTreeMap<i64, Held> {
    let width = manifest.streams.get(stream).map(|s| s.partition);
    let mut held: BTreeMap<i64, Held> = BTreeMap::new();
    for part in manifest.parts_of(stream) {
        let PartMeta { partition_us, .. } = part;
        let new = || Held {
            end_us: partition_end(width.unwrap_or_default(), *partition_us),
            newest_us: part.time.1,
            detached: manifest
                .detached_of(stream)
                .any(|d| d.partition_us == *partition_us),
            ..Held::default()
        };
        let partition = held.entry(*partition_us).or_insert_with(new);
        partition.newest_us = partition.newest_us.max(part.time.1);
        partition.parts += 1;
        partition.events += part.rows;
        partition.bytes += part.file.len;
    }
    held
}

/// Returns the time of the newest events of a stream that are as many as a usual partition holds.
pub(crate) fn newest_of(manifest: &Manifest, stream: &Name) -> Option<i64> {
    newest(&held(manifest, stream))
}

fn newest(held: &BTreeMap<i64, Held>) -> Option<i64> {
    let partitions = held.iter().map(|(at, h)| (*at, (h.events, h.newest_us)));
    usual_newest(&partitions.collect())
}

/// Returns the time of the newest events that are as many as a usual partition holds.
/// `partitions` map a start to the number of events and the time of the newest.
pub(crate) fn usual_newest(partitions: &BTreeMap<i64, (u64, i64)>) -> Option<i64> {
    let mut sizes: Vec<u64> = partitions.values().map(|(events, _)| *events).collect();
    sizes.sort_unstable();
    let usual = sizes.get(sizes.len() / 2).copied()?.max(2);
    let mut seen = 0;
    let mut newer = partitions.values().rev();
    let enough = newer.find(|(events, _)| {
        seen += (*events).min(usual);
        seen >= usual
    });
    enough.map(|(_, newest_us)| *newest_us)
}

#[cfg(test)]
mod tests;
