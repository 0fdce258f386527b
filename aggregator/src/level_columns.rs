//! The columns of a level table, and the exact columns beside them.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field};

use crate::calendar::Level;
use crate::definition::{Definition, Measure, MeasureKind, columns_at};

/// Returns the columns of a level table in the order of `SELECT *`: `bucket`, `bucket_end`, the
/// keys, then those of each measure that the level has.
pub fn columns(definition: &Definition, level: Level) -> Vec<Field> {
    columns_at(definition.by(), definition.measures(), level)
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

#[cfg(test)]
mod tests;
