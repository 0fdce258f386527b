//! Streams as tables.
//!
//! A stream is two tables, one above the other. [`StreamTable`] has the stored rows (parts and
//! chunks, `_seq` included). A view over it puts `_id` first, computes `_id` and `request`, and
//! orders the columns as `SELECT *` shows them. DataFusion inlines the view, so a derived column
//! costs nothing unless a query reads it, and filters reach the stored columns.
//!
//! # Invariants
//! * One scan reads one snapshot: every acknowledged event once.
//! * The scan itself applies the range of `time`, exactly. Parts and chunks wholly inside the
//!   range are read without a check of `time`, and their row counts stay exact, so that a count
//!   over a range of whole days reads the manifest alone.

pub(crate) mod chunks;
pub(crate) mod derive;
pub(crate) mod dynamic_filters;
pub(crate) mod exec;
pub(crate) mod indexed;
mod parts;
pub(crate) mod prune;
pub(crate) mod read;
mod settled;
pub(crate) mod slices;
pub(crate) mod source;
mod view;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::{TableProvider, TableType, provider_as_source};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableSource};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use storage::{Chunk, Name, SEQ, Snapshot, TIME};

use crate::plan_node::PlanNode;
use crate::tables::level::StreamRollups;
use chunks::{ChunksExec, WantedRows, times};
use exec::{ScanStats, StreamScanExec, exact};
use indexed::Heads;
use parts::PartScans;
use prune::{Bounds, TimeRange};
pub(crate) use settled::STATE;
pub(crate) use slices::Dictionaries;
pub use view::column_count;
pub(crate) use view::{Views, shown, stored_schema, table, view};

/// Caches and options that a scan needs from the engine.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// Footers of parts.
    pub(crate) footers: Arc<FileMetadataCache>,
    /// Decompressed dictionaries of parts.
    pub(crate) dictionaries: Arc<Dictionaries>,
    /// Heads of indexes.
    pub(crate) heads: Arc<Heads>,
    /// Views of streams.
    pub(crate) views: Arc<Views>,
    /// Columns whose indexes the query may use, whether or not they seem to help. `None` allows
    /// the indexes of all columns, where they seem to help.
    pub(crate) indexes: Option<Vec<String>>,
}

/// Table of the stored rows of a stream: parts and chunks.
#[derive(Debug)]
pub(crate) struct StreamTable {
    snapshot: Arc<Snapshot>,
    name: Name,
    schema: SchemaRef,
    files: Files,
    /// The rollups that may answer instead; `None` when raw events are asked for.
    levels: Option<Arc<StreamRollups>>,
}

#[async_trait]
impl TableProvider for StreamTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    fn table_type(&self) -> TableType {
        TableType::Base
    }
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match prune::time_range(filter, TIME) {
                Some(_) => TableProviderFilterPushDown::Exact,
                None if prune::prunes(filter) => TableProviderFilterPushDown::Inexact,
                None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }
    fn statistics(&self) -> Option<Statistics> {
        let rows: u64 = self
            .snapshot
            .manifest()
            .parts_of(&self.name)
            .map(|p| p.rows)
            .sum();
        let chunks: usize = self
            .snapshot
            .chunks(self.name.as_str())
            .iter()
            .map(|c| c.events.num_rows())
            .sum();
        Some(Statistics {
            num_rows: exact(rows + chunks as u64),
            ..Statistics::new_unknown(&self.schema)
        })
    }
    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let bounds = Bounds::of(filters);
        let partitions = state.config().target_partitions();
        let mut looked = ScanStats {
            table: self.name.to_string(),
            ..ScanStats::default()
        };
        let scans = PartScans {
            table: self,
            bounds: &bounds,
            projection,
            limit,
            partitions,
        };
        let mut inputs = scans.plan(&mut looked).await?;
        inputs.extend(self.memtable(&bounds, projection, partitions, &mut looked)?);
        let input = if inputs.is_empty() {
            let schema = self.projected(projection)?;
            Arc::new(EmptyExec::new(schema)) as Arc<dyn ExecutionPlan>
        } else {
            UnionExec::try_new(inputs)?
        };
        Ok(Arc::new(PlanNode::over(StreamScanExec(looked), input, [])))
    }
}

