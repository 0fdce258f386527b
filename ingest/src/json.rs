//! Documents: JSON objects with columns of their own, and plain lines.
//!
//! Nested objects are flattened to dotted names. A scalar goes into the column of its name when it
//! fits the column's type, which is the one that the stream knows or that of the first value seen.
//! Everything else — values of another type, arrays, empty objects, integers beyond 64 bits, fields
//! past the column limit (or past [`CELLS_MAX`] for one batch), fields with names of ours — goes with its own type into the BSON document
//! of the column `_rest`, under the same dotted name. **No value is lost**, but for two rules: JSON
//! null is the same as no field, and of a name that occurs twice in one object the last value counts.
//!
//! An integer fits a float column while a float holds it exactly (up to 2^53), and a column of such
//! integers becomes one of floats when a float comes.
//!
//! # Columns, in this order
//! `time`; the stream's columns in its order, then new ones as they appeared, each only where the
//! batch has a value for it; `_id`, `time_source` and `_rest`, only where some row needs them.

mod column;
mod flat;
mod numbers;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use bson::{Bson, Document};
use serde::de::IgnoredAny;
use storage::{Column, ColumnType, ID, REST, SEQ, TIME, TIME_SOURCE};

use crate::error::Result;
use crate::parser::{Bad, ParseOptions};
use crate::select::RAW_LINE;
use crate::stamp;
use column::Values;
use flat::{Field, Row, Value};

/// The column of a plain line.
const LINE: &str = "line";
/// The column of the site, for events that do not bring their own.
const SITE: &str = "site";
/// Fields that can hold the event's time, the first that parses being taken.
const TIME_FIELDS: [&str; 6] = [TIME, "@timestamp", "timestamp", "ts", "created_at", "date"];
/// The largest `_rest` of one event, in bytes: that of a MongoDB document.
const REST_BYTES_MAX: usize = 16 << 20;
/// The most values, missing ones included, that the columns of one batch may have: each takes about
/// eight bytes. Only a batch of very many short lines with very many fields among them reaches it.
const CELLS_MAX: usize = 1 << 26;
/// So many columns a batch may have at any rate.
const COLUMNS_AT_ONCE_MIN: usize = 16;
/// The largest column `_rest` of one batch; its offsets end at 2^31.
const REST_BATCH_BYTES_MAX: usize = 1 << 30;

/// Reads documents line by line into one batch after the other.
#[derive(Debug)]
pub(crate) struct Documents {
    plain: bool,
    raw_line: bool,
    columns_max: usize,
    columns: Vec<Values>,
    by_name: HashMap<Arc<str>, usize>,
    time: Vec<i64>,
    id: Values,
    time_source: Values,
    rest: Values,
    rest_bytes: usize,
    row: Row,
    /// Per field of the line before: its column. Lines of one source resemble each other.
    hints: Vec<usize>,
    /// The columns of this line with the field that holds their value, the last of its name.
    taken: Vec<(usize, usize)>,
    /// Per column: where it may stand in `taken`.
    slots: Vec<usize>,
    /// Columns that have values in this batch, and how many may have.
    begun: usize,
    at_once: usize,
}

/// A field's place among columns.
enum Home {
    Column(usize),
    Rest,
    None,
}

impl Documents {
    /// Reads JSON objects.
    pub(crate) fn json(options: &ParseOptions) -> Self {
        let mut documents = Self::new(options);
        for column in &options.schema {
            if !documents.is_ours(&column.name) && !documents.by_name.contains_key(&column.name) {
                documents.add(column.clone());
            }
        }
        documents
    }

    /// Takes every line as an event with the columns `time` and `line`.
    pub(crate) fn plain(options: &ParseOptions) -> Self {
        let mut documents = Self {
            plain: true,
            ..Self::new(options)
        };
        documents.add(Column::new(LINE, ColumnType::Text));
        documents.add(Column::new(SITE, ColumnType::Text));
        documents
    }

    fn new(options: &ParseOptions) -> Self {
        Self {
            plain: false,
            raw_line: options.selection.raw_line,
            columns_max: options.columns_max,
            columns: Vec::new(),
            by_name: HashMap::new(),
            time: Vec::new(),
            id: Values::new(Column::new(ID, ColumnType::Text)),
            time_source: Values::new(Column::new(TIME_SOURCE, ColumnType::Text)),
            rest: Values::new(Column::new(REST, ColumnType::Binary)),
            rest_bytes: 0,
            row: Row::default(),
            hints: Vec::new(),
            taken: Vec::new(),
            slots: Vec::new(),
            begun: 0,
            at_once: usize::MAX,
        }
    }

