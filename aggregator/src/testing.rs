//! Shared by the tests: random events, and a recomputation that shares no code with the cascade.

mod key_limit;

pub(crate) use key_limit::{counted_under, other, without_limit};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{
    Array, AsArray, Int16Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use chrono_tz::Tz;
use serde_json::{Value, json};
use storage::{Name, StreamKind};
use xxhash_rust::xxh3::xxh3_64;

use crate::calendar::Level;
use crate::cells::Cells;
use crate::definition::{Definition, Measure, MeasureKind, defaults};
use crate::keys::KeyValue;
use crate::state::{Distinct, Histogram, Layout};
use crate::table::RollupTable;

/// Checks whether the long forms of the tests are to run.
pub(crate) fn is_full() -> bool {
    std::env::var("LOGMILL_FULL").is_ok_and(|v| v == "1")
}

/// A deterministic source of numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct TestRandom(pub(crate) u64);

impl TestRandom {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// One event of an access log, as far as the defaults count it.
#[derive(Debug, Clone)]
pub(crate) struct AccessEvent {
    pub(crate) time: i64,
    pub(crate) site: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) status: Option<i16>,
    pub(crate) method: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) size: Option<i64>,
}

/// Returns events over `days` around changes of offset, with nulls, extremes and many or few hosts.
pub(crate) fn events(
    random: &mut TestRandom,
    len: usize,
    days: u64,
    paths: u64,
    hosts: u64,
) -> Vec<AccessEvent> {
    // 2024-10-25: two days before Europe leaves summer time.
    let start = 1_729_814_400_000_000_i64;
    let some = |random: &mut TestRandom, text: String| (random.below(12) > 0).then_some(text);
    (0..len)
        .map(|_| {
            let time = start + random.below(days * 86_400_000_000) as i64;
            let path = random
                .below(paths)
                .min(random.below(paths))
                .min(random.below(paths));
            let shift = random.below(44);
            let size = match random.below(30) {
                0 => None,
                1 => Some(0),
                2 => Some(-(random.below(5_000) as i64)),
                3 => Some((1 << 40) + random.below(3) as i64 - 1),
                _ => Some((random.next() >> (20 + shift)) as i64),
            };
            let (site, host) = (
                format!("site{}", random.below(3)),
                format!("10.0.0.{}", random.below(hosts)),
            );
            AccessEvent {
                time,
                site: some(random, site),
                path: some(random, format!("/page/{path}")),
                status: (random.below(20) > 0)
                    .then(|| [200, 301, 404, 500][random.below(4) as usize]),
                method: Some(["GET", "POST"][random.below(2) as usize].to_owned()),
                host: some(random, host),
                size,
            }
        })
        .collect()
}

pub(crate) fn batch(events: &[AccessEvent]) -> RecordBatch {
    let time: TimestampMicrosecondArray = events.iter().map(|e| Some(e.time)).collect();
    let text = |of: fn(&AccessEvent) -> &Option<String>| -> StringArray {
        events.iter().map(|e| of(e).as_deref()).collect()
    };
    RecordBatch::try_from_iter_with_nullable([
        ("time", Arc::new(time.with_timezone("UTC")) as _, false),
        ("site", Arc::new(text(|e| &e.site)) as _, true),
        ("path", Arc::new(text(|e| &e.path)) as _, true),
        (
            "status",
            Arc::new(events.iter().map(|e| e.status).collect::<Int16Array>()) as _,
            true,
        ),
        ("method", Arc::new(text(|e| &e.method)) as _, true),
        ("host", Arc::new(text(|e| &e.host)) as _, true),
        (
            "response_size",
            Arc::new(events.iter().map(|e| e.size).collect::<Int64Array>()) as _,
            true,
        ),
    ])
    .expect("a batch")
}

/// Returns `stats` and `traffic` of an access stream.
pub(crate) fn default_definitions() -> Vec<Definition> {
    defaults(
        &Name::new("events").expect("a name"),
        StreamKind::Access,
        &[],
    )
    .expect("definitions")
}

