//! Sources: files that may be compressed, cut into blocks of whole lines or values.

mod blocks;
mod body;
mod closed;
mod item;
mod lines;
mod multiline;
mod open;
mod records;
mod utf16;
mod values;

pub use self::blocks::{BLOCK_BYTES, LINE_BYTES_MAX, LineBlocks, SourceBlock};
pub use self::body::Encoding;
pub use self::closed::is_closed;
pub use self::item::SourceItem;
pub(crate) use self::lines::Lines;
pub(crate) use self::multiline::joined;
pub use self::multiline::{BlockRecords, Multiline};
pub use self::open::{Compression, decompress, open, open_at};
pub use self::records::Records;
pub use self::values::holds_values;
pub(crate) use self::values::{JsonValues, without_bom};
