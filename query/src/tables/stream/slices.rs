//! A slice consists of the rows that have one of few values in the column by which a file is
//! sorted. These rows lie together, in few pages that the page index names. So the pages are
//! looked up while the query is planned, and only they are read. A scan would open each part,
//! evaluate which pages it can skip, and decompress the dictionaries of a whole day for ten rows.
//!
//! # Invariants
//! * A slice returns every wanted row of a file once, and no other row. Pages that the page index
//!   excludes hold no wanted row, and every row that is read is compared with the values and the
//!   time range.
//! * Slices of many rows are left to scans, which split a part among threads, and skip pages by
//!   filters on other columns.

mod dictionaries;
mod fetched;
mod places;
mod rows;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use parquet::file::metadata::ParquetMetaData;
use tokio::task::consume_budget;

use super::exec::ROWS_EXAMINED;
use super::read::PartReaders;
use crate::plan_node::{NodeKind, PlanNode};
pub(crate) use dictionaries::Dictionaries;
pub(super) use places::SliceCondition;
use places::{GroupRows, places};
use rows::Slice;

/// Largest number of rows that slices of one query read; beyond it parts are scanned.
const ROWS_MAX: u64 = 1 << 18;

/// Names of a slice's counters. Pairs count all items and those that were read.
pub(crate) const ROW_GROUPS: [&str; 2] = ["row_groups", "row_groups_examined"];
pub(crate) const PAGES: [&str; 2] = ["pages", "pages_examined"];
pub(crate) const FILES: &str = "files_processed";

/// A file, and the places where wanted rows may lie.
#[derive(Debug)]
struct File {
    file: PartitionedFile,
    footer: Arc<ParquetMetaData>,
    wanted: SliceCondition,
    places: Vec<GroupRows>,
}

/// Slices of files.
#[derive(Debug)]
pub(super) struct Slices {
    files: Vec<File>,
    /// Upper bound of the number of rows to read.
    pub(super) rows: u64,
    metrics: ExecutionPlanMetricsSet,
}

impl Slices {
    /// Looks up the places where wanted rows may lie. Returns `None` if there are too many rows,
    /// or if a file has no page index for the columns.
    pub(super) async fn find(
        readers: &PartReaders,
        files: Vec<(PartitionedFile, SliceCondition)>,
    ) -> Result<Option<Self>> {
        let metrics = ExecutionPlanMetricsSet::new();
        let mut slices = Vec::new();
        let mut rows = 0;
        for (file, wanted) in files {
            // A cancelled query stops between two footers.
            consume_budget().await;
            let footer = readers.open(0, &file, &metrics).footer().await?;
            let Some(places) = places(&footer, &wanted) else {
                return Ok(None);
            };
            rows += places.iter().map(GroupRows::row_count).sum::<u64>();
            if rows > ROWS_MAX {
                return Ok(None);
            }
            slices.push(File {
                file,
                footer,
                wanted,
                places,
            });
        }
        Ok(Some(Self {
            files: slices,
            rows,
            metrics,
        }))
    }
}

/// Reads slices, each file by one thread.
#[derive(Debug)]
pub(crate) struct SliceExec {
    files: Arc<Vec<File>>,
    /// Indexes of the files that each partition reads.
    shares: Vec<Vec<usize>>,
    readers: Arc<PartReaders>,
    /// Schema of the stored columns.
    stored: SchemaRef,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
}

