//! The time of a document, and its own `_id`, which may hold one.

use std::borrow::Cow;

use storage::{ID, TIME};

use super::row::{DocumentRow, Value};
use crate::reader::ReaderOptions;
use crate::stamp;

/// Fields that can hold the event's time; the first that parses counts.
pub(crate) const TIME_FIELDS: [&str; 8] = [
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
    /// It came as `{"$oid": …}`, whose digits are stored in lower case.
    extended: bool,
}

impl DocumentId {
    pub(super) fn find(row: &DocumentRow) -> Option<Self> {
        let mut fields = row.fields.iter().enumerate().rev();
        fields.find_map(|(rank, field)| {
            let Value::Text(place) = &field.value else {
                return None;
            };
            match row.str(&field.name) {
                ID => Some(Self {
                    rank,
                    extended: false,
                }),
                "_id.$oid" => stamp::read_object_id(row.str(place)).map(|_| Self {
                    rank,
                    extended: true,
                }),
                _ => None,
            }
        })
    }

    pub(super) fn text(self, row: &DocumentRow) -> Cow<'_, str> {
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

/// An event's time and where it comes from.
#[derive(Debug)]
pub(super) struct EventTime {
    pub(super) us: i64,
    /// The field `time` holds it and is thereby stored.
    pub(super) is_field: bool,
    /// The value of the column `time_source`.
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
                _ => None,
            };
            if let Some(us) = us {
                return Self {
                    us,
                    is_field: rank == 0,
                    source: None,
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
