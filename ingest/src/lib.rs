//! Bytes from the world become typed columns and quarantine.
//!
//! Five rooms, in the order in which bytes meet them:
//! * [`open`] and [`LineBlocks`] (`source/`) open compressed files and cut any stream of bytes into
//!   blocks of whole lines.
//! * A [`Parser`] reads blocks in one format (`formats/`): bytes and a time of receipt in, an Arrow
//!   batch and a list of quarantined lines out. It is pure: no clock, no files.
//! * Formats of documents fill rows, which `documents/` makes columns.
//! * `shippers/` decodes the bodies of protocols that have records instead of lines.
//! * [`BatchOrigin`] (`intake.rs`) makes the batch that a store takes.
//!
//! # Invariants
//! * `lines = events + quarantined + empty`, for every block and every input.
//! * No input makes a parser panic or fail: a line that does not parse is quarantined with its raw
//!   bytes.
//! * The same bytes with the same options give the same columns.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod anonymise;
mod attributes;
mod bad;
mod detect;
mod documents;
mod error;
mod explain;
mod formats;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod header_search;
mod intake;
mod options;
mod parsed;
mod parser;
mod reader;
mod select;
pub mod shippers;
mod source;
mod stamp;
mod text;

pub use anonymise::{Anonymiser, HashKey, Method};
pub use detect::{Detection, RunnerUp, SAMPLE_LINES, detect, detect_line, search_header};
pub use documents::TIME_FIELDS;
pub use error::{Error, Result};
pub use explain::{BadLine, Explanation, FieldExplained, excerpt, explain};
pub use formats::access::rebuild_request;
pub use formats::{AccessPattern, Format, LineFields, LineRegex};
pub use header_search::HeaderSearch;
pub use intake::BatchOrigin;
pub use jiff::tz::TimeZone;
pub use options::{MAX_FUTURE_US, ParseOptions};
pub use parsed::Parsed;
pub use parser::{BLOCK_BYTES_MAX, Parser};
pub use select::Selection;
pub use source::{
    BLOCK_BYTES, BlockRecords, Compression, Encoding, LINE_BYTES_MAX, LineBlocks, Multiline,
    Records, SourceBlock, SourceItem, decompress, holds_values, is_closed, open, open_at,
};
pub use stamp::zone;
