//! The engine: plans and runs queries over snapshots, and knows which are running.
//!
//! # Invariants
//! * A query sees one snapshot from its first table to its last row.
//! * Only reading statements run; everything else is refused before it is planned.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, ParamValues, ScalarValue, SchemaError, exec_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::cache::default_cache::DefaultCache;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{
    SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext,
};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use futures::future::{BoxFuture, Either, select};
use futures::{FutureExt, StreamExt};
use storage::{Name, Snapshot};
use tokio::sync::watch;

use crate::answer::query_stats::Stage;
use crate::answer::rows::{Answer, AnswerStream, QueryStatsHandle, is_over};
use crate::error::{Error, Result};
use crate::functions;
use crate::plan::hints::Hints;
use crate::plan::rollup_rewrite::RollupUse;
use crate::plan::rules::{self, Rules};
use crate::plan::top_k::{self, Narrowed, NarrowedExec};
use crate::plan::{datafusion_fixes, known_counts, statement as rewrite};
use crate::run::batch_size::{RowExpansion, longest_constant};
use crate::run::limits::windows;
use crate::run::limits::{Limits, Queue, wait_until};
use crate::run::memory::{Memory, Share};
use crate::run::occupancy::Occupied;
use crate::run::query_threads::ThreadPools;
use crate::run::registry::{End, QueryInfo, Registry};
use crate::run::sessions::Sessions;
use crate::run::yielding;
use crate::tables::catalog::{CATALOG, Catalog, Hidden, PUBLIC};
use crate::tables::level::{Rollup, Rollups, TileCache};
use crate::tables::stream::Files;
use crate::tables::stream::indexed::Heads;
use crate::tables::system::SystemInfo;

/// Four GiB for all queries together, unless told otherwise.
const MEMORY_BYTES: usize = 4 << 30;
/// Heads of indexes are kept up to this many bytes: some kilobytes for a million rows.
const INDEX_HEADS_BYTES: usize = 64 << 20;
/// Inflated dictionaries of parts are kept up to this many bytes, and a sixteenth of the memory for
/// queries.
const DICTIONARIES_BYTES: usize = 64 << 20;
/// Open tile files are kept up to this many bytes, and a quarter of the memory for queries.
const TILE_CACHE_BYTES: u64 = 256 << 20;

/// What an engine may use.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Memory of all queries together, bytes; what does not fit spills.
    pub memory_bytes: usize,
    /// Where to spill, the system's temporary directory by default.
    pub temp_dir: Option<PathBuf>,
    /// Threads of one query.
    pub target_partitions: usize,
    /// What one query may take.
    pub limits: Limits,
    /// When rollups answer aggregates over raw events.
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

/// The share of the memory for queries that a sort has to merge with.
const TO_MERGE_SHARE: usize = 256;

