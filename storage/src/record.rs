//! The encoding of a batch as a journal record: typed columns and the parser's decisions, never
//! raw text that would be parsed again.
//!
//! # Byte layout (little-endian, no padding)
//! ```text
//! u8   layout = 1            u8 kind (0 access, 1 documents, 2 quarantine)
//! u32  events                u32 quarantined           i64 received_us
//! u16+ stream name           u32+ source
//! u8   identity: 0 none
//!                1 range: u32+ producer, u64 from, u64 to, u64 content
//!                2 key:   u32+ key, u64 body hash
//!                3 settles: u8 how (0 replayed, 1 dropped), u32 ranges,
//!                           then each: u64 from, u64 to
//! u32 × quarantined          rank of each quarantined item among the batch's items
//! table of the events, table of the quarantined items (without columns when there are none):
//!   u32 columns, then each: u16+ name, u8 type, u8 has nulls,
//!     validity bits (ceil(rows/8) bytes) when it has nulls,
//!     fixed-width types: rows × width bytes; bool: ceil(rows/8) bytes;
//!     text and binary: (rows + 1) × u32 offsets, then the bytes
//! ```
//! (`u16+` is a length and that many bytes.) The checksum belongs to the group.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array, PrimitiveArray, RecordBatch,
    RecordBatchOptions, StringArray, TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, Float64Type, Int16Type, Int64Type, Schema, SchemaRef,
    TimestampMicrosecondType, UInt64Type,
};

use crate::model::{
    Batch, Column, ColumnType, Identity, Name, Quarantined, SEQ, StreamKind, TIME, arrow_schema,
};
use crate::resolutions::{self, Ranges, Settlement};

/// Newest layout that this program reads, and the one that it writes.
pub(crate) const LAYOUT: u8 = 1;

/// A batch in the form of the journal and the memtable.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) stream: Name,
    pub(crate) kind: StreamKind,
    pub(crate) received_us: i64,
    pub(crate) source: Arc<str>,
    pub(crate) identity: Option<Identity>,
    pub(crate) events: RecordBatch,
    /// Rank of each quarantined item; events take the other ranks in order.
    pub(crate) ranks: Vec<u32>,
    pub(crate) quarantine: RecordBatch,
}

/// Returns the columns of the quarantine, which is a stream of its own; `time` is the arrival
/// time.
pub(crate) fn quarantine_columns() -> Vec<Column> {
    use ColumnType::{Binary, Int64, Text, Time};
    [
        (TIME, Time),
        ("stream", Text),
        ("reason", Text),
        ("detail", Text),
        ("source", Text),
        ("item", Int64),
        ("line", Int64),
        ("byte", Int64),
        ("raw", Binary),
    ]
    .into_iter()
    .map(|(name, column_type)| Column::new(name, column_type))
    .collect()
}

impl Record {
    pub(crate) fn of(batch: Batch) -> Self {
        let quarantine = quarantine_table(&batch);
        let ranks = batch.quarantine.iter().map(|q| q.rank).collect();
        Self {
            stream: batch.stream,
            kind: batch.kind,
            received_us: batch.received_us,
            source: batch.source,
            identity: batch.identity,
            events: batch.events,
            ranks,
            quarantine,
        }
    }

    /// Returns how many sequence numbers the record takes.
    pub(crate) fn items(&self) -> u64 {
        (self.events.num_rows() + self.ranks.len()) as u64
    }

