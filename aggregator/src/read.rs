//! Reads: merging cells of many tiles, the columns of a level table, and comparison for verify.

mod compare;
mod finalise;
mod merge;

pub use compare::{Comparison, Difference, compare};
pub(crate) use finalise::is_scaled;
pub use finalise::{TooLarge, finalise, finalise_by_bucket};
pub(crate) use merge::{coarsen, key_ranks, merge_all, ranks_of_buckets, select};
pub use merge::{merge, merge_to};

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, TimeUnit};

use crate::calendar::Level;
use crate::definition::{Definition, Measure, MeasureKind};

/// The quantiles of a histogram that have a column.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// Returns the columns of a level table in the order of `SELECT *`: `bucket`, `bucket_end`, the
/// keys, then those of each measure that the level has.
pub fn columns(definition: &Definition, level: Level) -> Vec<Field> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("bucket", time.clone(), false),
        Field::new("bucket_end", time, false),
    ];
    fields.extend(
        definition
            .by()
            .iter()
            .map(|k| Field::new(&k.name, k.key_type.arrow(), true)),
    );
    fields.extend(
        definition
            .measures()
            .iter()
            .filter(|m| level >= m.from)
            .flat_map(columns_of),
    );
    fields
}

/// Suffix of the name of a sum's exact column.
const EXACT: &str = "_exact";

/// The type of an exact column. It is wide enough for the sum of all 64-bit integers of a store.
pub const EXACT_TYPE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// Returns the name of the column that has the sums of `column` whatever their size; `None` when
/// `column` is no sum of integers, or when the definition gives that name to another column.
pub fn exact_column(definition: &Definition, column: &str) -> Option<String> {
    let is_sum = |measure: &Measure| match &measure.kind {
        MeasureKind::Sum(f) => !f.scaled && *measure.name == *column,
        MeasureKind::Histogram { field, .. } => {
            !field.scaled && column.strip_suffix("_sum") == Some(&*measure.name)
        }
        _ => false,
    };
    let exact = format!("{column}{EXACT}");
    let coarsest = *definition.levels().last()?;
    let taken = || {
        columns(definition, coarsest)
            .iter()
            .any(|f| *f.name() == exact)
    };
    (definition.measures().iter().any(is_sum) && !taken()).then_some(exact)
}

/// Returns the exact columns of a level. A sum beyond 64 bits is null in its own column; its exact
/// column has it. `SELECT *` leaves exact columns out.
pub fn exact_columns(definition: &Definition, level: Level) -> Vec<Field> {
    let all = columns(definition, level).into_iter();
    let exact = all.filter_map(|f| exact_column(definition, f.name()));
    exact
        .map(|name| Field::new(name, EXACT_TYPE, true))
        .collect()
}

/// Returns the sum of which `name` is the exact column.
pub(crate) fn sum_of_exact<'a>(definition: &Definition, name: &'a str) -> Option<&'a str> {
    let sum = name.strip_suffix(EXACT)?;
    (exact_column(definition, sum).as_deref() == Some(name)).then_some(sum)
}

/// Returns the finest level that has a column; `None` when no level has it.
pub fn column_entry_level(definition: &Definition, column: &str) -> Option<Level> {
    let coarsest = *definition.levels().last()?;
    let is_there = |level: &&Level| {
        columns(definition, **level)
            .iter()
            .any(|f| f.name() == column)
    };
    // A column of any level is also one of the coarsest. The search below starts at the finest
    // level, because most queries name columns that every level has.
    if !is_there(&&coarsest) {
        return None;
    }
    definition.levels().iter().find(is_there).copied()
}

/// Returns the columns of one measure.
pub(crate) fn columns_of(measure: &Measure) -> Vec<Field> {
    let name = &measure.name;
    let value = |scaled: bool| {
        if scaled {
            DataType::Float64
        } else {
            DataType::Int64
        }
    };
    match &measure.kind {
        MeasureKind::Count => vec![Field::new(name, DataType::Int64, false)],
        MeasureKind::Sum(f) | MeasureKind::Min(f) | MeasureKind::Max(f) => {
            vec![Field::new(name, value(f.scaled), true)]
        }
        MeasureKind::Mean(_) | MeasureKind::Variance(_) => {
            vec![Field::new(name, DataType::Float64, true)]
        }
        MeasureKind::Histogram { field, .. } => {
            let own = |suffix: &str, data_type: DataType| {
                Field::new(format!("{name}_{suffix}"), data_type, true)
            };
            let mut fields = vec![
                Field::new(format!("{name}_count"), DataType::Int64, false),
                own("sum", value(field.scaled)),
                own("mean", DataType::Float64),
                own("min", value(field.scaled)),
                own("max", value(field.scaled)),
            ];
            fields.extend(
                QUANTILES
                    .iter()
                    .map(|(suffix, _)| own(suffix, value(field.scaled))),
            );
            fields.push(Field::new(
                format!("{name}_overflow"),
                DataType::Int64,
                false,
            ));
            fields.push(Field::new(name, DataType::Binary, false));
            fields
        }
        MeasureKind::Distinct { .. } => vec![
            Field::new(name, DataType::Int64, false),
            Field::new(format!("{name}_state"), DataType::Binary, false),
        ],
    }
}

#[cfg(test)]
mod tests;
