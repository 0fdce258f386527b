//! Streams in the rebuild of a manifest: their kinds, columns and partition widths follow from
//! their parts, the journal and the cards of detached partitions.

use std::collections::BTreeMap;

use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;

use super::Rebuilder;
use super::parts::Places;
use crate::counter_columns::{COUNTER, INCREMENT};
use crate::detached::Card;
use crate::manifest::{PartitionWidth, StreamMeta};
use crate::model::{Column, ColumnType, Name, QUARANTINE, SEQ, StreamKind};
use crate::part;

const WIDTHS: [PartitionWidth; 3] = [
    PartitionWidth::Hour,
    PartitionWidth::Day,
    PartitionWidth::Month,
];

impl Rebuilder<'_> {
    /// Adds the streams of parts, with every column that one of their parts has.
    pub(super) fn take_streams(&mut self, places: &Places, cards: &BTreeMap<String, Card>) {
        let mut streams: BTreeMap<Name, (Option<PartitionWidth>, Vec<Column>)> = BTreeMap::new();
        for ((stream, folder), parts) in places {
            let (width, columns) = streams.entry(stream.clone()).or_default();
            *width = width.or_else(|| width_of(folder));
            for (_, path) in parts {
                // A part that cannot be read is reported when its rows are read.
                let read = self.fs.read(&self.data.join(path)).map(Bytes::from);
                if let Some(schema) = read.ok().and_then(schema_of) {
                    add_columns(columns, &schema);
                }
            }
        }
        for card in cards.values() {
            let (width, columns) = streams.entry(card.stream.clone()).or_default();
            *width = Some(card.width);
            for known in &card.columns {
                if !columns.iter().any(|c| c.name == known.name) {
                    columns.push(known.clone());
                }
            }
            self.kinds.insert(card.stream.clone(), card.kind);
        }
        for (stream, (width, columns)) in streams {
            let kind = self.kind_of(&stream, &columns);
            let mut meta = self.new_stream(&stream, kind);
            meta.partition = width.unwrap_or(meta.partition);
            for column in columns {
                if !meta.columns.iter().any(|c| c.name == column.name) {
                    meta.columns.push(column);
                }
            }
            self.add_finding(format!(
                "stream {stream}: its content looks like {}; the first times of its columns and its list of dropped partitions are lost with the manifest",
                match kind {
                    StreamKind::Access => "an access log",
                    StreamKind::Documents => "documents",
                    StreamKind::Counters => "counters",
                    StreamKind::Quarantine => "quarantined items",
                }
            ));
            self.draft.manifest.streams.insert(stream, meta);
        }
    }

    fn new_stream(&self, stream: &Name, kind: StreamKind) -> StreamMeta {
        let now_us = self.options.clock.now_us();
        self.options.config.stream_meta(stream, kind, now_us)
    }

    /// Returns the kind of a stream: from the journal or a card if they name it, else by its
    /// columns.
    fn kind_of(&self, stream: &Name, columns: &[Column]) -> StreamKind {
        if stream.as_str() == QUARANTINE {
            return StreamKind::Quarantine;
        }
        if let Some(kind) = self.kinds.get(stream) {
            return *kind;
        }
        // Of an access log a stream may have further columns. But no integer of a document becomes
        // a column of 16 bits. An access log without any status has no such column either, and is
        // taken for documents: all its values are there, in columns of the same names.
        let is_status = |f: &Column| &*f.name == "status" && f.column_type == ColumnType::Int16;
        let is_counted = |f: &Column| &*f.name == INCREMENT && f.column_type == ColumnType::Int64;
        let is_counter = |f: &Column| &*f.name == COUNTER && f.column_type == ColumnType::Text;
        if columns.iter().any(is_status) {
            StreamKind::Access
        } else if columns.iter().any(is_counted) && columns.iter().any(is_counter) {
            StreamKind::Counters
        } else {
            StreamKind::Documents
        }
    }

    /// Returns a stream, which is created when it is not known yet.
    pub(super) fn stream(&mut self, name: &Name, kind: StreamKind) -> &mut StreamMeta {
        if !self.draft.manifest.streams.contains_key(name) {
            let meta = self.new_stream(name, kind);
            self.draft.manifest.streams.insert(name.clone(), meta);
        }
        let known = self.draft.manifest.streams.get_mut(name);
        known.expect("BUG: it was made above")
    }
}

fn schema_of(bytes: Bytes) -> Option<SchemaRef> {
    part::read_schema(bytes).ok()
}

fn width_of(folder: &str) -> Option<PartitionWidth> {
    let of = |width: &PartitionWidth| {
        let name = part::partition_folder(*width, 0);
        name.split_once('=').map(|(word, _)| word.to_owned())
    };
    let word = folder.split_once('=')?.0;
    WIDTHS.into_iter().find(|w| of(w).as_deref() == Some(word))
}

/// Adds the columns of a part. An integer column that also occurs as float becomes float. Other
/// integer columns are marked `wide`, since it is not known whether a float would lose digits.
fn add_columns(columns: &mut Vec<Column>, schema: &Schema) {
    for field in schema.fields() {
        let Some(found) = ColumnType::of(field.data_type()) else {
            continue;
        };
        if field.name() == SEQ {
            continue;
        }
        match columns.iter_mut().find(|c| &*c.name == field.name()) {
            Some(known) if known.column_type != found => {
                known.column_type = ColumnType::Float64;
                known.wide = false;
            }
            Some(_) => {}
            None => {
                let mut column = Column::new(field.name(), found);
                column.wide = found == ColumnType::Int64;
                columns.push(column);
            }
        }
    }
}
