//! The plan node that reads a level: sections of tiles and cells of chunks, merged and finalised.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aggregator::{Cells, Definition, Filter, Level, Projection, chunk_cells, finalise, merge};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count as Counter, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use storage::{FileRef, Section, Snapshot};

use super::cache::{TileCache, corrupt};
use crate::error::Error;
use crate::figures::Count;
use crate::stream::exec::ROWS_EXAMINED;

/// Rows of one batch of the answer.
const BATCH_ROWS: usize = 8192;
const BYTES_READ: &str = "bytes_read";

/// What is to be read: everything that a blocking thread needs.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The generation under which chunks keep their cells.
    pub(crate) rollup: u32,
    pub(crate) definition: Arc<Definition>,
    pub(crate) level: Level,
    pub(crate) projection: Projection,
    pub(crate) filter: Filter,
    /// Tile files with the sections to read.
    pub(crate) files: Vec<(FileRef, Vec<Section>)>,
    pub(crate) cache: Arc<TileCache>,
}

/// Reads a level.
#[derive(Debug)]
pub(crate) struct LevelExec {
    work: Work,
    partitions: Count,
    parts: Count,
    sections: Count,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LevelExec {
    pub(crate) fn new(
        work: Work,
        schema: SchemaRef,
        partitions: Count,
        parts: Count,
        sections: Count,
    ) -> Self {
        let mut equivalence = EquivalenceProperties::new(schema.clone());
        if let Ok(bucket) = col("bucket", &schema) {
            let options = SortOptions {
                descending: false,
                nulls_first: false,
            };
            equivalence.add_ordering([PhysicalSortExpr::new(bucket, options)]);
        }
        let properties = Arc::new(PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self {
            work,
            partitions,
            parts,
            sections,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn name_of_table(&self) -> String {
        format!(
            "{}.{}",
            self.work.definition.name(),
            self.work.level.table()
        )
    }
}

impl DisplayAs for LevelExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            partitions,
            parts,
            sections,
            ..
        } = self;
        write!(
            f,
            "RollupScan: rollup {}, partitions={partitions}, tiles={parts}, sections={sections}",
            self.name_of_table()
        )
    }
}

impl ExecutionPlan for LevelExec {
    fn name(&self) -> &'static str {
        "RollupScan"
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
            internal_err!("BUG: a level has no children")
        }
    }
    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.properties.eq_properties.schema().clone();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let reading = Reading {
            work: self.work.clone(),
            schema: schema.clone(),
            examined: MetricBuilder::new(&self.metrics).counter(ROWS_EXAMINED, partition),
            bytes: MetricBuilder::new(&self.metrics).counter(BYTES_READ, partition),
            memory: MemoryConsumer::new(self.name_of_table()).register(context.memory_pool()),
            stop: Arc::default(),
        };
        // Dropping the answer stops the thread before its next section.
        let stop = StopOnDrop(reading.stop.clone());
        let batches = async move {
            let stop = stop;
            let elapsed = baseline.elapsed_compute().clone();
            let task = SpawnedTask::spawn_blocking(move || {
                let _timer = elapsed.timer();
                reading.run()
            });
            let (batch, memory) = task
                .await
                .map_err(|e| DataFusionError::External(Box::new(e)))??;
            baseline.record_output(batch.num_rows());
            let rows = batch.num_rows();
            let slices = (0..rows).step_by(BATCH_ROWS).map(move |at| {
                // Held until the last slice is out.
                let _held = (&memory, &stop);
                Ok(batch.slice(at, BATCH_ROWS.min(rows - at)))
            });
            Ok::<_, DataFusionError>(stream::iter(slices))
        };
        let batches = stream::once(batches).try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let cells: u64 = self
            .work
            .files
            .iter()
            .flat_map(|(_, sections)| sections)
            .map(|s| s.cells)
            .sum();
        let mut statistics = Statistics::new_unknown(self.properties.eq_properties.schema());
        statistics.num_rows = usize::try_from(cells).map_or(Precision::Absent, Precision::Inexact);
        Ok(Arc::new(statistics))
    }
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One run of the work, on a blocking thread.
struct Reading {
    work: Work,
    schema: SchemaRef,
    examined: Counter,
    bytes: Counter,
    memory: MemoryReservation,
    stop: Arc<AtomicBool>,
}

