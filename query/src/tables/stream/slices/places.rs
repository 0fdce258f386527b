//! Pure functions that find the rows of a file that may have some values, by its page index.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use storage::{IndexValue, TIME};

use crate::stats::Count;
use crate::tables::stream::prune::TimeRange;

/// Condition on rows: one of few values in a column, and a time in a range.
#[derive(Debug, Clone)]
pub(in crate::tables::stream) struct SliceCondition {
    pub(super) column: String,
    pub(super) values: Vec<IndexValue>,
    pub(super) range: TimeRange,
}

impl SliceCondition {
    pub(in crate::tables::stream) fn new(
        column: &str,
        values: &[IndexValue],
        range: TimeRange,
    ) -> Self {
        Self {
            column: column.to_owned(),
            values: values.to_vec(),
            range,
        }
    }
}

/// Rows of a row group that may meet the condition.
#[derive(Debug, Clone)]
pub(super) struct GroupRows {
    pub(super) group: usize,
    pub(super) rows: RowSelection,
    /// Pages of the condition's column.
    pub(super) pages: Count,
}

impl SliceCondition {
    /// Checks whether a filter only repeats the single wanted value, so that a slice makes it
    /// redundant.
    pub(super) fn ensures(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let Some(equal) = filter.downcast_ref::<BinaryExpr>() else {
            return false;
        };
        let column = equal.left().downcast_ref::<Column>();
        let value = equal.right().downcast_ref::<Literal>();
        let (Some(column), Some(value), [wanted]) = (column, value, &*self.values) else {
            return false;
        };
        let is_wanted = match (wanted, value.value()) {
            (IndexValue::Text(wanted), value) => value.try_as_str() == Some(Some(wanted)),
            (IndexValue::Integer(wanted), ScalarValue::Int64(value)) => *value == Some(*wanted),
            _ => false,
        };
        is_wanted && *equal.op() == Operator::Eq && column.name() == self.column
    }
}

impl GroupRows {
    /// Returns the number of rows.
    pub(super) fn row_count(&self) -> u64 {
        self.rows.row_count() as u64
    }
}

impl fmt::Display for SliceCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self
            .values
            .iter()
            .map(|value| match value {
                IndexValue::Text(text) => format!("{text:?}"),
                IndexValue::Integer(n) => n.to_string(),
            })
            .collect();
        write!(f, "{}=[{}]", self.column, values.join(", "))
    }
}

/// Returns the places of a file where wanted rows may lie, one for each row group that may hold
/// any. `None` if the file has no page index for the columns.
pub(super) fn places(footer: &ParquetMetaData, wanted: &SliceCondition) -> Option<Vec<GroupRows>> {
    let mut places = Vec::new();
    let Some(column) = position(footer, &wanted.column) else {
        // A file without the column has only nulls there.
        return Some(places);
    };
    let is_held = |index: &ColumnIndexMetaData, page| {
        let any = |value| may_be(index, page, value);
        wanted
            .values
            .iter()
            .map(any)
            .try_fold(false, |held, may| Some(held | may?))
    };
    for group in 0..footer.num_row_groups() {
        let (mut rows, pages) = pages(footer, (group, column), is_held)?;
        if wanted.range != TimeRange::ALL && rows.selects_any() {
            let time = position(footer, TIME)?;
            let is_met = |index: &ColumnIndexMetaData, page| match index {
                ColumnIndexMetaData::INT64(index) => {
                    let (least, most) = (index.min_value(page)?, index.max_value(page)?);
                    Some(wanted.range.meets((*least, *most)))
                }
                _ => None,
            };
            rows = rows.intersection(&self::pages(footer, (group, time), is_met)?.0);
        }
        if rows.selects_any() {
            if !has_long_runs(&rows) {
                let all = usize::try_from(footer.row_group(group).num_rows()).ok()?;
                rows = vec![RowSelector::select(all)].into();
            }
            places.push(GroupRows { group, rows, pages });
        }
    }
    Some(places)
}

/// Returns the index of a column in a file. Files have no nested columns, so this is also the
/// index of the leaf column.
pub(super) fn position(footer: &ParquetMetaData, column: &str) -> Option<usize> {
    let columns = footer.file_metadata().schema_descr().columns();
    columns.iter().position(|known| known.name() == column)
}

/// Returns the rows of all pages of a column for which `holds` is true, and the number of these
/// pages.
fn pages(
    footer: &ParquetMetaData,
    (group, column): (usize, usize),
    holds: impl Fn(&ColumnIndexMetaData, usize) -> Option<bool>,
) -> Option<(RowSelection, Count)> {
    let index = footer.column_index()?.get(group)?.get(column)?;
    let pages = footer
        .offset_index()?
        .get(group)?
        .get(column)?
        .page_locations();
    let all = usize::try_from(footer.row_group(group).num_rows()).ok()?;
    let first = |page: usize| match pages.get(page) {
        Some(page) => usize::try_from(page.first_row_index).ok(),
        None => Some(all),
    };
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut count = Count {
        total: pages.len() as u64,
        examined: 0,
    };
    for page in 0..pages.len() {
        if !index.is_null_page(page) && holds(index, page)? {
            ranges.push(first(page)?..first(page + 1)?);
            count.examined += 1;
        }
    }
    let rows = RowSelection::from_consecutive_ranges(ranges.into_iter(), all);
    Some((rows, count))
}

/// Average length of runs from which the Parquet reader skips the rows between them. (It turns
/// shorter runs into a mask, and decodes the rows between them, which may be in pages that were
/// not read.)
const RUN_ROWS: usize = 32;

/// Checks whether the Parquet reader skips the rows between the runs of a selection.
pub(super) fn has_long_runs(rows: &RowSelection) -> bool {
    let (mut runs, mut all) = (0, 0);
    for run in rows.iter() {
        runs += 1;
        all += run.row_count;
    }
    all >= runs * RUN_ROWS
}

/// Checks whether a page may hold a value. The page index truncates the bounds of long texts, and
/// rounds the upper ones up.
fn may_be(index: &ColumnIndexMetaData, page: usize, value: &IndexValue) -> Option<bool> {
    Some(match (index, value) {
        (ColumnIndexMetaData::BYTE_ARRAY(index), IndexValue::Text(text)) => {
            let text = text.as_bytes();
            index.min_value(page)? <= text && text <= index.max_value(page)?
        }
        (ColumnIndexMetaData::INT64(index), IndexValue::Integer(n)) => {
            (*index.min_value(page)?..=*index.max_value(page)?).contains(n)
        }
        (ColumnIndexMetaData::INT32(index), IndexValue::Integer(n)) => {
            let (least, most) = (*index.min_value(page)?, *index.max_value(page)?);
            (i64::from(least)..=i64::from(most)).contains(n)
        }
        _ => return None,
    })
}
