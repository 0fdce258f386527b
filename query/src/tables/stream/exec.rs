//! Two plan nodes. One returns the rows of the memtable's chunks. The other, above all sources of
//! a stream, reports in `EXPLAIN` and in the query's statistics what was read.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, CardinalityEffect, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::stream;
use storage::{Chunk, TIME};

use super::dynamic_filters::has_its_columns;
use super::prune::TimeRange;
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
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ChunksExec {
    /// Plans the read of the rows of `chunks` whose time lies in `range`, as `schema`.
    /// `statistics` are exact.
    pub(crate) fn new(
        chunks: Vec<Arc<Chunk>>,
        range: TimeRange,
        schema: SchemaRef,
        statistics: Statistics,
        partitions: usize,
    ) -> Self {
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
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self {
            chunks: split,
            range,
            statistics: Arc::new(statistics),
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for ChunksExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks: usize = self.chunks.iter().map(Vec::len).sum();
        write!(
            f,
            "MemtableExec: chunks={chunks}, partitions={}",
            self.chunks.len()
        )
    }
}

impl ExecutionPlan for ChunksExec {
    fn name(&self) -> &'static str {
        "MemtableExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            Ok(self)
        } else {
            internal_err!("BUG: the memtable has no children")
        }
    }
    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.properties.eq_properties.schema().clone();
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
    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            Some(_) => Arc::new(Statistics::new_unknown(
                self.properties.eq_properties.schema(),
            )),
            None => self.statistics.clone(),
        })
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
pub(crate) struct StreamScanExec {
    input: Arc<dyn ExecutionPlan>,
    pub(crate) looked: ScanStats,
}

impl StreamScanExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, looked: ScanStats) -> Self {
        Self { input, looked }
    }
}

impl DisplayAs for StreamScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScanStats {
            table,
            answered_by,
            partitions,
            parts,
            ..
        } = &self.looked;
        write!(
            f,
            "StreamScan: {table}, answered_by=[{}], partitions={partitions}, parts={parts}",
            answered_by.join(", ")
        )
    }
}

impl ExecutionPlan for StreamScanExec {
    fn name(&self) -> &'static str {
        "StreamScan"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => {
                Ok(Arc::new(Self::new(input, self.looked.clone())))
            }
            _ => internal_err!("BUG: a stream scan has one input"),
        }
    }
    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }
    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(inputs[0].clone())
    }
    fn supports_limit_pushdown(&self) -> bool {
        true
    }
    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let mut all = true;
        for filter in &parent_filters {
            all &= has_its_columns(filter)?;
        }
        let filters = match all {
            true => ChildFilterDescription::from_child(&parent_filters, &self.input)?,
            false => ChildFilterDescription::all_unsupported(&parent_filters),
        };
        Ok(FilterDescription::new().with_child(filters))
    }
}

/// Returns the statistics of a stream scan; `None` for other plan nodes.
pub(crate) fn looked(plan: &dyn ExecutionPlan) -> Option<&ScanStats> {
    (plan as &dyn Any)
        .downcast_ref::<StreamScanExec>()
        .map(|scan| &scan.looked)
}

/// Checks whether a plan node reads chunks.
pub(crate) fn is_chunks(plan: &dyn ExecutionPlan) -> bool {
    (plan as &dyn Any).is::<ChunksExec>()
}

/// Converts a number of rows to an exact statistic.
pub(crate) fn exact(rows: u64) -> Precision<usize> {
    usize::try_from(rows).map_or(Precision::Absent, Precision::Exact)
}
