//! Events of a stream as the documents that clients inserted.
//!
//! Columns with dotted names are nested documents again. A null column is no field, since a null
//! that a client inserted is in the overflow column. `time` is a field unless `time_source` says
//! that the event has its time from elsewhere. An integer has 32 bits if it fits, as drivers write
//! it. Fields have the order of the columns: events keep none of their own. The columns of every
//! access log are fields with fixed types, null where they are null.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Float64Type, Int16Type, Int64Type, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use bson::oid::ObjectId;
use bson::raw::{CString, RawBsonRef, cstr};
use bson::{Bson, DateTime, Document, RawDocument};
use storage::{ID, REST, SEQ, StreamKind, TIME, TIME_SOURCE, access_fields};

use crate::answer::document::{LEFT_OUT, id, plain, value};
use crate::error::{Error, Result};
use crate::mongo::encoding::{begin_document, end_document, put_element};
use crate::mongo::pipeline::{FieldPlace, FieldRows};

/// The rows of a batch, to be read as documents.
#[derive(Debug)]
pub struct EventDocuments {
    batch: RecordBatch,
    id: Option<ArrayRef>,
    time_source: Option<ArrayRef>,
    rest: Option<ArrayRef>,
    seq: Option<ArrayRef>,
    /// The other columns.
    fields: Vec<FieldColumn>,
    /// `_id` is a text, and all other columns have a `key`.
    is_flat: bool,
}

/// A column that is a field of documents.
#[derive(Debug)]
struct FieldColumn {
    name: String,
    path: Vec<String>,
    /// The name in BSON of a field at the top whose values are scalars.
    key: Option<CString>,
    values: ArrayRef,
    form: FieldForm,
}

impl FieldColumn {
    fn new(name: &str, values: &ArrayRef, kind: StreamKind) -> Self {
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        let is_scalar = path.len() == 1 && is_scalar(values.data_type());
        Self {
            key: CString::try_from(name).ok().filter(|_| is_scalar),
            name: name.to_owned(),
            path,
            values: values.clone(),
            form: FieldForm::of(name, kind),
        }
    }

    /// Returns the value of a row, if the column has a `key`; `None` for a missing one.
    fn scalar(&self, row: usize) -> Option<RawBsonRef<'_>> {
        if self.values.is_null(row) {
            return (self.form == FieldForm::Fixed).then_some(RawBsonRef::Null);
        }
        let values = &self.values;
        Some(match values.data_type() {
            DataType::Boolean => RawBsonRef::Boolean(values.as_boolean().value(row)),
            DataType::Int16 => {
                RawBsonRef::Int32(values.as_primitive::<Int16Type>().value(row).into())
            }
            DataType::Int64 => {
                let number = values.as_primitive::<Int64Type>().value(row);
                match i32::try_from(number) {
                    Ok(short) if self.form == FieldForm::Inserted => RawBsonRef::Int32(short),
                    _ => RawBsonRef::Int64(number),
                }
            }
            DataType::Float64 => {
                RawBsonRef::Double(values.as_primitive::<Float64Type>().value(row))
            }
            DataType::Utf8View => RawBsonRef::String(values.as_string_view().value(row)),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                let us = values.as_primitive::<TimestampMicrosecondType>().value(row);
                RawBsonRef::DateTime(DateTime::from_millis(us.div_euclid(1000)))
            }
            other => unreachable!("BUG: {other} has no scalar form"),
        })
    }
}

/// Returns whether the values of a column are scalars of BSON.
fn is_scalar(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Int16
            | DataType::Int64
            | DataType::Float64
            | DataType::Utf8View
            | DataType::Timestamp(TimeUnit::Microsecond, _)
    )
}

/// The form of a column's values as a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldForm {
    /// Missing where the column is null.
    Inserted,
    /// One of every access log: its type is fixed, and it is null where the column is.
    Fixed,
    /// The same, but missing where the column is null.
    FixedOrMissing,
}

impl FieldForm {
    fn of(name: &str, kind: StreamKind) -> Self {
        let is_fixed = || access_fields().iter().any(|column| *column.name == *name);
        match kind {
            StreamKind::Access if LEFT_OUT.contains(&name) => Self::FixedOrMissing,
            StreamKind::Access if is_fixed() => Self::Fixed,
            _ => Self::Inserted,
        }
    }
}

impl EventDocuments {
    /// Prepares the rows of a batch of the columns of a stream of this kind.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a column has a type that BSON cannot carry.
    pub fn new(batch: &RecordBatch, kind: StreamKind) -> Result<Self> {
        let batch = plain(batch)?;
        let column = |name: &str| batch.column_by_name(name).cloned();
        let schema = batch.schema();
        let all = schema.fields().iter().zip(batch.columns());
        let own = [ID, TIME_SOURCE, REST, SEQ];
        let fields = all
            .filter(|(field, _)| !own.contains(&field.name().as_str()))
            .map(|(field, values)| FieldColumn::new(field.name(), values, kind));
        let fields: Vec<FieldColumn> = fields.collect();
        let id = column(ID);
        let is_text = id
            .as_ref()
            .is_none_or(|id| *id.data_type() == DataType::Utf8View);
        let is_flat = is_text && fields.iter().all(|field| field.key.is_some());
        Ok(Self {
            is_flat,
            fields,
            id,
            time_source: column(TIME_SOURCE),
            rest: column(REST).filter(|rest| *rest.data_type() == DataType::Binary),
            seq: column(SEQ),
            batch,
        })
    }

