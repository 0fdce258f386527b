//! The columns of streams of counters.

use crate::model::{Column, ColumnType, TIME};

/// Column of the counter that an increment belongs to.
pub const COUNTER: &str = "counter";
/// Column of the path of the number in its counter; empty for the event that began the counter.
pub const COUNTER_PATH: &str = "path";
/// Column of the increment.
pub const INCREMENT: &str = "increment";

/// Returns the columns of counters; the fixed fields of each counter follow them.
pub fn counter_fields() -> Vec<Column> {
    use ColumnType::{Int64, Text, Time};
    let columns = [
        (COUNTER, Text),
        (COUNTER_PATH, Text),
        (INCREMENT, Int64),
        (TIME, Time),
    ];
    let columns = columns.into_iter();
    columns
        .map(|(name, column_type)| Column::new(name, column_type))
        .collect()
}
