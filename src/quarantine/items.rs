//! The items of the quarantine, read from parts and memory.

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimestampMicrosecondType, UInt64Type};
use ingest::SourceItem;
use storage::{Name, QUARANTINE, Ranges, SEQ, Settlement, Snapshot, TIME};

use crate::failure::Result;

/// The reason of items of which only the beginning was kept.
pub(super) const TOO_LONG: &str = "line_too_long";

/// A choice of items.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    pub(crate) stream: Option<Name>,
    pub(crate) reason: Option<String>,
    /// Only those that came before, microseconds since 1970.
    pub(crate) before_us: Option<i64>,
}

impl Choice {
    /// Returns whether an item waits and is one of these.
    fn takes(&self, item: &Item, snapshot: &Snapshot) -> bool {
        let stream = self.stream.as_ref();
        snapshot.settled().how(item.seq).is_none()
            && stream.is_none_or(|s| s.as_str() == item.stream)
            && self.reason.as_ref().is_none_or(|r| *r == item.reason)
            && self
                .before_us
                .is_none_or(|before_us| item.time_us < before_us)
    }
}

/// One item, as it was kept.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) seq: u64,
    /// When it came, microseconds since 1970.
    pub(crate) time_us: i64,
    pub(crate) stream: String,
    pub(crate) reason: String,
    pub(crate) detail: String,
    pub(crate) source: String,
    pub(crate) line: i64,
    pub(crate) byte: i64,
    pub(crate) raw: Vec<u8>,
}

impl Item {
    /// Returns whether the line is there whole. That of an anonymised stream is not kept.
    pub(crate) fn is_whole(&self) -> bool {
        self.reason != TOO_LONG && !self.raw.is_empty()
    }

    /// Returns the line, to be parsed as if it had just come.
    pub(crate) fn source_item(&self) -> SourceItem<'_> {
        SourceItem {
            bytes: &self.raw,
            received_us: self.time_us,
            line: u64::try_from(self.line).unwrap_or(0),
            byte: u64::try_from(self.byte).unwrap_or(0),
            sender: None,
        }
    }
}

/// Hands over the waiting items of a choice, by stream and in pieces of at most so many items and
/// bytes (one item may have more).
pub(crate) fn in_pieces(
    snapshot: &Snapshot,
    choice: &Choice,
    (items_max, bytes_max): (usize, usize),
    mut take: impl FnMut(&Name, &[Item]) -> Result<()>,
) -> Result<()> {
    let mut pieces: BTreeMap<Name, (Vec<Item>, usize)> = BTreeMap::new();
    each(snapshot, None, &mut |item| {
        if !choice.takes(&item, snapshot) {
            return Ok(());
        }
        let stream = Name::new(&item.stream)?;
        let (items, bytes) = pieces.entry(stream.clone()).or_default();
        *bytes += item.raw.len();
        items.push(item);
        if items.len() >= items_max || *bytes >= bytes_max {
            let (full, _) = pieces.remove(&stream).unwrap_or_default();
            take(&stream, &full)?;
        }
        Ok(())
    })?;
    for (stream, (items, _)) in &pieces {
        take(stream, items)?;
    }
    Ok(())
}

/// Returns the item with this number, whether it waits or was settled.
pub(crate) fn one(snapshot: &Snapshot, seq: u64) -> Result<Option<Item>> {
    let mut found = None;
    each(snapshot, Some(seq), &mut |item| {
        if item.seq == seq {
            found = Some(item);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the newest waiting item of a choice.
pub(crate) fn newest(snapshot: &Snapshot, choice: &Choice) -> Result<Option<Item>> {
    let mut newest: Option<Item> = None;
    each(snapshot, None, &mut |item| {
        let later = newest.as_ref().is_none_or(|n| n.seq < item.seq);
        if later && choice.takes(&item, snapshot) {
            newest = Some(item);
        }
        Ok(())
    })?;
    Ok(newest)
}

/// Reads every item, those of one part after the other. Parts that cannot hold `only` are not read,
/// nor are parts in which nothing waits.
fn each(
    snapshot: &Snapshot,
    only: Option<u64>,
    take: &mut dyn FnMut(Item) -> Result<()>,
) -> Result<()> {
    let stream = Name::new(QUARANTINE)?;
    let mut parts: Vec<_> = snapshot.manifest().parts_of(&stream).collect();
    parts.sort_by_key(|part| part.seq);
    for part in parts {
        let (first, last) = part.seq;
        let wanted = match only {
            Some(seq) => (first..=last).contains(&seq),
            None => settled_in(snapshot, (first, last + 1)) < last + 1 - first,
        };
        if !wanted {
            continue;
        }
        let bytes = snapshot.read(&part.file)?;
        let batches = storage::read_part(bytes, None).map_err(anyhow::Error::from)?;
        for batch in &batches {
            rows(batch, take)?;
        }
    }
    for chunk in snapshot.chunks(QUARANTINE) {
        rows(&chunk.events, take)?;
    }
    Ok(())
}

fn settled_in(snapshot: &Snapshot, range: (u64, u64)) -> u64 {
    let items = |how| snapshot.settled().items(how);
    let count = |items: &Ranges| items.count_in(range);
    count(items(Settlement::Replayed)) + count(items(Settlement::Dropped))
}

fn rows(batch: &RecordBatch, take: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
    let column =
        |name: &str, as_type: DataType| cast(&batch[name], &as_type).map_err(anyhow::Error::from);
    let seqs = column(SEQ, DataType::UInt64)?;
    let seqs = seqs.as_primitive::<UInt64Type>().values();
    let times = batch[TIME].as_primitive::<TimestampMicrosecondType>();
    let text = |name| column(name, DataType::Utf8);
    let number = |name| column(name, DataType::Int64);
    let texts = [
        text("stream")?,
        text("reason")?,
        text("detail")?,
        text("source")?,
    ];
    let texts = texts.each_ref().map(|array| array.as_string::<i32>());
    let numbers = [number("line")?, number("byte")?];
    let numbers = numbers
        .each_ref()
        .map(|array| array.as_primitive::<Int64Type>());
    let raw = column("raw", DataType::Binary)?;
    let raw = raw.as_binary::<i32>();
    for row in 0..batch.num_rows() {
        let [stream, reason, detail, source] = texts.map(|a| a.value(row).to_owned());
        let [line, byte] = numbers.map(|a| a.value(row));
        take(Item {
            seq: seqs[row],
            time_us: times.value(row),
            stream,
            reason,
            detail,
            source,
            line,
            byte,
            raw: raw.value(row).to_vec(),
        })?;
    }
    Ok(())
}
