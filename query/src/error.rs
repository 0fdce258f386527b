//! The error type of this crate, with a [`Kind`] that names the remedy.
//!
//! The kind of an error follows from its type, never from its text, which may contain the user's
//! own words. Messages of DataFusion are kept without the parts for its developers. A hint is
//! added if a similar name exists, or if a coarser level has the measure.

mod fault;
mod hints;
mod nearest;
mod wording;

use std::fmt;
use std::sync::Arc;

use datafusion::error::DataFusionError;

pub use fault::Fault;
use hints::hint;
pub use nearest::nearest;
use wording::{of_filter, of_internal, of_pattern, plain};

/// Hint of errors about full lines.
const LATER: &str = "send the query again shortly";

/// Hint of errors about peers.
const PARTIAL: &str = "start it again, or send ?partial=1 for an answer without it";

/// Hint of errors about a lack of memory.
pub(crate) const LESS: &str = "narrow its time range, or select fewer columns or groups";

const NEEDS_MORE: &str = "the query exceeds its memory or temporary space (query.memory_bytes_max, query.temp_bytes_max)";

/// A line of queries that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineFull {
    /// Queries that run at once.
    pub running: usize,
    /// Queries that wait.
    pub queued: usize,
}

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
        /// The class of the fault.
        fault: Fault,
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
    #[error("{} queries are running and {} are waiting; {LATER}", .0.running, .0.queued)]
    Busy(LineFull),
    /// Too many other queries of the same client run and wait.
    #[error(
        "{} queries of this client are running and {} are waiting; {LATER}",
        .0.running,
        .0.queued
    )]
    ShareBusy(LineFull),
    /// A peer cannot be reached, or has not finished its part of the answer.
    #[error("peer {peer}: {why}; {PARTIAL}")]
    Peer {
        /// Its address.
        peer: String,
        /// The reason.
        why: String,
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
    /// Send fewer queries at once.
    ShareBusy,
    /// Bring the peer back, or ask for a partial answer.
    Peer,
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
            Self::Busy(_) => Kind::Busy,
            Self::ShareBusy(_) => Kind::ShareBusy,
            Self::Peer { .. } => Kind::Peer,
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
            Self::Busy(_) | Self::ShareBusy(_) => Some(LATER),
            Self::Peer { .. } => Some(PARTIAL),
            _ => None,
        }
    }

    /// Returns the message without the hint.
    pub fn message(&self) -> String {
        match self {
            Self::Invalid { message, .. } => message.clone(),
            Self::Limit { limit, message, .. } => format!("{message} ({limit})"),
            Self::Resources(what) => format!("{NEEDS_MORE}: {what}"),
            Self::Busy(line) => format!(
                "{} queries are running and {} are waiting",
                line.running, line.queued
            ),
            Self::ShareBusy(line) => format!(
                "{} queries of this client are running and {} are waiting",
                line.running, line.queued
            ),
            Self::Peer { peer, why } => format!("peer {peer}: {why}"),
            other => other.to_string(),
        }
    }

    /// Returns the fault of a query that is wrong in itself.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Invalid { fault, .. } => Some(*fault),
            _ => None,
        }
    }

    /// Creates the error of a query that is wrong in itself.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::of_fault(Fault::Other, message)
    }

    /// Creates the error of a query with a fault of a class.
    pub(crate) fn of_fault(fault: Fault, message: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            hint: None,
            fault,
        }
    }

    /// Copies an error that a plan may have raised; returns `None` for all others.
    fn again(&self) -> Option<Self> {
        Some(match self {
            Self::Invalid {
                message,
                hint,
                fault,
            } => Self::Invalid {
                message: message.clone(),
                hint: hint.clone(),
                fault: *fault,
            },
            Self::Cancelled { id } => Self::Cancelled { id: *id },
            Self::Resources(what) => Self::Resources(what.clone()),
            Self::Peer { peer, why } => Self::Peer {
                peer: peer.clone(),
                why: why.clone(),
            },
            Self::Storage(error) => Self::Storage(error.clone()),
            // Plans do not raise these.
            Self::Limit { .. } | Self::Busy(_) | Self::ShareBusy(_) => return None,
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
                    fault: fault::of(root),
                }
            }
            // A cast or a function that rejects its argument at run time is the query's fault as
            // well.
            DataFusionError::Execution(_) => Self::Invalid {
                message: plain(root),
                hint: None,
                fault: fault::of(root),
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

#[cfg(test)]
mod tests;
