//! Parts: Parquet files of any bytes. Their checksums lie in the manifest, or come with a detached
//! folder from elsewhere.

use arrow::array::Array;
use bytes::Bytes;

use super::{Bounds, read_part, read_schema};
use crate::check::has_own_columns;
use crate::fuzzing::{allow_caught_panics, choice};
use crate::model::TIME;

/// Reads a part: `!` and a file, or else a file whose footer begins at the offset in the first two
/// bytes. A part is refused or has rows whose arrays are sound, the same in each projection.
pub fn part(bytes: &[u8]) {
    allow_caught_panics();
    let (how, rest) = choice(bytes);
    let file = match (how, bytes.split_first_chunk::<2>()) {
        (b'!', _) | (_, None) => rest.to_vec(),
        (_, Some((at, body))) => {
            let footer = body
                .len()
                .saturating_sub(usize::from(u16::from_le_bytes(*at)));
            [body, &(footer as u32).to_le_bytes(), b"PAR1"].concat()
        }
    };
    let file = Bytes::from(file);
    let schema = read_schema(file.clone());
    let Ok(batches) = read_part(file.clone(), None) else {
        return;
    };
    let schema = schema.expect("a part that is read has a schema");
    for batch in &batches {
        assert_eq!(batch.schema_ref().fields(), schema.fields());
        for column in batch.columns() {
            column.to_data().validate_full().expect("a sound array");
        }
    }
    let rows = |batches: &[_]| {
        batches
            .iter()
            .map(arrow::array::RecordBatch::num_rows)
            .sum::<usize>()
    };
    // Without the column the footer alone says how many rows there are.
    if schema.column_with_name(TIME).is_some()
        && let Ok(times) = read_part(file, Some(&[TIME]))
    {
        assert_eq!(rows(&times), rows(&batches));
    }
    if !batches.is_empty() && batches.iter().all(has_own_columns) {
        let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(Bounds::of(&batches, &names).rows, rows(&batches) as u64);
    }
}
