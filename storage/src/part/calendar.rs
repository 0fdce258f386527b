//! Time partitions: their start, their end and their folder.

use chrono::{DateTime, Datelike, NaiveDate};

use crate::manifest::PartitionWidth;

pub(super) const HOUR_US: i64 = 3_600_000_000;
pub(super) const DAY_US: i64 = 24 * HOUR_US;

/// Returns the start of the partition that holds `time_us`.
pub fn partition_start(width: PartitionWidth, time_us: i64) -> i64 {
    match width {
        PartitionWidth::Hour => floor(time_us, HOUR_US),
        PartitionWidth::Day => floor(time_us, DAY_US),
        PartitionWidth::Month => DateTime::from_timestamp_micros(time_us)
            .and_then(|t| NaiveDate::from_ymd_opt(t.year(), t.month(), 1))
            .and_then(|d| d.and_hms_opt(0, 0, 0))
            .map_or_else(
                || floor(time_us, DAY_US),
                |t| t.and_utc().timestamp_micros(),
            ),
    }
}

/// Returns the exclusive end of a partition that begins at `start_us`, microseconds since 1970.
pub fn partition_end(width: PartitionWidth, start_us: i64) -> i64 {
    match width {
        PartitionWidth::Hour => start_us.saturating_add(HOUR_US),
        PartitionWidth::Day => start_us.saturating_add(DAY_US),
        // A month has at most 31 days, and 32 days hold at most one first of a month after a
        // first.
        PartitionWidth::Month => partition_start(width, start_us.saturating_add(32 * DAY_US)),
    }
}

/// Returns the greatest multiple of `width` not above `time_us`, or the least `i64` when there is
/// none.
fn floor(time_us: i64, width: i64) -> i64 {
    time_us.div_euclid(width).saturating_mul(width)
}

/// Returns the folder of a partition in Hive's spelling: `date=2000-10-10`.
pub fn partition_folder(width: PartitionWidth, start_us: i64) -> String {
    let format = match width {
        PartitionWidth::Hour => "hour=%Y-%m-%dT%H",
        PartitionWidth::Day => "date=%Y-%m-%d",
        PartitionWidth::Month => "month=%Y-%m",
    };
    DateTime::from_timestamp_micros(start_us).map_or_else(
        || format!("start={start_us}"),
        |t| t.format(format).to_string(),
    )
}
