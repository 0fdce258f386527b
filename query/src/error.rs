//! The error type of this crate, with a [`Kind`] that names the remedy.
//!
//! The kind of an error follows from its type, never from its text, which may contain the user's
//! own words. Messages of DataFusion are kept without the parts for its developers. A hint is
//! added if a similar name exists, or if a coarser level has the measure.

use std::fmt;
use std::sync::Arc;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use strsim::levenshtein;

/// Hint of errors about a lack of memory.
pub(crate) const LESS: &str = "narrow its time range, or select fewer columns or groups";

const NEEDS_MORE: &str =
    "the query needs more than it may have (query.memory_bytes_max, query.temp_bytes_max)";

/// A failure to plan or to run a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The query itself is wrong: it would fail again.
    #[error("{message}{}", Hint(hint.as_deref()))]
    Invalid {
        /// The fault of the query.
        message: String,
        /// A correction, where one is likely.
        hint: Option<String>,
    },
    /// A client cancelled the query.
    #[error("query {id} was cancelled")]
    Cancelled {
        /// Number of the query in the registry.
        id: u64,
    },
    /// The query needs more memory or temporary space than it may use.
    #[error("{NEEDS_MORE}: {0}; {LESS}")]
    Resources(String),
    /// The query exceeds a limit.
    #[error("{message} ({limit}); {hint}")]
    Limit {
        /// The setting of that limit.
        limit: &'static str,
        /// The quantity that exceeded it.
        message: String,
        /// A way to need less.
        hint: &'static str,
    },
    /// Too many other queries run and wait.
    #[error("{running} queries run and {queued} wait for them; ask again shortly")]
    Busy {
        /// Queries that run at once.
        running: usize,
        /// Queries that wait.
        queued: usize,
    },
    /// A part or a tile cannot be read.
    #[error(transparent)]
    Storage(Arc<storage::Error>),
    /// The query failed while it ran.
    #[error("the query failed: {}", of_internal(.0))]
    Execution(#[source] DataFusionError),
    /// Rows could not be written in the requested format.
    #[error("writing the answer: {0}")]
    Output(#[from] std::io::Error),
}

struct Hint<'a>(Option<&'a str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// The remedy for an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Correct the query.
    Invalid,
    /// None: a client cancelled the query.
    Cancelled,
    /// Request less.
    Resources,
    /// Send the query again shortly.
    Busy,
    /// Call an operator: data is damaged.
    Corrupt,
    /// A fault of this program or of the machine.
    Internal,
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns the remedy.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Invalid { .. } => Kind::Invalid,
            Self::Cancelled { .. } => Kind::Cancelled,
            Self::Resources(_) | Self::Limit { .. } => Kind::Resources,
            Self::Busy { .. } => Kind::Busy,
            Self::Storage(e) if e.kind() == storage::Kind::Corrupt => Kind::Corrupt,
            Self::Storage(e) if e.kind() == storage::Kind::Invalid => Kind::Invalid,
            Self::Storage(_) | Self::Output(_) | Self::Execution(_) => Kind::Internal,
        }
    }

    /// Returns the hint, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Invalid { hint, .. } => hint.as_deref(),
            Self::Limit { hint, .. } => Some(hint),
            Self::Resources(_) => Some(LESS),
            Self::Busy { .. } => Some("ask again shortly"),
            _ => None,
        }
    }

    /// Returns the message without the hint.
    pub fn message(&self) -> String {
        match self {
            Self::Invalid { message, .. } => message.clone(),
            Self::Limit { limit, message, .. } => format!("{message} ({limit})"),
            Self::Resources(what) => format!("{NEEDS_MORE}: {what}"),
            Self::Busy { running, queued } => {
                format!("{running} queries run and {queued} wait for them")
            }
            other => other.to_string(),
        }
    }

    /// Creates the error of a query that is wrong in itself.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            hint: None,
        }
    }

    /// Copies an error that a plan may have raised; returns `None` for all others.
    fn again(&self) -> Option<Self> {
        Some(match self {
            Self::Invalid { message, hint } => Self::Invalid {
                message: message.clone(),
                hint: hint.clone(),
            },
            Self::Cancelled { id } => Self::Cancelled { id: *id },
            Self::Resources(what) => Self::Resources(what.clone()),
            Self::Storage(error) => Self::Storage(error.clone()),
            // Plans do not raise these.
            Self::Limit { .. } | Self::Busy { .. } => return None,
            Self::Execution(_) | Self::Output(_) => return None,
        })
    }

    /// Classifies an error of planning or running. `tables` returns the names that a query may
    /// use.
    pub(crate) fn of(error: DataFusionError, tables: impl FnOnce() -> Vec<String>) -> Self {
        if let Some(own) = own(&error) {
            return own;
        }
        let root = error.find_root();
        match root {
            DataFusionError::ResourcesExhausted(what) => Self::Resources(what.clone()),
            DataFusionError::SQL(..)
            | DataFusionError::Plan(_)
            | DataFusionError::Configuration(_)
            | DataFusionError::SchemaError(..)
            | DataFusionError::NotImplemented(_)
            | DataFusionError::Diagnostic(..)
            | DataFusionError::ArrowError(..) => {
                let hint = hint(root, &tables());
                let message = match root {
                    DataFusionError::ArrowError(..) => of_pattern(&root.strip_backtrace()),
                    _ => None,
                };
                Self::Invalid {
                    message: message.unwrap_or_else(|| plain(root)),
                    hint,
                }
            }
            // A cast or a function that rejects its argument at run time is the query's fault as
            // well.
            DataFusionError::Execution(_) => Self::Invalid {
                message: plain(root),
                hint: None,
            },
            other => {
                let text = other.strip_backtrace();
                match of_filter(&text).or_else(|| of_pattern(&error.strip_backtrace())) {
                    Some(message) => Self::invalid(message),
                    None => Self::Execution(error),
                }
            }
        }
    }
}