    /// Says how many lines the next batch has at most.
    pub(crate) fn expect_lines(&mut self, lines: usize) {
        self.at_once = (CELLS_MAX / lines.max(1)).max(COLUMNS_AT_ONCE_MIN);
    }

    /// Names that a document's own fields cannot have as columns.
    fn is_ours(&self, name: &str) -> bool {
        is_ours(name) || self.raw_line && name == RAW_LINE
    }

    fn add(&mut self, column: Column) -> usize {
        let index = self.columns.len();
        self.by_name.insert(Arc::clone(&column.name), index);
        self.columns.push(Values::new(column));
        index
    }

    /// Takes a line as an event, or says why not.
    pub(crate) fn take(
        &mut self,
        line: &str,
        options: &ParseOptions,
        latest_us: i64,
    ) -> Result<(), Bad> {
        if self.plain {
            self.take_plain(line, options);
            return Ok(());
        }
        let mut row = std::mem::take(&mut self.row);
        let before = self.columns.len();
        let taken =
            read_object(&mut row, line).and_then(|()| self.take_row(&mut row, options, latest_us));
        if taken.is_err() {
            // What a rejected line looked like must not shape the stream.
            for values in self.columns.drain(before..) {
                self.by_name.remove(&values.column.name);
            }
        }
        self.row = row;
        taken
    }

    fn take_plain(&mut self, line: &str, options: &ParseOptions) {
        let index = self.time.len();
        if options.selection.takes(LINE) {
            self.columns[0].put_text(index, line);
        }
        if let Some(site) = options
            .site
            .as_ref()
            .filter(|_| options.selection.takes(SITE))
        {
            self.columns[1].put_text(index, site);
        }
        self.time.push(options.received_us);
    }

    fn take_row(
        &mut self,
        row: &mut Row,
        options: &ParseOptions,
        latest_us: i64,
    ) -> Result<(), Bad> {
        if let Some(site) = &options.site {
            let has_site = |f: &Field| row.str(&f.name) == SITE && f.value != Value::Null;
            if !row.fields.iter().any(has_site) {
                row.push_text(SITE, site);
            }
        }
        let row = &*row;
        let id = find_id(row);
        let time = find_time(row, id, options);
        if time.us > latest_us {
            return Err(Bad::future(0, time.us, options));
        }
        if !stamp::is_held(time.us) {
            return Err(Bad::time_range(0, time.us));
        }

        let mut rest = Document::new();
        self.taken.clear();
        for (rank, field) in row.fields.iter().enumerate() {
            let name = row.str(&field.name);
            let is_known = (name == TIME && time.from_time) || Some(rank) == id.map(|id| id.rank);
            if is_known || !options.selection.takes(name) {
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
                    rest.insert(name, to_bson(&field.value, row));
                }
                Home::None => {}
            }
        }
        self.taken.retain(|&(column, rank)| {
            let Field { name, value, .. } = &row.fields[rank];
            let values = &self.columns[column];
            let mut fits = values.fits(value);
            if fits && !values.has_begun() {
                fits = self.begun < self.at_once;
                self.begun += usize::from(fits);
            }
            if !fits && *value != Value::Null {
                rest.insert(row.str(name), to_bson(value, row));
            }
            fits
        });

