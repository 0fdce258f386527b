//! The engine: admits questions, plans them over snapshots and runs them.
//!
//! # Invariants
//! * A query sees one snapshot from its first table to its last row.
//! * Only reading statements run; everything else is refused before it is planned.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use futures::FutureExt;
use futures::future::BoxFuture;
use storage::{Name, Snapshot};

use crate::answer::rows::Answer;
use crate::error::{Error, Result};
use crate::plan::datafusion_fixes;
use crate::plan::planner::Planner;
use crate::prepared::Prepared;
use crate::question::{Parameters, Question, Session, Sources, Viewer};
use crate::run::admission::Admission;
use crate::run::limits::Limits;
use crate::stats::QueryInfo;
use crate::tables::catalog::{CATALOG, PUBLIC};
use crate::tables::level::{Rollup, RollupUse, TileCache};
use crate::tables::sharded::fragment::ReadHints;
use crate::tables::stream::indexed::Heads;
use crate::tables::stream::{Dictionaries, Files};
use crate::tables::system::SystemInfo;

/// Default of [`EngineOptions::memory_bytes`].
const MEMORY_BYTES: usize = 4 << 30;
/// Size of the cache of index heads, bytes: the head for a million rows has some kilobytes.
const INDEX_HEADS_BYTES: u64 = 64 << 20;
/// Size of the cache of inflated dictionaries of parts, bytes; at most a sixteenth of the memory
/// for queries.
const DICTIONARIES_BYTES: u64 = 64 << 20;
/// Size of the cache of open tile files, bytes; at most a quarter of the memory for queries.
const TILE_CACHE_BYTES: u64 = 256 << 20;
/// Divisor of the memory for queries: a sort reserves this share to merge its spilled data.
const SORT_MERGE_SHARE: usize = 256;

/// Resources and settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Memory of all queries together, bytes; a query that needs more spills to disk.
    pub memory_bytes: usize,
    /// Directory of spilled data; the system's temporary directory by default.
    pub temp_dir: Option<PathBuf>,
    /// Threads of one query.
    pub target_partitions: usize,
    /// Limits of one query.
    pub limits: Limits,
    /// Decides whether rollups answer aggregates over raw events.
    pub rollup_answers: RollupUse,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory_bytes: MEMORY_BYTES,
            temp_dir: None,
            target_partitions: threads,
            limits: Limits::default(),
            rollup_answers: RollupUse::default(),
        }
    }
}

/// Runs queries. Cheap to clone: clones share memory, caches and the list of running queries.
#[derive(Clone)]
pub struct Engine {
    admission: Admission,
    /// The admission of requests of peers.
    of_peers: Admission,
    planner: Planner,
    /// The session of statements without one.
    session: Session,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates an engine with its own memory pool and caches.
    ///
    /// # Errors
    /// When the temporary directory cannot be used.
    pub fn new(options: EngineOptions) -> Result<Self> {
        let runtime = runtime(&options).map_err(Error::Execution)?;
        let memory_bytes = options.memory_bytes;
        let files = Files {
            footers: runtime.cache_manager.get_file_metadata_cache(),
            dictionaries: Arc::new(Dictionaries::new(
                DICTIONARIES_BYTES.min(memory_bytes as u64 / 16),
            )),
            heads: Arc::new(Heads::new(INDEX_HEADS_BYTES)),
            views: Arc::default(),
            indexes: None,
        };
        let tiles = TileCache::new(TILE_CACHE_BYTES.min(memory_bytes as u64 / 4));
        let builder = SessionStateBuilder::new()
            .with_config(session_config(&options))
            .with_runtime_env(runtime)
            .with_default_features();
        let planner = Planner::new(builder, files, tiles, options.rollup_answers, memory_bytes);
        let threads = options.target_partitions.max(1);
        let admission = Admission::new(options.limits, threads, memory_bytes);
        Ok(Self {
            of_peers: admission.for_peers(threads),
            admission,
            planner: planner.map_err(Error::Execution)?,
            session: Session::default(),
        })
    }

    /// Binds a question to the tables of its snapshot. The result lists the columns of the answer
    /// and the parameters. It occupies a place among the running queries until it is started or
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a question that cannot be parsed or bound.
    pub async fn prepare(
        &self,
        sources: Sources,
        session: &Session,
        question: Question,
    ) -> Result<Prepared> {
        let (mut admitted, claim) = self.admission.admit(question.text(), session).await?;
        let (planner, session) = (self.planner.clone(), session.clone());
        let queries = self.queries_for(&session.viewer);
        let work = async move {
            let share = claim.share().await;
            let bound = planner.bind(sources, &session, question, queries).await?;
            let (schema, parameters) = (bound.schema(), bound.parameters()?);
            Ok(((bound, share, schema, parameters), None))
        };
        let ((bound, share, schema, parameters), _) = admitted.run(work.boxed()).await?;
        Ok(Prepared {
            planner: self.planner.clone(),
            admitted,
            bound,
            share,
            schema,
            parameters,
        })
    }

