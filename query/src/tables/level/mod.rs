//! Rollup levels as tables: `stats.hourly` is the merge of its tiles and of the memtable's cells.
//!
//! # Invariants
//! * One scan reads one snapshot, so a level is exact up to the last acknowledged event: before,
//!   during and after a seal.
//! * The scan itself applies ranges of `bucket` and values of keys to cells, exactly. Sections
//!   whose buckets lie outside the range are not read.
//! * A scan reads, merges and finalises cells on a blocking thread while the plan runs, never
//!   during planning.

mod bucket_ranges;
mod cache;
mod documents;
pub(crate) mod exec;
mod key_filter;
mod read;
mod stream_rollups;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aggregator::{
    Cells, Definition, Filter, Grain, KeyType, KeyValue, Level, Projection, TooLarge, chunk_cells,
};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use parking_lot::Mutex;
use storage::{Name, RollupMeta, Snapshot};

pub(crate) use cache::TileCache;
pub(crate) use documents::{DocumentTable, Form};
use exec::LevelExec;
pub(crate) use key_filter::key_filter;
use read::{LevelScan, Work, meets};
pub use stream_rollups::RollupUse;
pub(crate) use stream_rollups::StreamRollups;

use crate::error::Error;
use crate::stats::Count;
use crate::tables::sharded::pruning::may_have_cells;
use crate::tables::sharded::{Peer, PeerCells};
use crate::tables::stream::prune::{TimeRange, time_range};

/// A rollup that can be read, with its definition resolved.
#[derive(Debug, Clone)]
pub(crate) struct Rollup {
    pub(crate) meta: RollupMeta,
    pub(crate) definition: Arc<Definition>,
}

/// Returns the rollups of a snapshot by name, the newest generation of each. A stream gets its
/// rollups in the manifest edit that creates it, before its first event.
fn rollups(snapshot: &Snapshot) -> Result<BTreeMap<Name, Rollup>> {
    let mut rollups = BTreeMap::new();
    for meta in &snapshot.manifest().rollups {
        let definition =
            Definition::from_meta(meta).map_err(|e| DataFusionError::External(Box::new(e)))?;
        let rollup = Rollup {
            meta: meta.clone(),
            definition: Arc::new(definition),
        };
        rollups.insert(meta.name.clone(), rollup);
    }
    Ok(rollups)
}

/// Cache of the rollups of the last snapshot: most snapshots have the same rollups as the one
/// before.
#[derive(Debug, Default)]
pub(crate) struct Rollups {
    last: Mutex<Option<Known>>,
}

/// Rollups as the manifest has them, and the same rollups with their definitions resolved.
type Known = (Vec<RollupMeta>, Arc<BTreeMap<Name, Rollup>>);

impl Rollups {
    /// Returns the result of [`rollups`], from the cache while the manifest's rollups are the
    /// same.
    pub(crate) fn of(&self, snapshot: &Snapshot) -> Result<Arc<BTreeMap<Name, Rollup>>> {
        let metas = &snapshot.manifest().rollups;
        if let Some((known, rollups)) = &*self.last.lock()
            && known == metas
        {
            return Ok(Arc::clone(rollups));
        }
        let made = Arc::new(rollups(snapshot)?);
        *self.last.lock() = Some((metas.clone(), Arc::clone(&made)));
        Ok(made)
    }
}

/// Computes the memtable's cells of all rollups of a stream ahead of the first query. Large
/// ingests (backfills) call it, since they can wait longer than a chart.
///
/// # Errors
/// When a tile that the computation needs cannot be read. Queries fail with the same error.
pub fn make_cells(snapshot: &Snapshot, stream: &Name) -> Result<(), Error> {
    for rollup in rollups(snapshot).map_err(Error::Execution)?.values() {
        if rollup.definition.stream() == stream {
            let cells = chunk_cells(&rollup.definition, rollup.meta.id, snapshot);
            for made in cells {
                made.map_err(|e| Error::Execution(DataFusionError::External(Box::new(e))))?;
            }
        }
    }
    Ok(())
}

