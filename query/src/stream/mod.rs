//! Streams as tables.
//!
//! A stream is two tables, one upon the other: [`StreamTable`] holds what is stored (parts and
//! chunks, `_seq` included), and a view over it puts `_id` first, computes `_id` and `request`, and
//! orders the columns as `SELECT *` shows them. DataFusion inlines the view, so a derived column
//! costs nothing unless it is asked for, and filters reach the stored columns by themselves.
//!
//! # Invariants
//! * One scan reads one snapshot: every acknowledged event once.
//! * The range of `time` is applied by the scan itself, exactly: parts and chunks wholly inside are
//!   read without looking at `time`, and their row counts stay exact, so that counting a range of
//!   whole days reads the manifest alone.

pub(crate) mod derive;
pub(crate) mod exec;
pub(crate) mod indexed;
pub(crate) mod prune;
mod read;
mod settled;
pub(crate) mod source;
mod view;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DataFusionError, Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileGroupPartitioner, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{TableProvider, TableType, provider_as_source};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown, TableSource};
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use storage::{Chunk, Name, SEQ, Snapshot, TIME};

use crate::figures::Count;
use crate::rollup_rewrite::Levels;
use exec::{ChunksExec, Looked, StreamScanExec, exact, times};
use indexed::{Candidate, Heads, Picked};
use prune::{Bounds, TimeRange};
use read::{PartReaders, Rows};
pub(crate) use settled::STATE;
pub(crate) use view::{Views, shown, stored_schema, table, view};

/// Below this many bytes a scan is not split: a thread more costs more than it saves.
const SPLIT_BYTES: u64 = 1 << 20;
/// Rows of a row group as parts are written.
const ROW_GROUP_ROWS: u64 = 1 << 20;

/// What a scan needs from the engine.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// Footers of parts.
    pub(crate) footers: Arc<FileMetadataCache>,
    /// Heads of indexes.
    pub(crate) heads: Arc<Heads>,
    /// What streams are seen as.
    pub(crate) views: Arc<Views>,
    /// The columns whose indexes the query may use, whether they seem to help or not; `None` when those of
    /// all that do.
    pub(crate) indexes: Option<Vec<String>>,
}

/// The stored rows of a stream: parts and chunks.
#[derive(Debug)]
pub(crate) struct StreamTable {
    snapshot: Arc<Snapshot>,
    name: Name,
    schema: SchemaRef,
    files: Files,
    /// The rollups that may answer instead; `None` when raw events are asked for.
    levels: Option<Arc<Levels>>,
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
        let mut looked = Looked {
            table: self.name.to_string(),
            ..Looked::default()
        };
        // Parts that are in the order of what is asked for are not read in another one.
        let by_order = self.is_slice(&bounds);
        let asked = (&bounds, by_order);
        let picked = indexed::pick(&self.files, &self.snapshot, &self.name, asked).await?;
        let mut inputs = self.parts(
            &bounds,
            picked,
            (projection, limit),
            partitions,
            &mut looked,
        )?;
        inputs.extend(self.memtable(&bounds, projection, partitions, &mut looked)?);
        let input = if inputs.is_empty() {
            let schema = match projection {
                Some(projection) => Arc::new(self.schema.project(projection)?),
                None => self.schema.clone(),
            };
            Arc::new(EmptyExec::new(schema)) as Arc<dyn ExecutionPlan>
        } else {
            UnionExec::try_new(inputs)?
        };
        Ok(Arc::new(StreamScanExec::new(input, looked)))
    }
}

impl StreamTable {
    /// The snapshot, and the stream in it.
    pub(crate) fn of(&self) -> (&Arc<Snapshot>, &Name) {
        (&self.snapshot, &self.name)
    }

