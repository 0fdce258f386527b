//! Reads a level: the input of a scan, its reader, and the counts of what the scan has read.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aggregator::{
    Bucket, Cells, Definition, Filter, Grain, Level, Projection, TooLarge, chunk_cells,
    finalise_by_bucket, merge_to,
};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::metrics::{
    Count as Counter, ExecutionPlanMetricsSet, MetricBuilder,
};
use storage::{Chunk, FileRef, Section, Snapshot};

use super::cache::{TileCache, corrupt};
use crate::error::Error;
use crate::stats::Count;
use crate::tables::sharded::PeerCells;
use crate::tables::stream::exec::ROWS_EXAMINED;

const BYTES_READ: &str = "bytes_read";

/// Input of a scan: everything that a blocking thread needs.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Generation of the rollup. Chunks keep their cells under it.
    pub(crate) rollup: u32,
    pub(crate) definition: Arc<Definition>,
    pub(crate) level: Level,
    pub(crate) projection: Projection,
    pub(crate) filter: Filter,
    /// Columns that distinguish rows; cells that agree in them are merged.
    pub(crate) grain: Grain,
    /// Treatment of a sum beyond 64 bits.
    pub(crate) too_large: TooLarge,
    /// Start of the first bucket that retention has left in the level, microseconds since 1970.
    pub(crate) floor_us: i64,
    /// Tile files with the sections to read.
    pub(crate) files: Vec<(FileRef, Vec<Section>)>,
    pub(crate) cache: Arc<TileCache>,
    /// The cells of peers.
    pub(crate) peers: Arc<PeerCells>,
}

impl Work {
    /// Restricts the scan to the buckets of an interval.
    pub(crate) fn within(&self, interval: Bucket) -> Self {
        let mut part = Self {
            files: Vec::new(),
            ..self.clone()
        };
        part.filter.from_us = self.filter.from_us.max(interval.start_us);
        part.filter.to_us = self.filter.to_us.min(interval.end_us);
        for (file, sections) in &self.files {
            let wanted: Vec<Section> = sections
                .iter()
                .filter(|section| meets(section, &part.filter))
                .cloned()
                .collect();
            if !wanted.is_empty() {
                part.files.push((file.clone(), wanted));
            }
        }
        part
    }

    /// Reads the starts of the buckets that have a cell which passes the filter.
    pub(crate) fn buckets(&self) -> Result<BTreeSet<i64>> {
        let mut starts = BTreeSet::new();
        for (file, sections) in &self.files {
            let (tile, _) = self.cache.open(&self.snapshot, file, &self.definition)?;
            for section in sections {
                let found = tile
                    .read(section, &self.projection, &self.filter)
                    .map_err(|e| DataFusionError::from(corrupt(&self.snapshot, file, &e)))?;
                starts.extend(found.buckets());
            }
        }
        for found in self.beyond_tiles() {
            starts.extend(found?.buckets());
        }
        Ok(starts)
    }

    /// Reads the cells that pass the filter, one item per section and chunk.
    pub(crate) fn cells(&self) -> Result<Vec<Cells>> {
        let mut cells = Vec::new();
        for (file, sections) in &self.files {
            let (tile, _) = self.cache.open(&self.snapshot, file, &self.definition)?;
            for section in sections {
                let found = tile.read(section, &self.projection, &self.filter);
                cells.push(found.map_err(|e| corrupt(&self.snapshot, file, &e))?);
            }
        }
        for found in self.beyond_tiles() {
            cells.push(found?);
        }
        Ok(cells)
    }

    /// Returns the cells that pass the filter and are in no tile of this store: those of the
    /// memtable's chunks, and those of peers.
    pub(crate) fn beyond_tiles(&self) -> impl Iterator<Item = Result<Cells>> {
        let (of_peers, failed) = match self.peers.read() {
            Ok(cells) => (cells, None),
            Err(error) => (&[][..], Some(Err(error))),
        };
        let of_peers = of_peers.iter();
        let of_peers = of_peers.map(|cells| Ok(cells.filter(&self.filter, &self.projection)));
        failed.into_iter().chain(self.chunks()).chain(of_peers)
    }

    /// Returns the cells of the memtable's chunks that pass the filter, one item per chunk.
    fn chunks(&self) -> impl Iterator<Item = Result<Cells>> {
        let chunks = self.snapshot.chunks(self.definition.stream().as_str());
        chunk_cells(&self.definition, self.rollup, &self.snapshot)
            .zip(chunks)
            .filter(|(_, chunk)| self.may_hold(chunk))
            .filter_map(|(made, _)| match made {
                Ok(set) => {
                    let found = set.level(self.level)?;
                    Some(Ok(found.filter(&self.filter, &self.projection)))
                }
                Err(error) => Some(Err(external(error))),
            })
    }

    /// Checks whether a chunk may hold an event of a requested bucket.
    fn may_hold(&self, chunk: &Chunk) -> bool {
        let (first, last) = chunk.time;
        let first_bucket = self.definition.calendar().bucket(self.level, first);
        self.filter.from_us <= last && first_bucket.start_us < self.filter.to_us
    }
}

