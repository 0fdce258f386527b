//! Keys of indexes: the fields that a client asks to index, and the columns that need one for them.
//!
//! An index of a stream has one column. Conditions on several columns use the indexes of each, so
//! that a compound index is one for each of its fields, but for those by which the stream is sorted
//! or cut into partitions.

use bson::{Bson, Document};
use storage::{ID, REST, SEQ, TIME};

use crate::mongo::error::{CommandError, Result, code};

/// Maximum fields of an index, as in MongoDB.
const FIELDS_MAX: usize = 32;
/// Maximum bytes of a field's name.
const FIELD_BYTES_MAX: usize = 512;

/// The fields of an index with their directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexKey(Vec<(String, i32)>);

/// Returns the error of an index that cannot be.
pub(super) fn cannot(why: impl Into<String>) -> CommandError {
    CommandError::new(code::CANNOT_CREATE_INDEX, why)
}

impl IndexKey {
    /// Reads a key.
    ///
    /// # Errors
    /// If there is no such index here, with the reason.
    pub(super) fn parse(key: &Document) -> Result<Self> {
        if key.is_empty() || key.len() > FIELDS_MAX {
            let message = format!("the key of an index has from 1 to {FIELDS_MAX} fields");
            return Err(cannot(message));
        }
        let fields = key.iter().map(|(field, value)| {
            check_field(field)?;
            Ok((field.clone(), direction(field, value)?))
        });
        Ok(Self(fields.collect::<Result<_>>()?))
    }

    /// Reads a key from a name that a driver gives to its index by default: `a_1_b_-1`.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (mut fields, mut rest) = (Vec::new(), name);
        while !rest.is_empty() {
            let mut ends = rest.match_indices('_').filter_map(move |(at, _)| {
                let behind = rest.get(at + 1..)?;
                let (direction, behind) = match behind.strip_prefix("-1") {
                    Some(behind) => (-1, behind),
                    None => (1, behind.strip_prefix('1')?),
                };
                match behind.strip_prefix('_') {
                    Some(next) => Some((at, direction, next)),
                    None => behind.is_empty().then_some((at, direction, behind)),
                }
            });
            let (at, direction, next) = ends.find(|(at, _, _)| *at > 0)?;
            fields.push((rest.get(..at)?.to_owned(), direction));
            rest = next;
        }
        (!fields.is_empty()).then_some(Self(fields))
    }

    /// Returns the key of one column.
    pub(super) fn of_column(column: &str) -> Self {
        Self(vec![(column.to_owned(), 1)])
    }

    /// Returns the key of an order.
    pub(super) fn of_order(columns: &[String]) -> Self {
        Self(columns.iter().map(|column| (column.clone(), 1)).collect())
    }

    /// Returns the name that drivers give to the index.
    pub(super) fn name(&self) -> String {
        let parts = self.0.iter().map(|(field, way)| format!("{field}_{way}"));
        parts.collect::<Vec<_>>().join("_")
    }

    /// Returns the key as clients write it.
    pub(super) fn document(&self) -> Document {
        let fields = self.0.iter();
        fields
            .map(|(field, way)| (field.clone(), Bson::Int32(*way)))
            .collect()
    }

    /// Returns the only field, if there is one.
    pub(super) fn only(&self) -> Option<&str> {
        match &self.0[..] {
            [(field, _)] => Some(field),
            _ => None,
        }
    }

    /// Returns the columns that need an index. The others are `_id`, the time, by which a stream is
    /// cut into partitions, and those by which it is sorted.
    pub(super) fn columns(&self, order_by: &[String]) -> Vec<&str> {
        let own = |field: &&str| *field != ID && *field != TIME;
        let named: Vec<&str> = self.0.iter().map(|(f, _)| f.as_str()).filter(own).collect();
        let order: Vec<&str> = order_by.iter().map(String::as_str).filter(own).collect();
        let sorted = order.get(..named.len());
        if sorted.is_some_and(|sorted| named.iter().all(|field| sorted.contains(field))) {
            return Vec::new();
        }
        let is_first = |field: &&str| order.first() == Some(field);
        named.into_iter().filter(|field| !is_first(field)).collect()
    }
}

