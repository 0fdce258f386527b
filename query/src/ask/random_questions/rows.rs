//! Compares the rows of two answers.
//!
//! The rows are compared as multisets, because the answers have no order. Floats may differ in
//! their last digits, since sums depend on their order; texts and integers are equal regardless
//! of their representation in memory.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Maximum relative difference of floats.
const TOLERANCE: f64 = 1e-9;
/// Maximum rows of an answer that a message shows, and their maximum bytes.
#[cfg(test)]
const SHOWN: (usize, usize) = (6, 2_000);

/// Returns a row that is not among the others. Each of the others matches only one row.
pub(crate) fn not_among<'a>(
    rows: impl Iterator<Item = &'a [Cell]>,
    among: impl Iterator<Item = &'a [Cell]>,
) -> Option<&'a [Cell]> {
    let mut known: BTreeMap<String, Vec<&[Cell]>> = BTreeMap::new();
    for row in among {
        known.entry(name(row)).or_default().push(row);
    }
    for row in rows {
        let same = known.get_mut(&name(row));
        let place = same.and_then(|same| {
            let at = same.iter().position(|other| alike(other, row))?;
            Some(same.swap_remove(at))
        });
        if place.is_none() {
            return Some(row);
        }
    }
    None
}

/// Returns the part of a row that is equal in all rows that are alike.
fn name(row: &[Cell]) -> String {
    let mut name = String::new();
    for cell in row {
        match cell {
            Cell::Null => name.push_str("\u{1}null"),
            Cell::Fraction(_) => name.push_str("\u{1}f"),
            Cell::Other(text) => {
                name.push('\u{2}');
                name.push_str(text);
            }
        }
    }
    name
}

pub(crate) fn alike(a: &[Cell], b: &[Cell]) -> bool {
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (Cell::Fraction(a), Cell::Fraction(b)) => {
            a == b
                || (a.is_nan() && b.is_nan())
                || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
        }
        _ => a == b,
    })
}

/// A value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Fraction(f64),
    Other(String),
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Fraction(number) => write!(f, "{number}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// An answer, row by row.
pub(crate) struct AnswerRows {
    /// Types of the columns. All types of text count as one.
    pub(crate) kinds: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl AnswerRows {
    pub(crate) fn of(schema: &SchemaRef, batches: &[RecordBatch]) -> Self {
        let kinds = schema
            .fields()
            .iter()
            .map(|f| kind(f.data_type()))
            .collect();
        let mut rows = Vec::new();
        for batch in batches {
            let columns: Vec<Vec<Cell>> = batch.columns().iter().map(cells).collect();
            let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
            for _ in 0..batch.num_rows() {
                rows.push(columns.iter_mut().filter_map(Iterator::next).collect());
            }
        }
        Self { kinds, rows }
    }

    /// Returns the first rows as text.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> String {
        let rows = self.rows.iter().take(SHOWN.0).map(|row| {
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            cells.join(" | ")
        });
        let mut shown = rows.collect::<Vec<_>>().join("\n    ");
        shown.truncate(shown.floor_char_boundary(SHOWN.1));
        format!("{} rows: {shown}", self.rows.len())
    }
}

fn kind(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Dictionary(_, values) => kind(values),
        // Integer widths depend on earlier simplification.
        integer if integer.is_integer() => "integer".to_owned(),
        other => other.to_string(),
    }
}

fn cells(column: &ArrayRef) -> Vec<Cell> {
    let rows = column.len();
    let is_fraction = matches!(
        column.data_type(),
        DataType::Float16 | DataType::Float32 | DataType::Float64
    );
    if let (true, Ok(doubles)) = (
        is_fraction,
        arrow::compute::cast(column, &DataType::Float64),
    ) {
        let doubles = doubles.as_primitive::<Float64Type>();
        return doubles
            .iter()
            .map(|v| v.map_or(Cell::Null, Cell::Fraction))
            .collect();
    }
    let options = FormatOptions::default().with_display_error(true);
    let formatter = ArrayFormatter::try_new(column, &options);
    let text = |row| match &formatter {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(error) => error.to_string(),
    };
    let cell = |row| match column.is_null(row) {
        true => Cell::Null,
        false => Cell::Other(text(row)),
    };
    (0..rows).map(cell).collect()
}
