//! Plan node that builds documents. It reads its levels itself, in windows of a day to a year, so
//! that no result is ever in memory as a whole.

use std::fmt;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::form::Shape;
use super::read::Documents;
use crate::tables::level::read::{Source, StopOnDrop};

/// Builds documents from levels.
#[derive(Debug)]
pub(crate) struct DocumentExec {
    shape: Shape,
    /// Levels to read, the coarsest first.
    sources: Vec<Source>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DocumentExec {
    pub(super) fn new(shape: Shape, sources: Vec<Source>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(shape.schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self {
            shape,
            sources,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the scans of the levels, the coarsest first.
    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }
}

impl DisplayAs for DocumentExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.shape.form.table();
        write!(f, "DocumentScan: {table}")?;
        self.sources
            .iter()
            .try_for_each(|source| write!(f, "; {source}"))
    }
}

impl ExecutionPlan for DocumentExec {
    fn name(&self) -> &'static str {
        "DocumentScan"
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
            internal_err!("BUG: documents have no children")
        }
    }
    fn execute(
        &self,
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