/// Runs queries. Cheap to clone: clones share memory, caches and the registry.
#[derive(Clone)]
pub struct Engine {
    sessions: Arc<Sessions>,
    rules: Arc<Rules>,
    files: Files,
    rollups: Arc<Rollups>,
    tiles: Arc<TileCache>,
    rollup_answers: RollupUse,
    registry: Arc<Registry>,
    queue: Arc<Queue>,
    lanes: ThreadPools,
    memory_bytes: usize,
    longest_constant: usize,
    memory: Arc<Memory>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine with its own memory pool and caches.
    ///
    /// # Errors
    /// When the temporary directory cannot be used.
    pub fn new(options: EngineOptions) -> Result<Self> {
        let mode = match options.temp_dir {
            Some(dir) => DiskManagerMode::Directories(vec![dir]),
            None => DiskManagerMode::OsTmpDirectory,
        };
        let runtime = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(
                DiskManagerBuilder::default()
                    .with_mode(mode)
                    .with_max_temp_directory_size(options.limits.temp_bytes),
            )
            .build_arc()
            .map_err(Error::Execution)?;
        let files = Files {
            footers: runtime.cache_manager.get_file_metadata_cache(),
            dictionaries: Arc::new(
                DefaultCache::new(DICTIONARIES_BYTES.min(options.memory_bytes / 16))
                    .with_name("dictionaries"),
            ),
            heads: Arc::new(Heads::new(INDEX_HEADS_BYTES)),
            views: Arc::default(),
            indexes: None,
        };
        let mut config = datafusion_fixes::without_wrong(SessionConfig::new())
            .with_default_catalog_and_schema(CATALOG, PUBLIC)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true)
            .with_target_partitions(options.target_partitions.max(1));
        let set = config.options_mut();
        // It may run for ever, and holds what it has found.
        set.execution.enable_recursive_ctes = false;
        // A CASE made of `coalesce` may be null to the physical planner and not to the logical one, which
        // is an error of the query when its input is a union.
        set.execution.skip_physical_aggregate_schema_check = true;
        set.execution.time_zone = Some("UTC".to_owned());
        // Every sort has this from its beginning, so that it can merge what it has spilled: of a small limit
        // two small sorts would have a quarter.
        let to_merge = set.execution.sort_spill_reservation_bytes;
        set.execution.sort_spill_reservation_bytes =
            to_merge.min(options.memory_bytes / TO_MERGE_SHARE);
        // Each scan says whether it takes them.
        set.execution.parquet.pushdown_filters = false;
        set.execution.parquet.reorder_filters = true;
        set.execution.parquet.schema_force_view_types = true;
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features();
        let longest_constant = longest_constant(options.memory_bytes);
        let state = with_ours(builder, longest_constant).map_err(Error::Execution)?;
        Ok(Self {
            sessions: Arc::new(Sessions::new(state)),
            rules: Arc::new(Rules::new()),
            files,
            rollups: Arc::default(),
            tiles: Arc::new(TileCache::new(
                TILE_CACHE_BYTES.min(options.memory_bytes as u64 / 4),
            )),
            rollup_answers: options.rollup_answers,
            registry: Arc::default(),
            queue: Arc::new(Queue::new(options.limits)),
            lanes: ThreadPools::new(options.limits.running, options.target_partitions.max(1)),
            memory_bytes: options.memory_bytes,
            longest_constant,
            memory: Arc::new(Memory::new(options.memory_bytes)),
        })
    }

    /// Plans a query over a snapshot and starts it. `params` are a JSON array for `$1`, `$2`, … or an
    /// object for `$name`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a query that cannot be parsed or planned.
    pub async fn sql(
        &self,
        snapshot: Arc<Snapshot>,
        system: Arc<dyn SystemInfo>,
        sql: &str,
        params: Option<serde_json::Value>,
    ) -> Result<Answer> {
        self.sql_tagged(snapshot, system, sql, params, None).await
    }

    /// The same of a query that is listed with a name that whoever asks gave it.
    ///
    /// # Errors
    /// As [`Engine::sql`].
    pub async fn sql_tagged(
        &self,
        snapshot: Arc<Snapshot>,
        system: Arc<dyn SystemInfo>,
        sql: &str,
        params: Option<serde_json::Value>,
        tag: Option<String>,
    ) -> Result<Answer> {
        let (end, ended) = watch::channel(None);
        let registered = self.registry.register(sql, tag, end.clone());
        let id = registered.id;
        let ended = wait_for(ended);
        let progress = Arc::clone(&registered.progress);
        let reached = Arc::clone(&progress);
        let limits = self.queue.limits;
        let work = async {
            limits.check_text(sql)?;
            let place = self.queue.place().await?;
            reached.reached(Stage::Queue);
            let until = place.until;
            let over = wait_until(until).boxed();
            let (engine, sql) = (self.clone(), sql.to_owned());
            let lane = self.lanes.lane()?;
            let threads = lane.threads();
            let start = async move {
                engine.memory.room().await;
                let share = engine.memory.share(end, threads);
                engine.start(snapshot, system, &sql, params, share).await
            };
            let (starting, rows) = lane.run(start);
            let occupied = Occupied::new(registered, place, lane, rows.abort_handle());
            match select(starting, over).await {
                Either::Left((Ok(Ok(started)), over)) => Ok((started, rows, occupied, until, over)),
                Either::Left((Ok(Err(error)), _)) => {
                    // Nothing was started.
                    occupied.end();
                    Err(error)
                }
                Either::Left((Err(_), _)) if is_over(until) => Err(limits.too_long()),
                Either::Left((Err(_), _)) => Err(match rows.into_future().await {
                    (Some(Err(panic)), _) => Error::Execution(panic),
                    _ => Error::Execution(DataFusionError::Internal("a plan told nothing".into())),
                }),
                Either::Right(_) => Err(limits.too_long()),
            }
        };
        match select(Box::pin(work), ended).await {
            Either::Left((started, ended)) => {
                let (started, rows, occupied, until, over) = started?;
                let Started {
                    plan,
                    catalog,
                    reads_tables,
                } = started;
                let schema = plan.schema();
                progress.plan_is(&plan);
                let stream = AnswerStream {
                    inner: Some(rows),
                    ended,
                    catalog,
                    progress: Arc::clone(&progress),
                    id,
                    limits,
                    over,
                    until,
                    occupied: Some(occupied),
                    bytes: 0,
                };
                Ok(Answer {
                    id,
                    schema,
                    stream,
                    handle: QueryStatsHandle {
                        plan,
                        progress,
                        reads_tables,
                    },
                })
            }
            Either::Right((why, _)) => Err(why.error(id)),
        }
    }

    /// The queries that are running, oldest first.
    pub fn queries(&self) -> Vec<QueryInfo> {
        self.registry.queries()
    }

    /// Cancels a query. Whether there was one of that number.
    pub fn cancel(&self, id: u64) -> bool {
        self.registry.cancel(id)
    }

    /// Whether nothing is left of the queries that have ended.
    #[cfg(test)]
    pub(crate) fn lanes_are_empty(&self) -> bool {
        self.lanes.are_empty()
    }

    /// Queries that wait for a place.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// The session from which that of every query is made.
    pub(crate) fn session(&self) -> &SessionState {
        self.sessions.first()
    }

    /// The same engine, with other rules for rollups.
    pub(crate) fn answering(&self, rollup_answers: RollupUse) -> Self {
        Self {
            rollup_answers,
            ..self.clone()
        }
    }

    /// The rollups of a snapshot by name.
    pub(crate) fn rollups_of(&self, snapshot: &Snapshot) -> Result<Arc<BTreeMap<Name, Rollup>>> {
        let rollups = self.rollups.of(snapshot);
        rollups.map_err(|e| Error::of(e, Vec::new))
    }

    async fn start(
        &self,
        snapshot: Arc<Snapshot>,
        system: Arc<dyn SystemInfo>,
        sql: &str,
        params: Option<serde_json::Value>,
        share: Arc<Share>,
    ) -> Result<(Started, SendableRecordBatchStream)> {
        let with_seq = rewrite::mentions_seq(sql);
        let plain = |e| Error::of(e, Vec::new);
        let mut statement = self.parse(sql)?;
        let hints = Hints::take(&mut statement)?;
        hints.check(&snapshot)?;
        rewrite::rewrite(&mut statement, &snapshot, with_seq);
        let rollups = self.rollups.of(&snapshot).map_err(plain)?;
        let catalog = Arc::new(Catalog::new(
            (snapshot, rollups),
            system,
            self.queries(),
            Files {
                indexes: hints.indexes,
                ..self.files.clone()
            },
            self.tiles.clone(),
            Hidden {
                seq: with_seq,
                exact: rewrite::mentions_exact(sql),
            },
            hints.answers.unwrap_or(self.rollup_answers),
        ));
        let asked = (statement, params, hints.top_k);
        let started = self.plan(catalog.clone(), asked, share).await;
        let (plan, stream, reads_tables) = started.map_err(|e| match entry_hint(&e, &catalog) {
            Some(hint) => Error::Invalid {
                message: plain(e).message(),
                hint: Some(hint),
            },
            None => Error::of(e, || catalog.names()),
        })?;
        let started = Started {
            plan,
            catalog,
            reads_tables,
        };
        Ok((started, stream))
    }

    fn parse(&self, sql: &str) -> Result<Statement> {
        let options = &self.session().config_options().sql_parser;
        let parsed = DFParserBuilder::new(sql)
            .with_recursion_limit(options.recursion_limit.get())
            .build()
            .and_then(|mut parser| parser.parse_statements());
        let mut statements = parsed.map_err(|e| Error::of(e, Vec::new))?;
        let mut statement = statements
            .pop_front()
            .ok_or_else(|| Error::invalid("there is no statement in the query"))?;
        if !statements.is_empty() {
            return Err(Error::invalid(
                "one statement at a time: send the others as queries of their own",
            ));
        }
        if !rewrite::only_reads(&statement) {
            return Err(Error::invalid(
                "only statements that read are taken: SELECT, EXPLAIN, SHOW",
            ));
        }
        datafusion_fixes::mend(&mut statement);
        Ok(statement)
    }

    async fn plan(
        &self,
        catalog: Arc<Catalog>,
        (statement, params, top_k): (Statement, Option<serde_json::Value>, Option<bool>),
        share: Arc<Share>,
    ) -> datafusion::error::Result<(Arc<dyn ExecutionPlan>, SendableRecordBatchStream, bool)> {
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), catalog);
        let mut state = self.sessions.take();
        state.register_catalog_list(Arc::new(catalogs));
        // Sets the time that `now()` gives.
        state.mark_start_execution();
        let mut logical = state.statement_to_plan(statement).await?;
        let read_only = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        read_only.verify_plan(&logical)?;
        if let Some(params) = params {
            logical = logical.with_param_values(param_values(params)?)?;
        }
        if let Some(known) = known_counts::known(&logical)? {
            let schema = known.schema();
            let plan = MemorySourceConfig::try_new_exec(&[vec![known]], schema, None)?;
            let stream = execute_stream(plan.clone(), context(&state, share))?;
            self.sessions.give_back(state);
            return Ok((plan, stream, true));
        }
        let reads_tables = logical.exists(|node| Ok(matches!(node, LogicalPlan::TableScan(_))))?;
        windows::check(&logical)?;
        let mut is_changed = functions::bound(&mut state, &logical)?;
        let (logical, shape) = self.rules.optimize(logical, &state)?;
        let steps = RowExpansion::of(&logical)?;
        let (longest, longest_allowed) = (steps.constant(), self.longest_constant);
        if longest > longest_allowed {
            return exec_err!(
                "a constant has {longest} bytes, at most {longest_allowed} are computed with; make it shorter"
            );
        }
        let whole = state.config().batch_size();
        let rows = steps.rows(whole, self.memory_bytes);
        if rows < whole {
            let config = state.config_mut();
            *config = config.clone().with_batch_size(rows);
            is_changed = true;
        }
        let context = context(&state, share);
        let Narrowed {
            plan: logical,
            before,
        } = match top_k {
            Some(false) => Narrowed::not(logical),
            always => top_k::narrow(logical, always.is_some(), &state, &context).await?,
        };
        let (plan, state) = self.rules.physical(&logical, shape, state).await?;
        if !is_changed {
            self.sessions.give_back(state);
        }
        let plan = NarrowedExec::over(yielding::interruptible(plan)?, before)?;
        let stream = execute_stream(plan.clone(), context)?;
        Ok((plan, stream, reads_tables))
    }
}

