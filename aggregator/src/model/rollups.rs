//! The rollups of a history: their configuration, and its meaning written a second time.

use serde_json::{Map, Value, json};
use storage::sim::Random;

use super::calendar::{Calendar, ZONES};
use crate::calendar::{Level, WeekStart};
use crate::keys::KeyValue;
use crate::rollup_hook::CascadeConfig;
use crate::testing::AccessEvent;

/// The key limit: admitted keys of a day.
pub(super) const MAX_KEYS: Option<usize> = Some(5);

const HOUR_US: i64 = 3_600_000_000;

/// A key of a rollup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Site,
    Status,
    Path,
    /// The first segment of the path.
    Section,
    /// The hundreds of the status.
    Class,
}

/// The filter of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    Errors,
    Large,
    OddPage,
}

/// The function of a measure, over sizes or hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateKind {
    Count,
    Sum,
    Min,
    Max,
    Mean,
    Variance,
    Histogram { digits: u8, max: i64 },
    Distinct,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) kind: StateKind,
    pub(super) filter: Option<Filter>,
    /// The finest level that has it.
    pub(super) from: Level,
}

#[derive(Debug, Clone)]
pub(super) struct Rollup {
    pub(super) name: &'static str,
    pub(super) calendar: Calendar,
    pub(super) levels: Vec<Level>,
    pub(super) by: Vec<By>,
    pub(super) measures: Vec<Measure>,
    /// Retention of levels, hours.
    ages: Vec<(Level, i64)>,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Status => "status",
            Self::Path => "path",
            Self::Section => "section",
            Self::Class => "class",
        }
    }

    fn spec(self) -> Value {
        match self {
            Self::Site | Self::Status | Self::Path => json!(self.name()),
            Self::Section => json!({ "name": "section", "expr": "path_prefix(path, 1)" }),
            Self::Class => json!({ "name": "class", "expr": "status / 100" }),
        }
    }

    pub(super) fn of(self, event: &AccessEvent) -> KeyValue {
        let text = |value: Option<&str>| value.map_or(KeyValue::Null, |v| KeyValue::Text(v.into()));
        let integer =
            |value: Option<i16>| value.map_or(KeyValue::Null, |v| KeyValue::Int(v.into()));
        match self {
            Self::Site => text(event.site.as_deref()),
            Self::Path => text(event.path.as_deref()),
            Self::Section => {
                // Every path begins with a slash or is empty.
                let section = |path: &String| match path.split('/').nth(1) {
                    Some(segment) => format!("/{segment}"),
                    None => String::new(),
                };
                text(event.path.as_ref().map(section).as_deref())
            }
            Self::Status => integer(event.status),
            Self::Class => integer(event.status.map(|s| s / 100)),
        }
    }
}

impl Filter {
    fn text(self) -> &'static str {
        match self {
            Self::Errors => "status >= 500",
            Self::Large => "site is null or response_size > 1000.5",
            Self::OddPage => "not (site = 'site1' or path like '/b/%')",
        }
    }

    /// Returns whether the filter is true of an event; null is not true.
    fn passes(self, event: &AccessEvent) -> bool {
        match self {
            Self::Errors => event.status.is_some_and(|s| s >= 500),
            Self::Large => event.site.is_none() || event.size.is_some_and(|s| s > 1000),
            Self::OddPage => {
                let site = event.site.as_ref().map(|s| s == "site1");
                let path = event.path.as_ref().map(|p| p.starts_with("/b/"));
                (site, path) == (Some(false), Some(false))
            }
        }
    }
}

impl Measure {
    fn new(name: &'static str, kind: StateKind, filter: Option<Filter>, from: Level) -> Self {
        Self {
            name,
            kind,
            filter,
            from,
        }
    }

    pub(super) fn passes(&self, event: &AccessEvent) -> bool {
        self.filter.is_none_or(|f| f.passes(event))
    }

    fn spec(&self) -> Value {
        let function = |f: &str| json!({ "of": f });
        let mut spec = match self.kind {
            StateKind::Count => function("count"),
            StateKind::Sum => function("sum(response_size)"),
            StateKind::Min => function("min(response_size)"),
            StateKind::Max => function("max(response_size)"),
            StateKind::Mean => function("mean(response_size)"),
            StateKind::Variance => function("variance(response_size)"),
            StateKind::Histogram { digits, max } => {
                json!({ "histogram": "response_size", "digits": digits, "max": max })
            }
            StateKind::Distinct => json!({ "distinct": "host" }),
        };
        spec["from"] = json!(self.from);
        if let Some(filter) = self.filter {
            spec["filter"] = filter.text().into();
        }
        spec
    }

