//! Operands of dates: dates, zones, and integers.

use bson::{Bson, DateTime};

use super::zone::DateZone;
use crate::mongo::error::Result;
use crate::mongo::expression::operands::misfit;
use crate::mongo::expression::{Evaluated, is_nullish};

/// Returns the date of a number of milliseconds since 1970.
pub(super) fn date(millis: i64) -> Result<Evaluated> {
    Ok(Some(Bson::DateTime(DateTime::from_millis(millis))))
}

/// Returns the milliseconds of a date since 1970.
pub(super) fn millis_of(value: Option<&Bson>, code: i32) -> Result<i64> {
    match value {
        Some(Bson::DateTime(date)) => Ok(date.timestamp_millis()),
        Some(Bson::ObjectId(id)) => Ok(id.timestamp().timestamp_millis()),
        Some(Bson::Timestamp(time)) => Ok(i64::from(time.time) * 1000),
        other => {
            let needs = "a date, a timestamp or an ObjectId";
            Err(misfit(code, "an operator of dates", needs, other))
        }
    }
}

/// Returns the zone of an argument that may be absent; `None` if it is null.
pub(super) fn zone_of(value: Option<&Evaluated>) -> Result<Option<DateZone>> {
    match value {
        None | Some(None) => Ok(Some(DateZone::UTC)),
        Some(value) if is_nullish(value) => Ok(None),
        Some(Some(Bson::String(name))) => DateZone::parse(name).map(Some),
        Some(other) => Err(misfit(40517, "a 'timezone'", "a string", other.as_ref())),
    }
}
