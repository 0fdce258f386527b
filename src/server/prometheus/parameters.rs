//! Parameters of a request, from its address and from a form in its body.

use std::ops::Deref;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::DateTime;

use crate::promql::{PromqlError, Steps};
use crate::server::read_call::{CallParameters, WrongParameter};

/// The greatest number of seconds since 1970 that is taken as a time.
const SECONDS_MAX: f64 = 253_370_764_800.0;

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Given(pub(super) CallParameters);

impl Deref for Given {
    type Target = CallParameters;

    fn deref(&self) -> &CallParameters {
        &self.0
    }
}

impl From<WrongParameter> for PromqlError {
    fn from(WrongParameter(message): WrongParameter) -> Self {
        Self::BadData(message)
    }
}

/// Returns the present in milliseconds since 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or_default()
}

impl Given {
    /// Returns a time in milliseconds.
    pub(super) fn time(&self, name: &str) -> Result<Option<i64>, PromqlError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        if let Ok(seconds) = text.parse::<f64>()
            && seconds.abs() <= SECONDS_MAX
        {
            return Ok(Some((seconds * 1e3).round() as i64));
        }
        if let Ok(at) = DateTime::parse_from_rfc3339(text) {
            return Ok(Some(at.timestamp_millis()));
        }
        Err(PromqlError::BadData(format!(
            "invalid parameter {name:?}: cannot parse {text:?} to a valid timestamp"
        )))
    }

    /// Returns a length of time in milliseconds: a number of seconds, or a duration as in `5m`.
    pub(super) fn duration(&self, name: &str) -> Result<Option<i64>, PromqlError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let seconds = text.parse::<f64>().ok();
        if let Some(seconds) = seconds.filter(|seconds| seconds.abs() <= SECONDS_MAX) {
            return Ok(Some((seconds * 1e3).round() as i64));
        }
        let duration = promql_parser::util::parse_duration(text).ok();
        let ms = duration.and_then(|duration| i64::try_from(duration.as_millis()).ok());
        ms.map(Some).ok_or_else(|| {
            PromqlError::BadData(format!(
                "invalid parameter {name:?}: cannot parse {text:?} to a valid duration"
            ))
        })
    }

    /// Returns the time at which the request ends: after its `timeout`, or after `most`; zero is no
    /// limit.
    pub(super) fn until(&self, most: Duration) -> Result<Option<Instant>, PromqlError> {
        let most = (!most.is_zero()).then_some(most);
        let asked = match self.duration("timeout")? {
            Some(ms) if ms <= 0 => {
                return Err(PromqlError::BadData(
                    "invalid parameter \"timeout\": it is not greater than zero".to_owned(),
                ));
            }
            asked => asked.map(|ms| Duration::from_millis(ms.unsigned_abs())),
        };
        let limit = match (asked, most) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, most) => asked.or(most),
        };
        Ok(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Returns the steps of a range query.
    pub(super) fn steps(&self) -> Result<Steps, PromqlError> {
        let needed = |name: &str| -> Result<i64, PromqlError> {
            self.needed(name)?;
            Ok(self.time(name)?.unwrap_or_default())
        };
        let (start, end) = (needed("start")?, needed("end")?);
        let bad = |why: &str| PromqlError::BadData(why.to_owned());
        if end < start {
            return Err(bad(
                "invalid parameter \"end\": end timestamp must not be before start time",
            ));
        }
        self.needed("step")?;
        let step = self.duration("step")?.unwrap_or_default();
        if step <= 0 {
            return Err(bad(
                "invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a positive integer",
            ));
        }
        Ok(Steps { start, end, step })
    }

    /// Returns the greatest number of results of a parameter; zero and none are no limit.
    pub(super) fn limit(&self, name: &str) -> Result<usize, PromqlError> {
        match self.text(name).map(str::parse) {
            None | Some(Ok(0)) => Ok(usize::MAX),
            Some(Ok(limit)) => Ok(limit),
            Some(Err(_)) => Err(PromqlError::BadData(format!(
                "invalid parameter {name:?}: it is not a whole number, zero or greater"
            ))),
        }
    }
}