/// Checks whether a section may hold a requested bucket.
pub(crate) fn meets(section: &Section, filter: &Filter) -> bool {
    section.bucket_max_us >= filter.from_us && section.bucket_min_us < filter.to_us
}

/// Scan of one level: its input, the counts after pruning, and the metrics of the read.
#[derive(Debug)]
pub(crate) struct LevelScan {
    pub(crate) work: Work,
    /// Columns to read.
    pub(crate) schema: SchemaRef,
    pub(crate) partitions: Count,
    pub(crate) parts: Count,
    pub(crate) sections: Count,
    pub(crate) metrics: ExecutionPlanMetricsSet,
}

impl LevelScan {
    /// Returns the qualified name of the table, such as `stats.hourly`.
    pub(crate) fn table(&self) -> String {
        let Work {
            definition, level, ..
        } = &self.work;
        format!("{}.{}", definition.name(), level.table())
    }

    /// Returns a reader that stops soon after `stop` is set.
    pub(crate) fn reader(
        &self,
        partition: usize,
        context: &TaskContext,
        stop: Arc<AtomicBool>,
    ) -> Reader {
        Reader {
            schema: self.schema.clone(),
            examined: MetricBuilder::new(&self.metrics).counter(ROWS_EXAMINED, partition),
            bytes: MetricBuilder::new(&self.metrics).counter(BYTES_READ, partition),
            memory: MemoryConsumer::new(self.table()).register(context.memory_pool()),
            stop,
        }
    }

    /// Returns the counts of the scan so far.
    pub(crate) fn looked(&self) -> LevelStats {
        let metrics = self.metrics.clone_inner();
        let sum = |name: &str| {
            metrics
                .sum(|m| m.value().name() == name)
                .map_or(0, |v| v.as_usize() as u64)
        };
        LevelStats {
            answered_by: format!("rollup {}", self.table()),
            peers: self.work.peers.names().map(str::to_owned).collect(),
            partitions: self.partitions,
            parts: self.parts,
            sections: self.sections,
            cells: sum(ROWS_EXAMINED),
            bytes: sum(BYTES_READ),
        }
    }
}

impl fmt::Display for LevelScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            partitions,
            parts,
            sections,
            ..
        } = self;
        let table = self.table();
        write!(
            f,
            "rollup {table}, partitions={partitions}, tiles={parts}, sections={sections}"
        )
    }
}

/// Counts of the scan of one level: of all items and of those that were read.
pub(crate) struct LevelStats {
    pub(crate) answered_by: String,
    /// The addresses of the peers that answered, too.
    pub(crate) peers: Vec<String>,
    pub(crate) partitions: Count,
    pub(crate) parts: Count,
    pub(crate) sections: Count,
    pub(crate) cells: u64,
    pub(crate) bytes: u64,
}

/// Stops a blocking thread when the client drops the result stream.
pub(crate) struct StopOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads and merges cells on a blocking thread.
#[derive(Debug)]
pub(crate) struct Reader {
    schema: SchemaRef,
    examined: Counter,
    bytes: Counter,
    memory: MemoryReservation,
    stop: Arc<AtomicBool>,
}

impl Reader {
    /// Reads, merges and finalises the rows of a scan, sorted by bucket and keys. Returns them
    /// with the reservation of their memory.
    pub(crate) fn read(&self, work: &Work) -> Result<(RecordBatch, MemoryReservation)> {
        let memory = self.memory.new_empty();
        let cells = self.cells(work, &memory)?;
        let Work {
            definition, level, ..
        } = work;
        let inputs: Vec<&Cells> = cells.iter().collect();
        let merged = merge_to(&work.grain, definition, *level, &inputs);
        let bytes = merged.memory_bytes();
        drop(cells);
        memory.try_resize(bytes)?;
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
            let batch = finalise_by_bucket(definition, *level, &merged, &names, work.too_large)
                .map_err(external)?;
            RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec())?
        };
        drop(merged);
        memory.try_resize(batch.get_array_memory_size())?;
        Ok((batch, memory))
    }

    /// Reads the cells of tiles and chunks that pass the filter.
    fn cells(&self, work: &Work, memory: &MemoryReservation) -> Result<Vec<Cells>> {
        let mut cells = vec![Cells::empty(&work.definition, work.level, &work.projection)];
        let mut keep = |found: Cells| -> Result<()> {
            self.examined.add(found.len());
            memory.try_grow(found.memory_bytes())?;
            cells.push(found);
            if self.stop.load(Ordering::Relaxed) {
                return Err(DataFusionError::Execution(
                    "the client has disconnected".into(),
                ));
            }
            Ok(())
        };
        for (file, sections) in &work.files {
            let (tile, read) = work.cache.open(&work.snapshot, file, &work.definition)?;
            // A read from a cached tile counts only the bytes of its sections.
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
                keep(found)?;
            }
        }
        for found in work.beyond_tiles() {
            keep(found?)?;
        }
        Ok(cells)
    }
}

fn external(error: aggregator::Error) -> DataFusionError {
    match error {
        aggregator::Error::Invalid { what } => Error::invalid(what).into(),
        other => DataFusionError::External(Box::new(other)),
    }
}
