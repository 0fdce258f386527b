//! Parameters of a request, from its address and from a form in its body.

use std::ops::Deref;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::response::Response;
use chrono::DateTime;
use query::logql::{Direction, duration_ns};

use crate::server::answer;
use crate::server::read_call::{CallParameters, WrongParameter};

/// Lines of an answer without `limit`, as in Loki.
const LIMIT_DEFAULT: usize = 100;
/// Most lines of an answer, as in Loki.
pub(super) const LIMIT_MAX: usize = 5000;
/// Nanoseconds of a range without `start`: an hour, as in Loki.
const SINCE_NS: i64 = 3_600_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;
/// Steps of a range without `step`, as in Loki.
const STEPS_DEFAULT: i64 = 250;

/// A refusal of a request.
pub(super) type Refused<T> = Result<T, Box<Response>>;

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Given(pub(super) CallParameters);

impl Deref for Given {
    type Target = CallParameters;

    fn deref(&self) -> &CallParameters {
        &self.0
    }
}

/// Returns the response to a wrong parameter.
pub(super) fn wrong(message: &str) -> Box<Response> {
    Box::new(answer::bad_request(message))
}

impl From<WrongParameter> for Box<Response> {
    fn from(WrongParameter(message): WrongParameter) -> Self {
        wrong(&message)
    }
}

/// Returns the present in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

impl Given {
    /// Returns a time in nanoseconds since 1970. A whole number of up to ten digits is seconds, a
    /// longer one nanoseconds, as in Loki; so are a number with a point and RFC 3339.
    pub(super) fn time(&self, name: &str) -> Refused<Option<i64>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_whole = digits.bytes().all(|b| b.is_ascii_digit());
        let at_ns = match text.parse::<i64>().ok().filter(|_| is_whole) {
            Some(seconds) if digits.len() <= 10 => seconds.checked_mul(SECOND_NS),
            Some(ns) => Some(ns),
            None => match text.parse::<f64>() {
                Ok(seconds) => whole_ns(seconds),
                Err(_) => {
                    let at = DateTime::parse_from_rfc3339(text).ok();
                    at.and_then(|at| at.timestamp_nanos_opt())
                }
            },
        };
        let message = || {
            wrong(&format!(
                "{name}={text}: write nanoseconds or seconds since 1970, or RFC 3339"
            ))
        };
        at_ns.map(Some).ok_or_else(message)
    }

    /// Returns a duration in nanoseconds: seconds, or a text such as `5m`.
    pub(super) fn duration(&self, name: &str) -> Refused<Option<i64>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let ns = match text.parse::<f64>() {
            Ok(seconds) => whole_ns(seconds),
            Err(_) => duration_ns(text),
        };
        let message = || {
            wrong(&format!(
                "{name}={text}: write seconds, or a duration as 5m"
            ))
        };
        ns.map(Some).ok_or_else(message)
    }

    /// Returns the start and the end of a range, nanoseconds since 1970.
    pub(super) fn range(&self) -> Refused<(i64, i64)> {
        let end_ns = self.time("end")?.unwrap_or_else(now);
        let since_ns = self.duration("since")?.unwrap_or(SINCE_NS);
        let start_ns = self.time("start")?;
        let start_ns = start_ns.unwrap_or_else(|| end_ns.saturating_sub(since_ns));
        match end_ns < start_ns {
            true => Err(wrong("end is before start")),
            false => Ok((start_ns, end_ns)),
        }
    }

    /// Returns the step of a range, nanoseconds.
    pub(super) fn step(&self, (start_ns, end_ns): (i64, i64)) -> Refused<i64> {
        let seconds = end_ns.saturating_sub(start_ns) / SECOND_NS / STEPS_DEFAULT;
        match self.duration("step")? {
            None => Ok(seconds.max(1) * SECOND_NS),
            Some(step_ns) if step_ns > 0 => Ok(step_ns),
            Some(_) => Err(wrong("step must be greater than 0")),
        }
    }

    /// Returns the greatest number of lines.
    pub(super) fn limit(&self) -> Refused<usize> {
        self.number("limit", LIMIT_DEFAULT, LIMIT_MAX)
    }

    /// Returns a number from 1 to `max`.
    pub(super) fn number(&self, name: &str, default: usize, max: usize) -> Refused<usize> {
        match self.text(name).map(str::parse) {
            None => Ok(default),
            Some(Ok(limit)) if (1..=max).contains(&limit) => Ok(limit),
            Some(_) => Err(wrong(&format!("{name}: write a number from 1 to {max}"))),
        }
    }

    /// Returns the order of lines.
    pub(super) fn direction(&self) -> Refused<Direction> {
        match self.text("direction").map(str::to_lowercase).as_deref() {
            None | Some("backward") => Ok(Direction::Backward),
            Some("forward") => Ok(Direction::Forward),
            Some(_) => Err(wrong("direction: write forward or backward")),
        }
    }
}

/// Returns seconds as nanoseconds; `None` beyond 292 years.
fn whole_ns(seconds: f64) -> Option<i64> {
    let ns = (seconds * 1e9).round();
    (ns.abs() < i64::MAX as f64).then_some(ns as i64)
}