fn check_field(field: &str) -> Result<()> {
    if field == "$**" || field.ends_with(".$**") {
        return Err(cannot(
            "there are no wildcard indexes: name the fields, each in an index of its own",
        ));
    }
    if field.is_empty() || field.starts_with('$') || field.len() > FIELD_BYTES_MAX {
        return Err(cannot(format!("'{field}' is no name of a field")));
    }
    if [REST, SEQ].contains(&field) {
        return Err(cannot(format!("the column {field} is the store's own")));
    }
    Ok(())
}

/// Returns the direction of a field.
fn direction(field: &str, value: &Bson) -> Result<i32> {
    let number = match value {
        Bson::Int32(number) => f64::from(*number),
        Bson::Int64(number) => *number as f64,
        Bson::Double(number) => *number,
        Bson::String(kind) => {
            let hint = match kind.as_str() {
                "text" => {
                    "use $regex, which reads the texts of the events that the rest of the filter leaves"
                }
                "hashed" => "use 1: an index of a stream finds equal values by their hashes",
                "2d" | "2dsphere" | "geoHaystack" => "there are no queries of places",
                _ => "use 1",
            };
            return Err(cannot(format!(
                "'{field}' cannot have a {kind} index: {hint}"
            )));
        }
        _ => f64::NAN,
    };
    match (number > 0.0, number < 0.0) {
        (true, _) => Ok(1),
        (_, true) => Ok(-1),
        _ => Err(cannot(format!(
            "the direction of '{field}' must be 1 or -1"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn only_columns_that_nothing_else_serves_need_an_index() {
        let (access, sites) = ("host time", "site host time");
        for (key, order_by, columns) in [
            (doc! { "path": 1 }, access, "path"),
            (doc! { "time": -1 }, access, ""),
            (doc! { "_id": 1 }, access, ""),
            (doc! { "time": 1, "host": 1 }, access, ""),
            (doc! { "host": 1, "time": 1 }, access, ""),
            (doc! { "path": 1, "time": 1 }, access, "path"),
            (doc! { "host": 1, "path": 1 }, access, "path"),
            (doc! { "path": 1, "user": 1 }, access, "path user"),
            (doc! { "host": 1, "site": 1 }, sites, ""),
            (doc! { "host": 1, "time": 1 }, sites, "host"),
            (doc! { "host": 1 }, "", "host"),
        ] {
            let parsed = IndexKey::parse(&key).expect("a key");
            let order_by = order_by.split_whitespace().map(str::to_owned);
            let order_by: Vec<String> = order_by.collect();
            assert_eq!(parsed.columns(&order_by).join(" "), columns, "{key}");
        }
    }

    #[test]
    fn a_default_name_is_that_of_its_key() {
        for (key, name) in [
            (doc! { "path": 1 }, "path_1"),
            (doc! { "time": -1 }, "time_-1"),
            (doc! { "a_1": 1, "b.c": -1 }, "a_1_1_b.c_-1"),
            (doc! { "host": 1, "time": 1 }, "host_1_time_1"),
        ] {
            let parsed = IndexKey::parse(&key).expect("a key");
            assert_eq!(parsed.name(), name);
            assert_eq!(parsed.document(), key);
            if !name.contains("_1_1") {
                assert_eq!(IndexKey::of_name(name), Some(parsed), "{name}");
            }
        }
        for name in ["by path", "", "_1", "path_2", "path_1x", "_id_"] {
            assert_eq!(IndexKey::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn keys_that_cannot_be_are_refused_by_name() {
        for key in [
            doc! {},
            doc! { "line": "text" },
            doc! { "place": "2dsphere" },
            doc! { "host": "hashed" },
            doc! { "$**": 1 },
            doc! { "a.$**": 1 },
            doc! { "": 1 },
            doc! { "a": 0 },
            doc! { "a": true },
            doc! { "_rest": 1 },
        ] {
            let refused = IndexKey::parse(&key).expect_err("no index");
            assert_eq!(refused.code, code::CANNOT_CREATE_INDEX, "{key}");
        }
    }
}