/// A session that has what is ours: functions and rules. No function makes a longer constant.
pub(crate) fn with_ours(
    builder: SessionStateBuilder,
    longest_constant: usize,
) -> datafusion::error::Result<SessionState> {
    let mut state = builder
        .with_optimizer_rules(rules::all())
        .with_physical_optimizer_rules(datafusion_fixes::physical_rules())
        .build();
    functions::register(&mut state, longest_constant)?;
    Ok(state)
}

/// What a plan runs in: the memory of its query. Plans have their functions; those of a context are for plans that
/// come from elsewhere.
fn context(state: &SessionState, share: Arc<Share>) -> Arc<TaskContext> {
    let runtime = RuntimeEnv {
        memory_pool: share,
        ..RuntimeEnv::clone(state.runtime_env())
    };
    Arc::new(TaskContext::new(
        None,
        state.session_id().to_owned(),
        state.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        Arc::new(runtime),
    ))
}

struct Started {
    plan: Arc<dyn ExecutionPlan>,
    catalog: Arc<Catalog>,
    reads_tables: bool,
}

/// Ends when the query is stopped; never, when everyone has forgotten it.
fn wait_for(mut ended: watch::Receiver<Option<End>>) -> BoxFuture<'static, End> {
    async move {
        let why = ended
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|why| *why);
        match why {
            Some(why) => why,
            None => futures::future::pending().await,
        }
    }
    .boxed()
}

