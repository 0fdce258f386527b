//! Plan node that reads a rollup level: it merges and finalises sections of tiles and cells of
//! chunks.

use std::fmt;
use std::sync::Arc;

use aggregator::Bucket;
use arrow::compute::SortOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::bucket_ranges;
use super::documents::DocumentExec;
use super::read::{LevelScan, LevelStats, StopOnDrop};
use crate::plan_node::{NodeKind, PlanNode};

/// Rows of one batch of the answer.
const BATCH_ROWS: usize = 8192;

/// Reads a level.
#[derive(Debug)]
pub(crate) struct LevelExec {
    source: LevelScan,
    /// Bucket intervals of each DataFusion partition, read one after the other.
    shares: Vec<Vec<Bucket>>,
}

impl LevelExec {
    /// Plans a read in at most `partitions` partitions. Each returns its rows in the order of
    /// buckets.
    pub(crate) fn plan(source: LevelScan, partitions: usize) -> PlanNode<Self> {
        let shares = bucket_ranges::shares(&source.work, partitions);
        let mut equivalence = EquivalenceProperties::new(source.schema.clone());
        if let Ok(bucket) = col("bucket", &source.schema) {
            let options = SortOptions {
                descending: false,
                nulls_first: false,
            };
            equivalence.add_ordering([PhysicalSortExpr::new(bucket, options)]);
        }
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(shares.len()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        PlanNode::source(Self { source, shares }, properties)
    }
}

impl NodeKind for LevelExec {
    const NAME: &'static str = "RollupScan";

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RollupScan: {}", self.source)
    }
    fn execute(
        &self,
        _: &PlanNode<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.source.metrics, partition);
        // Dropping the result stream stops the thread before it reads the next section.
        let stop = Arc::new(StopOnDrop(Arc::default()));
        let reader = Arc::new(self.source.reader(partition, &context, stop.0.clone()));
        let work = self.source.work.clone();
        let intervals = stream::iter(self.shares[partition].clone());
        let batches = intervals.then(move |interval| {
            let (work, reader, stop) = (work.within(interval), reader.clone(), stop.clone());
            let baseline = baseline.clone();
            async move {
                let elapsed = baseline.elapsed_compute().clone();
                let task = SpawnedTask::spawn_blocking(move || {
                    let _timer = elapsed.timer();
                    reader.read(&work)
                });
                let (batch, memory) = task
                    .await
                    .map_err(|e| DataFusionError::External(Box::new(e)))??;
                baseline.record_output(batch.num_rows());
                let rows = batch.num_rows();
                let slices = (0..rows).step_by(BATCH_ROWS).map(move |at| {
                    // The memory and the stop flag live until the last slice is returned.
                    let _held = (&memory, &stop);
                    Ok(batch.slice(at, BATCH_ROWS.min(rows - at)))
                });
                Ok::<_, DataFusionError>(stream::iter(slices))
            }
        });
        let batches = batches.try_flatten().boxed();
        let schema = self.source.schema.clone();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.source.metrics.clone_inner())
    }
    fn statistics(&self, _: Option<&Arc<Statistics>>, _: Option<usize>) -> Option<Arc<Statistics>> {
        let cells: u64 = self
            .source
            .work
            .files
            .iter()
            .flat_map(|(_, sections)| sections)
            .map(|s| s.cells)
            .sum();
        let mut statistics = Statistics::new_unknown(&self.source.schema);
        statistics.num_rows = usize::try_from(cells).map_or(Precision::Absent, Precision::Inexact);
        Some(Arc::new(statistics))
    }
}

/// Returns the scan counts of each level that a plan node reads; none for other nodes.
pub(crate) fn looked(plan: &dyn ExecutionPlan) -> Vec<LevelStats> {
    if let Some(level) = PlanNode::<LevelExec>::of(plan) {
        vec![level.kind.source.looked()]
    } else if let Some(documents) = PlanNode::<DocumentExec>::of(plan) {
        documents
            .kind
            .sources
            .iter()
            .map(LevelScan::looked)
            .collect()
    } else {
        Vec::new()
    }
}
