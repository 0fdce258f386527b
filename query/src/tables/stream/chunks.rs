//! The plan node of the rows of the memtable's chunks.
//!
//! It leaves rows out that surely fail a filter: texts of chunks are plain ones, and to turn a
//! column into views of texts takes longer than to compare it with a constant.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Int16Array, Int64Array, RecordBatch, RecordBatchOptions, Scalar,
    StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{and, cast, filter_record_batch, or};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};
use futures::stream;
use storage::{Chunk, IndexValue, TIME};

use super::exec::ROWS_EXAMINED;
use super::prune::TimeRange;
use crate::plan_node::{NodeKind, PlanNode};

/// Rows in one batch from a chunk: the same as DataFusion's own batch size.
const BATCH_ROWS: usize = 8192;

/// Reads the rows of some chunks, in the requested columns.
#[derive(Debug)]
pub(crate) struct ChunksExec {
    chunks: Vec<Vec<Arc<Chunk>>>,
    wanted: WantedRows,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
}

/// The rows of chunks that a scan returns.
#[derive(Debug, Clone)]
pub(crate) struct WantedRows {
    /// The range of their times.
    pub(crate) range: TimeRange,
    /// Columns with a superset of their values. Rows with others may be returned, too.
    pub(crate) values: Vec<(String, Vec<IndexValue>)>,
}

