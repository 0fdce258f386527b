//! The passes from a question to a running plan, in the order of execution:
//!
//! | pass | why it stands there |
//! |---|---|
//! | parse, refuse what writes | nothing else may see a statement that changes something |
//! | hints | they choose the tables' settings, so they precede the catalog |
//! | statement rewrite | binding resolves names: hidden columns, PostgreSQL's functions |
//! | bind | names become columns of the snapshot's tables |
//! | parameters | types are known now; rules may fold the values |
//! | known counts | the manifest alone answers: no rule and no file is needed |
//! | window and function limits | they bound work that nothing stops later |
//! | rules | DataFusion's and ours, by the shape of the plan |
//! | division among stores, rules again | filters are at the scans, where each store needs them |
//! | batch size | the optimized plan shows how much it makes of a row |
//! | first rows by time | runs a part of the plan to narrow the rest |
//! | physical plan, yielding | every operator gives its thread back in time |

mod bind;
mod state;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, SchemaError, exec_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement;
use storage::{Name, Snapshot};

use crate::error::{Error, Fault, Result};
use crate::functions;
use crate::plan::binder::Binder;
use crate::plan::bound::{Bound, parameter_types};
use crate::plan::rules::Rules;
use crate::plan::top_k::{self, Narrowed, NarrowedExec};
use crate::plan::{dialect, divide, known_counts, session_zone};
use crate::question::{Parameters, Session};
use crate::run::batch_size::{RowExpansion, longest_constant};
use crate::run::limits::windows;
use crate::run::memory::Share;
use crate::run::sessions::StatePool;
use crate::run::yielding;
use crate::tables::catalog::{CATALOG, Catalog, PUBLIC};
use crate::tables::level::RollupUse;
use crate::tables::level::{Rollup, Rollups, TileCache};
use crate::tables::sharded::LastAgreed;
use crate::tables::stream::Files;

pub(crate) use state::with_ours;
use state::{context, function_names, set_time_zone};

/// Plans questions. Clones share caches.
#[derive(Clone)]
pub(crate) struct Planner {
    states: Arc<StatePool>,
    rules: Arc<Rules>,
    pub(crate) files: Files,
    rollups: Arc<Rollups>,
    agreed: Arc<LastAgreed>,
    tiles: Arc<TileCache>,
    pub(crate) rollup_use: RollupUse,
    memory_bytes: usize,
    longest_constant: usize,
    /// The names of all functions, in order.
    functions: Arc<[String]>,
    /// Microseconds since 1970.
    started_us: i64,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

/// A plan that is running.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) reads_tables: bool,
}

type Execution = (Arc<dyn ExecutionPlan>, SendableRecordBatchStream, bool);

impl Planner {
    /// Creates a planner whose session states come from `builder`. `memory_bytes` is the memory of
    /// all queries together.
    pub(crate) fn new(
        builder: SessionStateBuilder,
        files: Files,
        tiles: TileCache,
        rollup_use: RollupUse,
        memory_bytes: usize,
    ) -> datafusion::error::Result<Self> {
        let longest_constant = longest_constant(memory_bytes);
        let state = with_ours(builder, longest_constant)?;
        let functions = function_names(&state);
        Ok(Self {
            functions,
            started_us: chrono::Utc::now().timestamp_micros(),
            states: Arc::new(StatePool::new(state)),
            rules: Arc::new(Rules::new()),
            files,
            rollups: Arc::default(),
            agreed: Arc::default(),
            tiles: Arc::new(tiles),
            rollup_use,
            memory_bytes,
            longest_constant,
        })
    }

    /// Returns the session state that the states of all queries are copied from.
    pub(crate) fn state(&self) -> &SessionState {
        self.states.first()
    }

    /// Returns the cache of tile files.
    pub(crate) fn tiles(&self) -> Arc<TileCache> {
        Arc::clone(&self.tiles)
    }

    /// Returns the rollups of a snapshot by name.
    pub(crate) fn rollups_of(&self, snapshot: &Snapshot) -> Result<Arc<BTreeMap<Name, Rollup>>> {
        let rollups = self.rollups.of(snapshot);
        rollups.map_err(|e| Error::of(e, Vec::new))
    }

    /// Finishes the plan of a bound question and starts it.
    pub(crate) async fn start(
        &self,
        bound: Bound,
        parameters: Parameters,
        share: Arc<Share>,
    ) -> Result<(Started, SendableRecordBatchStream)> {
        let catalog = Arc::clone(&bound.catalog);
        // Its state is large: a future that contains it would be copied from caller to caller.
        let started = Box::pin(self.execute(bound, parameters, share)).await;
        let (plan, stream, reads_tables) = started.map_err(|e| of(e, &catalog))?;
        let started = Started {
            plan,
            catalog,
            reads_tables,
        };
        Ok((started, stream))
    }