    /// The stored columns.
    pub(crate) fn stored(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rollups that may answer instead.
    pub(crate) fn levels(&self) -> Option<&Levels> {
        self.levels.as_deref()
    }

    /// The same rows, for which no rollup answers.
    pub(crate) fn raw(&self) -> Arc<dyn TableSource> {
        provider_as_source(Arc::new(Self {
            snapshot: Arc::clone(&self.snapshot),
            name: self.name.clone(),
            schema: Arc::clone(&self.schema),
            files: self.files.clone(),
            levels: None,
        }))
    }

    /// Scans of the parts that may hold what is asked for: those wholly inside the range of time
    /// without a predicate, the others with one.
    fn parts(
        &self,
        bounds: &Bounds,
        mut picked: Picked,
        asked: (Option<&Vec<usize>>, Option<usize>),
        partitions: usize,
        looked: &mut Looked,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let mut starts = (BTreeSet::new(), BTreeSet::new());
        let (mut covered, mut partial) = (Vec::new(), Vec::new());
        for part in self.snapshot.manifest().parts_of(&self.name) {
            starts.0.insert(part.partition_us);
            looked.parts.total += 1;
            let Some(part) = picked.candidate(part).filter(|_| bounds.may_hold(part)) else {
                continue;
            };
            starts.1.insert(part.part.partition_us);
            looked.parts.examined += 1;
            looked.rows += part.rows();
            if bounds.time.covers(part.part.time) {
                covered.push(part)
            } else {
                partial.push(part)
            }
        }
        looked.partitions = Count {
            total: starts.0.len() as u64,
            examined: starts.1.len() as u64,
        };
        if looked.parts.examined > 0 {
            looked.answered_by.push(format!("parts of {}", self.name));
        }
        for field in &picked.fields {
            let by = format!("index {field} of {}", self.name);
            looked.answered_by.push(by);
        }
        let mut inputs = Vec::new();
        for (parts, range) in [(covered, TimeRange::ALL), (partial, bounds.time)] {
            let (picked, scanned): (Vec<_>, Vec<_>) =
                parts.into_iter().partition(|part| part.rows.is_some());
            for parts in [picked, scanned].iter().filter(|parts| !parts.is_empty()) {
                inputs.push(self.scan_parts(parts, range, bounds, asked, partitions)?);
            }
        }
        Ok(inputs)
    }

    /// A scan of parts: of all of which rows were picked, or of none. Filters are looked at before the other
    /// columns are read, where that saves something: not for rows that were picked, which pass nearly all
    /// filters, and not where there is one column.
    fn scan_parts(
        &self,
        parts: &[Candidate<'_>],
        range: TimeRange,
        bounds: &Bounds,
        (projection, limit): (Option<&Vec<usize>>, Option<usize>),
        partitions: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_late = projection.is_none_or(|columns| columns.len() > 1)
            && parts.iter().all(|part| part.rows.is_none());
        let mut source = ParquetSource::new(self.schema.clone())
            .with_enable_page_index(true)
            .with_pushdown_filters(is_late)
            .with_parquet_file_reader_factory(Arc::new(PartReaders {
                snapshot: self.snapshot.clone(),
                footers: self.files.footers.clone(),
            }));
        if let Some(predicate) = self.predicate(range, bounds.seq)? {
            source = source.with_predicate(predicate).with_pushdown_filters(true);
        }
        let is_slice = self.is_slice(bounds) || parts.iter().any(|part| part.covering.is_some());
        let groups = self.groups(parts, partitions, is_slice)?;
        let rows = parts.iter().map(Candidate::rows).sum();
        let time = parts.iter().fold((i64::MAX, i64::MIN), |t, p| {
            (t.0.min(p.part.time.0), t.1.max(p.part.time.1))
        });
        let mut statistics = self.statistics_of(rows, time);
        if parts.iter().any(|p| p.rows.is_some()) {
            statistics = statistics.to_inexact();
        }
        let config =
            FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
                .with_file_groups(groups)
                .with_statistics(statistics)
                .with_limit(if range == TimeRange::ALL { limit } else { None })
                .with_projection_indices(projection.cloned())?
                .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// Whether values of the column that comes first in the order are asked for, whose rows lie together.
    fn is_slice(&self, bounds: &Bounds) -> bool {
        let streams = self.snapshot.streams();
        let first = streams
            .get(&self.name)
            .and_then(|meta| meta.order_by.first());
        first.is_some_and(|first| bounds.asks_few_of(first))
    }

    /// Files for each partition of the scan, about as many bytes in each. A part of one row group is
    /// read by one thread; larger ones are split, but not for a slice: the other thread would open them and
    /// find nothing.
    fn groups(
        &self,
        parts: &[Candidate<'_>],
        partitions: usize,
        is_slice: bool,
    ) -> Result<Vec<FileGroup>> {
        let files = parts
            .iter()
            .map(|p| self.file(p))
            .collect::<Result<Vec<_>>>()?;
        let len = |i: usize| parts[i].file().len;
        let bytes: u64 = (0..parts.len()).map(len).sum();
        if bytes < SPLIT_BYTES {
            return Ok(vec![FileGroup::new(files)]);
        }
        if !is_slice && parts.iter().any(|p| p.part.rows > ROW_GROUP_ROWS) {
            let whole = [FileGroup::new(files)];
            let split = FileGroupPartitioner::new()
                .with_target_partitions(partitions)
                .with_repartition_file_min_size(0)
                .repartition_file_groups(&whole);
            return Ok(split.unwrap_or_else(|| whole.to_vec()));
        }
        // The largest first, each to the group with the least so far.
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(len(*i)));
        let mut groups: Vec<(u64, Vec<usize>)> = vec![(0, Vec::new()); partitions.min(files.len())];
        for i in order {
            let least = groups
                .iter_mut()
                .min_by_key(|g| g.0)
                .expect("BUG: there is a group");
            least.0 += len(i);
            least.1.push(i);
        }
        let in_order = |mut group: Vec<usize>| {
            group.sort_unstable();
            FileGroup::new(group.into_iter().map(|i| files[i].clone()).collect())
        };
        Ok(groups
            .into_iter()
            .map(|(_, group)| in_order(group))
            .collect())
    }

    /// The predicate that rows of a part must pass for a range of time, and the one that helps to
    /// leave out pages when single sequence numbers are asked for.
    fn predicate(
        &self,
        range: TimeRange,
        seq: (u64, u64),
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let mut terms = Vec::new();
        let mut compare = |column: &str, op: Operator, value: ScalarValue| -> Result<()> {
            terms.push(binary(
                col(column, &self.schema)?,
                op,
                lit(value),
                &self.schema,
            )?);
            Ok(())
        };
        let stamp = |t: i64| ScalarValue::TimestampMicrosecond(Some(t), Some("UTC".into()));
        if range.first > i64::MIN {
            compare(TIME, Operator::GtEq, stamp(range.first))?;
        }
        if range.last < i64::MAX {
            compare(TIME, Operator::LtEq, stamp(range.last))?;
        }
        if seq.0 == seq.1 {
            compare(SEQ, Operator::Eq, ScalarValue::UInt64(Some(seq.0)))?;
        }
        Ok((!terms.is_empty()).then(|| conjunction(terms)))
    }

    fn file(&self, candidate: &Candidate<'_>) -> Result<PartitionedFile> {
        let (part, file) = (candidate.part, candidate.file());
        let path = self.snapshot.data_dir().join(&file.path);
        let meta = ObjectMeta {
            location: location(&path)?,
            // A part never changes, and its name is never used again in its store.
            last_modified: chrono::DateTime::UNIX_EPOCH,
            size: file.len,
            e_tag: Some(format!("{:08x}", file.crc)),
            version: None,
        };
        let rows = match &candidate.covering {
            Some(covering) => Rows::Covering(covering.clone()),
            None => Rows::Part(file.clone()),
        };
        let file = PartitionedFile::new_from_meta(meta).with_extension(rows);
        let statistics = self.statistics_of(part.rows, part.time);
        Ok(match &candidate.rows {
            None => file.with_statistics(Arc::new(statistics)),
            Some(rows) => file
                .with_extension(indexed::selection(rows, part))
                .with_statistics(Arc::new(statistics.to_inexact())),
        })
    }

    /// Exact statistics: rows and the least and greatest time.
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
        looked: &mut Looked,
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
                // Counted now, so that the count of a range stays exact without running the scan.
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
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => self.schema.clone(),
        };
        // The range is dropped where it takes nothing away.
        let range = if chosen.iter().all(|c| bounds.time.covers(c.time)) {
            TimeRange::ALL
        } else {
            bounds.time
        };
        Ok(Some(Arc::new(ChunksExec::new(
            chosen, range, schema, statistics, partitions,
        ))))
    }
}

/// The object store's name of a local file.
fn location(path: &Path) -> Result<ObjectPath> {
    let external = |e: Box<dyn std::error::Error + Send + Sync>| DataFusionError::External(e);
    let absolute = std::path::absolute(path).map_err(|e| external(Box::new(e)))?;
    ObjectPath::from_absolute_path(absolute).map_err(|e| external(Box::new(e)))
}