/// The level to ask, when a column is missing that enters the rollup further up.
fn entry_hint(error: &DataFusionError, catalog: &Catalog) -> Option<String> {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound { field, .. } => catalog.enters_at(&field.name),
            _ => None,
        },
        _ => None,
    }
}

fn param_values(params: serde_json::Value) -> datafusion::error::Result<ParamValues> {
    let scalar = |value: serde_json::Value| {
        Ok(match value {
            serde_json::Value::Null => ScalarValue::Null,
            serde_json::Value::Bool(b) => ScalarValue::Boolean(Some(b)),
            serde_json::Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(i), _) => ScalarValue::Int64(Some(i)),
                (None, Some(u)) => ScalarValue::UInt64(Some(u)),
                (None, None) => ScalarValue::Float64(n.as_f64()),
            },
            serde_json::Value::String(s) => ScalarValue::Utf8(Some(s)),
            other => {
                return Err(DataFusionError::Plan(format!(
                    "{other} cannot be a parameter; send null, true, 1 or \"text\""
                )));
            }
        })
    };
    match params {
        serde_json::Value::Array(values) => Ok(values
            .into_iter()
            .map(scalar)
            .collect::<datafusion::error::Result<Vec<_>>>()?
            .into()),
        serde_json::Value::Object(values) => {
            let named = values
                .into_iter()
                .map(|(name, value)| Ok((name, scalar(value)?)));
            Ok(named.collect::<datafusion::error::Result<Vec<_>>>()?.into())
        }
        serde_json::Value::Null => Ok(Vec::<ScalarValue>::new().into()),
        _ => Err(DataFusionError::Plan(
            "params are a JSON array for $1, $2, … or an object for $name".into(),
        )),
    }
}
