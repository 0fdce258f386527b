//! A question, the snapshot that it reads, and the settings of the client's session.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::DataType;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{DataFusionError, ParamValues, ScalarValue, TableReference, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use storage::{Name, Snapshot, StreamMeta};

use crate::postgres::session::SessionValues;
use crate::run::limits::Line;
use crate::stats::QueryInfo;
use crate::tables::catalog::{Catalog, PUBLIC};
use crate::tables::sharded::{GonePeer, Peer};
use crate::tables::system::SystemInfo;

/// The stores that a query reads, each in one state: the one of this process, and its peers.
#[derive(Clone)]
pub struct Sources {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) system: Arc<dyn SystemInfo>,
    pub(crate) peers: Vec<Arc<dyn Peer>>,
    pub(crate) gone: Vec<GonePeer>,
}

impl Sources {
    /// Returns the sources for one store.
    pub fn one(snapshot: Arc<Snapshot>, system: Arc<dyn SystemInfo>) -> Self {
        Self {
            snapshot,
            system,
            peers: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Returns the peers.
    pub fn peers(&self) -> &[Arc<dyn Peer>] {
        &self.peers
    }

    /// Adds peers, and those that did not tell their state.
    #[must_use]
    pub fn with_peers(self, peers: Vec<Arc<dyn Peer>>, gone: Vec<GonePeer>) -> Self {
        Self {
            peers,
            gone,
            ..self
        }
    }
}

/// Streams by name.
pub(crate) type StreamMetas = BTreeMap<Name, StreamMeta>;

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

/// Builds a plan over the tables of a query. It runs on the threads of the query.
type BuildPlan = dyn FnOnce(Tables<'_>) -> datafusion::error::Result<LogicalPlan> + Send;

/// A question in one of the languages that compile to a plan.
pub enum Question {
    /// One read-only SQL statement.
    Sql(String),
    /// One read-only SQL statement, with types that the client declared for its parameters.
    Typed {
        /// The statement.
        sql: String,
        /// The type of `$1`, `$2`, …; `None` where the question implies it.
        parameters: Vec<Option<DataType>>,
    },
    /// A plan that another language compiled to.
    Plan {
        /// The text of that language, shown in the list of running queries.
        text: String,
        /// Compiles the text over the tables of the query's snapshot.
        build: Box<BuildPlan>,
    },
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Question").field(&self.text()).finish()
    }
}

impl From<&str> for Question {
    fn from(sql: &str) -> Self {
        Self::Sql(sql.to_owned())
    }
}

impl Question {
    /// Returns the same question once more; `None` for a plan, which is built once.
    pub fn again(&self) -> Option<Self> {
        match self {
            Self::Sql(sql) => Some(Self::Sql(sql.clone())),
            Self::Typed { sql, parameters } => Some(Self::Typed {
                sql: sql.clone(),
                parameters: parameters.clone(),
            }),
            Self::Plan { .. } => None,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Sql(text) | Self::Typed { sql: text, .. } | Self::Plan { text, .. } => text,
        }
    }
}

/// The tables that a plan can scan.
#[derive(Debug)]
pub struct Tables<'a>(pub(crate) &'a Catalog);

impl Tables<'_> {
    /// Returns a plan of all rows of a table: `access`, `stats.hourly` or `system.parts`.
    ///
    /// # Errors
    /// When there is no such table.
    pub fn scan(&self, name: &str) -> datafusion::error::Result<LogicalPlanBuilder> {
        let reference = TableReference::parse_str(name);
        let schema = reference.schema().unwrap_or(PUBLIC);
        let Some(table) = self.0.table(schema, reference.table())? else {
            return plan_err!("table '{name}' not found");
        };
        LogicalPlanBuilder::scan(reference, provider_as_source(table), None)
    }

    /// Returns the names of a rollup's keys; `None` if there is no such rollup.
    pub(crate) fn keys_of(&self, rollup: &str) -> Option<Vec<String>> {
        self.0.keys_of(rollup)
    }
}

/// Values for the parameters of a question.
#[derive(Debug, Clone, Default)]
pub enum Parameters {
    /// The question has no parameters.
    #[default]
    None,
    /// A JSON array for `$1`, `$2`, … or an object for `$name`.
    Json(serde_json::Value),
    /// Typed values, by position or by name.
    Typed(ParamValues),
}