    /// Prepares the rows of a batch of a level, as [`scan_level`](super::scan_level) names its
    /// columns.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a column has a type that BSON cannot carry.
    pub fn of_level(batch: &RecordBatch) -> Result<Self> {
        let mut rows = Self::new(batch, StreamKind::Documents)?;
        for field in &mut rows.fields {
            field.form = FieldForm::Fixed;
        }
        Ok(rows)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sequence number of a row; 0 where the batch has none.
    pub fn seq(&self, row: usize) -> u64 {
        let seq = self.seq.as_ref();
        seq.map_or(0, |seq| seq.as_primitive::<UInt64Type>().value(row))
    }

    /// Returns the document of a row.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the overflow column holds no document.
    pub fn document(&self, row: usize) -> Result<Document> {
        self.part(row, |_| true)
    }

    /// Returns the document of a row in BSON.
    ///
    /// # Errors
    /// As those of [`Self::document`], and when the name of a field has a zero.
    pub fn encoded(&self, row: usize) -> Result<Vec<u8>> {
        if !self.is_flat || self.has_rest(row) {
            let encoded = self.document(row)?.to_vec();
            return encoded.map_err(|e| Error::invalid(format!("a document has no BSON: {e}")));
        }
        let mut out = Vec::with_capacity(256);
        let begin = begin_document(&mut out);
        if let Some(id) = self.id.as_ref().filter(|id| id.is_valid(row)) {
            let text = id.as_string_view().value(row);
            let id = ObjectId::parse_str(text).map(RawBsonRef::ObjectId);
            put_element(
                &mut out,
                cstr!("_id"),
                id.unwrap_or(RawBsonRef::String(text)),
            );
        }
        for (place, field) in self.fields.iter().enumerate() {
            if let (Some(key), Some(value)) = (&field.key, self.value(place, row)) {
                put_element(&mut out, key, value);
            }
        }
        end_document(&mut out, begin);
        Ok(out)
    }

    /// Returns the fields of a row whose names at the top pass a test, and maybe others.
    ///
    /// # Errors
    /// As those of [`Self::document`].
    pub fn part(&self, row: usize, wants: impl Fn(&str) -> bool) -> Result<Document> {
        let mut document = Document::new();
        let mut rest = Vec::new();
        if let Some(column) = self.rest.as_ref().filter(|rest| rest.is_valid(row)) {
            rest = entries(column.as_binary::<i32>().value(row))?;
        }
        let is_id = |name: &str| {
            let below = name.strip_prefix(ID);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        };
        let (ids, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(name, _)| is_id(name));
        match &self.id {
            _ if !ids.is_empty() => put_all(&mut document, ids),
            Some(column) if column.is_valid(row) && wants(ID) => {
                document.insert(ID, id(column, row)?);
            }
            _ => {}
        }
        for column in &self.fields {
            let FieldColumn {
                name,
                path,
                values,
                form,
                ..
            } = column;
            let is_missing = values.is_null(row) && *form != FieldForm::Fixed;
            if is_missing || self.is_elsewhere(name, row) || !wants(&path[0]) {
                continue;
            }
            let value = value(name, values, row)?;
            let value = match form {
                FieldForm::Inserted => shortest(value),
                FieldForm::Fixed | FieldForm::FixedOrMissing => value,
            };
            put(&mut document, path, value);
        }
        put_all(&mut document, others);
        Ok(document)
    }

    fn has_rest(&self, row: usize) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.is_valid(row))
    }

    /// Returns whether a field is the time, and the event has that from elsewhere.
    fn is_elsewhere(&self, name: &str, row: usize) -> bool {
        let source = self.time_source.as_ref().filter(|_| name == TIME);
        source.is_some_and(|from| from.is_valid(row))
    }
}

/// The fields of rows with nothing in the overflow column.
impl FieldRows for EventDocuments {
    fn field(&self, name: &str) -> Option<FieldPlace> {
        let mut found = FieldPlace::Nowhere;
        for (place, field) in self.fields.iter().enumerate() {
            if field.path[0] == name {
                field.key.as_ref()?;
                found = FieldPlace::At(place);
            }
        }
        Some(found)
    }

    fn value(&self, place: usize, row: usize) -> Option<RawBsonRef<'_>> {
        let field = &self.fields[place];
        match self.is_elsewhere(&field.name, row) {
            true => None,
            false => field.scalar(row),
        }
    }
}

/// Returns the entries of a document of the overflow column.
fn entries(bytes: &[u8]) -> Result<Vec<(String, Bson)>> {
    let wrong = |e: bson::error::Error| Error::invalid(format!("{REST} is not a document: {e}"));
    let raw = RawDocument::from_bytes(bytes).map_err(wrong)?;
    let entries = raw.iter().map(|entry| {
        let (name, value) = entry.map_err(wrong)?;
        let value = Bson::try_from(value).map_err(wrong)?;
        Ok((name.as_str().to_owned(), shortest(value)))
    });
    entries.collect()
}

fn put_all(document: &mut Document, entries: Vec<(String, Bson)>) {
    for (name, value) in entries {
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        put(document, &path, value);
    }
}

/// Puts a value at a path. A name that holds a value already stays one: then the rest of the path
/// is a name with dots, as it was inserted.
pub(super) fn put(document: &mut Document, path: &[String], value: Bson) {
    let Some((first, below)) = path.split_first() else {
        return;
    };
    if below.is_empty() {
        document.insert(first.clone(), value);
        return;
    }
    match document
        .entry(first.clone())
        .or_insert_with(|| Document::new().into())
    {
        Bson::Document(inside) => put(inside, below, value),
        _ => {
            document.insert(path.join("."), value);
        }
    }
}

fn shortest(value: Bson) -> Bson {
    match value {
        Bson::Int64(number) => i32::try_from(number).map_or(value, Bson::Int32),
        value => value,
    }
}

#[cfg(test)]
mod tests;
