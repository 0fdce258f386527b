//! Retention: which partitions of raw events a stream gives up, by age and by bytes.
//!
//! The choice is a pure function of the manifest, the limits and the time.
//!
//! # What it guarantees
//! * Whole partitions go, oldest first. The rollups count their events as before.
//! * Age: a partition goes when its end lies at least that far back, from now and from the newest
//!   events of the stream, whichever is earlier. So nothing goes that is younger, and an archive that
//!   is imported stays.
//! * A few events with wrong stamps push nothing out: the newest events are those of the newest
//!   partition that, together with all later ones, holds as many as a usual partition does (the median,
//!   at least two; of each no more than that is counted, so that a day of a flood is a day). Fewer
//!   events than that, stamped however far ahead, do not count as the newest. What is to go goes
//!   later for it, by one partition as a rule.
//! * The floors of levels count back from the same: `newest_of`, and where raw events are gone
//!   `usual_newest` of what the finest level holds.
//! * Bytes: the parts of a stream are at most that many, but for its newest partition, which stays
//!   whatever its size.
//! * A partition that is detached is in the operator's hands: neither it nor what came for it since is
//!   given up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::manifest::{Manifest, PartMeta};
use crate::model::Name;
use crate::part::partition_end;

/// The limits of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Raw events are kept this long, microseconds.
    pub age_us: Option<i64>,
    /// Parts of the stream may have this many bytes.
    pub bytes: Option<u64>,
}

/// Why a partition goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is older than its stream's age.
    Age,
    /// Its stream has more bytes than it may.
    Bytes,
}

/// A partition that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Its stream.
    pub stream: Name,
    /// Its start, microseconds since 1970.
    pub partition_us: i64,
    /// Its parts.
    pub parts: usize,
    /// Its events.
    pub events: u64,
    /// Bytes of its parts.
    pub bytes: u64,
    /// Why.
    pub why: Why,
}

/// One partition of a stream.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    end_us: i64,
    newest_us: i64,
    parts: usize,
    events: u64,
    bytes: u64,
    detached: bool,
}

/// The partitions that go, stream by stream, oldest first. Without a time that is to be trusted none
/// goes for its age.
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

/// The time of the newest events of a stream that are as many as a usual partition holds.
pub(crate) fn newest_of(manifest: &Manifest, stream: &Name) -> Option<i64> {
    newest(&held(manifest, stream))
}

fn newest(held: &BTreeMap<i64, Held>) -> Option<i64> {
    let partitions = held.iter().map(|(at, h)| (*at, (h.events, h.newest_us)));
    usual_newest(&partitions.collect())
}

/// Of partitions with their events and the time of the newest: the time of the newest events that
/// are as many as a usual partition holds.
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
