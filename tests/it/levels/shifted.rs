//! A store whose rollups are wrong: its events were counted an hour late. Every checksum and the
//! manifest's proof hold, so only the raw events can tell.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use aggregator::Cascade;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use ingest::{ParseOptions, Parser};
use storage::{
    Batch, BoxError, Merge, Name, NewRollup, Options, Partition, RollupHook, RollupMeta, Snapshot,
    Store, StreamKind, TIME, TileImage, WriteConcern,
};

const HOUR_US: i64 = 3_600_000_000;

#[derive(Debug)]
struct Shifted(Cascade);

impl RollupHook for Shifted {
    fn rollups_for(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        self.0.rollups_for(stream, kind, existing)
    }
    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let shifted: Vec<RecordBatch> = events.iter().map(an_hour_late).collect();
        self.0.tiles(rollups, &shifted, sealed)
    }
    fn backfill(
        &self,
        rollup: &RollupMeta,
        sealed: &Snapshot,
        window: Partition,
        write: &mut dyn FnMut(TileImage) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        self.0.backfill(rollup, sealed, window, write)
    }

    fn day(&self, rollup: &RollupMeta, at_us: i64) -> Result<Partition, BoxError> {
        self.0.day(rollup, at_us)
    }

    fn wants(&self, rollup: &RollupMeta, kind: StreamKind, existing: &[RollupMeta]) -> bool {
        self.0.wants(rollup, kind, existing)
    }
    fn recompute(
        &self,
        rollup: &RollupMeta,
        level: &str,
        partition_us: i64,
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        self.0.recompute(rollup, level, partition_us, sealed)
    }
    fn merge(
        &self,
        rollup: &RollupMeta,
        merges: &[Merge<'_>],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        self.0.merge(rollup, merges, sealed)
    }
    fn partition(
        &self,
        rollup: &RollupMeta,
        level: &str,
        at_us: i64,
    ) -> Result<Partition, BoxError> {
        self.0.partition(rollup, level, at_us)
    }
    fn retention(&self, rollup: &RollupMeta) -> BTreeMap<String, i64> {
        self.0.retention(rollup)
    }
}

fn an_hour_late(events: &RecordBatch) -> RecordBatch {
    let (schema, mut columns, _) = events.clone().into_parts();
    let nth = schema.index_of(TIME).expect("events have a time");
    let times = columns[nth].as_primitive::<TimestampMicrosecondType>();
    columns[nth] = Arc::new(
        times
            .unary::<_, TimestampMicrosecondType>(|t| t + HOUR_US)
            .with_data_type(times.data_type().clone()),
    ) as ArrayRef;
    RecordBatch::try_new(schema, columns).expect("the same columns")
}

/// Writes such a store.
pub(super) fn store(data: &str, log: &str) {
    let options = Options {
        rollup_hook: Arc::new(Shifted(Cascade::default())),
        ..Options::default()
    };
    let store = Store::open(Path::new(data), options).expect("opens");
    let received_us = 1_800_000_000_000_000;
    let mut parser = Parser::new(ParseOptions {
        received_us,
        ..ParseOptions::default()
    });
    let parsed = parser.parse(log.as_bytes()).expect("a small block");
    let batch = Batch {
        stream: Name::new("access").expect("a name"),
        kind: parsed.kind,
        received_us,
        source: "test".into(),
        events: parsed.events,
        quarantine: parsed.quarantine,
        identity: None,
    };
    store.write(batch, WriteConcern::JOURNALED).expect("taken");
    store.close().expect("closes");
}