    /// Returns the sequence numbers of the events and of the quarantined items.
    pub(crate) fn sequence(&self, first_seq: u64) -> (Vec<u64>, Vec<u64>) {
        let quarantined: Vec<u64> = self
            .ranks
            .iter()
            .map(|r| first_seq + u64::from(*r))
            .collect();
        let mut skip = quarantined.iter().copied().peekable();
        let end = first_seq + self.items();
        let events = (first_seq..end)
            .filter(|seq| skip.next_if_eq(seq).is_none())
            .collect();
        (events, quarantined)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.events.get_array_memory_size() + 256);
        out.push(LAYOUT);
        out.push(match self.kind {
            StreamKind::Access => 0,
            StreamKind::Documents => 1,
            StreamKind::Quarantine => 2,
            StreamKind::Counters => 3,
        });
        out.extend_from_slice(&u32_of(self.events.num_rows()));
        out.extend_from_slice(&u32_of(self.ranks.len()));
        out.extend_from_slice(&self.received_us.to_le_bytes());
        put_short(&mut out, self.stream.as_str());
        put_long(&mut out, self.source.as_bytes());
        match &self.identity {
            None => out.push(0),
            Some(Identity::Range {
                producer,
                from,
                to,
                content,
            }) => {
                out.push(1);
                put_long(&mut out, producer.as_bytes());
                for n in [from, to, content] {
                    out.extend_from_slice(&n.to_le_bytes());
                }
            }
            Some(Identity::Key { key, body_hash }) => {
                out.push(2);
                put_long(&mut out, key.as_bytes());
                out.extend_from_slice(&body_hash.to_le_bytes());
            }
            Some(Identity::Settles { items, how }) => {
                out.push(3);
                put_settled(&mut out, items, *how);
            }
        }
        for rank in &self.ranks {
            out.extend_from_slice(&rank.to_le_bytes());
        }
        put_table(&mut out, &self.events);
        put_table(&mut out, &self.quarantine);
        out
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// A description of the fault. The group's checksum was right, so the writer is to blame.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        Self::decode_after(bytes, &mut Shapes::default())
    }

    /// Does the same as [`Record::decode`] and reuses the schemas of the previous record where
    /// they are equal.
    pub(crate) fn decode_after(bytes: &[u8], shapes: &mut Shapes) -> Result<Self, String> {
        let mut from = Cursor { bytes, at: 0 };
        let layout = from.u8()?;
        if layout != LAYOUT {
            return Err(format!("unknown record layout {layout}"));
        }
        let kind = match from.u8()? {
            0 => StreamKind::Access,
            1 => StreamKind::Documents,
            2 => StreamKind::Quarantine,
            3 => StreamKind::Counters,
            other => return Err(format!("unknown stream kind {other}")),
        };
        let events = from.u32()? as usize;
        let quarantined = from.u32()? as usize;
        let received_us = i64::from_le_bytes(from.array()?);
        let stream_len = from.u16()? as usize;
        let stream = Name::new(from.text(stream_len)?).map_err(|e| e.to_string())?;
        let source: Arc<str> = from.long_text()?.into();
        let identity = match from.u8()? {
            0 => None,
            1 => Some(Identity::Range {
                producer: from.long_text()?.to_owned(),
                from: from.u64()?,
                to: from.u64()?,
                content: from.u64()?,
            }),
            2 => Some(Identity::Key {
                key: from.long_text()?.to_owned(),
                body_hash: from.u64()?,
            }),
            3 => Some(from.settled()?),
            other => return Err(format!("unknown identity {other}")),
        };
        let mut ranks = Vec::new();
        for _ in 0..quarantined {
            ranks.push(from.u32()?);
        }
        let events = from.table(events, &mut shapes.events)?;
        let quarantine = from.table(quarantined, &mut shapes.quarantine)?;
        if from.at != bytes.len() {
            return Err(format!("{} extra bytes at its end", bytes.len() - from.at));
        }
        let items = (events.num_rows() + ranks.len()) as u64;
        let in_items = |rank: &u32| u64::from(*rank) < items;
        if !ranks.is_sorted_by(|a, b| a < b) || !ranks.iter().all(in_items) {
            return Err("ranks of quarantined items do not increase within the batch".into());
        }
        for table in [&events, &quarantine] {
            check_table(table)?;
        }
        if let Some(Identity::Settles { items, how }) = &identity {
            let (events, bad) = (events.num_rows() as u64, ranks.len() as u64);
            resolutions::check(items, *how, events, bad).map_err(|e| e.to_string())?;
        }
        Ok(Self {
            stream,
            kind,
            received_us,
            source,
            identity,
            events,
            ranks,
            quarantine,
        })
    }
}

/// The schemas of the last record read. Most records have the schema of the previous one, and
/// building sixteen names again for a single event costs more than the event.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    events: Option<SchemaRef>,
    quarantine: Option<SchemaRef>,
}

/// Checks the columns that the memtable relies on.
fn check_table(table: &RecordBatch) -> Result<(), String> {
    if table.column_by_name(SEQ).is_some() {
        return Err(
            "a table contains a column of sequence numbers, which only the store assigns".into(),
        );
    }
    let time = table.column_by_name(TIME).map(|a| a.data_type().clone());
    if table.num_rows() > 0 && time != Some(ColumnType::Time.arrow()) {
        return Err("a table has rows but no column of times".into());
    }
    Ok(())
}