    /// Returns a state with the settings of a session and the tables of one query, and whether
    /// that differs from the states of other queries.
    fn state_of(&self, session: &Session, catalog: &Arc<Catalog>) -> (SessionState, bool) {
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::clone(catalog) as _);
        let mut state = self.states.take();
        state.register_catalog_list(Arc::new(catalogs));
        // Sets the time that `now()` returns.
        state.mark_start_execution();
        let is_elsewhere = session.schema != PUBLIC;
        if is_elsewhere {
            let config = state.config_mut();
            *config = config
                .clone()
                .with_default_catalog_and_schema(CATALOG, &session.schema);
        }
        if let Some(zone) = &session.time_zone {
            set_time_zone(&mut state, zone);
        }
        (state, is_elsewhere || session.time_zone.is_some())
    }

    async fn execute(
        &self,
        bound: Bound,
        parameters: Parameters,
        share: Arc<Share>,
    ) -> datafusion::error::Result<Execution> {
        let Bound {
            mut logical,
            mut state,
            mut is_changed,
            top_k,
            catalog,
        } = bound;
        if let Some(values) = parameters.values(&parameter_types(&logical)?)? {
            logical = logical.with_param_values(values)?;
        }
        if let Some(known) = known_counts::known(&logical)? {
            let schema = known.schema();
            let plan = MemorySourceConfig::try_new_exec(&[vec![known]], schema, None)?;
            let stream = execute_stream(plan.clone(), context(&state, share))?;
            self.give_back(state, is_changed);
            return Ok((plan, stream, true));
        }
        let reads_tables = logical.exists(|node| Ok(matches!(node, LogicalPlan::TableScan(_))))?;
        windows::check(&logical)?;
        is_changed |= functions::bound(&mut state, &logical)?;
        let (mut logical, mut shape) = self.rules.optimize(logical, &state)?;
        if catalog.is_sharded() && divide::is_sharded(&logical)? {
            let time_zone = catalog.session().time_zone.as_deref();
            let divided = divide::divided(logical, &state, time_zone)?;
            (logical, shape) = self.rules.optimize(divided, &state)?;
        }
        is_changed |= self.set_batch_size(&logical, &mut state)?;
        let context = context(&state, share);
        let Narrowed {
            plan: logical,
            before,
        } = match top_k {
            Some(false) => Narrowed::not(logical),
            always => top_k::narrow(logical, always.is_some(), &state, &context).await?,
        };
        let (plan, state) = self.rules.physical(logical, shape, state).await?;
        self.give_back(state, is_changed);
        let plan = NarrowedExec::over(yielding::interruptible(plan)?, before)?;
        let stream = execute_stream(plan.clone(), context)?;
        Ok((plan, stream, reads_tables))
    }

    /// Reduces the rows per batch if the plan expands rows much. Returns whether it did.
    fn set_batch_size(
        &self,
        logical: &LogicalPlan,
        state: &mut SessionState,
    ) -> datafusion::error::Result<bool> {
        let expansion = RowExpansion::of(logical)?;
        let (longest, longest_allowed) = (expansion.constant(), self.longest_constant);
        if longest > longest_allowed {
            return exec_err!(
                "a constant has {longest} bytes; the limit is {longest_allowed}; make it shorter"
            );
        }
        let whole = state.config().batch_size();
        let rows = expansion.rows(whole, self.memory_bytes);
        if rows < whole {
            *state.config_mut() = state.config().clone().with_batch_size(rows);
        }
        Ok(rows < whole)
    }

    fn give_back(&self, state: SessionState, is_changed: bool) {
        if !is_changed {
            self.states.give_back(state);
        }
    }
}

/// Binds the names of a statement.
fn planned(
    state: &SessionState,
    catalog: &Arc<Catalog>,
    mut statement: Statement,
    parameters: &[Option<DataType>],
) -> datafusion::error::Result<LogicalPlan> {
    let binder = Binder::new(state, catalog, &statement)?;
    if !binder.has_column("user") {
        dialect::user_is_a_function(&mut statement);
    }
    let plan = binder.plan(statement, parameters)?;
    session_zone::bind(plan, state.config_options())
}

/// Converts the error of a question. If a column enters its rollup at a coarser level, the hint
/// names that level.
fn of(error: DataFusionError, catalog: &Catalog) -> Error {
    match entry_hint(&error, catalog) {
        Some(hint) => Error::Invalid {
            message: Error::of(error, Vec::new).message(),
            hint: Some(hint),
            fault: Fault::NoColumn,
        },
        None => Error::of(error, || catalog.names()),
    }
}

fn entry_hint(error: &DataFusionError, catalog: &Catalog) -> Option<String> {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound { field, .. } => catalog.enters_at(&field.name),
            _ => None,
        },
        _ => None,
    }
}