    /// Returns the names of its columns.
    fn columns(&self) -> Vec<String> {
        let suffixes: &[&str] = match self.kind {
            StateKind::Histogram { .. } => &[
                "_count",
                "_sum",
                "_mean",
                "_min",
                "_max",
                "_p50",
                "_p90",
                "_p95",
                "_p99",
                "_overflow",
                "",
            ],
            StateKind::Distinct => &["", "_state"],
            _ => &[""],
        };
        let column = |suffix: &&str| format!("{}{suffix}", self.name);
        suffixes.iter().map(column).collect()
    }
}

impl Rollup {
    /// Returns two or three rollups, each in a different zone.
    pub(super) fn some(random: &mut Random) -> Vec<Self> {
        let mut zones = ZONES.to_vec();
        let mut rollups = vec![wide(random, &mut zones), made(random, &mut zones)];
        if random.below(2) == 0 {
            rollups.push(plain(random, &mut zones));
        }
        rollups
    }

    /// Returns the retention of a level, microseconds.
    pub(super) fn age_us(&self, level: Level) -> Option<i64> {
        let age = self.ages.iter().find(|(l, _)| *l == level);
        age.map(|(_, hours)| hours * HOUR_US)
    }

    pub(super) fn key_of(&self, event: &AccessEvent) -> Vec<KeyValue> {
        self.by.iter().map(|by| by.of(event)).collect()
    }

    /// Returns the key `(other)`, of events whose own key is not admitted.
    pub(super) fn other(&self) -> Vec<KeyValue> {
        let other = |by: &By| match by {
            By::Status | By::Class => KeyValue::Null,
            By::Site | By::Path | By::Section => KeyValue::Text("(other)".to_owned()),
        };
        self.by.iter().map(other).collect()
    }

    pub(super) fn measures_at(&self, level: Level) -> impl Iterator<Item = &Measure> {
        self.measures.iter().filter(move |m| m.from <= level)
    }

    /// Returns the columns of a level: bucket and its end, keys, measures.
    pub(super) fn columns(&self, level: Level) -> Vec<String> {
        let own = ["bucket", "bucket_end"].map(str::to_owned);
        let keys = self.by.iter().map(|by| by.name().to_owned());
        let measures = self.measures_at(level).flat_map(Measure::columns);
        own.into_iter().chain(keys).chain(measures).collect()
    }

    fn table(&self) -> Value {
        let measures = self.measures.iter().map(|m| (m.name.to_owned(), m.spec()));
        let ages = self.ages.iter();
        let ages = ages.map(|(level, hours)| (level.to_string(), json!(format!("{hours}h"))));
        let mut table = json!({
            "stream": super::STREAM,
            "by": self.by.iter().map(|by| by.spec()).collect::<Vec<_>>(),
            "levels": self.levels,
            "timezone": self.calendar.zone,
            "week": self.calendar.week,
            "retention": ages.collect::<Map<_, _>>(),
            "measures": measures.collect::<Map<_, _>>(),
        });
        if let (Some(max_keys), false) = (MAX_KEYS, self.by.is_empty()) {
            table["max_keys"] = max_keys.into();
        }
        table
    }
}

/// Returns the configuration, as a file would have it.
pub(super) fn config(rollups: &[Rollup]) -> CascadeConfig {
    let tables = rollups.iter().map(|r| (r.name.to_owned(), r.table()));
    let config = json!({ "rollups": tables.collect::<Map<_, _>>() });
    serde_json::from_value(config).expect("a configuration")
}

fn calendar(random: &mut Random, zones: &mut Vec<&'static str>) -> Calendar {
    let zone = zones.swap_remove(random.below(zones.len() as u64) as usize);
    let week = match random.below(2) {
        0 => WeekStart::Sunday,
        _ => WeekStart::Monday,
    };
    Calendar { zone, week }
}

