//! Plan node that builds documents. It reads its levels itself, in windows of a day to a year, so
//! that no result is ever in memory as a whole.

use std::fmt;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::form::Shape;
use super::read::Documents;
use crate::plan_node::{NodeKind, PlanNode};
use crate::tables::level::read::{LevelScan, StopOnDrop};

/// Builds documents from levels.
#[derive(Debug)]
pub(crate) struct DocumentExec {
    shape: Shape,
    /// Levels to read, the coarsest first.
    pub(crate) sources: Vec<LevelScan>,
    metrics: ExecutionPlanMetricsSet,
}

impl DocumentExec {
    pub(super) fn plan(shape: Shape, sources: Vec<LevelScan>) -> PlanNode<Self> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(shape.schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let kind = Self {
            shape,
            sources,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        PlanNode::source(kind, properties)
    }
}

impl NodeKind for DocumentExec {
    const NAME: &'static str = "DocumentScan";

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.shape.form.table();
        write!(f, "DocumentScan: {table}")?;
        self.sources
            .iter()
            .try_for_each(|source| write!(f, "; {source}"))
    }
    fn execute(
        &self,
        _: &PlanNode<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        // Dropping the result stream stops the thread before it reads the next section.
        let stop = StopOnDrop(Arc::default());
        let levels = self.sources.iter().map(|source| {
            let reader = source.reader(partition, &context, stop.0.clone());
            (source.work.clone(), reader)
        });
        let memory = MemoryConsumer::new(self.shape.form.table()).register(context.memory_pool());
        let documents = Documents::new(self.shape.clone(), levels.collect(), memory)?;
        let elapsed = baseline.elapsed_compute().clone();
        let batches = stream::try_unfold(documents, move |mut documents| {
            let _held = &stop;
            let elapsed = elapsed.clone();
            let task = SpawnedTask::spawn_blocking(move || {
                let _timer = elapsed.timer();
                let batch = documents.next_batch()?;
                Ok::<_, DataFusionError>(batch.map(|batch| (batch, documents)))
            });
            async {
                task.await
                    .map_err(|e| DataFusionError::External(Box::new(e)))?
            }
        });
        let batches = batches.inspect_ok(move |batch| {
            baseline.record_output(batch.num_rows());
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.shape.schema.clone(),
            batches.boxed(),
        )))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
