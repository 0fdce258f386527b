//! The two sizes, the shape of one of their shards, and the figures that are not measured here.

use storage::{FileRef, PartitionWidth, partition_end, partition_start};

pub(crate) const DAY_US: i64 = 86_400_000_000;
pub(crate) const DAY_S: f64 = 86_400.0;
/// Days of a month of a bill.
pub(crate) const MONTH_DAYS: f64 = 30.0;
/// End of the events: 2026-11-01.
pub(crate) const END_US: i64 = 1_793_491_200_000_000;
/// Days for which raw events are kept.
pub(crate) const DAYS: [u32; 2] = [30, 365];

/// Bytes of parts for an event: docs/PERFORMANCE.md, at a glance.
pub(crate) const PART_BYTES_PER_EVENT: f64 = 13.3;
/// Bytes of a part in the study of scale, its §5.
pub(crate) const PARTS_BYTES_ASKED: u64 = 512 << 20;
/// CPU of an event up to parts and tiles, microseconds: docs/PERFORMANCE.md has 1.65 to 1.85.
pub(crate) const IMPORT_US: f64 = 1.75;
/// CPU of its compaction: docs/PERFORMANCE.md has 0.91 to 1.29, by the history.
pub(crate) const COMPACTION_US: f64 = 1.05;
/// CPU for HTTP, Kafka out and in, and decoding: the study assumes it.
pub(crate) const PASSAGE_US: f64 = 1.5;
/// Head-room of the nodes, and cores and memory of a node: the study's, and common.
pub(crate) const HEAD_ROOM: f64 = 3.0;
pub(crate) const NODE_CORES: f64 = 8.0;
pub(crate) const NODE_BYTES: f64 = (32_u64 << 30) as f64;
/// Replicas of the journal.
pub(crate) const REPLICAS: f64 = 3.0;

/// A cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) name: &'static str,
    pub(crate) shards: u16,
    /// Of all shards together.
    pub(crate) events_per_second: f64,
}

pub(crate) const SIZES: [Size; 2] = [
    Size {
        name: "64 shards, 10^6/s",
        shards: 64,
        events_per_second: 1e6,
    },
    Size {
        name: "256 shards, 1.16x10^7/s",
        shards: 256,
        events_per_second: 1.16e7,
    },
];

impl Size {
    pub(crate) fn events_per_shard(&self) -> f64 {
        self.events_per_second / f64::from(self.shards)
    }
}

/// Returns the bytes of a part of so many rows.
pub(crate) fn part_bytes(rows: u64) -> u64 {
    (rows as f64 * PART_BYTES_PER_EVENT) as u64
}

/// A shard whose manifest is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) events_per_second: f64,
    /// Most rows of a part.
    pub(crate) part_rows: u64,
    pub(crate) width: PartitionWidth,
    pub(crate) days: u32,
}

impl Shape {
    /// Returns the start of the events, which is that of a day.
    pub(crate) fn start_us(&self) -> i64 {
        END_US - i64::from(self.days) * DAY_US
    }

    /// Returns the number of events before a time.
    pub(crate) fn events_before(&self, at_us: i64) -> u64 {
        let seconds = (at_us.clamp(self.start_us(), END_US) - self.start_us()) as f64 / 1e6;
        (seconds * self.events_per_second) as u64
    }

    /// Returns the number of all events.
    pub(crate) fn events(&self) -> u64 {
        self.events_before(END_US)
    }

    /// Returns the partitions, each with its end and its number of parts.
    pub(crate) fn partitions(&self) -> Vec<(i64, i64, u64)> {
        let mut partitions = Vec::new();
        let mut start = partition_start(self.width, self.start_us());
        while start < END_US {
            let end = partition_end(self.width, start);
            let events = self.events_before(end) - self.events_before(start);
            partitions.push((start, end, events.div_ceil(self.part_rows)));
            start = end;
        }
        partitions
    }

    /// Returns the shape with as many days as have at most so many blocks in parts.
    pub(crate) fn within(self, blocks: u64) -> Self {
        let day = Self { days: 1, ..self };
        let parts: u64 = day.partitions().iter().map(|(_, _, parts)| parts).sum();
        let bytes = part_bytes(day.events()) / parts.max(1);
        let per_day = parts * bytes.div_ceil(FileRef::block_bytes_of(bytes));
        let days = (blocks / per_day.max(1)).clamp(1, self.days.into());
        Self {
            days: u32::try_from(days).expect("BUG: at most the days asked for"),
            ..self
        }
    }
}
