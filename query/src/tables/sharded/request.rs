//! The requests between peers, as messages of Protocol Buffers.

use aggregator::{Filter, KeyValue, Level};
use bytes::Bytes;
use datafusion::common::TableReference;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, SortExpr};
use datafusion_proto::bytes::Serializeable;
use prost::Message;

use super::fragment::{Fragment, FragmentStep, ReadHints, is_of_rows};
use crate::error::{Error, Result};

/// Version of requests and answers. Peers of different versions refuse each other.
const VERSION: u32 = 1;

/// Most bytes of the name of a column's type.
const TYPE_BYTES_MAX: usize = 64;

/// A request to a peer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    Rows {
        fragment: Fragment,
        /// The zone of the session.
        time_zone: Option<String>,
    },
    /// The cells of a level that pass a filter, with the states of some of its columns.
    Cells {
        rollup: String,
        level: Level,
        columns: Vec<String>,
        filter: Filter,
    },
}

#[derive(Clone, PartialEq, Message)]
struct RequestMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, optional, tag = "2")]
    rows: Option<RowsMessage>,
    #[prost(message, optional, tag = "3")]
    cells: Option<CellsMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct RowsMessage {
    #[prost(string, tag = "1")]
    stream: String,
    #[prost(string, repeated, tag = "2")]
    relation: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    columns: Vec<ColumnMessage>,
    #[prost(message, repeated, tag = "4")]
    steps: Vec<StepMessage>,
    #[prost(string, optional, tag = "5")]
    time_zone: Option<String>,
    #[prost(bool, tag = "6")]
    no_rollup: bool,
    #[prost(message, optional, tag = "7")]
    indexes: Option<NamesMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct NamesMessage {
    #[prost(string, repeated, tag = "1")]
    names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ColumnMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    data_type: String,
}

/// A step. `kind` tells which of the fields count.
#[derive(Clone, PartialEq, Message)]
struct StepMessage {
    #[prost(enumeration = "StepKind", tag = "1")]
    kind: i32,
    /// Expressions in the encoding of `datafusion-proto`.
    #[prost(bytes = "vec", repeated, tag = "2")]
    exprs: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    aggregates: Vec<Vec<u8>>,
    #[prost(string, repeated, tag = "4")]
    name: Vec<String>,
    #[prost(uint64, tag = "5")]
    fetch: u64,
    #[prost(bool, repeated, tag = "6")]
    descending: Vec<bool>,
    #[prost(bool, repeated, tag = "7")]
    nulls_first: Vec<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
enum StepKind {
    None = 0,
    Filter = 1,
    Project = 2,
    Alias = 3,
    Group = 4,
    First = 5,
    Limit = 6,
}

#[derive(Clone, PartialEq, Message)]
struct CellsMessage {
    #[prost(string, tag = "1")]
    rollup: String,
    #[prost(string, tag = "2")]
    level: String,
    #[prost(sint64, tag = "3")]
    from_us: i64,
    #[prost(sint64, tag = "4")]
    to_us: i64,
    #[prost(message, repeated, tag = "5")]
    keys: Vec<KeyMessage>,
    #[prost(string, repeated, tag = "6")]
    columns: Vec<String>,
}

/// The values of a key column that pass.
#[derive(Clone, PartialEq, Message)]
struct KeyMessage {
    /// All do; the other fields are empty.
    #[prost(bool, tag = "1")]
    all: bool,
    #[prost(bool, tag = "2")]
    null: bool,
    #[prost(sint64, repeated, tag = "3")]
    integers: Vec<i64>,
    #[prost(string, repeated, tag = "4")]
    texts: Vec<String>,
}

impl KeyMessage {
    fn of(passing: &Option<Vec<KeyValue>>) -> Self {
        let mut message = Self {
            all: passing.is_none(),
            ..Self::default()
        };
        for value in passing.iter().flatten() {
            match value {
                KeyValue::Null => message.null = true,
                KeyValue::Int(integer) => message.integers.push(*integer),
                KeyValue::Text(text) => message.texts.push(text.clone()),
            }
        }
        message
    }

    fn passing(self) -> Option<Vec<KeyValue>> {
        let null = self.null.then_some(KeyValue::Null).into_iter();
        let integers = self.integers.into_iter().map(KeyValue::Int);
        let texts = self.texts.into_iter().map(KeyValue::Text);
        (!self.all).then(|| null.chain(integers).chain(texts).collect())
    }
}

impl Request {
    /// Encodes the request.
    ///
    /// # Errors
    /// If an expression cannot be encoded.
    pub(crate) fn encode(&self) -> datafusion::error::Result<Bytes> {
        let mut message = RequestMessage {
            version: VERSION,
            ..RequestMessage::default()
        };
        match self {
            Self::Rows {
                fragment,
                time_zone,
            } => {
                let steps = fragment.steps.iter().map(encoded);
                let columns = fragment.columns.iter();
                message.rows = Some(RowsMessage {
                    stream: fragment.stream.clone(),
                    relation: parts(&fragment.relation),
                    columns: columns
                        .map(|(name, data_type)| ColumnMessage {
                            name: name.clone(),
                            data_type: data_type.to_string(),
                        })
                        .collect(),
                    steps: steps.collect::<datafusion::error::Result<_>>()?,
                    time_zone: time_zone.clone(),
                    no_rollup: fragment.hints.no_rollup,
                    indexes: fragment
                        .hints
                        .indexes
                        .clone()
                        .map(|names| NamesMessage { names }),
                });
            }
            Self::Cells {
                rollup,
                level,
                columns,
                filter,
            } => {
                message.cells = Some(CellsMessage {
                    rollup: rollup.clone(),
                    level: level.table().to_owned(),
                    from_us: filter.from_us,
                    to_us: filter.to_us,
                    keys: filter.keys.iter().map(KeyMessage::of).collect(),
                    columns: columns.clone(),
                });
            }
        }
        Ok(message.encode_to_vec().into())
    }

    /// Decodes a request. `functions` are those that its expressions may call.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything but the encoding of a request of this version.
    pub(crate) fn decode(bytes: &[u8], functions: &TaskContext) -> Result<Self> {
        let refused = |why: String| Error::invalid(format!("the request of a peer: {why}"));
        let message = RequestMessage::decode(bytes).map_err(|e| refused(e.to_string()))?;
        if message.version != VERSION {
            let (theirs, ours) = (message.version, VERSION);
            return Err(refused(format!(
                "it has version {theirs}, and this server speaks {ours}; run one release everywhere"
            )));
        }
        match (message.rows, message.cells) {
            (Some(rows), None) => {
                let time_zone = rows.time_zone.clone();
                let fragment = rows.fragment(functions).map_err(refused)?;
                Ok(Self::Rows {
                    fragment,
                    time_zone,
                })
            }
            (None, Some(cells)) => Ok(Self::Cells {
                level: Level::from_table(&cells.level)
                    .ok_or_else(|| refused(format!("{} is no level", cells.level)))?,
                filter: Filter {
                    from_us: cells.from_us,
                    to_us: cells.to_us,
                    keys: cells.keys.into_iter().map(KeyMessage::passing).collect(),
                },
                columns: cells.columns,
                rollup: cells.rollup,
            }),
            _ => Err(refused("it asks for nothing, or for two things".to_owned())),
        }
    }
}

impl RowsMessage {
    fn fragment(self, functions: &TaskContext) -> Result<Fragment, String> {
        let columns = self.columns.into_iter().map(|column| {
            // The parser of types nests as deeply as its text does.
            if column.data_type.len() > TYPE_BYTES_MAX {
                return Err("no column has a type of such a long name".to_owned());
            }
            let data_type = column.data_type.parse();
            let data_type = data_type.map_err(|e| format!("a column's type: {e}"))?;
            Ok((column.name, data_type))
        });
        let steps = self.steps.iter().map(|step| decoded(step, functions));
        Ok(Fragment {
            stream: self.stream,
            relation: reference(&self.relation)?,
            columns: columns.collect::<Result<_, String>>()?,
            steps: steps.collect::<Result<_, String>>()?,
            hints: ReadHints {
                no_rollup: self.no_rollup,
                indexes: self.indexes.map(|indexes| indexes.names),
            },
        })
    }
}

fn encoded(step: &FragmentStep) -> datafusion::error::Result<StepMessage> {
    let all = |exprs: &[Expr]| -> datafusion::error::Result<Vec<Vec<u8>>> {
        exprs.iter().map(|e| Ok(e.to_bytes()?.to_vec())).collect()
    };
    let mut message = StepMessage::default();
    let kind = match step {
        FragmentStep::Filter(predicate) => {
            message.exprs = all(std::slice::from_ref(predicate))?;
            StepKind::Filter
        }
        FragmentStep::Project(exprs) => {
            message.exprs = all(exprs)?;
            StepKind::Project
        }
        FragmentStep::Alias(name) => {
            message.name = parts(name);
            StepKind::Alias
        }
        FragmentStep::Group { by, aggregates } => {
            message.exprs = all(by)?;
            message.aggregates = all(aggregates)?;
            StepKind::Group
        }
        FragmentStep::First { by, fetch } => {
            let keys: Vec<Expr> = by.iter().map(|key| key.expr.clone()).collect();
            message.exprs = all(&keys)?;
            message.descending = by.iter().map(|key| !key.asc).collect();
            message.nulls_first = by.iter().map(|key| key.nulls_first).collect();
            message.fetch = *fetch as u64;
            StepKind::First
        }
        FragmentStep::Limit(most) => {
            message.fetch = *most as u64;
            StepKind::Limit
        }
    };
    message.kind = kind.into();
    Ok(message)
}

fn decoded(step: &StepMessage, functions: &TaskContext) -> Result<FragmentStep, String> {
    let all = |exprs: &[Vec<u8>]| -> Result<Vec<Expr>, String> {
        exprs.iter().map(|bytes| expr(bytes, functions)).collect()
    };
    let mut exprs = all(&step.exprs)?;
    let fetch = || usize::try_from(step.fetch).map_err(|e| e.to_string());
    Ok(match step.kind() {
        StepKind::None => return Err("it has an unknown step".to_owned()),
        StepKind::Filter => match (exprs.pop(), exprs.is_empty()) {
            (Some(predicate), true) => FragmentStep::Filter(predicate),
            _ => return Err("a filter has one expression".to_owned()),
        },
        StepKind::Project => FragmentStep::Project(exprs),
        StepKind::Alias => FragmentStep::Alias(reference(&step.name)?),
        StepKind::Group => FragmentStep::Group {
            by: exprs,
            aggregates: all(&step.aggregates)?,
        },
        StepKind::First => {
            let keys = exprs.len();
            if step.descending.len() != keys || step.nulls_first.len() != keys {
                return Err("an order has a direction for each key".to_owned());
            }
            let directions = step.descending.iter().zip(&step.nulls_first);
            let by = exprs.into_iter().zip(directions);
            FragmentStep::First {
                by: by
                    .map(|(expr, (descending, nulls))| SortExpr::new(expr, !descending, *nulls))
                    .collect(),
                fetch: fetch()?,
            }
        }
        StepKind::Limit => FragmentStep::Limit(fetch()?),
    })
}

/// Decodes an expression that reads the columns of its rows alone.
fn expr(bytes: &[u8], functions: &TaskContext) -> Result<Expr, String> {
    let expr = Expr::from_bytes_with_ctx(bytes, functions).map_err(|e| e.to_string())?;
    match is_of_rows(&expr) {
        true => Ok(expr),
        false => Err(format!("{expr} does not read the columns of a row alone")),
    }
}

fn parts(name: &TableReference) -> Vec<String> {
    let parts = [name.catalog(), name.schema(), Some(name.table())];
    parts.into_iter().flatten().map(str::to_owned).collect()
}

fn reference(parts: &[String]) -> Result<TableReference, String> {
    match parts {
        [table] => Ok(TableReference::bare(table.as_str())),
        [schema, table] => Ok(TableReference::partial(schema.as_str(), table.as_str())),
        [catalog, schema, table] => Ok(TableReference::full(
            catalog.as_str(),
            schema.as_str(),
            table.as_str(),
        )),
        _ => Err("a name has one to three parts".to_owned()),
    }
}
