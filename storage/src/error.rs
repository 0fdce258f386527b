//! The error type of this crate, with a [`Kind`] for the action that the caller can take.

use std::path::PathBuf;

/// Error while writing, reading or opening a store.
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
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// Acknowledged data cannot be read back as it was written.
    #[error("{} is corrupt at byte {offset}: {what}; keep the file, and see `logmill check` and `logmill repair --accept-loss`", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Start of the damage, in bytes from the start of the file.
        offset: u64,
        /// Description of the damage.
        what: String,
    },
    /// The store was written by a newer version of the format.
    #[error("{} has format {found}, this program reads up to {known}; use a newer logmill", path.display())]
    FormatTooNew {
        /// The file with the newer format.
        path: PathBuf,
        /// The file's format.
        found: u32,
        /// The newest format that this program reads.
        known: u32,
    },
    /// The file is sound, and of a format that this program does not read.
    #[error("{} {what}", path.display())]
    FormatUnknown {
        /// The file of that format.
        path: PathBuf,
        /// Description of the format and of the remedy.
        what: String,
    },
    /// Another process writes to this store.
    #[error("{} is being written by process {pid}{}", path.display(), url.as_deref().map(|url| format!("; use --server {url}")).unwrap_or_default())]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process that holds the lock, 0 when it is not known.
        pid: u32,
        /// URL of that process, when it is a server.
        url: Option<String>,
    },
    /// The store was opened for reading only.
    #[error("{} is open for reading only; serve it without --read-only to change it", path.display())]
    ReadOnly {
        /// The data directory.
        path: PathBuf,
    },
    /// There is no store in this directory.
    #[error("{} is not a logmill store; import something into it or name another with --data", path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
    },
    /// The request is wrong in itself and will fail again.
    #[error("{what}")]
    Invalid {
        /// Description of the mistake and of the remedy.
        what: String,
    },
    /// The request names something that the store does not have: a stream, a column, a rollup, an
    /// index or a detached partition.
    #[error("{what}")]
    Missing {
        /// Description of the mistake.
        what: String,
    },
    /// An idempotency key, or a producer's range, came again with another body.
    #[error("{key:?} was used with another body; send a new body under a new key or range")]
    KeyReused {
        /// The key as the client sent it, or the producer and its range.
        key: String,
    },
    /// A batch resolves items of the quarantine that another batch has resolved meanwhile.
    #[error(
        "{settled} of {items} quarantined items are already resolved; read the quarantine again and resolve the others"
    )]
    Settled {
        /// Number of items that the batch resolves.
        items: u64,
        /// Number of those that were resolved before.
        settled: u64,
    },
    /// A producer skipped part of its own counter.
    #[error(
        "producer {producer} sent a range that starts at {from}, but the store has its ranges only up to {known}; send again from {known}"
    )]
    Gap {
        /// The producer's own name.
        producer: String,
        /// Start of the batch's range.
        from: u64,
        /// End of the ranges that the store has taken.
        known: u64,
    },
    /// The request exceeds what the store can take now.
    #[error("the store is busy: {what}; try again shortly")]
    Overloaded {
        /// The limit that is reached.
        what: String,
    },
    /// The disk has no space left.
    #[error("no space left on the disk of {}; free some, writes resume by themselves", path.display())]
    DiskFull {
        /// A path on that disk.
        path: PathBuf,
    },
    /// The write may or may not be durable: a disk error occurred during it.
    #[error("outcome unknown: {what}; send the batch again with the same identity")]
    Unknown {
        /// The reason.
        what: String,
    },
    /// The store is closed, or closing.
    #[error("the store is closed")]
    Closed,
    /// Parquet failed to read or write a part.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The part concerned.
        path: PathBuf,
        /// Parquet's error.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// Arrow failed in an operation on columns.
    #[error("columns: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// The crate above (the aggregator) failed in its part of a seal, rebuild or backfill.
    #[error("rollup {rollup}: {source}")]
    Rollup {
        /// Name of the rollup.
        rollup: String,
        /// The aggregator's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The action that the caller of a failed operation can take. HTTP status, exit code, SQLSTATE
/// and MongoDB code are all derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Correct the request; it fails again as it is.
    Invalid,
    /// The key was used with another body, or the items were resolved by another batch.
    Conflict,
    /// Try again later.
    Overloaded,
    /// The disk is full: free some space.
    DiskFull,
    /// A file or lock that the request needs is missing or in use.
    Unavailable,
    /// Call an operator: data is damaged.
    Corrupt,
    /// The disk failed; the outcome of the request is unknown.
    Disk,
    /// The store is closed.
    Closed,
    /// An internal fault of this program.
    Internal,
}

impl Error {
    /// Returns the action that the caller can take.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Io { source, .. } if is_full(source) => Kind::DiskFull,
            Self::Io { source, .. } if is_out_of_descriptors(source) => Kind::Unavailable,
            Self::Io { .. } | Self::Unknown { .. } => Kind::Disk,
            Self::Corrupt { .. } => Kind::Corrupt,
            Self::FormatTooNew { .. }
            | Self::FormatUnknown { .. }
            | Self::Locked { .. }
            | Self::ReadOnly { .. }
            | Self::NotAStore { .. } => Kind::Unavailable,
            Self::Invalid { .. } | Self::Missing { .. } | Self::Gap { .. } => Kind::Invalid,
            Self::KeyReused { .. } | Self::Settled { .. } => Kind::Conflict,
            Self::Overloaded { .. } => Kind::Overloaded,
            Self::DiskFull { .. } => Kind::DiskFull,
            Self::Closed => Kind::Closed,
            Self::Parquet { .. } | Self::Arrow(_) | Self::Rollup { .. } => Kind::Internal,
        }
    }

    /// Returns the message without advice to run `check` or `repair`, for those commands
    /// themselves.
    pub fn without_advice(&self) -> String {
        match self {
            Self::Corrupt { path, offset, what } => {
                format!("{} is corrupt at byte {offset}: {what}", path.display())
            }
            other => other.to_string(),
        }
    }

    /// Returns whether a file is not there.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }

    pub(crate) fn missing(what: impl Into<String>) -> Self {
        Self::Missing { what: what.into() }
    }
}

/// Checks whether the error means that the disk, or the user's quota of it, is full.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Checks whether the error means that the process, or the machine, has no file descriptor left.
pub(crate) fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let number = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE]
        .iter()
        .any(|known| number == Some(known.raw_os_error()))
}

/// Result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
