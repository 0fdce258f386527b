//! Bytes from the world become typed columns and quarantine.
//!
//! Two halves. The **parsers** are pure: bytes and a receive time in, an Arrow batch and a list of
//! quarantined lines out; no clock, no files. The **readers** open compressed files and cut any
//! stream of bytes into blocks of whole lines.
//!
//! # Invariants
//! * `lines = events + quarantined + empty`, for every block and every input.
//! * No input makes a parser panic or fail: what does not parse is quarantined with its raw bytes.
//! * The same bytes with the same options give the same columns.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod access;
mod blocks;
mod closed;
mod detect;
mod error;
mod explain;
mod format;
mod json;
mod lines;
mod open;
mod parser;
mod select;
mod stamp;
mod values;

pub use access::rebuild_request;
pub use blocks::{BLOCK_BYTES, Block, LINE_BYTES_MAX, LineBlocks};
pub use closed::is_closed;
pub use detect::{Detection, SAMPLE_LINES, detect};
pub use error::{Error, Result};
pub use explain::{BadLine, Explanation, FieldExplained, excerpt, explain};
pub use format::Format;
pub use jiff::tz::TimeZone;
pub use open::{Compression, decompress, open};
pub use parser::{BLOCK_BYTES_MAX, MAX_FUTURE_US, ParseOptions, Parsed, Parser};
pub use select::Selection;
pub use stamp::zone;
pub use values::holds_values;
