//! Documents: rows of named values become columns.
//!
//! Every format of documents ends here: its reader fills a [`DocumentRow`], in which nested objects
//! are flattened to dotted names. A scalar goes into the column of its name when it fits the
//! column's type, which is the one that the stream knows or that of the first value seen.
//! Everything else goes with its own type into the BSON document of the column `_rest`, under the
//! same dotted name: values of another type, arrays, empty objects, integers beyond 64 bits, fields
//! past the column limit (or past [`CELLS_MAX`] for one batch), and fields with names of the
//! store's own. **No value is lost**, but for two rules: null is the same as no field, and of a
//! name that occurs twice in one object the last value counts.
//!
//! An integer fits a float column while a float holds it exactly (up to 2^53), and a column of such
//! integers becomes one of floats when a float comes.
//!
//! # Columns, in this order
//! `time`; the stream's columns in its order, then new ones as they appeared, each only where the
//! batch has a value for it; `_id`, `time_source` and `_rest`, only where some row needs them.

mod anonymise;
mod column;
mod row;
mod time;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use bson::Document;
use storage::{Column, ColumnType, ID, REST, SEQ, SHARD, TIME, TIME_SOURCE};

pub(crate) use self::column::ColumnValues;
pub(crate) use self::row::{DEPTH_MAX, DocumentRow, Field, Value, check_key};
pub use self::time::TIME_FIELDS;
use self::time::{DocumentId, EventTime};
use crate::bad::Bad;
use crate::error::Result;
use crate::reader::ReaderOptions;
use crate::select::RAW_LINE;

/// The column of the site, for events that do not bring their own.
pub(crate) const SITE: &str = "site";
/// The most values, missing ones included, that the columns of one batch may have: each takes about
/// eight bytes. Only a batch of very many short lines with very many fields among them reaches it.
pub(crate) const CELLS_MAX: usize = 1 << 26;
/// The number of columns that a batch may have whatever its lines.
const BATCH_COLUMNS_MIN: usize = 16;
/// The largest `_rest` of one event, in bytes: that of a MongoDB document.
const REST_BYTES_MAX: usize = 16 << 20;
/// The largest column `_rest` of one batch; its offsets end at 2^31.
const REST_BATCH_BYTES_MAX: usize = 1 << 30;

/// Takes documents one by one and returns one batch after the other.
#[derive(Debug)]
pub(crate) struct Documents {
    raw_line: bool,
    columns_max: usize,
    columns: Vec<ColumnValues>,
    by_name: HashMap<Arc<str>, usize>,
    time: Vec<i64>,
    id: ColumnValues,
    time_source: ColumnValues,
    rest: ColumnValues,
    rest_bytes: usize,
    /// Per field of the document before: its column. Documents of one source resemble each other.
    hints: Vec<usize>,
    /// The columns of this document, each with the field that holds its value, the last of its
    /// name.
    column_fields: Vec<(usize, usize)>,
    /// Per column: where it may stand in `column_fields`.
    slots: Vec<usize>,
    /// Columns that have values in this batch.
    batch_columns: usize,
    /// The most columns that may have values in this batch.
    batch_columns_max: usize,
}

/// A field's place among columns.
enum Home {
    Column(usize),
    Rest,
    None,
}

impl Documents {
    pub(crate) fn new(options: &ReaderOptions) -> Self {
        let mut documents = Self {
            raw_line: options.selection.raw_line,
            columns_max: options.columns_max,
            columns: Vec::new(),
            by_name: HashMap::new(),
            time: Vec::new(),
            id: ColumnValues::new(Column::new(ID, ColumnType::Text)),
            time_source: ColumnValues::new(Column::new(TIME_SOURCE, ColumnType::Text)),
            rest: ColumnValues::new(Column::new(REST, ColumnType::Binary)),
            rest_bytes: 0,
            hints: Vec::new(),
            column_fields: Vec::new(),
            slots: Vec::new(),
            batch_columns: 0,
            batch_columns_max: usize::MAX,
        };
        for column in &options.schema {
            if !documents.is_reserved(&column.name) && !documents.by_name.contains_key(&column.name)
            {
                documents.add(column.clone());
            }
        }
        documents
    }