/// Returns the definition of a table in JSON, for an access stream.
pub(crate) fn definition(table: Value) -> Definition {
    let table: RollupTable = serde_json::from_value(table).expect("a table");
    table
        .resolve(&Name::new("test").expect("a name"), StreamKind::Access)
        .expect("a definition")
}

/// Returns a definition with measures like those of `stats` and `traffic`, in another zone.
pub(crate) fn zoned(by: &[&str], zone: Tz, histogram_from: &str) -> Definition {
    definition(json!({
        "stream": "events", "by": by, "timezone": zone.name(), "week": "monday",
        "measures": {
            "hits": "count", "bytes": "sum(response_size)", "small": "min(response_size)",
            "size": { "histogram": "response_size", "from": histogram_from },
            "visitors": { "distinct": "host", "from": "hour" },
        },
    }))
}

/// Returns a definition with keys computed by expressions.
pub(crate) fn keyed(zone: Tz) -> Definition {
    definition(json!({
        "stream": "events", "timezone": zone.name(),
        "by": [
            { "name": "section", "expr": "path_prefix(path, 1)" },
            { "name": "class", "expr": "status / 100" },
            { "name": "even", "expr": "regexp_capture(path, '([0-9]*[02468])$')" },
            { "name": "verb", "expr": "lower(method)" },
        ],
        "measures": {
            "hits": "count",
            "errors": { "of": "count", "filter": "status >= 500" },
            "visitors": { "distinct": "host", "from": "hour" },
        },
    }))
}

/// Returns a definition with every kind of measure, with and without a filter.
pub(crate) fn filtered(by: &[&str], zone: Tz, from: &str) -> Definition {
    definition(json!({
        "stream": "events", "by": by, "timezone": zone.name(),
        "measures": {
            "hits": "count",
            "errors": { "of": "count", "filter": "status >= 500" },
            "odd": { "of": "count", "filter": "status not in (200, 301)", "from": from },
            "bytes": "sum(response_size)",
            "page_bytes": { "of": "sum(response_size)", "filter": "path like '/page/1%' and 'GET' = method" },
            "least": { "of": "min(response_size)", "filter": "500 <= status" },
            "most": { "of": "max(response_size)", "filter": "site is null or response_size > 1000.5" },
            "average": { "of": "mean(response_size)", "filter": "not (site = 'site1' or response_size <= 100)" },
            "spread": "variance(response_size)",
            "late_spread": { "of": "variance(response_size)", "filter": "status >= 500", "from": from },
            "size": { "histogram": "response_size", "filter": "not (site = 'site1' or response_size <= 100)", "from": from },
            "all_size": { "histogram": "response_size", "from": "day" },
            "visitors": { "distinct": "host", "from": "hour" },
            "victims": { "distinct": "host", "filter": "(status >= 500)", "from": from },
        },
    }))
}

/// The rows of a level, cell by cell, as text.
pub(crate) type RowTexts = BTreeMap<(i64, Vec<KeyValue>), Vec<String>>;

/// Computes the rows of a level from the events alone, in the order of their sequence numbers.
pub(crate) fn recompute(definition: &Definition, level: Level, events: &[AccessEvent]) -> RowTexts {
    let mut cells: BTreeMap<(i64, Vec<KeyValue>), Vec<&AccessEvent>> = BTreeMap::new();
    let calendar = definition.calendar();
    for (event, key) in events.iter().zip(counted_under(definition, events)) {
        cells
            .entry((calendar.bucket(level, event.time).start_us, key))
            .or_default()
            .push(event);
    }
    cells
        .into_iter()
        .map(|(at, events)| (at, naive_row(definition, level, &events)))
        .collect()
}

