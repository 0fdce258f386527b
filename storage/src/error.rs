//! One error type for the room, with a [`Kind`] that says what its reader can do about it.

use std::path::PathBuf;

use crate::env::is_out_of_descriptors;

/// What went wrong while writing, reading or opening a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb (`open`, `write`, `sync`, …).
        op: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The operating system's own word.
        #[source]
        source: std::io::Error,
    },
    /// Acknowledged data cannot be read back as it was written.
    #[error("{} is corrupt at byte {offset}: {what}; keep the file, and see `logmill check` and `logmill repair --accept-loss`", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Where the damage begins, in bytes from the start of the file.
        offset: u64,
        /// What was expected there.
        what: String,
    },
    /// The store was written by a newer version of the format.
    #[error("{} has format {found}, this program reads up to {known}; use a newer logmill", path.display())]
    FormatTooNew {
        /// The file that says so.
        path: PathBuf,
        /// The format it names.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// Another process writes to this store.
    #[error("{} is being written by process {pid}{}", path.display(), address.as_deref().map(|a| format!("; use --server http://{a}")).unwrap_or_default())]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process that holds the lock, 0 when it does not say.
        pid: u32,
        /// The address at which that process answers HTTP, when it serves.
        address: Option<String>,
    },
    /// The store was opened to be read.
    #[error("{} is open for reading only; serve it without --read-only to change it", path.display())]
    ReadOnly {
        /// The data directory.
        path: PathBuf,
    },
    /// There is no store at this place.
    #[error("{} is not a logmill store; import something into it or name another with --data", path.display())]
    NotAStore {
        /// The directory looked at.
        path: PathBuf,
    },
    /// The request is wrong in itself and will fail again.
    #[error("{what}")]
    Invalid {
        /// What is wrong with it and what to do.
        what: String,
    },
    /// An idempotency key, or a producer's range, came again with another body.
    #[error("{key:?} was used with another body; send a new body under a new key or range")]
    KeyReused {
        /// The key as the client sent it, or the producer and its range.
        key: String,
    },
    /// Items of the quarantine that a batch settles were settled by another meanwhile.
    #[error(
        "of {items} items of the quarantine {settled} no longer wait; look again and settle the others"
    )]
    Settled {
        /// Items that the batch settles.
        items: u64,
        /// How many of them were settled before.
        settled: u64,
    },
    /// A producer skipped part of its own counter.
    #[error(
        "producer {producer} sent a range from {from} but the store knows it up to {known}; send again from {known}"
    )]
    Gap {
        /// The producer's name for itself.
        producer: String,
        /// Where the batch begins.
        from: u64,
        /// The end of what the store has taken.
        known: u64,
    },
    /// More is asked for than can be taken now.
    #[error("the store is busy: {what}; try again shortly")]
    Overloaded {
        /// Which limit is reached.
        what: String,
    },
    /// The disk has no room left.
    #[error("no space left on the disk of {}; free some, writes resume by themselves", path.display())]
    DiskFull {
        /// A path on that disk.
        path: PathBuf,
    },
    /// The write may or may not be durable: a disk error came while it was under way.
    #[error("outcome unknown: {what}; send the batch again with the same identity")]
    Unknown {
        /// Why it is not known.
        what: String,
    },
    /// The store is closed, or closing.
    #[error("the store is closed")]
    Closed,
    /// Parquet or Arrow refused.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The part concerned.
        path: PathBuf,
        /// Their own word.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// Arrow refused an operation on columns.
    #[error("columns: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// A room above (the aggregator) failed while taking part in a seal.
    #[error("rollup {rollup}: {source}")]
    Rollup {
        /// Its name.
        rollup: String,
        /// Its own word.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What the reader of an [`Error`] can do. HTTP status, exit code, SQLSTATE and MongoDB code all
/// come from this one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Mend the request; it fails again as it is.
    Invalid,
    /// The key is known with another body.
    Conflict,
    /// Try again later.
    Overloaded,
    /// The disk is full: free some space.
    DiskFull,
    /// Something needed is not there or in use.
    Unavailable,
    /// An operator must look: data is damaged.
    Corrupt,
    /// The disk failed; what was under way is of unknown outcome.
    Disk,
    /// The store is closed.
    Closed,
    /// A fault of this program.
    Internal,
}

impl Error {
    /// What can be done about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Io { source, .. } if is_full(source) => Kind::DiskFull,
            Self::Io { source, .. } if is_out_of_descriptors(source) => Kind::Unavailable,
            Self::Io { .. } | Self::Unknown { .. } => Kind::Disk,
            Self::Corrupt { .. } => Kind::Corrupt,
            Self::FormatTooNew { .. }
            | Self::Locked { .. }
            | Self::ReadOnly { .. }
            | Self::NotAStore { .. } => Kind::Unavailable,
            Self::Invalid { .. } | Self::Gap { .. } => Kind::Invalid,
            Self::KeyReused { .. } | Self::Settled { .. } => Kind::Conflict,
            Self::Overloaded { .. } => Kind::Overloaded,
            Self::DiskFull { .. } => Kind::DiskFull,
            Self::Closed => Kind::Closed,
            Self::Parquet { .. } | Self::Arrow(_) | Self::Rollup { .. } => Kind::Internal,
        }
    }

    /// The message without the commands that it advises, for those commands themselves.
    pub fn without_advice(&self) -> String {
        match self {
            Self::Corrupt { path, offset, what } => {
                format!("{} is corrupt at byte {offset}: {what}", path.display())
            }
            other => other.to_string(),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }
}

/// Whether the disk, or the user's share of it, has no room left.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// The room's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
