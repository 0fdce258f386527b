//! Builds an inverted index: reads one column of a part, and nothing else of it.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int16Type, Int64Type};

use super::file::{IndexTarget, encode, pair};
use super::{ValueKind, key_of_integer, key_of_text};
use crate::error::{Error, Result};
use crate::manifest::PartMeta;
use crate::part::read_column;
use crate::snapshot::Snapshot;

/// Returns the bytes of a part's index; `None` when values of this type cannot be indexed.
/// `pause` is called every few thousand rows.
pub(crate) fn build(
    snapshot: &Snapshot,
    part: &PartMeta,
    field: &str,
    pause: &dyn Fn() -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let mut pairs = Vec::with_capacity(usize::try_from(part.rows).unwrap_or(0));
    let (mut values, mut rows) = (Some(ValueKind::None), 0);
    read_column(snapshot, part, field, &mut |count, column| {
        if let Some(column) = column {
            values = add(column, rows, &mut pairs);
        }
        rows += count;
        pause()
    })?;
    if rows as u64 != part.rows {
        return Err(Error::Corrupt {
            path: snapshot.data_dir().join(&part.file.path),
            offset: 0,
            what: format!("it has {rows} rows, the manifest says {}", part.rows),
        });
    }
    Ok(values.map(|values| encode(&IndexTarget::new(part, field), values, &mut pairs)))
}

/// Adds the values of some rows, without nulls.
fn add(column: &ArrayRef, first: usize, pairs: &mut Vec<u64>) -> Option<ValueKind> {
    let row =
        |nth: usize| u32::try_from(first + nth).expect("BUG: a part has fewer than 2^32 rows");
    match column.data_type() {
        DataType::Utf8 => {
            let texts = column.as_string::<i32>().iter().enumerate();
            pairs.extend(texts.filter_map(|(nth, t)| Some(pair(key_of_text(t?), row(nth)))));
            Some(ValueKind::Texts)
        }
        DataType::Int64 => {
            let numbers = column.as_primitive::<Int64Type>().iter().enumerate();
            pairs.extend(numbers.filter_map(|(nth, n)| Some(pair(key_of_integer(n?), row(nth)))));
            Some(ValueKind::Integers)
        }
        DataType::Int16 => {
            let numbers = column.as_primitive::<Int16Type>().iter().enumerate();
            let key = |n: i16| key_of_integer(n.into());
            pairs.extend(numbers.filter_map(|(nth, n)| Some(pair(key(n?), row(nth)))));
            Some(ValueKind::Integers)
        }
        _ => None,
    }
}