fn naive_key(name: &str, event: &AccessEvent) -> KeyValue {
    let text = |value: &Option<String>| value.clone().map_or(KeyValue::Null, KeyValue::Text);
    match name {
        "site" => text(&event.site),
        "path" => text(&event.path),
        "method" => text(&event.method),
        "status" => event
            .status
            .map_or(KeyValue::Null, |s| KeyValue::Int(s.into())),
        "section" => match &event.path {
            Some(path) => {
                let segment = path.split('/').nth(1).expect("a segment");
                KeyValue::Text(format!("/{segment}"))
            }
            None => KeyValue::Null,
        },
        "class" => match event.status {
            Some(status) => KeyValue::Int(i64::from(status / 100)),
            None => KeyValue::Null,
        },
        "even" => match event.path.as_deref().and_then(|p| p.rsplit('/').next()) {
            Some(page) if page.ends_with(['0', '2', '4', '6', '8']) => text(&Some(page.to_owned())),
            _ => KeyValue::Null,
        },
        "verb" => text(&event.method.as_ref().map(|m| m.to_lowercase())),
        other => panic!("no such key: {other}"),
    }
}

/// Evaluates a condition on an event; `None` is null.
type Evaluate = fn(&AccessEvent) -> Option<bool>;

/// Conditions in their canonical spelling, each with its meaning written a second time.
const CONDITIONS: [(&str, Evaluate); 5] = [
    ("status >= 500", |e| Some(e.status? >= 500)),
    ("not status in (200, 301)", |e| {
        Some(![200, 301].contains(&e.status?))
    }),
    ("path like '/page/1%' and method = 'GET'", |e| {
        let path = e.path.as_ref().map(|p| p.starts_with("/page/1"));
        let method = e.method.as_ref().map(|m| m == "GET");
        all([path, method])
    }),
    ("site is null or response_size > 1000.5", |e| {
        any([Some(e.site.is_none()), e.size.map(|s| s >= 1_001)])
    }),
    ("not (site = 'site1' or response_size <= 100)", |e| {
        let site = e.site.as_ref().map(|s| s == "site1");
        Some(!any([site, e.size.map(|s| s <= 100)])?)
    }),
];

fn any(answers: [Option<bool>; 2]) -> Option<bool> {
    if answers.contains(&Some(true)) {
        Some(true)
    } else {
        answers.iter().all(Option::is_some).then_some(false)
    }
}

fn all(answers: [Option<bool>; 2]) -> Option<bool> {
    Some(!any(answers.map(|answer| Some(!answer?)))?)
}

fn naive_passes(measure: &Measure, event: &AccessEvent) -> bool {
    let Some(filter) = &measure.filter else {
        return true;
    };
    let known = CONDITIONS.iter().find(|c| c.0 == filter.to_string());
    known.expect("a known condition").1(event) == Some(true)
}

/// Returns the highest value in the bucket of `value` in an HDR histogram of two digits.
fn highest(value: i64) -> i64 {
    let mut width = 1;
    while value / width >= 256 {
        width *= 2;
    }
    (value / width + 1) * width - 1
}

fn naive_row(definition: &Definition, level: Level, events: &[&AccessEvent]) -> Vec<String> {
    let measures = definition.measures().iter().filter(|m| m.from <= level);
    let of_measure = |measure: &Measure| {
        let passing = events.iter().filter(|event| naive_passes(measure, event));
        naive_columns(&measure.kind, &passing.copied().collect::<Vec<_>>())
    };
    measures.flat_map(of_measure).collect()
}

