//! Types and values as the published files spell them: `NULL`, `(empty)`, numbers without trailing
//! zeros and with at most twelve digits behind the point, plans line by line.

use std::str::FromStr;
use std::sync::LazyLock;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::ArrayFormatter;
use bigdecimal::BigDecimal;
use datafusion::common::Result;
use datafusion::common::format::DEFAULT_FORMAT_OPTIONS;
use sqllogictest::ColumnType;

/// Digits behind the point of a floating-point number.
const FLOAT_DIGITS: i64 = 12;
/// The directory in which the files expect to run.
const THERE: &str = "WORKSPACE_ROOT/datafusion/sqllogictest";

/// The letter of a column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter(char);

impl ColumnType for Letter {
    fn from_char(letter: char) -> Option<Self> {
        Some(Self(if "BDIPRT".contains(letter) {
            letter
        } else {
            '?'
        }))
    }
    fn to_char(&self) -> char {
        self.0
    }
}

/// Returns the working directory, without its leading `/`: an object store's spelling.
pub(super) fn here() -> &'static str {
    static HERE: LazyLock<String> = LazyLock::new(|| {
        let here = std::env::current_dir().expect("a working directory");
        here.to_string_lossy().trim_start_matches('/').to_owned()
    });
    &HERE
}

pub(super) fn types(schema: &Schema) -> Vec<Letter> {
    let letter = |data_type: &DataType| match data_type {
        DataType::Boolean => 'B',
        t if t.is_integer() => 'I',
        t if t.is_floating() || t.is_decimal() => 'R',
        t if t.is_string() => 'T',
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => 'D',
        DataType::Timestamp(..) => 'P',
        DataType::Dictionary(_, values) if values.is_string() => 'T',
        _ => '?',
    };
    let fields = schema.fields().iter();
    fields
        .map(|field| Letter(letter(field.data_type())))
        .collect()
}

pub(super) fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| cell(column, row));
            spread(cells.collect::<Result<_>>()?, &mut rows);
        }
    }
    Ok(rows)
}

fn cell(column: &dyn Array, row: usize) -> Result<String> {
    if column.is_null(row) {
        return Ok("NULL".to_owned());
    }
    if let Some(column) = column.as_any_dictionary_opt() {
        return cell(column.values(), column.normalized_keys()[row]);
    }
    let options = DEFAULT_FORMAT_OPTIONS.with_null("NULL");
    let text = ArrayFormatter::try_new(column, &options)?
        .value(row)
        .to_string();
    Ok(match column.data_type() {
        t if t.is_string() => match text.as_str() {
            "" => "(empty)".to_owned(),
            text => text.trim_end_matches('\n').replace('\0', "\\0"),
        },
        t if t.is_floating() => match text.as_str() {
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            text => number(text, FLOAT_DIGITS),
        },
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => number(&text, i64::from(*scale)),
        _ => text,
    })
}

/// Returns a number in its plain form; any other text as it is.
fn number(text: &str, digits: i64) -> String {
    match BigDecimal::from_str(text) {
        Ok(number) => number.round(digits).normalized().to_plain_string(),
        Err(_) => text.to_owned(),
    }
}

/// Adds a row; where its last cell has several lines, each of them becomes a row of its own with
/// its number, and the spaces in front of it, which a comparison would not see, become dashes.
fn spread(mut row: Vec<String>, rows: &mut Vec<Vec<String>>) {
    for cell in &mut row {
        *cell = cell.replace(here(), THERE);
    }
    let last = row.pop_if(|cell| cell.contains('\n'));
    rows.push(row);
    for (i, line) in last.iter().flat_map(|cell| cell.split('\n')).enumerate() {
        let content = line.trim_start();
        let dashes = "-".repeat(line.len() - content.len());
        rows.push(vec![format!("{:02}){dashes}{content}", i + 1)]);
    }
}