fn quarantine_table(batch: &Batch) -> RecordBatch {
    let items: &[Quarantined] = &batch.quarantine;
    if items.is_empty() {
        // Most batches have none; nine columns without a row would be a third of the cost of a
        // small one.
        return RecordBatch::new_empty(Schema::empty().into());
    }
    let schema = arrow_schema(&quarantine_columns());
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampMicrosecondArray::from(vec![batch.received_us; items.len()])
                .with_timezone("UTC"),
        ),
        Arc::new(StringArray::from_iter_values(
            items.iter().map(|_| batch.stream.as_str()),
        )),
        Arc::new(StringArray::from_iter_values(
            items.iter().map(|q| q.reason),
        )),
        Arc::new(StringArray::from_iter_values(
            items.iter().map(|q| q.detail.as_str()),
        )),
        Arc::new(StringArray::from_iter_values(
            items.iter().map(|_| &*batch.source),
        )),
        Arc::new(Int64Array::from_iter_values(
            items.iter().map(|q| signed(q.index)),
        )),
        Arc::new(Int64Array::from_iter_values(
            items.iter().map(|q| signed(q.line)),
        )),
        Arc::new(Int64Array::from_iter_values(
            items.iter().map(|q| signed(q.byte)),
        )),
        Arc::new(BinaryArray::from_iter_values(
            items.iter().map(|q| q.raw.as_slice()),
        )),
    ];
    RecordBatch::try_new(schema, columns).expect("BUG: the quarantine's columns fit its schema")
}

fn u32_of(n: usize) -> [u8; 4] {
    u32::try_from(n)
        .expect("BUG: a batch is smaller than 4 GiB")
        .to_le_bytes()
}

fn put_short(out: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).expect("BUG: names are shorter than 64 KiB");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32_of(bytes.len()));
    out.extend_from_slice(bytes);
}

fn put_settled(out: &mut Vec<u8>, items: &Ranges, how: Settlement) {
    out.push(how as u8);
    out.extend_from_slice(&u32_of(items.iter().len()));
    for (from, to) in items.iter() {
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&to.to_le_bytes());
    }
}

fn put_table(out: &mut Vec<u8>, table: &RecordBatch) {
    out.extend_from_slice(&u32_of(table.num_columns()));
    for (field, array) in table.schema().fields().iter().zip(table.columns()) {
        put_short(out, field.name());
        let column_type = ColumnType::of(field.data_type()).expect("BUG: batches are validated");
        out.push(column_type as u8);
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        out.push(u8::from(nulls.is_some()));
        if let Some(nulls) = nulls {
            put_bits(out, nulls.inner());
        }
        match column_type {
            ColumnType::Bool => put_bits(out, array.as_boolean().values()),
            ColumnType::Int16 => put_numbers::<Int16Type>(out, array),
            ColumnType::Int64 => put_numbers::<Int64Type>(out, array),
            ColumnType::Float64 => put_numbers::<Float64Type>(out, array),
            ColumnType::Time => put_numbers::<TimestampMicrosecondType>(out, array),
            ColumnType::Uint64 => put_numbers::<UInt64Type>(out, array),
            ColumnType::Text => {
                let texts = array.as_string::<i32>();
                put_bytes(out, texts.value_offsets(), texts.value_data());
            }
            ColumnType::Binary => {
                let values = array.as_binary::<i32>();
                put_bytes(out, values.value_offsets(), values.value_data());
            }
        }
    }
}

fn put_bits(out: &mut Vec<u8>, bits: &BooleanBuffer) {
    let bytes = bits.sliced();
    out.extend_from_slice(&bytes.as_slice()[..bits.len().div_ceil(8)]);
}

fn put_numbers<T: ArrowPrimitiveType>(out: &mut Vec<u8>, array: &ArrayRef) {
    let values = array.as_primitive::<T>().values();
    out.extend_from_slice(values.inner().as_slice());
}

