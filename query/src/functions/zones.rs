//! Time zones by name.

use chrono_tz::Tz;

use crate::error::{Error, Result};

/// Returns the zone of an IANA name.
pub(crate) fn zone(name: &str) -> Result<Tz> {
    name.parse().map_err(|_| {
        Error::invalid(format!(
            "{name:?} is not a time zone; write an IANA name such as Europe/Berlin"
        ))
    })
}
