//! The catalog of one query: streams under `public`, a schema for every rollup, `system`, and the
//! schemas `pg_catalog` and `information_schema` over all of them.

mod events;
mod objects;
mod own;
mod system_tables;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use aggregator::{Definition, Level, column_entry_level};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableProvider;
use parking_lot::Mutex;
use storage::{Name, QUARANTINE, Snapshot};

use crate::postgres::objects::Objects;
use crate::postgres::session::StatementSession;
use crate::postgres::tables::{self as postgres, INFORMATION_SCHEMA, PG_CATALOG};
use crate::question::Viewer;
use crate::stats::QueryInfo;
use crate::tables::level::RollupUse;
use crate::tables::level::{Form, Rollup, TileCache};
use crate::tables::sharded::Shards;
use crate::tables::stream::Files;
use crate::tables::system::{self, SystemInfo};

pub(crate) use crate::postgres::session::CATALOG;
/// The schema of streams.
pub(crate) const PUBLIC: &str = "public";
const SYSTEM: &str = "system";
/// The table of DataFusion's settings in `information_schema`.
const SETTINGS: &str = "df_settings";

/// The client of a query.
#[derive(Debug, Clone)]
pub(crate) struct QueryClient {
    pub(crate) viewer: Viewer,
    pub(crate) session: StatementSession,
    /// See [`crate::Session::public_name`].
    pub(crate) public_name: &'static str,
    /// The names of the functions that it can call.
    pub(crate) functions: Arc<[String]>,
}

/// Columns that are visible only to queries that mention them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hidden {
    /// `_seq` of streams.
    pub(crate) seq: bool,
    /// The exact columns of sums of levels.
    pub(crate) exact: bool,
}

/// The snapshot of this store, its rollups, and the peers that answer, too.
type Tables = (
    Arc<Snapshot>,
    Arc<BTreeMap<Name, Rollup>>,
    Option<Arc<Shards>>,
);

/// Tables that one query can name.
pub(crate) struct Catalog {
    inner: Arc<Inner>,
}

struct Inner {
    snapshot: Arc<Snapshot>,
    system: Arc<dyn SystemInfo>,
    rollups: Arc<BTreeMap<Name, Rollup>>,
    /// The peers that answer, too; `None` for a question over this store alone.
    shards: Option<Arc<Shards>>,
    queries: Vec<QueryInfo>,
    files: Files,
    tiles: Arc<TileCache>,
    hidden: Hidden,
    answers: RollupUse,
    client: QueryClient,
    /// All objects by number, once a statement has named one of the catalog schemas.
    objects: OnceLock<Arc<Objects>>,
    /// Levels that the planner has resolved, for the hint about measures that only coarser levels
    /// have.
    asked: Mutex<Vec<(Arc<Definition>, Level)>>,
}

/// The only ways to a stream, a rollup or a system table: those of others do not exist.
impl Inner {
    fn streams(&self) -> impl Iterator<Item = &Name> {
        let own = self.snapshot.streams();
        let of_peers = self
            .shards
            .iter()
            .flat_map(|shards| shards.streams().keys());
        let of_peers = of_peers.filter(|name| !own.contains_key(name.as_str()));
        let all = own.keys().chain(of_peers);
        all.filter(|name| self.client.viewer.sees(name.as_str()))
    }

    fn rollups(&self) -> impl Iterator<Item = &Rollup> {
        let own = &self.rollups;
        let of_peers = self.shards.iter().flat_map(|shards| shards.rollups());
        let of_peers = of_peers.filter(|rollup| !own.contains_key(rollup.meta.name.as_str()));
        let all = own.values().chain(of_peers);
        all.filter(|rollup| self.client.viewer.sees(rollup.meta.stream.as_str()))
    }

    fn rollup(&self, name: &str) -> Option<&Rollup> {
        let own = self.rollups.get(name);
        let rollup = own.or_else(|| self.shards.as_ref()?.rollup(name));
        rollup.filter(|rollup| self.client.viewer.sees(rollup.meta.stream.as_str()))
    }

    /// Returns the name by which the client sees the schema of streams.
    fn public_name(&self) -> &'static str {
        let name = self.client.public_name;
        self.rollup(name).map_or(name, |_| PUBLIC)
    }

    fn system_tables(&self) -> impl Iterator<Item = &'static str> {
        let all = system::TABLES.into_iter();
        all.filter(|name| match *name {
            "audit" | "users" => !self.client.viewer.restricted,
            name => self.client.viewer.sees_all() || system::is_by_stream(name),
        })
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}

