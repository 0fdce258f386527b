//! Two plan nodes. One returns the rows of the memtable's chunks. The other, above all sources of
//! a stream, reports in `EXPLAIN` and in the query's statistics what was read.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};
use futures::stream;
use storage::{Chunk, TIME};

use super::dynamic_filters::has_its_columns;
use super::prune::TimeRange;
use crate::plan_node::{NodeKind, PlanNode};
use crate::stats::Count;

/// Rows in one batch from a chunk: the same as DataFusion's own batch size.
const BATCH_ROWS: usize = 8192;

/// Name of the counter of rows read from chunks, or of cells, before any filter.
pub(crate) const ROWS_EXAMINED: &str = "rows_examined";

/// Reads the rows of some chunks, in the requested columns.
#[derive(Debug)]
pub(crate) struct ChunksExec {
    chunks: Vec<Vec<Arc<Chunk>>>,
    range: TimeRange,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
}

impl ChunksExec {
    /// Plans the read of the rows of `chunks` whose time lies in `range`, as `schema`.
    /// `statistics` are exact.
    pub(crate) fn plan(
        chunks: Vec<Arc<Chunk>>,
        range: TimeRange,
        schema: SchemaRef,
        statistics: Statistics,
        partitions: usize,
    ) -> PlanNode<Self> {
        let rows: usize = chunks.iter().map(|c| c.events.num_rows()).sum();
        // Partitions take chunks in turn, so that every partition gets some. Few rows need only
        // one partition.
        let partitions = partitions
            .min(rows.div_ceil(4 * BATCH_ROWS))
            .clamp(1, chunks.len().max(1));
        let mut split: Vec<Vec<Arc<Chunk>>> = vec![Vec::new(); partitions];
        for (i, chunk) in chunks.into_iter().enumerate() {
            split[i % partitions].push(chunk);
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let kind = Self {
            chunks: split,
            range,
            statistics: Arc::new(statistics),
            metrics: ExecutionPlanMetricsSet::new(),
        };
        PlanNode::source(kind, properties)
    }
}

impl NodeKind for ChunksExec {
    const NAME: &'static str = "MemtableExec";

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks: usize = self.chunks.iter().map(Vec::len).sum();
        write!(
            f,
            "MemtableExec: chunks={chunks}, partitions={}",
            self.chunks.len()
        )
    }
    fn execute(
        &self,
        node: &PlanNode<Self>,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = node.schema();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let examined = MetricBuilder::new(&self.metrics).counter(ROWS_EXAMINED, partition);
        let range = self.range;
        let slices = self.chunks[partition]
            .clone()
            .into_iter()
            .flat_map(|chunk| {
                let rows = chunk.events.num_rows();
                (0..rows)
                    .step_by(BATCH_ROWS)
                    .map(move |at| chunk.events.slice(at, BATCH_ROWS.min(rows - at)))
            });
        let out = schema.clone();
        let batches = slices.map(move |slice| {
            let timer = baseline.elapsed_compute().timer();
            examined.add(slice.num_rows());
            let batch = conform(&within(&slice, range)?, &out)?;
            timer.done();
            Ok(batch.record_output(&baseline))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            stream::iter(batches),
        )))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
    fn statistics(
        &self,
        _: Option<&Arc<Statistics>>,
        partition: Option<usize>,
    ) -> Option<Arc<Statistics>> {
        partition.is_none().then(|| self.statistics.clone())
    }
}

/// Returns the rows of `batch` whose time lies in `range`.
fn within(batch: &RecordBatch, range: TimeRange) -> Result<RecordBatch> {
    if range == TimeRange::ALL {
        return Ok(batch.clone());
    }
    let times = times(batch);
    let keep: BooleanArray = times
        .values()
        .iter()
        .map(|t| Some(range.contains(*t)))
        .collect();
    Ok(filter_record_batch(batch, &keep)?)
}

/// Returns the event times of a chunk.
pub(crate) fn times(batch: &RecordBatch) -> &TimestampMicrosecondArray {
    batch
        .column_by_name(TIME)
        .and_then(|c| c.as_any().downcast_ref())
        .expect("BUG: every chunk has a time column")
}

/// Converts `batch` to `schema`: casts columns whose type differs, and adds nulls for missing
/// ones.
pub(crate) fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema
        .fields()
        .iter()
        .map(|field| {
            Ok(match batch.column_by_name(field.name()) {
                Some(column) if column.data_type() == field.data_type() => column.clone(),
                Some(column) => cast(column, field.data_type())?,
                None => new_null_array(field.data_type(), batch.num_rows()),
            })
        })
        .collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        schema.clone(),
        columns,
        &options,
    )?)
}

/// Sources of a stream that are left after pruning by the manifest.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScanStats {
    /// Name of the stream.
    pub(crate) table: String,
    /// Sources, such as `parts of access` and `memtable of access`.
    pub(crate) answered_by: Vec<String>,
    pub(crate) partitions: Count,
    pub(crate) parts: Count,
    /// Rows to read in parts and in the memtable.
    pub(crate) rows: u64,
}

/// Passes its input through, and reports the sources that are left after pruning.
#[derive(Debug)]
pub(crate) struct StreamScanExec(pub(crate) ScanStats);

impl NodeKind for StreamScanExec {
    const NAME: &'static str = "StreamScan";
    const PASSES_ROWS: bool = true;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScanStats {
            table,
            answered_by,
            partitions,
            parts,
            ..
        } = &self.0;
        write!(
            f,
            "StreamScan: {table}, answered_by=[{}], partitions={partitions}, parts={parts}",
            answered_by.join(", ")
        )
    }
    fn passes_filters(filters: &[Arc<dyn PhysicalExpr>]) -> Result<bool> {
        for filter in filters {
            if !has_its_columns(filter)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the statistics of a stream scan; `None` for other plan nodes.
pub(crate) fn looked(plan: &dyn ExecutionPlan) -> Option<&ScanStats> {
    PlanNode::<StreamScanExec>::of(plan).map(|scan| &scan.kind.0)
}

/// Checks whether a plan node reads chunks.
pub(crate) fn is_chunks(plan: &dyn ExecutionPlan) -> bool {
    PlanNode::<ChunksExec>::of(plan).is_some()
}

/// Converts a number of rows to an exact statistic.
pub(crate) fn exact(rows: u64) -> Precision<usize> {
    usize::try_from(rows).map_or(Precision::Absent, Precision::Exact)
}