/// Extracts the error of a filter that was evaluated during the read of a part. Such an error
/// arrives as the debug form of the original error, which begins with the name of its type.
fn of_filter(text: &str) -> Option<String> {
    let (_, why) = text.split_once("Error evaluating filter predicate: ")?;
    if why.starts_with("Internal(") {
        return None;
    }
    let why = match why.split_once("(\"") {
        Some((_, quoted)) => quoted.trim_end_matches(['"', ')']),
        None => why,
    };
    Some(format!("a filter could not be evaluated: {why}"))
}

/// Words an internal error. DataFusion's own text asks users to report it to DataFusion's
/// developers.
fn of_internal(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let text = without_report(&text);
    let text = text.trim_end_matches('.');
    match error.find_root() {
        DataFusionError::Internal(_) => {
            format!("{text}; this is a fault of Logmill: please report it with the query")
        }
        _ => text.to_owned(),
    }
}

/// Removes the request to report an error to DataFusion's developers. It is in the middle of the
/// text if one error contains another.
fn without_report(text: &str) -> String {
    const BEGINS: &str = "\nThis issue was likely caused by a bug in DataFusion";
    const ENDS: &str = "datafusion/issues";
    let mut out = text.replace("Internal error: ", "");
    while let Some(begin) = out.find(BEGINS) {
        let end = out[begin..].find(ENDS).map(|at| begin + at + ENDS.len());
        out.replace_range(begin..end.unwrap_or(out.len()), "");
    }
    out
}

/// Extracts the fault of a regular expression. DataFusion reports it as a failed rule, or as an
/// internal error.
fn of_pattern(text: &str) -> Option<String> {
    let told = ["regex parse error:", "Regular expression did not compile: "];
    let why = told
        .iter()
        .find_map(|told| Some(text.split_once(told)?.1))?;
    let why = why.split("\nThis issue was likely").next().unwrap_or(why);
    let why = match why.split_once("error: ") {
        // The text before it is the pattern and a mark below the fault, which mean nothing without
        // the line breaks.
        Some((_, error)) => error.to_owned(),
        None => match why.split_once("CompiledTooBig(") {
            Some((_, bytes)) => format!(
                "compiled it would take more than {} bytes; make its repetitions smaller",
                bytes.trim_end_matches(['.', ')'])
            ),
            None => why.to_owned(),
        },
    };
    Some(format!(
        "the regular expression cannot be used: {}",
        why.trim()
    ))
}

/// Finds an error of this crate that passed through DataFusion, Arrow or Parquet. Several
/// partitions may share it, so it is copied.
fn own(error: &DataFusionError) -> Option<Error> {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |e| e.source())
        .find_map(|e| e.downcast_ref::<Error>().and_then(Error::again))
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        Self::Storage(Arc::new(error))
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