    /// Says how many documents the next batch has at most.
    pub(crate) fn expect(&mut self, documents: usize) {
        self.batch_columns_max = (CELLS_MAX / documents.max(1)).max(BATCH_COLUMNS_MIN);
    }

    /// Returns whether a name is one that a document's own field cannot have as a column.
    fn is_reserved(&self, name: &str) -> bool {
        is_reserved(name) || self.raw_line && name == RAW_LINE
    }

    fn add(&mut self, column: Column) -> usize {
        let index = self.columns.len();
        self.by_name.insert(Arc::clone(&column.name), index);
        self.columns.push(ColumnValues::new(column));
        index
    }

    /// Takes a document as an event, or returns why it is none.
    pub(crate) fn take(
        &mut self,
        row: &mut DocumentRow,
        options: &ReaderOptions,
    ) -> Result<(), Bad> {
        let before = self.columns.len();
        let taken = self.take_row(row, options);
        if taken.is_err() {
            // A rejected document must not shape the stream.
            for values in self.columns.drain(before..) {
                self.by_name.remove(&values.column.name);
            }
        }
        taken
    }

    fn take_row(&mut self, row: &mut DocumentRow, options: &ReaderOptions) -> Result<(), Bad> {
        if let Some(site) = &options.site {
            let has_site = |f: &Field| row.str(&f.name) == SITE && f.value != Value::Null;
            if !row.fields.iter().any(has_site) {
                row.push_text(SITE, site);
            }
        }
        if !options.anonymiser.is_empty() {
            row.anonymise(&options.anonymiser);
        }
        let row = &*row;
        let id = DocumentId::find(row);
        let time = EventTime::find(row, id, options);
        options.check_time(0, time.us)?;

        let mut rest = self.place_fields(row, id, &time, options)?;
        self.move_misfits(row, &mut rest);
        let rest = if rest.is_empty() {
            None
        } else {
            Some(self.encode(&rest)?)
        };
        // Nothing fails from here on: the document becomes a row of all its columns.
        let index = self.time.len();
        for &(column, rank) in &self.column_fields {
            self.columns[column].put(index, &row.fields[rank].value, row);
        }
        if let Some(id) = id.filter(|_| options.selection.takes(ID)) {
            self.id.put_text(index, &id.text(row));
        }
        if let Some(source) = time.source {
            self.time_source.put_text(index, source);
        }
        if let Some(rest) = rest {
            self.rest_bytes += rest.len();
            self.rest.put_bytes(index, &rest);
        }
        self.time.push(time.us);
        Ok(())
    }

    /// Finds the column of each field. Returns the fields that have none.
    fn place_fields(
        &mut self,
        row: &DocumentRow,
        id: Option<DocumentId>,
        time: &EventTime,
        options: &ReaderOptions,
    ) -> Result<Document, Bad> {
        let mut rest = Document::new();
        self.column_fields.clear();
        for (rank, field) in row.fields.iter().enumerate() {
            let name = row.str(&field.name);
            let is_stored = (name == TIME && time.is_field) || Some(rank) == id.map(|id| id.rank);
            if is_stored || !options.selection.takes(name) {
                continue;
            }
            let home = self.home(rank, name, &field.value);
            let noted = match home {
                Home::Column(column) => self.noted(column),
                Home::Rest | Home::None => None,
            };
            // A column may have begun since an earlier value went to the rest.
            let is_in_rest = noted.is_none() && rest.contains_key(name);
            let earlier = noted.or_else(|| is_in_rest.then(|| row.earlier(rank))?);
            if let Some(other) = earlier.map(|earlier| &row.fields[earlier])
                && other.path != field.path
            {
                // Null is no field, and takes nothing from one that is written otherwise.
                match (&other.value, &field.value) {
                    (_, Value::Null) => continue,
                    (Value::Null, _) => {}
                    _ => return Err(Bad::because("ambiguous_name", 0, two_fields(name))),
                }
            }
            if is_in_rest {
                rest.remove(name);
            }
            match home {
                Home::Column(column) => self.note(column, rank),
                Home::Rest => {
                    rest.insert(name, row.to_bson(&field.value));
                }
                Home::None => {}
            }
        }
        Ok(rest)
    }