/// Returns the columns of one measure. Numbers are sizes, and distinct counts are over hosts.
fn naive_columns(kind: &MeasureKind, events: &[&AccessEvent]) -> Vec<String> {
    let mut values: Vec<i64> = events.iter().filter_map(|event| event.size).collect();
    values.sort_unstable();
    let or_null = |value: Option<i64>| value.map_or("null".to_owned(), |v| v.to_string());
    let sum = (!values.is_empty()).then(|| values.iter().sum::<i64>());
    let mean = sum.map(|s| s as f64 / values.len() as f64);
    let mean = mean.map_or("null".to_owned(), |m| m.to_string());
    let (min, max) = (values.first().copied(), values.last().copied());
    match kind {
        MeasureKind::Count => vec![events.len().to_string()],
        MeasureKind::Sum(_) => vec![or_null(sum)],
        MeasureKind::Min(_) => vec![or_null(min)],
        MeasureKind::Max(_) => vec![or_null(max)],
        MeasureKind::Mean(_) => vec![mean],
        MeasureKind::Variance(_) => vec![naive_variance(&values)],
        MeasureKind::Histogram { .. } => {
            let mut columns = vec![values.len().to_string(), or_null(sum), mean];
            columns.extend([or_null(min), or_null(max)]);
            columns.extend([50, 90, 95, 99].map(|p| or_null(naive_quantile(&values, p))));
            let above = values.iter().filter(|v| **v > 1 << 40).count();
            let mut state = Histogram::new(Layout::DEFAULT, false);
            values.iter().for_each(|v| state.record(i128::from(*v)));
            columns.extend([above.to_string(), format!("{:?}", state.encode())]);
            columns
        }
        MeasureKind::Distinct { .. } => {
            let hosts: BTreeSet<&String> = events.iter().filter_map(|e| e.host.as_ref()).collect();
            let mut state = Distinct::new();
            hosts
                .iter()
                .for_each(|h| state.insert(xxh3_64(h.as_bytes())));
            let few = hosts.len() <= 128;
            let count = if few {
                hosts.len() as u64
            } else {
                state.count()
            };
            vec![count.to_string(), format!("{:?}", state.encode())]
        }
    }
}

/// Returns half the mean of the squared distances between every two values.
fn naive_variance(values: &[i64]) -> String {
    let n = values.len() as i128;
    if n < 2 {
        return "null".to_owned();
    }
    let mut sum = 0;
    for (nth, a) in values.iter().enumerate() {
        let squares = values[..nth]
            .iter()
            .map(|b| i128::from(a.abs_diff(*b)).pow(2));
        sum += squares.sum::<i128>();
    }
    (sum as f64 / (n * (n - 1)) as f64).to_string()
}

fn naive_quantile(sorted: &[i64], percent: usize) -> Option<i64> {
    let recorded: Vec<i64> = sorted.iter().copied().filter(|v| *v >= 0).collect();
    let rank = (recorded.len() * percent).div_ceil(100).max(1);
    let value = *recorded.get(rank - 1)?;
    Some(if value > 1 << 40 {
        *recorded.last()?
    } else {
        highest(value)
    })
}

/// Returns the rows of cells, read through their columns.
pub(crate) fn rows(definition: &Definition, level: Level, cells: &Cells) -> RowTexts {
    let fields = crate::columns(definition, level);
    let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
    let batch = crate::read::finalise(definition, level, cells, &names).expect("columns");
    let keys = definition.by().len();
    let bucket = batch.column(0).as_primitive::<TimestampMicrosecondType>();
    let mut rows = RowTexts::new();
    let mut before = None;
    for row in 0..batch.num_rows() {
        let key: Vec<KeyValue> = (0..keys)
            .map(|k| key_value(batch.column(2 + k), row))
            .collect();
        let values = (2 + keys..fields.len())
            .map(|c| text(batch.column(c), row))
            .collect();
        let at = (bucket.value(row), key);
        assert!(before.as_ref() < Some(&at), "rows come by bucket and key");
        before = Some(at.clone());
        rows.insert(at, values);
    }
    rows
}

fn key_value(array: &dyn Array, row: usize) -> KeyValue {
    if array.is_null(row) {
        KeyValue::Null
    } else if let Some(text) = array.as_string_opt::<i32>() {
        KeyValue::Text(text.value(row).to_owned())
    } else {
        let wide =
            arrow::compute::cast(array, &arrow::datatypes::DataType::Int64).expect("an integer");
        KeyValue::Int(wide.as_primitive::<Int64Type>().value(row))
    }
}

fn text(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        "null".to_owned()
    } else if let Some(bytes) = array.as_binary_opt::<i32>() {
        format!("{:?}", bytes.value(row))
    } else if let Some(float) = array.as_primitive_opt::<arrow::datatypes::Float64Type>() {
        float.value(row).to_string()
    } else {
        array.as_primitive::<Int64Type>().value(row).to_string()
    }
}