impl SliceExec {
    /// Plans the read of slices as `schema`, whose columns are some of `stored`.
    pub(super) fn plan(
        slices: Slices,
        readers: PartReaders,
        (stored, schema): (SchemaRef, SchemaRef),
        (statistics, partitions): (Statistics, usize),
    ) -> PlanNode<Self> {
        let partitions = partitions.min(slices.files.len()).max(1);
        let mut shares = vec![Vec::new(); partitions];
        for nth in 0..slices.files.len() {
            shares[nth % partitions].push(nth);
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let kind = Self {
            files: Arc::new(slices.files),
            shares,
            readers: Arc::new(readers),
            stored,
            statistics: Arc::new(statistics),
            metrics: slices.metrics,
        };
        PlanNode::source(kind, properties)
    }

    /// Returns the upper bound of the number of rows to read.
    pub(super) fn rows(&self) -> u64 {
        let places = self.files.iter().flat_map(|file| &file.places);
        places.map(GroupRows::row_count).sum()
    }
}

impl NodeKind for SliceExec {
    const NAME: &'static str = "SliceExec";

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, rows) = (self.files.len(), self.rows());
        write!(f, "SliceExec: files={files}, rows={rows}")?;
        match self.files.first() {
            Some(file) => write!(f, ", {}", file.wanted),
            None => Ok(()),
        }
    }
    fn execute(
        &self,
        node: &PlanNode<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = node.schema();
        let reading = Arc::new(Reading {
            files: Arc::clone(&self.files),
            readers: Arc::clone(&self.readers),
            stored: Arc::clone(&self.stored),
            schema: Arc::clone(&schema),
            batch_rows: context.session_config().batch_size(),
            counters: Counters::new(&self.metrics, partition),
            metrics: self.metrics.clone(),
            partition,
        });
        let places: Vec<(usize, usize)> = self.shares[partition]
            .iter()
            .flat_map(|file| (0..self.files[*file].places.len()).map(|place| (*file, place)))
            .collect();
        for file in &self.shares[partition] {
            reading.counters.opened(&self.files[*file]);
        }
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let batches = stream::iter(places)
            .then(move |place| Arc::clone(&reading).read(place))
            .map_ok(stream::iter)
            .try_flatten()
            .map(move |batch| batch.record_output(&baseline));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
    fn evaluated(
        &self,
        filters: ChildPushdownResult,
    ) -> FilterPushdownPropagation<Arc<dyn ExecutionPlan>> {
        let files = self.files.iter();
        let evaluated = filters.parent_filters.iter().map(|above| {
            match files.clone().all(|file| file.wanted.ensures(&above.filter)) {
                true => PushedDown::Yes,
                false => PushedDown::No,
            }
        });
        FilterPushdownPropagation::with_parent_pushdown_result(evaluated.collect())
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
    fn statistics(
        &self,
        _: Option<&Arc<Statistics>>,
        partition: Option<usize>,
    ) -> Option<Arc<Statistics>> {
        partition.is_none().then(|| Arc::clone(&self.statistics))
    }
}

/// State that a partition needs for its reads.
struct Reading {
    files: Arc<Vec<File>>,
    readers: Arc<PartReaders>,
    stored: SchemaRef,
    schema: SchemaRef,
    batch_rows: usize,
    counters: Counters,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

impl Reading {
    async fn read(self: Arc<Self>, (file, nth): (usize, usize)) -> Result<rows::Batches> {
        let file = &self.files[file];
        let place = &file.places[nth];
        let mut reader = self.readers.open(self.partition, &file.file, &self.metrics);
        self.counters.examined(place, nth == 0);
        let slice = Slice {
            file: &file.file.object_meta,
            footer: &file.footer,
            wanted: &file.wanted,
            place,
            dictionaries: &self.readers.dictionaries,
        };
        slice
            .read(&mut reader, (&self.stored, &self.schema), self.batch_rows)
            .await
    }
}

struct Counters {
    files: Count,
    row_groups: [Count; 2],
    pages: [Count; 2],
    rows: Count,
}

impl Counters {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            files: counter(FILES),
            row_groups: ROW_GROUPS.map(counter),
            pages: PAGES.map(counter),
            rows: counter(ROWS_EXAMINED),
        }
    }

    /// Counts a file before it is read. A file without places counts as processed, since nothing
    /// of it will be read.
    fn opened(&self, file: &File) {
        self.files.add(usize::from(file.places.is_empty()));
        self.row_groups[0].add(file.footer.num_row_groups());
    }

    fn examined(&self, place: &GroupRows, is_first: bool) {
        self.files.add(usize::from(is_first));
        let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        self.row_groups[1].add(1);
        self.pages[0].add(number(place.pages.total));
        self.pages[1].add(number(place.pages.examined));
        self.rows.add(place.rows.row_count());
    }
}