    /// Prepares and starts a question in one step on the query's threads. The session is copied at
    /// once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a question that cannot be parsed or planned.
    pub fn ask<'a>(
        &'a self,
        sources: Sources,
        session: &Session,
        question: Question,
        parameters: Parameters,
    ) -> impl Future<Output = Result<Answer>> + use<'a> {
        let session = session.clone();
        async move {
            let (mut admitted, claim) = self.admission.admit(question.text(), &session).await?;
            let planner = self.planner.clone();
            let queries = self.queries_for(&session.viewer);
            let work = async move {
                let share = claim.share().await;
                let bound = planner.bind(sources, &session, question, queries).await?;
                let (started, rows) = planner.start(bound, parameters, share).await?;
                Ok((started, Some(rows)))
            };
            let (started, rows) = admitted.run(work.boxed()).await?;
            Ok(Answer::new(admitted, started, rows))
        }
    }

    /// Runs an SQL statement over one store in the session of [`Engine::within`], or one of its
    /// own. `params` are a JSON array for `$1`, `$2`, … or an object for `$name`.
    ///
    /// # Errors
    /// As [`Engine::ask`].
    pub async fn sql(
        &self,
        snapshot: Arc<Snapshot>,
        system: Arc<dyn SystemInfo>,
        sql: &str,
        params: Option<serde_json::Value>,
    ) -> Result<Answer> {
        let sources = Sources::one(snapshot, system);
        self.ask(sources, &self.session, sql.into(), params.into())
            .await
    }

    /// Returns the queries that wait or run, oldest first.
    pub fn queries(&self) -> Vec<QueryInfo> {
        self.admission.registry.queries()
    }

    /// Returns the queries that a client sees.
    pub fn queries_for(&self, viewer: &Viewer) -> Vec<QueryInfo> {
        let mut queries = self.queries();
        queries.retain(|query| viewer.sees_query(query));
        queries
    }

    /// Cancels a query. Returns whether there is a query of that number.
    pub fn cancel(&self, id: u64) -> bool {
        self.admission.registry.cancel(id)
    }

    /// Checks that no task of an ended query runs any more.
    #[cfg(test)]
    pub(crate) fn threads_are_idle(&self) -> bool {
        self.admission.pools.are_idle()
    }

    /// Returns the number of queries that wait for a place.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.admission.queue.waiting()
    }

    /// Returns the session state that the states of all queries are copied from.
    pub(crate) fn state(&self) -> &SessionState {
        self.planner.state()
    }

    /// Returns the same engine for statements of one session.
    #[must_use]
    pub fn within(&self, session: Session) -> Self {
        Self {
            session,
            ..self.clone()
        }
    }

    /// Returns the same engine with another use of rollups.
    pub(crate) fn with_rollup_use(&self, rollup_use: RollupUse) -> Self {
        let mut engine = self.clone();
        engine.planner.rollup_use = rollup_use;
        engine
    }

    /// Returns the same engine for a part of a question with hints.
    pub(crate) fn hinted(&self, hints: &ReadHints) -> Self {
        let mut engine = self.clone();
        if hints.no_rollup {
            engine.planner.rollup_use = RollupUse::Never;
        }
        engine.planner.files.indexes.clone_from(&hints.indexes);
        engine
    }

    /// Returns the same engine for requests of peers, which have places of their own and no limit
    /// on the rows that they return.
    pub(crate) fn for_peers(&self) -> Self {
        Self {
            admission: self.of_peers.clone(),
            ..self.clone()
        }
    }

    /// Runs work on the threads of a query of this text.
    pub(crate) async fn admitted<T: Send + 'static>(
        &self,
        text: &str,
        session: &Session,
        work: BoxFuture<'static, Result<(T, Option<SendableRecordBatchStream>)>>,
    ) -> Result<T> {
        let (mut admitted, _claim) = self.admission.admit(text, session).await?;
        let (done, _) = admitted.run(work).await?;
        Ok(done)
    }

    /// Returns the cache of tile files.
    pub(crate) fn tiles(&self) -> Arc<TileCache> {
        self.planner.tiles()
    }

    /// Returns the rollups of a snapshot by name.
    pub(crate) fn rollups_of(&self, snapshot: &Snapshot) -> Result<Arc<BTreeMap<Name, Rollup>>> {
        self.planner.rollups_of(snapshot)
    }
}

fn runtime(options: &EngineOptions) -> datafusion::error::Result<Arc<RuntimeEnv>> {
    let mode = match &options.temp_dir {
        Some(dir) => DiskManagerMode::Directories(vec![dir.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let disk = DiskManagerBuilder::default()
        .with_mode(mode)
        .with_max_temp_directory_size(options.limits.temp_bytes);
    RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .build_arc()
}

fn session_config(options: &EngineOptions) -> SessionConfig {
    let mut config = datafusion_fixes::without_wrong(SessionConfig::new())
        .with_default_catalog_and_schema(CATALOG, PUBLIC)
        .with_create_default_catalog_and_schema(false)
        // The catalog has this schema itself, with the names that SQL has for types.
        .with_information_schema(false)
        .with_target_partitions(options.target_partitions.max(1));
    let set = config.options_mut();
    // A recursive query may run for ever, and keeps all rows that it has found.
    set.execution.enable_recursive_ctes = false;
    // The physical planner may consider a CASE made of `coalesce` nullable and the logical planner
    // not. With the check, that is an error of the query if its input is a union.
    set.execution.skip_physical_aggregate_schema_check = true;
    set.execution.time_zone = Some("UTC".to_owned());
    // Every sort reserves this at its start. With the default, two small sorts would hold a quarter
    // of a small memory limit.
    let to_merge = set.execution.sort_spill_reservation_bytes;
    set.execution.sort_spill_reservation_bytes =
        to_merge.min(options.memory_bytes / SORT_MERGE_SHARE);
    // Each scan decides itself whether it evaluates filters.
    set.execution.parquet.pushdown_filters = false;
    set.execution.parquet.reorder_filters = true;
    set.execution.parquet.schema_force_view_types = true;
    config
}