/// Returns some levels that a rollup with keys may have.
fn levels(random: &mut Random) -> Vec<Level> {
    use Level::{Day, Hour, Minute, Month, Week, Year};
    match random.below(5) {
        0 => vec![Hour, Day, Week, Month],
        1 => vec![Minute, Day, Year],
        2 => vec![Hour, Day, Month, Year],
        3 => vec![Minute, Hour, Day, Week],
        _ => Level::ALL.to_vec(),
    }
}

/// Returns a rollup with numeric measures of every kind.
fn wide(random: &mut Random, zones: &mut Vec<&'static str>) -> Rollup {
    let (calendar, levels) = (calendar(random, zones), levels(random));
    let finest = levels[0];
    let measures = vec![
        Measure::new("hits", StateKind::Count, None, finest),
        Measure::new("errors", StateKind::Count, Some(Filter::Errors), Level::Day),
        Measure::new("bytes", StateKind::Sum, None, finest),
        Measure::new("least", StateKind::Min, Some(Filter::Large), finest),
        Measure::new("most", StateKind::Max, None, Level::Day),
        Measure::new("average", StateKind::Mean, Some(Filter::OddPage), finest),
        Measure::new("spread", StateKind::Variance, None, finest),
        Measure::new("visitors", StateKind::Distinct, None, finest),
    ];
    let by = match random.below(3) {
        0 => vec![By::Site],
        1 => vec![By::Status],
        _ => vec![By::Site, By::Status],
    };
    let ages = match random.below(2) {
        0 => Vec::new(),
        _ => vec![(finest, 24 + 24 * random.below(40) as i64)],
    };
    Rollup {
        name: "wide",
        calendar,
        levels,
        by,
        measures,
        ages,
    }
}

/// Returns a rollup with keys made by expressions, sketches with filters, and retention.
fn made(random: &mut Random, zones: &mut Vec<&'static str>) -> Rollup {
    let (calendar, levels) = (calendar(random, zones), levels(random));
    let finest = levels[0];
    let (small, large) = (
        StateKind::Histogram {
            digits: 1,
            max: 5000,
        },
        StateKind::Histogram {
            digits: 2,
            max: 1 << 40,
        },
    );
    let size = match random.below(3) {
        0 => Measure::new("size", large, None, Level::Day),
        1 => Measure::new("size", small, None, finest),
        _ => Measure::new("size", small, Some(Filter::OddPage), Level::Day),
    };
    let measures = vec![
        Measure::new("hits", StateKind::Count, None, finest),
        Measure::new(
            "victims",
            StateKind::Distinct,
            Some(Filter::Errors),
            Level::Day,
        ),
        size,
    ];
    let by = match random.below(3) {
        0 => vec![By::Class],
        1 => vec![By::Section],
        _ => vec![By::Section, By::Class],
    };
    // Coarser levels keep buckets longer. Days are kept for ever: they list the admitted keys.
    let mut hours = 12 + 12 * random.below(10) as i64;
    let mut ages = Vec::new();
    for level in levels.iter().filter(|l| **l != Level::Day) {
        if random.below(4) > 0 {
            ages.push((*level, hours));
        }
        hours *= 1 + random.below(20) as i64;
    }
    Rollup {
        name: "made",
        calendar,
        levels,
        by,
        measures,
        ages,
    }
}

/// Returns a rollup with any levels, perhaps without keys.
fn plain(random: &mut Random, zones: &mut Vec<&'static str>) -> Rollup {
    use Level::{Day, Hour, Month, Week, Year};
    let calendar = calendar(random, zones);
    let (by, levels) = match random.below(4) {
        0 => (Vec::new(), vec![Hour, Week, Year]),
        1 => (Vec::new(), vec![Week, Month]),
        2 => (vec![By::Path], vec![Day, Year]),
        _ => (vec![By::Path, By::Status], vec![Hour, Day]),
    };
    let ages = match random.below(2) {
        0 => Vec::new(),
        _ => vec![(Hour, 100 * 24), (Week, 300 * 24)],
    };
    let ages = ages.into_iter().filter(|(l, _)| levels.contains(l));
    Rollup {
        name: "plain",
        calendar,
        measures: vec![
            Measure::new("hits", StateKind::Count, None, levels[0]),
            Measure::new("visitors", StateKind::Distinct, None, levels[0]),
        ],
        ages: ages.collect(),
        levels,
        by,
    }
}
