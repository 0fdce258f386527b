//! The crate's error type. Bad input lines are never errors: they are quarantined.

use std::path::PathBuf;
use std::sync::Arc;

/// A source that cannot be read, or a format that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No format has this name.
    #[error("{name:?} is not a format; the formats are {known}")]
    UnknownFormat {
        /// The name as given.
        name: String,
        /// The formats that exist.
        known: String,
    },
    /// The format is planned and its name kept free for it.
    #[error("the format {name:?} is not supported yet; the formats are {known}")]
    FormatNotYet {
        /// The name as given.
        name: String,
        /// The formats that exist.
        known: String,
    },
    /// An access log has no such field to keep or to drop.
    #[error("an access log has no field {name:?}; it has {}", known.join(", "))]
    UnknownField {
        /// The name as given.
        name: String,
        /// The fields of an access log.
        known: Vec<String>,
    },
    /// An access log has no such field to anonymise.
    #[error(
        "anonymise: {name:?} is no text field of an access log that can be changed; of a request, drop the parts instead"
    )]
    NotAnonymised {
        /// The name as given.
        name: String,
    },
    /// A pattern of an access log cannot be read.
    #[error("the format {pattern}: {why}")]
    BadPattern {
        /// The format as it was given.
        pattern: String,
        /// The reason.
        why: String,
    },
    /// A line that is stored whole has every value as it came.
    #[error(
        "anonymise: the field {name:?} of this format can hold every value of a line as it came; name another format, or drop the field"
    )]
    LineNotAnonymised {
        /// The column of the line.
        name: &'static str,
    },
    /// A field is to be hashed, and there is no key.
    #[error("a hash needs a key of 32 bytes or more: set hash_key_file of [ingest]")]
    NoHashKey,
    /// The events of a stream must be anonymised, and cannot be.
    #[error("anonymise: nothing was stored, as it could not be anonymised: {why}")]
    CannotAnonymise {
        /// The reason.
        why: Arc<str>,
    },
    /// A block is larger than one batch of columns can address.
    #[error("a block of {bytes} bytes exceeds the limit of {max}; send it in pieces")]
    BlockTooLarge {
        /// The size of the block.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The rows of a block would take more memory than its caller allows.
    #[error("the events of the first {lines} lines take more than {max} bytes of memory")]
    TooMuch {
        /// Lines until then.
        lines: u64,
        /// The limit.
        max: usize,
    },
    /// The operating system refused to open a file, or its compressed data does not begin well.
    #[error("open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The operating system's or the decompressor's own word.
        #[source]
        source: std::io::Error,
    },
    /// A rule for records of several lines cannot be used.
    #[error("multiline = {rule:?}: {why}")]
    Multiline {
        /// The rule as it was given.
        rule: String,
        /// The reason.
        why: String,
    },
    /// The body of a request has reached a limit of its decompression.
    #[error("the body {limit}")]
    Expands {
        /// The limit, as the end of the sentence.
        limit: String,
    },
    /// The body of a request expands more than that of an honest sender.
    #[error("the body expands more than {times} times")]
    Ratio {
        /// The limit.
        times: usize,
    },
    /// A zstd frame asks its reader for more memory than a body has bytes.
    #[error(
        "the body's zstd frame needs a window of more than {mib} MiB; compress it at level 20 or lower, without --long"
    )]
    Window {
        /// The limit.
        mib: usize,
    },
    /// The body of a request is not in its encoding, or is damaged.
    #[error("the body is not {encoding}: {why}")]
    BadBody {
        /// The name of the encoding.
        encoding: &'static str,
        /// The decompressor's own word.
        #[source]
        why: std::io::Error,
    },
    /// A source broke off: a disk error, or damaged compressed data.
    #[error("reading stopped at byte {byte} of the decompressed content (line {line}): {source}")]
    Read {
        /// Bytes of decompressed content that were read before.
        byte: u64,
        /// The line, from 1, that was being read.
        line: u64,
        /// The operating system's or the decompressor's own word.
        #[source]
        source: std::io::Error,
    },
    /// Arrow refused the columns.
    #[error("columns: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
}

impl Error {
    /// Returns the class of the error, which says what its receiver can do.
    pub fn kind(&self) -> storage::Kind {
        match self {
            Self::UnknownFormat { .. }
            | Self::FormatNotYet { .. }
            | Self::BadPattern { .. }
            | Self::UnknownField { .. }
            | Self::NotAnonymised { .. }
            | Self::LineNotAnonymised { .. }
            | Self::NoHashKey
            | Self::Multiline { .. }
            | Self::Expands { .. }
            | Self::Ratio { .. }
            | Self::Window { .. }
            | Self::BadBody { .. }
            | Self::BlockTooLarge { .. }
            | Self::TooMuch { .. } => storage::Kind::Invalid,
            Self::Open { .. } | Self::Read { .. } | Self::CannotAnonymise { .. } => {
                storage::Kind::Unavailable
            }
            Self::Arrow(_) => storage::Kind::Internal,
        }
    }
}

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