        let rest = if rest.is_empty() {
            None
        } else {
            Some(self.encode(&rest)?)
        };
        let index = self.time.len();
        for &(column, rank) in &self.taken {
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

    /// The field that holds the value of a column so far.
    fn noted(&self, column: usize) -> Option<usize> {
        let slot = *self.slots.get(column)?;
        let taken = self.taken.get(slot)?;
        (taken.0 == column).then_some(taken.1)
    }

    /// Notes which field holds the value of a column; a later one replaces an earlier one.
    fn note(&mut self, column: usize, rank: usize) {
        if self.slots.len() <= column {
            self.slots.resize(column + 1, usize::MAX);
        }
        match self.taken.get_mut(self.slots[column]) {
            Some(earlier) if earlier.0 == column => earlier.1 = rank,
            _ => {
                self.slots[column] = self.taken.len();
                self.taken.push((column, rank));
            }
        }
    }

    fn encode(&self, rest: &Document) -> Result<Vec<u8>, Bad> {
        let bytes = rest.to_vec().map_err(|e| {
            Bad::because(
                "bad_name",
                0,
                format!("its values without a column are no BSON: {e}"),
            )
        })?;
        if bytes.len() > REST_BYTES_MAX || self.rest_bytes + bytes.len() > REST_BATCH_BYTES_MAX {
            let size = bytes.len();
            return Err(Bad::because(
                "too_large",
                0,
                format!(
                    "its values without a column take {size} bytes; at most 16 MiB an event and 1 GiB a batch"
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
            None => match Values::type_of(value) {
                Some(column_type)
                    if !self.is_ours(name) && self.columns.len() < self.columns_max =>
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

    /// The events taken since the last time.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let rows = self.time.len();
        if self.plain {
            // A plain batch has its line column also when all its lines are empty.
            self.columns[0].begin();
        }
        let time = std::mem::replace(&mut self.time, Vec::with_capacity(rows));
        (self.rest_bytes, self.begun) = (0, 0);
        let mut columns = vec![Column::new(TIME, ColumnType::Time)];
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(
            TimestampMicrosecondArray::from(time).with_timezone("UTC"),
        )];
        for values in
            self.columns
                .iter_mut()
                .chain([&mut self.id, &mut self.time_source, &mut self.rest])
        {
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
}

fn is_ours(name: &str) -> bool {
    name.is_empty()
        || name == TIME
        || name == REST
        || name == TIME_SOURCE
        || name.starts_with(SEQ)
        || name == ID
        || name
            .strip_prefix(ID)
            .is_some_and(|rest| rest.starts_with('.'))
}

fn read_object(row: &mut Row, line: &str) -> Result<(), Bad> {
    let begin = line.len() - line.trim_ascii_start().len();
    if !line[begin..].starts_with('{') && serde_json::from_str::<IgnoredAny>(line).is_ok() {
        return Err(Bad::expected("not_an_object", begin, "a JSON object"));
    }
    row.read(line)
}

/// The field that is the document's own `_id`.
#[derive(Clone, Copy)]
struct Id {
    rank: usize,
    /// It came as `{"$oid": …}`, whose digits are written in lower case.
    extended: bool,
}

impl Id {
    fn text(self, row: &Row) -> std::borrow::Cow<'_, str> {
        let Value::Text(place) = &row.fields[self.rank].value else {
            unreachable!("BUG: an _id is text");
        };
        if self.extended {
            row.str(place).to_ascii_lowercase().into()
        } else {
            row.str(place).into()
        }
    }
}

fn find_id(row: &Row) -> Option<Id> {
    row.fields
        .iter()
        .enumerate()
        .rev()
        .find_map(|(rank, field)| {
            let Value::Text(place) = &field.value else {
                return None;
            };
            match row.str(&field.name) {
                ID => Some(Id {
                    rank,
                    extended: false,
                }),
                "_id.$oid" => stamp::read_object_id(row.str(place)).map(|_| Id {
                    rank,
                    extended: true,
                }),
                _ => None,
            }
        })
}

/// An event's time and where it comes from.
struct EventTime {
    us: i64,
    /// The field `time` gave it and is thereby stored.
    from_time: bool,
    /// The value of the column `time_source`.
    source: Option<&'static str>,
}

fn find_time(row: &Row, id: Option<Id>, options: &ParseOptions) -> EventTime {
    let mut candidates: [Option<&Value>; TIME_FIELDS.len()] = [None; TIME_FIELDS.len()];
    for field in &row.fields {
        if let Some(rank) = TIME_FIELDS
            .iter()
            .position(|name| *name == row.str(&field.name))
        {
            candidates[rank] = Some(&field.value);
        }
    }
    for (rank, value) in candidates.into_iter().enumerate() {
        let us = match value {
            Some(Value::Text(place)) => stamp::read_text(row.str(place), options.tz.as_ref()),
            Some(Value::Int(number)) => stamp::read_integer(i128::from(*number)),
            Some(Value::Float(number)) => stamp::read_float(*number),
            _ => None,
        };
        if let Some(us) = us {
            return EventTime {
                us,
                from_time: rank == 0,
                source: None,
            };
        }
    }
    match id.and_then(|id| stamp::read_object_id(&id.text(row))) {
        Some(us) => EventTime {
            us,
            from_time: false,
            source: Some("objectid"),
        },
        None => EventTime {
            us: options.received_us,
            from_time: false,
            source: Some("received"),
        },
    }
}

fn two_fields(name: &str) -> String {
    format!("two fields have the dotted name {name:?}, written with dots and as nested objects")
}

fn to_bson(value: &Value, row: &Row) -> Bson {
    match value {
        Value::Null => Bson::Null,
        Value::Bool(value) => Bson::Boolean(*value),
        Value::Int(number) => Bson::Int64(*number),
        Value::Float(number) => Bson::Double(*number),
        Value::Text(place) => Bson::String(row.str(place).to_owned()),
        Value::Other(value) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