/// Returns DataFusion's message without its prefixes and backtrace, with the SQL names of types.
fn plain(error: &DataFusionError) -> String {
    match error {
        // DataFusion prints the debug form of this error; its display form is the message.
        DataFusionError::SQL(parser, _) => {
            return parser.to_string().replace("sql parser error: ", "SQL: ");
        }
        // The hint lists the existing columns.
        DataFusionError::SchemaError(schema, _) => {
            if let SchemaError::FieldNotFound { field, .. } = &**schema {
                return format!("there is no column {}", field.quoted_flat_name());
            }
        }
        _ => {}
    }
    let text = without_report(&error.strip_backtrace());
    let mut text = text.as_str();
    for prefix in [
        "Error during planning: ",
        "Execution error: ",
        "SQL error: ",
        "Schema error: ",
        "Arrow error: ",
    ] {
        if let Some(rest) = text.strip_prefix(prefix) {
            text = rest;
            break;
        }
    }
    // Users name tables without the catalog and without the default schema.
    let table = text.strip_prefix("table 'logmill.");
    let table = table.map(|table| table.strip_prefix("public.").unwrap_or(table));
    match table {
        Some(table) => format!("table '{table}"),
        None => in_sql_words(text),
    }
}

/// Replaces Arrow's names of types by those of SQL. Quoted text is the user's own and stays,
/// unless it is a call.
fn in_sql_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(quoted) = quoted(rest) {
            out.push_str(quoted);
            rest = &rest[quoted.len()..];
            continue;
        }
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let of_type = TYPES.iter().find(|(name, _)| {
            let after = rest.strip_prefix(name);
            after.is_some_and(|after| !after.starts_with(in_word)) && !out.ends_with(in_word)
        });
        match of_type {
            Some((name, sql)) => {
                out.push_str(sql);
                rest = &rest[name.len()..];
            }
            None => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}

/// Returns the quoted text that begins here, with its quotes.
fn quoted(text: &str) -> Option<&str> {
    let open = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let end = text[1..].find(open)? + 2;
    Some(&text[..end]).filter(|quoted| !quoted.contains('('))
}

/// SQL names of Arrow types. Longer names come first, as a shorter one may be a part of a longer
/// one.
const TYPES: [(&str, &str); 24] = [
    ("Timestamp(Microsecond, Some(\"UTC\"))", "timestamp"),
    ("Timestamp(µs, \"UTC\")", "timestamp"),
    ("Timestamp(Nanosecond, None)", "timestamp"),
    ("Timestamp(ns)", "timestamp"),
    ("Timestamp(µs)", "timestamp"),
    ("Interval(MonthDayNano)", "interval"),
    ("LargeBinary", "bytea"),
    ("BinaryView", "bytea"),
    ("Binary", "bytea"),
    ("LargeUtf8", "text"),
    ("Utf8View", "text"),
    ("Utf8", "text"),
    ("Float64", "double precision"),
    ("Float32", "real"),
    ("Boolean", "boolean"),
    ("Date32", "date"),
    ("UInt64", "bigint"),
    ("UInt32", "bigint"),
    ("UInt16", "integer"),
    ("UInt8", "smallint"),
    ("Int64", "bigint"),
    ("Int32", "integer"),
    ("Int16", "smallint"),
    ("Int8", "smallint"),
];

fn hint(error: &DataFusionError, tables: &[String]) -> Option<String> {
    match error {
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound {
                field,
                valid_fields,
            } => {
                let names: Vec<String> = valid_fields.iter().map(|f| f.name.clone()).collect();
                match nearest(&field.name, &names) {
                    Some(name) => Some(format!("did you mean {name}?")),
                    None if names.is_empty() => None,
                    None => Some(format!("there are {}", first(&names, 12))),
                }
            }
            _ => None,
        },
        DataFusionError::Plan(message) => {
            let name = message.strip_prefix("table '")?.split('\'').next()?;
            let name = name
                .trim_start_matches("logmill.")
                .trim_start_matches("public.");
            match nearest(name, tables) {
                Some(near) => Some(format!("did you mean {near}?")),
                None if tables.is_empty() => {
                    Some("the store holds no stream yet: import something first".into())
                }
                None => Some(format!("there are {}", first(tables, 12))),
            }
        }
        _ => None,
    }
}

fn first(names: &[String], most: usize) -> String {
    let mut shown = names
        .iter()
        .take(most)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > most {
        shown.push_str(&format!(" and {} more", names.len() - most));
    }
    shown
}

/// Returns the name at the least edit distance, if it is near enough to be a typing error.
pub(crate) fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(1);
    names
        .iter()
        .map(|candidate| {
            (
                levenshtein(&name.to_lowercase(), &candidate.to_lowercase()),
                candidate.as_str(),
            )
        })
        .filter(|(d, _)| *d <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