impl Catalog {
    /// Creates the catalog of a snapshot and its rollups, as `client` sees it.
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one query's catalog, each of its own type"
    )]
    pub(crate) fn new(
        (snapshot, rollups, shards): Tables,
        system: Arc<dyn SystemInfo>,
        queries: Vec<QueryInfo>,
        files: Files,
        tiles: Arc<TileCache>,
        hidden: Hidden,
        answers: RollupUse,
        client: QueryClient,
    ) -> Self {
        let asked = Mutex::default();
        Self {
            inner: Arc::new(Inner {
                snapshot,
                system,
                rollups,
                shards,
                queries,
                files,
                tiles,
                hidden,
                answers,
                client,
                objects: OnceLock::new(),
                asked,
            }),
        }
    }

    /// Returns the names of all tables, as a query writes them.
    pub(crate) fn names(&self) -> Vec<String> {
        let inner = &self.inner;
        let mut names: Vec<String> = inner.streams().map(ToString::to_string).collect();
        for rollup in inner.rollups() {
            let name = &rollup.meta.name;
            names.extend(tables_of(rollup).map(|table| format!("{name}.{table}")));
        }
        names.extend(inner.system_tables().map(|t| format!("{SYSTEM}.{t}")));
        names
    }

    /// Returns a hint that names the finest level with `column`, if `column` is a measure that
    /// only levels coarser than a level of the query have.
    pub(crate) fn enters_at(&self, column: &str) -> Option<String> {
        self.inner
            .asked
            .lock()
            .iter()
            .find_map(|(definition, level)| {
                let entry = column_entry_level(definition, column)?;
                (entry > *level).then(|| {
                    let name = definition.name();
                    format!(
                        "{name} has {column} only from the {} on; query {name}.{} or a coarser level",
                        entry.as_str(),
                        entry.table()
                    )
                })
            })
    }
}

impl Catalog {
    fn tables_of(&self, schema: &str) -> Option<TablesOf> {
        let kind = match schema {
            PUBLIC => SchemaKind::Streams,
            name if name == self.inner.public_name() => SchemaKind::Streams,
            SYSTEM => SchemaKind::System,
            PG_CATALOG => SchemaKind::Own(PG_CATALOG),
            INFORMATION_SCHEMA => SchemaKind::Own(INFORMATION_SCHEMA),
            rollup => SchemaKind::Rollup(Box::new(self.inner.rollup(rollup)?.clone())),
        };
        let inner = Arc::clone(&self.inner);
        Some(TablesOf { inner, kind })
    }

    /// Returns all schemas, tables and columns that the client sees, by number.
    pub(crate) fn objects(&self) -> Arc<Objects> {
        self.inner.objects()
    }

    /// Returns whether peers answer, too.
    pub(crate) fn is_sharded(&self) -> bool {
        self.inner.shards.is_some()
    }

    /// Returns the addresses of the peers without whose stores the tables are.
    pub(crate) fn missing(&self) -> Vec<String> {
        let shards = self.inner.shards.iter();
        shards.flat_map(|shards| shards.missing()).collect()
    }

    /// Returns the client's session.
    pub(crate) fn session(&self) -> &StatementSession {
        &self.inner.client.session
    }

    /// Returns the table of a schema; `None` when there is none of that name.
    pub(crate) fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.tables_of(schema).map_or(Ok(None), |of| of.named(name))
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        let rollups = self.inner.rollups().map(|r| r.meta.name.to_string());
        let own = [
            self.inner.public_name(),
            SYSTEM,
            PG_CATALOG,
            INFORMATION_SCHEMA,
        ];
        own.map(str::to_owned).into_iter().chain(rollups).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(self.tables_of(name)?))
    }
}

enum SchemaKind {
    Streams,
    System,
    Rollup(Box<Rollup>),
    /// One of PostgreSQL's catalog schemas.
    Own(&'static str),
}

struct TablesOf {
    inner: Arc<Inner>,
    kind: SchemaKind,
}

impl fmt::Debug for TablesOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TablesOf").finish_non_exhaustive()
    }
}

impl TablesOf {
    fn named(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match &self.kind {
            SchemaKind::Streams => match Name::new(name) {
                Ok(name) => self.stream(&name),
                Err(_) => Ok(None),
            },
            SchemaKind::System => self.system(name),
            SchemaKind::Own(schema) => self.own(schema, name),
            SchemaKind::Rollup(rollup) => match Form::from_table(name) {
                Some(form) => self.documents(rollup, form),
                None => self.level(rollup, name),
            },
        }
    }
}

/// Returns the tables of a rollup: its levels, and the documents whose requirements it meets.
fn tables_of(rollup: &Rollup) -> impl Iterator<Item = &'static str> {
    let definition = &rollup.definition;
    let levels = definition.levels().iter().map(|level| level.table());
    let forms = Form::ALL.into_iter();
    let documents = forms.filter(|form| form.counter(definition).is_ok());
    levels.chain(documents.map(Form::table))
}

#[async_trait]
impl SchemaProvider for TablesOf {
    fn table_names(&self) -> Vec<String> {
        match &self.kind {
            SchemaKind::Streams => {
                let streams = self.inner.streams();
                let shown = streams.filter(|name| name.as_str() != QUARANTINE);
                shown.map(ToString::to_string).collect()
            }
            SchemaKind::System => self.inner.system_tables().map(str::to_owned).collect(),
            SchemaKind::Rollup(rollup) => tables_of(rollup).map(str::to_owned).collect(),
            SchemaKind::Own(schema) => {
                let tables = postgres::definitions().iter();
                let tables = tables.filter(|table| table.schema == *schema);
                tables.map(|table| table.name.to_owned()).collect()
            }
        }
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        self.named(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        match &self.kind {
            SchemaKind::Streams => self.inner.streams().any(|stream| stream.as_str() == name),
            SchemaKind::System => self.inner.system_tables().any(|table| table == name),
            SchemaKind::Rollup(rollup) => tables_of(rollup).any(|table| table == name),
            SchemaKind::Own(schema) => postgres::named(schema, name).is_some(),
        }
    }
}
