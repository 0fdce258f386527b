//! Load and price of a whole cluster: cores, requests, bytes, dollars a month.

use super::memory_depot::puts_of;
use super::requests::Trial;
use super::shape::{
    COMPACTION_US, DAY_S, HEAD_ROOM, IMPORT_US, MONTH_DAYS, NODE_CORES, PASSAGE_US, REPLICAS, Size,
    part_bytes,
};
use super::{Case, PartRule};

/// Prices, dollars: S3 standard in its first region, and bytes between zones, both directions.
const PUT: f64 = 0.005 / 1000.0;
const GET: f64 = 0.000_4 / 1000.0;
const TB_MONTH: f64 = 23.0;
const GB_BETWEEN_ZONES: f64 = 0.02;
/// Share of the producers that are in another zone than the leader of their partition: of three
/// zones.
const ELSEWHERE: f64 = 2.0 / 3.0;
/// Looks of each node at `CURRENT` of each shard, a second, while it is asked questions:
/// `FRESH_FOR` in `src/cluster/places.rs`.
const LOOKS_PER_SECOND: f64 = 1.0;

/// A cluster's load and price.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bill {
    pub(crate) size: Size,
    pub(crate) rule: PartRule,
    pub(crate) days: u32,
    /// Some figures are scaled.
    pub(crate) scale: f64,
    /// Seals of a shard, a second.
    pub(crate) seals: f64,
    /// Commits of a shard, a second.
    pub(crate) commits: f64,
    /// Bytes of all versions that a shard writes, a second.
    pub(crate) commit_bytes: f64,
    /// Bytes of parts for the events of a shard, a second.
    pub(crate) part_bytes: f64,
    /// Busy cores for events, and for edits of manifests.
    pub(crate) event_cores: f64,
    pub(crate) commit_cores: f64,
    /// Nodes for the events alone.
    pub(crate) nodes: f64,
    /// Requests of all shards, a second.
    pub(crate) puts: f64,
    pub(crate) lists: f64,
    pub(crate) deletes: f64,
    pub(crate) gets: f64,
    /// Gets of `CURRENT`, a second, with which nodes look for the servers of shards.
    pub(crate) looks: f64,
    /// Bytes, a second, that one reader of all shards fetches of new versions, and its gets.
    pub(crate) reader_bytes: f64,
    pub(crate) reader_gets: f64,
    /// Bytes in the object store.
    pub(crate) stored: f64,
    /// Bytes of the journal between zones, a day.
    pub(crate) between_zones: f64,
}

/// Dollars a month.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dollars {
    pub(crate) storage: f64,
    pub(crate) puts: f64,
    pub(crate) gets: f64,
    pub(crate) looks: f64,
    pub(crate) between_zones: f64,
}

impl Dollars {
    pub(crate) fn all(&self) -> f64 {
        self.storage + self.puts + self.gets + self.looks + self.between_zones
    }
}

/// Returns the bill of each case.
pub(crate) fn all(cases: &[Case], trial: &Trial) -> Vec<Bill> {
    cases.iter().map(|case| Bill::of(case, trial)).collect()
}

impl Bill {
    fn of(case: &Case, trial: &Trial) -> Self {
        let (size, measured) = (case.size, &case.measured);
        let (rate, shards) = (size.events_per_shard(), f64::from(size.shards));
        let rows = trial.rows_per_seal(rate);
        let (seals, per_seal) = (rate / rows, trial.all());
        let commits = seals * per_seal.commits;
        let event_us = IMPORT_US + COMPACTION_US + PASSAGE_US;
        let event_cores = size.events_per_second * event_us / 1e6;
        let commit_cores = shards * commits * measured.commit_ms / 1e3;
        let nodes = (event_cores * HEAD_ROOM / NODE_CORES).ceil();
        let all = |requests: f64| shards * seals * requests;
        let message_bytes = size.events_per_second * trial.message_bytes;
        Self {
            size,
            rule: case.rule,
            days: case.days,
            scale: measured.scale,
            seals,
            commits,
            commit_bytes: commits * measured.commit_bytes,
            part_bytes: part_bytes(rate as u64) as f64,
            event_cores,
            commit_cores,
            nodes,
            puts: all(per_seal.puts + large_puts(case.rule, rows)),
            lists: all(per_seal.lists),
            deletes: all(per_seal.deletes),
            gets: all(per_seal.gets),
            looks: nodes * shards * LOOKS_PER_SECOND * trial.look_gets,
            reader_bytes: shards * commits * measured.commit_bytes,
            reader_gets: shards
                * (LOOKS_PER_SECOND * trial.look_gets + commits.min(1.0) * trial.version_gets),
            stored: shards * (measured.part_bytes + measured.tile_bytes),
            between_zones: message_bytes * DAY_S * (ELSEWHERE + REPLICAS - 1.0),
        }
    }

    pub(crate) fn dollars(&self) -> Dollars {
        let seconds = MONTH_DAYS * DAY_S;
        Dollars {
            storage: self.stored / 1e12 * TB_MONTH,
            puts: (self.puts + self.lists) * seconds * PUT,
            gets: self.gets * seconds * GET,
            looks: self.looks * seconds * GET,
            between_zones: self.between_zones / 1e9 * MONTH_DAYS * GB_BETWEEN_ZONES,
        }
    }
}

/// Returns the puts of a large merged part for one seal, beyond the one that the small store
/// counted.
fn large_puts(rule: PartRule, rows_per_seal: f64) -> f64 {
    let seals = (rule.rows as f64 / rows_per_seal).max(1.0);
    (puts_of(part_bytes(rule.rows)) - 1) as f64 / seals
}
