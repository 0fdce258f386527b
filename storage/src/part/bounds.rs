//! Statistics of the rows of a part, kept in the manifest so that the part need not be opened:
//! the number of rows, and the ranges of sequence numbers, times and texts.

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch, TimestampMicrosecondArray, UInt64Array};

use crate::file::FileRef;
use crate::manifest::PartMeta;
use crate::memtable::column;
use crate::model::{Name, SEQ, TIME};

/// Limit of the length of text bounds in the manifest.
pub(super) const BOUND_BYTES: usize = 64;

/// Bounds of some rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) rows: u64,
    pub(crate) seq: (u64, u64),
    pub(crate) time: (i64, i64),
    pub(crate) text_range: BTreeMap<String, (String, String)>,
}

impl Bounds {
    /// Returns the bounds of no row.
    pub(super) fn new() -> Self {
        Self {
            rows: 0,
            seq: (u64::MAX, 0),
            time: (i64::MAX, i64::MIN),
            text_range: BTreeMap::new(),
        }
    }

    /// Returns the bounds of all the rows of a part.
    pub(crate) fn of(rows: &[RecordBatch], order_by: &[String]) -> Self {
        let mut bounds = Self::new();
        rows.iter().for_each(|batch| bounds.widen(batch, order_by));
        bounds
    }

    /// Adds rows with `time` and `_seq`.
    pub(super) fn widen(&mut self, batch: &RecordBatch, order_by: &[String]) {
        self.rows += batch.num_rows() as u64;
        for t in column::<TimestampMicrosecondArray>(batch, TIME).values() {
            self.time = (self.time.0.min(*t), self.time.1.max(*t));
        }
        for s in column::<UInt64Array>(batch, SEQ).values() {
            self.seq = (self.seq.0.min(*s), self.seq.1.max(*s));
        }
        widen_text_range(&mut self.text_range, order_by, batch);
    }

    /// Returns the manifest entry of these rows as a part, once they are in a file.
    pub(crate) fn part(self, id: u64, stream: &Name, partition_us: i64, file: FileRef) -> PartMeta {
        PartMeta {
            id,
            stream: stream.clone(),
            partition_us,
            file,
            rows: self.rows,
            seq: self.seq,
            time: self.time,
            text_range: self.text_range,
        }
    }
}

/// Widens the bounds of the text columns among `order_by`. Nulls are outside the bounds.
fn widen_text_range(
    range: &mut BTreeMap<String, (String, String)>,
    order_by: &[String],
    batch: &RecordBatch,
) {
    for name in order_by {
        let Some(texts) = batch
            .column_by_name(name)
            .and_then(|a| a.as_string_opt::<i32>())
        else {
            continue;
        };
        let (Some(least), Some(greatest)) = (
            arrow::compute::min_string(texts),
            arrow::compute::max_string(texts),
        ) else {
            continue;
        };
        let (least, greatest) = (cut(least, false), cut(greatest, true));
        match range.get_mut(name) {
            None => {
                range.insert(name.clone(), (least, greatest));
            }
            Some(bounds) => {
                if least < bounds.0 {
                    bounds.0 = least;
                }
                if greatest > bounds.1 {
                    bounds.1 = greatest;
                }
            }
        }
    }
}

/// Cuts a text to about [`BOUND_BYTES`]. An upper bound that was cut is above every text with the
/// same beginning.
fn cut(text: &str, upper: bool) -> String {
    if text.len() <= BOUND_BYTES {
        return text.to_owned();
    }
    let mut cut = text[..text.floor_char_boundary(BOUND_BYTES)].to_owned();
    if !upper {
        return cut;
    }
    while let Some(last) = cut.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            cut.push(next);
            return cut;
        }
    }
    // The text consists of the greatest character only: no shorter text is above it.
    text.to_owned()
}