    /// Moves the values that their columns do not take to the rest.
    fn move_misfits(&mut self, row: &DocumentRow, rest: &mut Document) {
        self.column_fields.retain(|&(column, rank)| {
            let Field { name, value, .. } = &row.fields[rank];
            let values = &self.columns[column];
            let mut fits = values.fits(value);
            if fits && !values.has_begun() {
                fits = self.batch_columns < self.batch_columns_max;
                self.batch_columns += usize::from(fits);
            }
            if !fits && *value != Value::Null {
                rest.insert(row.str(name), row.to_bson(value));
            }
            fits
        });
    }

    /// Returns the field that holds the value of a column so far.
    fn noted(&self, column: usize) -> Option<usize> {
        let slot = *self.slots.get(column)?;
        let noted = self.column_fields.get(slot)?;
        (noted.0 == column).then_some(noted.1)
    }

    /// Notes the field that holds the value of a column; a later one replaces an earlier one.
    fn note(&mut self, column: usize, rank: usize) {
        if self.slots.len() <= column {
            self.slots.resize(column + 1, usize::MAX);
        }
        match self.column_fields.get_mut(self.slots[column]) {
            Some(earlier) if earlier.0 == column => earlier.1 = rank,
            _ => {
                self.slots[column] = self.column_fields.len();
                self.column_fields.push((column, rank));
            }
        }
    }

    fn encode(&self, rest: &Document) -> Result<Vec<u8>, Bad> {
        let bytes = rest.to_vec().map_err(|e| {
            Bad::because(
                "bad_name",
                0,
                format!("its values without a column cannot be encoded as BSON: {e}"),
            )
        })?;
        if bytes.len() > REST_BYTES_MAX || self.rest_bytes + bytes.len() > REST_BATCH_BYTES_MAX {
            let size = bytes.len();
            return Err(Bad::because(
                "too_large",
                0,
                format!(
                    "its values without a column take {size} bytes; the limit is 16 MiB per event and 1 GiB per batch"
                ),
            ));
        }
        Ok(bytes)
    }

    /// Finds the column of a field, or makes one for it.
    fn home(&mut self, rank: usize, name: &str, value: &Value) -> Home {
        if let Some(&column) = self.hints.get(rank)
            && self
                .columns
                .get(column)
                .is_some_and(|c| &*c.column.name == name)
        {
            return Home::Column(column);
        }
        let column = match self.by_name.get(name) {
            Some(&column) => column,
            None if *value == Value::Null => return Home::None,
            None => match ColumnValues::type_of(value) {
                Some(column_type)
                    if !self.is_reserved(name) && self.columns.len() < self.columns_max =>
                {
                    self.add(Column::new(name, column_type))
                }
                _ => return Home::Rest,
            },
        };
        if self.hints.len() <= rank {
            self.hints.resize(rank + 1, usize::MAX);
        }
        self.hints[rank] = column;
        Home::Column(column)
    }

    /// Returns the events taken since the last call.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let next = Vec::with_capacity(self.time.len());
        let time = std::mem::replace(&mut self.time, next);
        (self.rest_bytes, self.batch_columns) = (0, 0);
        let own = [&mut self.id, &mut self.time_source, &mut self.rest];
        batch(time, self.columns.iter_mut().chain(own))
    }
}

/// Makes a batch of the times of its events and of those columns that have a value.
pub(crate) fn batch<'a>(
    time: Vec<i64>,
    all_values: impl Iterator<Item = &'a mut ColumnValues>,
) -> Result<RecordBatch> {
    let rows = time.len();
    let mut columns = vec![Column::new(TIME, ColumnType::Time)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(
        TimestampMicrosecondArray::from(time).with_timezone("UTC"),
    )];
    for values in all_values {
        if let Some(array) = values.finish(rows) {
            columns.push(values.column.clone());
            arrays.push(array);
        }
    }
    Ok(RecordBatch::try_new(
        storage::arrow_schema(&columns),
        arrays,
    )?)
}

/// Returns whether a name belongs to the store.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.is_empty()
        || name == TIME
        || name == REST
        || name == TIME_SOURCE
        || name.starts_with(SEQ)
        || name == ID
        || name == SHARD
        || name
            .strip_prefix(ID)
            .is_some_and(|rest| rest.starts_with('.'))
}

fn two_fields(name: &str) -> String {
    format!("two fields have the dotted name {name:?}, written with dots and as nested objects")
}
