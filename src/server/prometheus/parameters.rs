//! Parameters of a request, from its address and from a form in its body.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use chrono::DateTime;

use crate::promql::{PromqlError, Steps};
use crate::server::body;
use crate::server::routes::decode;

/// Maximum bytes of a form.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The greatest number of seconds since 1970 that is taken as a time.
const SECONDS_MAX: f64 = 253_370_764_800.0;

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Given(Vec<(String, String)>);

/// Returns the present in milliseconds since 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or_default()
}

impl Given {
    /// Reads the parameters of an address and of a body.
    pub(super) async fn read(query: &str, body: Body) -> Result<Self, PromqlError> {
        let bad = |why: &str| PromqlError::BadData(why.to_owned());
        let body = body::whole(body, BODY_BYTES_MAX).await;
        let body = body.ok_or_else(|| bad("the form has more than 1 MiB"))?;
        let body = std::str::from_utf8(&body).map_err(|_| bad("the form is not UTF-8"))?;
        let pairs = body.split('&').chain(query.split('&'));
        let mut all = Vec::new();
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decode(name), decode(value)) {
                (Some(name), Some(value)) => all.push((name, value)),
                _ => return Err(bad("the form is not percent-encoded UTF-8")),
            }
        }
        Ok(Self(all))
    }

    /// Returns a parameter; an empty one is none.
    pub(super) fn text<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next().filter(|value| !value.is_empty())
    }

    /// Returns all values of a parameter.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Returns a parameter that a request must have.
    pub(super) fn needed<'a>(&'a self, name: &'a str) -> Result<&'a str, PromqlError> {
        let missing = || PromqlError::BadData(format!("invalid parameter {name:?}: it is missing"));
        self.text(name).ok_or_else(missing)
    }

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
