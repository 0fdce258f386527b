//! Constants of random queries: they occur in the rows, lie on edges, or occur nowhere.

use chrono::{DateTime, Utc};

use super::super::support::Random;

pub(super) const HOUR_US: i64 = 3_600_000_000;

/// Zones without and with clock changes: of an hour, of half an hour, of none at odd minutes.
pub(super) const ZONES: [&str; 5] = [
    "UTC",
    "Europe/Berlin",
    "Asia/Kolkata",
    "America/New_York",
    "Australia/Lord_Howe",
];
const UNITS: [&str; 8] = [
    "second", "minute", "hour", "day", "week", "month", "quarter", "year",
];
const PARTS: [&str; 11] = [
    "second", "minute", "hour", "day", "dow", "isodow", "doy", "week", "month", "quarter", "year",
];
const WIDTHS: [&str; 11] = [
    "1 minute",
    "5 minutes",
    "30 minutes",
    "1 hour",
    "90 minutes",
    "6 hours",
    "1 day",
    "3 days",
    "1 week",
    "1 month",
    "1 year",
];
const BINS: [&str; 6] = [
    "1 minute",
    "15 minutes",
    "1 hour",
    "7 hours",
    "1 day",
    "10 days",
];
const SPANS: [&str; 6] = [
    "1 second",
    "17 minutes",
    "1 hour",
    "1 day",
    "36 hours",
    "1 month",
];
const FORMATS: [&str; 9] = [
    "%Y-%m-%d", "%H", "%H:%M", "%a", "%Y-%m", "%d", "%j", "%M:%S", "%Y",
];
const TEXTS: [&str; 18] = [
    "alpha",
    "beta",
    "gamma",
    "::1",
    "10.0.0.1",
    "GET",
    "POST",
    "/p1",
    "/p3",
    "/p7",
    "/p",
    "HTTP/1.1",
    "frank",
    "Ærøskøbing",
    "日本語",
    "",
    "nowhere",
    "garbage",
];
const LIKES: [&str; 12] = [
    "%", "/p%", "%a", "a%", "_p_", "%1%", "", "g_mma", "G%", "%p3", "%.0.%", "日%",
];
const REGEXES: [&str; 9] = [
    "a",
    "^/p[0-4]$",
    "p.",
    "[0-9]+",
    "^$",
    "(al|be)",
    "a$",
    "P",
    "^[^/]*$",
];
const NUMBERS: [i64; 14] = [
    -1, 0, 1, 2, 3, 7, 14, 200, 304, 404, 500, 1000, 50_000, 100_000,
];

/// Random choices about the rows of one store.
pub(super) struct Values {
    pub(super) random: Random,
    /// The first day of the rows.
    pub(super) start_us: i64,
    pub(super) days: usize,
    /// Times of some rows, among them the first and the last of each day.
    pub(super) times: Vec<i64>,
}

impl Values {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    /// Returns true once in so many times.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.random.below(times) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())]
    }

    /// Returns an instant near the rows, often on an edge of a bucket or beside one.
    pub(super) fn instant(&mut self) -> i64 {
        if !self.times.is_empty() && self.once_in(5) {
            let nth = self.below(self.times.len());
            return self.times[nth];
        }
        let day_us = 24 * HOUR_US;
        // Some instants lie before all rows, some after.
        let days = self.below(self.days + 2) as i64 - 1;
        let within = match self.below(6) {
            0 | 1 => 0,
            2 => self.below(24) as i64 * HOUR_US,
            3 => self.below(24) as i64 * HOUR_US - 1,
            4 => self.below(48) as i64 * HOUR_US / 2,
            _ => self.below(day_us as usize) as i64,
        };
        self.start_us + days * day_us + within
    }

    pub(super) fn stamp(&mut self) -> String {
        let at = self.instant();
        format!("TIMESTAMP '{}'", written(at, "%Y-%m-%dT%H:%M:%S%.6fZ"))
    }

    pub(super) fn day(&mut self) -> String {
        let at = self.instant();
        format!("DATE '{}'", written(at, "%Y-%m-%d"))
    }

    pub(super) fn text(&mut self) -> String {
        format!("'{}'", self.of(&TEXTS))
    }

    pub(super) fn number(&mut self) -> String {
        self.of(&NUMBERS).to_string()
    }

    /// Returns the replacement of a placeholder of a constant; `None` when it is none of them.
    pub(super) fn constant(&mut self, name: &str) -> Option<String> {
        Some(match name {
            "zone" => self.of(&ZONES).to_owned(),
            "unit" => self.of(&UNITS).to_owned(),
            "part" => self.of(&PARTS).to_owned(),
            "width" => self.of(&WIDTHS).to_owned(),
            "bin" => self.of(&BINS).to_owned(),
            "span" => self.of(&SPANS).to_owned(),
            "format" => self.of(&FORMATS).to_owned(),
            "like" => self.of(&LIKES).to_owned(),
            "regex" => self.of(&REGEXES).to_owned(),
            "stamp" => self.stamp(),
            "day" => self.day(),
            "text" => self.text(),
            "number" => self.number(),
            "small" => self.below(5).to_string(),
            "positive" => (1 + self.below(9)).to_string(),
            "cmp" => self.of(&["=", "=", "<>", "<", "<=", ">", ">="]).to_owned(),
            "equal" => self.of(&["=", "=", "=", "<>"]).to_owned(),
            "not" => self.of(&["", "", "NOT "]).to_owned(),
            "texts" => self.several(Self::text),
            "numbers" => self.several(Self::number),
            "stamps" => self.several(Self::stamp),
            "daylist" => self.several(Self::day),
            _ => return None,
        })
    }

    fn several(&mut self, one: impl Fn(&mut Self) -> String) -> String {
        let some: Vec<String> = (0..1 + self.below(4)).map(|_| one(self)).collect();
        some.join(", ")
    }
}

fn written(at_us: i64, format: &str) -> String {
    let at: DateTime<Utc> = DateTime::from_timestamp_micros(at_us).expect("a time");
    at.format(format).to_string()
}