/// One level of one rollup.
#[derive(Debug, Clone)]
pub(crate) struct LevelTable {
    snapshot: Arc<Snapshot>,
    rollup: Rollup,
    level: Level,
    schema: SchemaRef,
    cache: Arc<TileCache>,
    grain: Grain,
    too_large: TooLarge,
    /// Peers whose cells the level has, too.
    peers: Vec<Arc<dyn Peer>>,
}

impl LevelTable {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        rollup: Rollup,
        level: Level,
        cache: Arc<TileCache>,
    ) -> Self {
        let schema = Arc::new(Schema::new(aggregator::columns(&rollup.definition, level)));
        Self {
            grain: Grain::whole(&rollup.definition),
            snapshot,
            rollup,
            level,
            schema,
            cache,
            too_large: TooLarge::Null,
            peers: Vec::new(),
        }
    }

    /// Adds the cells of peers.
    pub(crate) fn with_peers(self, peers: Vec<Arc<dyn Peer>>) -> Self {
        Self { peers, ..self }
    }

    /// Returns the definition of the rollup.
    pub(crate) fn definition(&self) -> &Definition {
        &self.rollup.definition
    }

    /// Reads the cells of this store that pass a filter, as they can be encoded, with the states of
    /// these columns.
    pub(crate) fn cells(&self, columns: &[String], filter: Filter) -> Result<Vec<Cells>> {
        let (definition, level) = (self.definition(), self.level);
        let filter = Filter {
            from_us: filter
                .from_us
                .max(self.rollup.meta.floor_us(level.as_str())),
            ..filter
        };
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let projection = Projection::of_columns(definition, level, &names)
            .map_err(|e| DataFusionError::External(Box::new(e)))?;
        let mut source = self.source(Arc::new(Schema::empty()), filter)?;
        source.work.projection = projection.of_whole_measures(definition);
        let cells = source.work.cells()?.into_iter();
        Ok(cells.map(|c| c.completed(definition, level)).collect())
    }

    /// Adds the exact columns of the level's sums. `*` shows them only to queries that name one.
    pub(crate) fn with_exact(self) -> Self {
        let exact = aggregator::exact_columns(&self.rollup.definition, self.level);
        let shown = self.schema.fields().iter().map(|f| f.as_ref().clone());
        let schema = Arc::new(Schema::new(shown.chain(exact).collect::<Vec<_>>()));
        Self { schema, ..self }
    }

    /// Returns the table for plans that add cells up. A sum beyond 64 bits is an error in it,
    /// since such a plan would silently skip a null. `None` when the table is already one of
    /// these.
    pub(crate) fn refusing(&self) -> Option<Self> {
        (self.too_large == TooLarge::Null).then(|| Self {
            too_large: TooLarge::Refused,
            ..self.clone()
        })
    }

    /// Returns the table with one row for all cells that the grain does not distinguish: the plan
    /// above adds them up anyway. Columns outside the grain have no meaning in its rows; only
    /// filters that the scan applies may use them.
    pub(crate) fn merged_to(self, grain: Grain) -> Self {
        Self { grain, ..self }
    }

    /// Returns the key column and its values when a filter restricts one key column and nothing
    /// else.
    fn key_values(&self, filter: &Expr) -> Option<(usize, Vec<KeyValue>)> {
        let (name, values) = key_filter(filter)?;
        let key = self
            .rollup
            .definition
            .by()
            .iter()
            .position(|k| k.name == name)?;
        let text = self.rollup.definition.by()[key].key_type == KeyType::Text;
        let values = values
            .into_iter()
            .map(|value| match value {
                KeyValue::Text(_) if !text => None,
                KeyValue::Int(_) if text => None,
                value => Some(value),
            })
            .collect::<Option<Vec<_>>>()?;
        Some((key, values))
    }

    /// Checks whether the scan itself can apply a filter to cells.
    pub(crate) fn applies(&self, filter: &Expr) -> bool {
        time_range(filter, "bucket").is_some() || self.key_values(filter).is_some()
    }

    /// Combines filters into one filter on cells.
    fn filter(&self, filters: &[Expr]) -> Filter {
        let mut made = Filter {
            // Buckets below the retention floor are not returned, even if late events have added
            // cells.
            from_us: self.rollup.meta.floor_us(self.level.as_str()),
            keys: vec![None; self.rollup.definition.by().len()],
            ..Filter::ALL
        };
        for filter in filters {
            if let Some(range) = time_range(filter, "bucket") {
                made.from_us = made.from_us.max(range.first);
                made.to_us = made.to_us.min(range.last.saturating_add(1));
            } else if let Some((key, values)) = self.key_values(filter) {
                made.keys[key] = Some(match made.keys[key].take() {
                    None => values,
                    Some(known) => known.into_iter().filter(|v| values.contains(v)).collect(),
                });
            }
        }
        made
    }

    /// Returns the starts of the buckets in a range that have a cell with these keys. Unlike a
    /// scan it reads tiles during the call, which may be during planning.
    pub(crate) fn buckets_with(
        &self,
        keys: Vec<Option<Vec<KeyValue>>>,
        range: TimeRange,
    ) -> Result<BTreeSet<i64>> {
        let filter = Filter {
            from_us: range.first,
            to_us: range.last.saturating_add(1),
            keys,
        };
        self.source(Arc::new(Schema::empty()), filter)?
            .work
            .buckets()
    }

    /// Plans the read of these columns for the cells that pass the filter: selects sections by
    /// their buckets.
    fn source(&self, schema: SchemaRef, filter: Filter) -> Result<LevelScan> {
        let definition = &self.rollup.definition;
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let projection = Projection::of_columns(definition, self.level, &names)
            .map_err(|e| DataFusionError::External(Box::new(e)))?;
        let mut partitions = (BTreeSet::new(), BTreeSet::new());
        let mut work = Work {
            snapshot: self.snapshot.clone(),
            rollup: self.rollup.meta.id,
            definition: definition.clone(),
            level: self.level,
            projection,
            filter: filter.clone(),
            grain: self.grain.clone(),
            too_large: self.too_large,
            floor_us: self.rollup.meta.floor_us(self.level.as_str()),
            files: Vec::new(),
            cache: self.cache.clone(),
            peers: Arc::new(PeerCells::new(
                may_have_cells(&self.rollup, &filter, &self.peers),
                definition.clone(),
                self.level,
                names.iter().map(|name| (*name).to_owned()).collect(),
                filter,
            )),
        };
        let (mut parts, mut sections) = (Count::default(), Count::default());
        let tiles = self.snapshot.manifest().tiles_of(self.rollup.meta.id);
        for file in tiles.flat_map(|t| &t.files) {
            let mut wanted = Vec::new();
            let level = self.level.as_str();
            let mut any = false;
            for section in file.sections.iter().filter(|s| s.level == level) {
                any = true;
                partitions.0.insert(section.partition_us);
                sections.total += 1;
                if meets(section, &work.filter) {
                    partitions.1.insert(section.partition_us);
                    sections.examined += 1;
                    wanted.push(section.clone());
                }
            }
            parts.total += u64::from(any);
            parts.examined += u64::from(!wanted.is_empty());
            if !wanted.is_empty() {
                work.files.push((file.file.clone(), wanted));
            }
        }
        let partitions = Count {
            total: partitions.0.len() as u64,
            examined: partitions.1.len() as u64,
        };
        Ok(LevelScan {
            work,
            schema,
            partitions,
            parts,
            sections,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

#[async_trait]
impl TableProvider for LevelTable {
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
            .map(|filter| {
                if self.applies(filter) {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Unsupported
                }
            })
            .collect())
    }
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => self.schema.clone(),
        };
        let source = self.source(schema, self.filter(filters))?;
        let partitions = session.config().target_partitions();
        Ok(Arc::new(LevelExec::plan(source, partitions)))
    }
}
