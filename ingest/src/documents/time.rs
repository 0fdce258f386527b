//! The time of a document, and its own `_id`, which may hold one.

use std::borrow::Cow;

use bson::Bson;
use storage::{ID, TIME};

use super::row::{DocumentRow, Value};
use crate::reader::ReaderOptions;
use crate::stamp;

/// Fields that can hold the event's time; the first that parses counts.
pub const TIME_FIELDS: [&str; 8] = [
    TIME,
    "@timestamp",
    "timestamp",
    "ts",
    "created_at",
    "date",
    // Microseconds as text, in the export of systemd's journal.
    "__REALTIME_TIMESTAMP",
    // The beginning of a request, in access logs of Traefik without a time of their own.
    "StartUTC",
];

/// The field that is the document's own `_id`.
#[derive(Debug, Clone, Copy)]
pub(super) struct DocumentId {
    pub(super) rank: usize,
    form: IdForm,
}

/// The form of an `_id` that the column of its name holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdForm {
    /// Any text. Of a document with types, one that cannot be taken for an ObjectId.
    Text,
    /// `{"$oid": …}`, whose digits are stored in lower case.
    Extended,
    ObjectId,
}

impl DocumentId {
    pub(super) fn find(row: &DocumentRow) -> Option<Self> {
        let mut fields = row.fields.iter().enumerate().rev();
        fields.find_map(|(rank, field)| {
            let form = match (row.str(&field.name), &field.value) {
                (ID, Value::Text(place)) => {
                    let is_like_one = || stamp::read_object_id(row.str(place)).is_some();
                    (!row.is_typed || !is_like_one()).then_some(IdForm::Text)
                }
                (ID, Value::Other(Bson::ObjectId(_))) => Some(IdForm::ObjectId),
                ("_id.$oid", Value::Text(place)) if !row.is_typed => {
                    stamp::read_object_id(row.str(place)).map(|_| IdForm::Extended)
                }
                _ => None,
            };
            form.map(|form| Self { rank, form })
        })
    }

    pub(super) fn text(self, row: &DocumentRow) -> Cow<'_, str> {
        match (self.form, &row.fields[self.rank].value) {
            (IdForm::Text, Value::Text(place)) => row.str(place).into(),
            (IdForm::Extended, Value::Text(place)) => row.str(place).to_ascii_lowercase().into(),
            (IdForm::ObjectId, Value::Other(Bson::ObjectId(id))) => id.to_hex().into(),
            _ => unreachable!("BUG: an _id has the value of its form"),
        }
    }
}

/// An event's time and where it comes from.
#[derive(Debug)]
pub(super) struct EventTime {
    pub(super) us: i64,
    /// The field `time` holds it and is thereby stored.
    pub(super) is_field: bool,
    /// The value of the column `time_source`. A document with types names the field that has the
    /// time, so that it can be read again as it was.
    pub(super) source: Option<&'static str>,
}

impl EventTime {
    pub(super) fn find(row: &DocumentRow, id: Option<DocumentId>, options: &ReaderOptions) -> Self {
        if let Some(us) = row.time_us {
            return Self {
                us,
                is_field: false,
                source: None,
            };
        }
        let mut candidates: [Option<&Value>; TIME_FIELDS.len()] = [None; TIME_FIELDS.len()];
        for field in &row.fields {
            let name = row.str(&field.name);
            if let Some(rank) = TIME_FIELDS.iter().position(|known| *known == name) {
                candidates[rank] = Some(&field.value);
            }
        }
        for (rank, value) in candidates.into_iter().enumerate() {
            let us = match value {
                Some(Value::Text(place)) => stamp::read_text(row.str(place), options.tz.as_ref()),
                Some(Value::Int(number)) => stamp::read_integer(i128::from(*number)),
                Some(Value::Float(number)) => stamp::read_float(*number),
                Some(Value::Time(us)) => Some(*us),
                _ => None,
            };
            if let Some(us) = us {
                let is_field =
                    rank == 0 && (!row.is_typed || matches!(value, Some(Value::Time(_))));
                return Self {
                    us,
                    is_field,
                    source: (row.is_typed && !is_field).then_some(TIME_FIELDS[rank]),
                };
            }
        }
        let of_id = id.and_then(|id| stamp::read_object_id(&id.text(row)));
        Self {
            us: of_id.unwrap_or(options.received_us),
            is_field: false,
            source: Some(match of_id {
                Some(_) => "objectid",
                None => "received",
            }),
        }
    }
}