impl StreamTable {
    /// Returns the snapshot, and the name of the stream in it.
    pub(crate) fn of(&self) -> (&Arc<Snapshot>, &Name) {
        (&self.snapshot, &self.name)
    }

    /// Returns the schema of the stored columns.
    pub(crate) fn stored(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rollups that may answer instead.
    pub(crate) fn levels(&self) -> Option<&StreamRollups> {
        self.levels.as_deref()
    }

    /// Returns the same rows as a table that no rollup answers for.
    pub(crate) fn raw(&self) -> Arc<dyn TableSource> {
        provider_as_source(Arc::new(Self {
            snapshot: Arc::clone(&self.snapshot),
            name: self.name.clone(),
            schema: Arc::clone(&self.schema),
            files: self.files.clone(),
            levels: None,
        }))
    }

    /// Returns the schema of the requested stored columns.
    fn projected(&self, projection: Option<&Vec<usize>>) -> Result<SchemaRef> {
        Ok(match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        })
    }

    /// Returns exact statistics: rows, and the least and the greatest time.
    fn statistics_of(&self, rows: u64, time: (i64, i64)) -> Statistics {
        let stamp = |t: i64| {
            Precision::Exact(ScalarValue::TimestampMicrosecond(
                Some(t),
                Some("UTC".into()),
            ))
        };
        let column_statistics = self
            .schema
            .fields()
            .iter()
            .map(|field| match field.name().as_str() {
                TIME if rows > 0 => ColumnStatistics {
                    null_count: Precision::Exact(0),
                    min_value: stamp(time.0),
                    max_value: stamp(time.1),
                    ..ColumnStatistics::new_unknown()
                },
                SEQ => ColumnStatistics {
                    null_count: Precision::Exact(0),
                    ..ColumnStatistics::new_unknown()
                },
                _ => ColumnStatistics::new_unknown(),
            })
            .collect();
        Statistics {
            num_rows: exact(rows),
            total_byte_size: Precision::Absent,
            column_statistics,
        }
    }

    fn memtable(
        &self,
        bounds: &Bounds,
        projection: Option<&Vec<usize>>,
        partitions: usize,
        looked: &mut ScanStats,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (mut rows, mut time) = (0, (i64::MAX, i64::MIN));
        let mut widen = |t: i64| time = (time.0.min(t), time.1.max(t));
        let mut chosen: Vec<Arc<Chunk>> = Vec::new();
        for chunk in self.snapshot.chunks(self.name.as_str()) {
            if !bounds.time.meets(chunk.time)
                || chunk.seq.1 < bounds.seq.0
                || bounds.seq.1 < chunk.seq.0
            {
                continue;
            }
            if bounds.time.covers(chunk.time) {
                rows += chunk.events.num_rows() as u64;
                widen(chunk.time.0);
                widen(chunk.time.1);
            } else {
                // The rows are counted during planning, so that the count of a range is exact
                // without a run of the scan.
                for t in times(&chunk.events)
                    .values()
                    .iter()
                    .filter(|t| bounds.time.contains(**t))
                {
                    rows += 1;
                    widen(*t);
                }
            }
            chosen.push(chunk.clone());
        }
        if rows == 0 {
            return Ok(None);
        }
        looked.rows += rows;
        looked
            .answered_by
            .push(format!("memtable of {}", self.name));
        let statistics = self.statistics_of(rows, time).project(projection);
        let schema = self.projected(projection)?;
        // The range is not applied if it excludes no row.
        let range = if chosen.iter().all(|c| bounds.time.covers(c.time)) {
            TimeRange::ALL
        } else {
            bounds.time
        };
        let values: Vec<_> = bounds.few().cloned().collect();
        let statistics = match values.is_empty() {
            true => statistics,
            false => statistics.to_inexact(),
        };
        let wanted = WantedRows { range, values };
        Ok(Some(Arc::new(ChunksExec::plan(
            chosen, wanted, schema, statistics, partitions,
        ))))
    }
}