impl Reading {
    fn run(mut self) -> Result<(RecordBatch, MemoryReservation)> {
        let cells = self.cells()?;
        let Work {
            definition, level, ..
        } = &self.work;
        let inputs: Vec<&Cells> = cells.iter().collect();
        let merged = merge(definition, *level, &inputs);
        let bytes = merged.memory_bytes();
        drop(cells);
        self.memory.try_resize(bytes)?;
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|f| f.name().as_str())
            .collect();
        let batch = if names.is_empty() {
            let options = RecordBatchOptions::new().with_row_count(Some(merged.len()));
            RecordBatch::try_new_with_options(self.schema.clone(), Vec::new(), &options)?
        } else {
            let batch = finalise(definition, *level, &merged, &names).map_err(external)?;
            RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec())?
        };
        drop(merged);
        self.memory.try_resize(batch.get_array_memory_size())?;
        Ok((batch, self.memory))
    }

    /// The cells of tiles and of chunks that pass the filter.
    fn cells(&mut self) -> Result<Vec<Cells>> {
        let work = &self.work;
        let mut cells = vec![Cells::empty(&work.definition, work.level, &work.projection)];
        let mut keep = |found: Cells, memory: &mut MemoryReservation| -> Result<()> {
            self.examined.add(found.len());
            memory.try_grow(found.memory_bytes())?;
            cells.push(found);
            if self.stop.load(Ordering::Relaxed) {
                return Err(DataFusionError::Execution(
                    "the reader of the answer has gone".into(),
                ));
            }
            Ok(())
        };
        for (file, sections) in &work.files {
            let (tile, read) = work.cache.open(&work.snapshot, file, &work.definition)?;
            // What is cached costs the sections alone.
            let bytes = if read > 0 {
                read
            } else {
                sections.iter().map(|s| s.len).sum()
            };
            self.bytes.add(usize::try_from(bytes).unwrap_or(usize::MAX));
            for section in sections {
                let found = tile
                    .read(section, &work.projection, &work.filter)
                    .map_err(|e| DataFusionError::from(corrupt(&work.snapshot, file, &e)))?;
                keep(found, &mut self.memory)?;
            }
        }
        for set in chunk_cells(&work.definition, work.rollup, &work.snapshot) {
            let set = set.map_err(external)?;
            if let Some(found) = set.level(work.level) {
                keep(
                    found.filter(&work.filter, &work.projection),
                    &mut self.memory,
                )?;
            }
        }
        Ok(cells)
    }
}

fn external(error: aggregator::Error) -> DataFusionError {
    match error {
        aggregator::Error::Invalid { what } => Error::invalid(what).into(),
        aggregator::Error::Storage(error) => Error::Storage(Arc::new(error)).into(),
        other => DataFusionError::External(Box::new(other)),
    }
}

/// What a level scan looked at.
pub(crate) struct Looked {
    pub(crate) answered_by: String,
    pub(crate) partitions: Count,
    pub(crate) parts: Count,
    pub(crate) sections: Count,
    pub(crate) cells: u64,
    pub(crate) bytes: u64,
}

/// The figures of a plan node that reads a level, `None` for others.
pub(crate) fn looked(plan: &dyn ExecutionPlan) -> Option<Looked> {
    let level = (plan as &dyn Any).downcast_ref::<LevelExec>()?;
    let metrics = level.metrics.clone_inner();
    let sum = |name: &str| {
        metrics
            .sum(|m| m.value().name() == name)
            .map_or(0, |v| v.as_usize() as u64)
    };
    Some(Looked {
        answered_by: format!("rollup {}", level.name_of_table()),
        partitions: level.partitions,
        parts: level.parts,
        sections: level.sections,
        cells: sum(ROWS_EXAMINED),
        bytes: sum(BYTES_READ),
    })
}