impl From<Option<serde_json::Value>> for Parameters {
    fn from(json: Option<serde_json::Value>) -> Self {
        json.map_or(Self::None, Self::Json)
    }
}

impl Parameters {
    /// Returns the typed values; `None` if there are none. A value that is typed gets the type that
    /// the question needs, by the name of its parameter.
    pub(crate) fn values(
        self,
        needed: &HashMap<String, Option<DataType>>,
    ) -> datafusion::error::Result<Option<ParamValues>> {
        match self {
            Self::None => Ok(None),
            Self::Json(json) => from_json(json).map(Some),
            Self::Typed(values) => fitted(values, needed).map(Some),
        }
    }
}

/// Casts the values of parameters to the types that the question needs.
fn fitted(
    values: ParamValues,
    needed: &HashMap<String, Option<DataType>>,
) -> datafusion::error::Result<ParamValues> {
    let fit = |name: &str, value: ScalarAndMetadata| match needed.get(name) {
        Some(Some(data_type)) if value.value.data_type() != *data_type => {
            value.cast_storage_to(data_type)
        }
        _ => Ok(value),
    };
    Ok(match values {
        ParamValues::List(values) => {
            let values = values.into_iter().enumerate();
            let values = values.map(|(at, value)| fit(&format!("${}", at + 1), value));
            ParamValues::List(values.collect::<datafusion::error::Result<_>>()?)
        }
        ParamValues::Map(values) => {
            let values = values.into_iter().map(|(name, value)| {
                let value = fit(&format!("${name}"), value)?;
                Ok((name, value))
            });
            ParamValues::Map(values.collect::<datafusion::error::Result<_>>()?)
        }
    })
}

fn from_json(params: serde_json::Value) -> datafusion::error::Result<ParamValues> {
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
            "params must be a JSON array for $1, $2, … or an object for $name".into(),
        )),
    }
}

/// The settings of a client's session, which apply to each of its queries.
#[derive(Debug, Clone)]
pub struct Session {
    /// The client's tag for its query: two queries may have the same text.
    pub tag: Option<String>,
    /// The schema of tables that a query names without one.
    pub schema: String,
    /// A name of the schema `public` by which the client knows and sees it instead, unless a rollup
    /// has that name.
    pub public_name: Option<&'static str>,
    /// A shorter limit than the engine's [`crate::Limits::time`].
    pub time_max: Option<Duration>,
    /// The client, and what it may see.
    pub viewer: Viewer,
    /// The places of the client among the running queries; `None` for as many as there are.
    pub line: Option<Line>,
    /// The values that SQL can read of a PostgreSQL session.
    pub values: Option<Arc<SessionValues>>,
    /// The IANA name of the zone in which texts without a zone are read; `None` for UTC.
    pub time_zone: Option<String>,
    /// Answers without the peers that are gone. Otherwise a question for their tables fails.
    pub partial: bool,
}

/// A client as queries see it: tables of other streams do not exist for it.
#[derive(Debug, Clone, Default)]
pub struct Viewer {
    /// Its name, for the list of running queries.
    pub name: Option<String>,
    /// The streams that it may read, with their rollups; `None` for all.
    pub streams: Option<Arc<BTreeSet<Name>>>,
    /// It does not administer the store: it sees its own queries only, and not the audit.
    pub restricted: bool,
}

impl Viewer {
    /// Returns whether the client sees everything of the store.
    pub(crate) fn sees_all(&self) -> bool {
        self.streams.is_none()
    }

    /// Returns whether the client may read a stream.
    pub(crate) fn sees(&self, stream: &str) -> bool {
        let streams = self.streams.as_ref();
        streams.is_none_or(|streams| streams.contains(stream))
    }

    /// Returns whether the client sees a query in the list.
    pub fn sees_query(&self, query: &QueryInfo) -> bool {
        !self.restricted || (self.name.is_some() && query.client == self.name)
    }
}

impl Default for Session {
    fn default() -> Self {
        Self {
            tag: None,
            schema: PUBLIC.to_owned(),
            public_name: None,
            time_max: None,
            viewer: Viewer::default(),
            line: None,
            values: None,
            time_zone: None,
            partial: false,
        }
    }
}