fn put_bytes(out: &mut Vec<u8>, offsets: &[i32], data: &[u8]) {
    let first = offsets[0];
    for offset in offsets {
        out.extend_from_slice(&(offset - first).to_le_bytes());
    }
    let (start, end) = (first as usize, offsets[offsets.len() - 1] as usize);
    out.extend_from_slice(&data[start..end]);
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let end = self
            .at
            .checked_add(len)
            .filter(|end| *end <= self.bytes.len());
        let end =
            end.ok_or_else(|| format!("record ends at byte {} inside a value", self.bytes.len()))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self
            .take(N)?
            .try_into()
            .expect("BUG: take gives what is asked for"))
    }
    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }
    fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn text(&mut self, len: usize) -> Result<&'a str, String> {
        std::str::from_utf8(self.take(len)?).map_err(|e| e.to_string())
    }
    fn long_text(&mut self) -> Result<&'a str, String> {
        let len = self.u32()? as usize;
        self.text(len)
    }

    fn settled(&mut self) -> Result<Identity, String> {
        let code = self.u8()?;
        let mut all = Settlement::ALL.into_iter();
        let how = all.find(|how| *how as u8 == code);
        let how = how.ok_or_else(|| format!("unknown resolution {code}"))?;
        let count = self.u32()?;
        let mut ranges = Vec::new();
        for _ in 0..count {
            ranges.push((self.u64()?, self.u64()?));
        }
        let items = Ranges::try_from(ranges).map_err(str::to_owned)?;
        Ok(Identity::Settles { items, how })
    }

    fn table(&mut self, rows: usize, shape: &mut Option<SchemaRef>) -> Result<RecordBatch, String> {
        let count = self.u32()? as usize;
        let mut known = shape.take().filter(|s| s.fields().len() == count);
        // Columns, once they differ from the known schema.
        let mut columns: Vec<Column> = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for i in 0..count {
            let name_len = self.u16()? as usize;
            let name = self.text(name_len)?;
            let column_type = column_type_of(self.u8()?)?;
            let nulls = match self.u8()? {
                0 => None,
                _ => Some(NullBuffer::new(self.bits(rows)?)),
            };
            let same = |s: &SchemaRef| {
                let field = s.field(i);
                field.name() == name && ColumnType::of(field.data_type()) == Some(column_type)
            };
            if !known.as_ref().is_some_and(same) {
                if let Some(other) = known.take() {
                    columns.extend(other.fields()[..i].iter().map(|f| {
                        let of = ColumnType::of(f.data_type());
                        Column::new(f.name(), of.expect("BUG: it was made of a column type"))
                    }));
                }
                columns.push(Column::new(name, column_type));
            }
            arrays.push(match column_type {
                ColumnType::Bool => Arc::new(BooleanArray::new(self.bits(rows)?, nulls)),
                ColumnType::Int16 => self.numbers::<Int16Type>(rows, nulls)?,
                ColumnType::Int64 => self.numbers::<Int64Type>(rows, nulls)?,
                ColumnType::Float64 => self.numbers::<Float64Type>(rows, nulls)?,
                ColumnType::Uint64 => self.numbers::<UInt64Type>(rows, nulls)?,
                ColumnType::Time => {
                    let values = self.scalars::<TimestampMicrosecondType>(rows)?;
                    Arc::new(TimestampMicrosecondArray::new(values, nulls).with_timezone("UTC"))
                }
                ColumnType::Text => {
                    let (offsets, data) = self.values(rows)?;
                    Arc::new(StringArray::try_new(offsets, data, nulls).map_err(|e| e.to_string())?)
                }
                ColumnType::Binary => {
                    let (offsets, data) = self.values(rows)?;
                    Arc::new(BinaryArray::try_new(offsets, data, nulls).map_err(|e| e.to_string())?)
                }
            });
        }
        let schema = known.unwrap_or_else(|| arrow_schema(&columns));
        *shape = Some(Arc::clone(&schema));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(|e| e.to_string())
    }

    fn bits(&mut self, rows: usize) -> Result<BooleanBuffer, String> {
        Ok(BooleanBuffer::new(
            Buffer::from(self.take(rows.div_ceil(8))?),
            0,
            rows,
        ))
    }

    fn scalars<T: ArrowPrimitiveType>(
        &mut self,
        rows: usize,
    ) -> Result<ScalarBuffer<T::Native>, String> {
        let bytes = rows
            .checked_mul(size_of::<T::Native>())
            .ok_or("row count overflows")?;
        Ok(ScalarBuffer::new(Buffer::from(self.take(bytes)?), 0, rows))
    }

    fn numbers<T: ArrowPrimitiveType>(
        &mut self,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, String> {
        let values = self.scalars::<T>(rows)?;
        Ok(Arc::new(
            PrimitiveArray::<T>::try_new(values, nulls).map_err(|e| e.to_string())?,
        ))
    }

    fn values(&mut self, rows: usize) -> Result<(OffsetBuffer<i32>, Buffer), String> {
        let bytes = (rows + 1).checked_mul(4).ok_or("row count overflows")?;
        let offsets = ScalarBuffer::<i32>::new(Buffer::from(self.take(bytes)?), 0, rows + 1);
        let rising = offsets.first() == Some(&0) && offsets.is_sorted();
        if !rising {
            return Err("text offsets are not in increasing order from 0".into());
        }
        let len = offsets[rows] as usize;
        Ok((OffsetBuffer::new(offsets), Buffer::from(self.take(len)?)))
    }
}

fn column_type_of(code: u8) -> Result<ColumnType, String> {
    use ColumnType::{Binary, Bool, Float64, Int16, Int64, Text, Time, Uint64};
    [Bool, Int16, Int64, Float64, Text, Binary, Time, Uint64]
        .into_iter()
        .find(|t| *t as u8 == code)
        .ok_or_else(|| format!("unknown column type {code}"))
}

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