impl ChunksExec {
    /// Plans the read of the wanted rows of `chunks`, as `schema`.
    pub(crate) fn plan(
        chunks: Vec<Arc<Chunk>>,
        wanted: WantedRows,
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
            wanted,
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
        let wanted = self.wanted.clone();
        let chunks = self.chunks[partition].iter();
        let chunks = chunks.map(|chunk| wanted.columns(&chunk.events, &schema));
        let slices = chunks
            .collect::<Result<Vec<RecordBatch>>>()?
            .into_iter()
            .flat_map(|events| {
                let rows = events.num_rows();
                (0..rows)
                    .step_by(BATCH_ROWS)
                    .map(move |at| events.slice(at, BATCH_ROWS.min(rows - at)))
            });
        let out = schema.clone();
        let batches = slices.map(move |slice| {
            let timer = baseline.elapsed_compute().timer();
            examined.add(slice.num_rows());
            let batch = conform(&wanted.of(&slice)?, &out)?;
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

impl WantedRows {
    /// Returns the columns of a chunk that are needed for rows with `schema`.
    fn columns(&self, chunk: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let is_read = |name: &String| {
            schema.fields().find(name).is_some()
                || (name == TIME && self.range != TimeRange::ALL)
                || self.values.iter().any(|(column, _)| column == name)
        };
        let stored = chunk.schema();
        let columns = stored.fields().iter().enumerate();
        let read = columns.filter(|(_, field)| is_read(field.name()));
        let read: Vec<usize> = read.map(|(nth, _)| nth).collect();
        Ok(chunk.project(&read)?)
    }

    /// Returns the wanted rows of a batch of a chunk.
    fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut wanted: Option<BooleanArray> = None;
        let mut narrow = |passed: BooleanArray| -> Result<()> {
            wanted = Some(match wanted.take() {
                Some(wanted) => and(&wanted, &passed)?,
                None => passed,
            });
            Ok(())
        };
        if self.range != TimeRange::ALL {
            let passed = times(batch).values().iter();
            narrow(passed.map(|t| Some(self.range.contains(*t))).collect())?;
        }
        for (column, values) in &self.values {
            if let Some(column) = batch.column_by_name(column)
                && let Some(passed) = having(column, values)?
            {
                narrow(passed)?;
            }
        }
        match wanted {
            Some(wanted) => Ok(filter_record_batch(batch, &wanted)?),
            None => Ok(batch.clone()),
        }
    }
}

/// Returns which rows of a column have one of these values; `None` where the column stores them as
/// another type.
fn having(column: &ArrayRef, values: &[IndexValue]) -> Result<Option<BooleanArray>> {
    let mut all = BooleanArray::from(vec![false; column.len()]);
    for value in values {
        let value: ArrayRef = match (value, column.data_type()) {
            (IndexValue::Text(text), DataType::Utf8) => Arc::new(StringArray::from(vec![&**text])),
            (IndexValue::Integer(n), DataType::Int64) => Arc::new(Int64Array::from(vec![*n])),
            (IndexValue::Integer(n), DataType::Int16) => match i16::try_from(*n) {
                Ok(n) => Arc::new(Int16Array::from(vec![n])),
                Err(_) => continue,
            },
            _ => return Ok(None),
        };
        all = or(&all, &eq(column, &Scalar::new(value))?)?;
    }
    Ok(Some(all))
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

/// Checks whether a plan node reads chunks.
pub(crate) fn is_chunks(plan: &dyn ExecutionPlan) -> bool {
    PlanNode::<ChunksExec>::of(plan).is_some()
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Float64Array};
    use arrow::datatypes::Int64Type;
    use arrow::util::display::array_value_to_string;

    use super::*;
    use crate::tests::support::Random;

    fn chunk(random: &mut Random) -> RecordBatch {
        let rows = random.below(40);
        let mut few = || (random.below(5) > 0).then(|| random.below(4) as i64);
        let numbers: Vec<Option<i64>> = (0..rows).map(|_| few()).collect();
        let texts = numbers.iter().map(|n| n.map(|n| n.to_string()));
        let column = |array: ArrayRef| array;
        RecordBatch::try_from_iter_with_nullable([
            (
                "row",
                column(Arc::new(Int64Array::from_iter(0..rows as i64))),
                true,
            ),
            ("text", Arc::new(texts.collect::<StringArray>()), true),
            (
                "small",
                Arc::new(
                    numbers
                        .iter()
                        .map(|n| n.map(|n| n as i16))
                        .collect::<Int16Array>(),
                ),
                true,
            ),
            (
                "large",
                Arc::new(numbers.iter().copied().collect::<Int64Array>()),
                true,
            ),
            (
                "float",
                Arc::new(
                    numbers
                        .iter()
                        .map(|n| n.map(|n| n as f64))
                        .collect::<Float64Array>(),
                ),
                true,
            ),
            (
                TIME,
                Arc::new(
                    (0..rows as i64)
                        .map(Some)
                        .collect::<TimestampMicrosecondArray>()
                        .with_timezone("UTC"),
                ),
                true,
            ),
        ])
        .expect("columns of one length")
    }

    /// No row is left out that has one of the values, as a text or as a number; those with others
    /// are left out where the column stores the values' type.
    #[test]
    fn rows_that_may_pass_are_returned() {
        let mut random = Random(7);
        for _ in 0..2000 {
            let chunk = chunk(&mut random);
            let mut values = Vec::new();
            for _ in 0..random.below(3) {
                let column = ["text", "small", "large", "float", "absent"][random.below(5)];
                let is_text = random.below(2) == 0;
                let value = |n: usize| match is_text {
                    true => IndexValue::Text(n.to_string()),
                    false => IndexValue::Integer([n as i64, 1 << 40][usize::from(n > 3)]),
                };
                let some = (0..random.below(4))
                    .map(|_| value(random.below(5)))
                    .collect();
                values.push((column.to_owned(), some));
            }
            let range = match random.below(2) {
                0 => TimeRange::ALL,
                _ => TimeRange {
                    first: random.below(20) as i64,
                    last: random.below(40) as i64,
                },
            };
            let wanted = WantedRows { range, values };
            let is_stored = |column: &str, value: &IndexValue| match value {
                IndexValue::Text(_) => column == "text",
                IndexValue::Integer(_) => column == "small" || column == "large",
            };
            let may_pass = |row: usize, (column, values): &(String, Vec<IndexValue>)| {
                let Some(array) = chunk.column_by_name(column) else {
                    return true;
                };
                let has = array_value_to_string(array, row).expect("a text");
                let is_it = |value: &IndexValue| match value {
                    IndexValue::Text(text) => *text == has,
                    IndexValue::Integer(n) => n.to_string() == has,
                };
                values.iter().any(|v| !is_stored(column, v) || is_it(v))
            };
            let read = wanted.of(&chunk).expect("rows");
            let read: Vec<i64> = read["row"].as_primitive::<Int64Type>().values().to_vec();
            let expected = (0..chunk.num_rows()).filter(|row| {
                range.contains(*row as i64) && wanted.values.iter().all(|v| may_pass(*row, v))
            });
            let expected: Vec<i64> = expected.map(|row| row as i64).collect();
            assert_eq!(read, expected, "{wanted:?} of {chunk:?}");
        }
    }
}
