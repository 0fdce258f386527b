//! What the tests share: made-up events, and a recompute that knows nothing of the cascade.

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
use crate::cells::{Cells, KeyValue};
use crate::definition::{Definition, defaults};
use crate::state::{Distinct, Histogram, Layout};
use crate::table::RollupTable;

/// A deterministic source of numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// One event of an access log, as far as the defaults count it.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) time: i64,
    pub(crate) site: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) status: Option<i16>,
    pub(crate) method: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) size: Option<i64>,
}

/// Events over `days` around changes of offset, with nulls, extremes and many or few hosts.
pub(crate) fn events(
    random: &mut Random,
    len: usize,
    days: u64,
    paths: u64,
    hosts: u64,
) -> Vec<Event> {
    // 2024-10-25: two days before Europe leaves summer time.
    let start = 1_729_814_400_000_000_i64;
    let some = |random: &mut Random, text: String| (random.below(12) > 0).then_some(text);
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
            Event {
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

pub(crate) fn batch(events: &[Event]) -> RecordBatch {
    let time: TimestampMicrosecondArray = events.iter().map(|e| Some(e.time)).collect();
    let text = |of: fn(&Event) -> &Option<String>| -> StringArray {
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

/// `stats` and `traffic` of an access stream.
pub(crate) fn default_definitions() -> Vec<Definition> {
    defaults(
        &Name::new("events").expect("a name"),
        StreamKind::Access,
        &[],
    )
    .expect("definitions")
}

/// A definition from its table in JSON, for an access stream.
pub(crate) fn definition(table: Value) -> Definition {
    let table: RollupTable = serde_json::from_value(table).expect("a table");
    table
        .resolve(&Name::new("test").expect("a name"), StreamKind::Access)
        .expect("a definition")
}

/// Keys and measures of `stats` or `traffic` in another zone.
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

/// One cell of the recompute.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct NaiveCell {
    hits: u64,
    values: Vec<i64>,
    hosts: BTreeSet<String>,
}

/// What a level reads, cell by cell, as text.
pub(crate) type Rows = BTreeMap<(i64, Vec<KeyValue>), Vec<String>>;

/// The cells of a level, from the events alone.
pub(crate) fn recompute(definition: &Definition, level: Level, events: &[Event]) -> Rows {
    let mut cells: BTreeMap<(i64, Vec<KeyValue>), NaiveCell> = BTreeMap::new();
    let calendar = definition.calendar();
    let text = |value: &Option<String>| value.clone().map_or(KeyValue::Null, KeyValue::Text);
    for event in events {
        let key = definition
            .by()
            .iter()
            .map(|key| match &*key.name {
                "site" => text(&event.site),
                "path" => text(&event.path),
                "method" => text(&event.method),
                "status" => event
                    .status
                    .map_or(KeyValue::Null, |s| KeyValue::Int(s.into())),
                other => panic!("no such key: {other}"),
            })
            .collect();
        let cell = cells
            .entry((calendar.bucket(level, event.time).start_us, key))
            .or_default();
        cell.hits += 1;
        cell.values.extend(event.size);
        cell.hosts.extend(event.host.clone());
    }
    cells
        .into_iter()
        .map(|(at, cell)| (at, naive_row(definition, level, cell)))
        .collect()
}

/// The highest value that shares two digits, by the definition of an HDR bucket.
fn highest(value: i64) -> i64 {
    let mut width = 1;
    while value / width >= 256 {
        width *= 2;
    }
    (value / width + 1) * width - 1
}

fn naive_row(definition: &Definition, level: Level, mut cell: NaiveCell) -> Vec<String> {
    cell.values.sort_unstable();
    let values = &cell.values;
    let or_null = |value: Option<i64>| value.map_or("null".to_owned(), |v| v.to_string());
    let sum = (!values.is_empty()).then(|| values.iter().sum::<i64>());
    let mut row = Vec::new();
    for field in crate::read::columns(definition, level) {
        row.push(match &**field.name() {
            "hits" => cell.hits.to_string(),
            "bytes" | "size_sum" => or_null(sum),
            "size_count" => values.len().to_string(),
            "small" | "size_min" => or_null(values.first().copied()),
            "size_max" => or_null(values.last().copied()),
            "size_mean" => sum.map_or("null".to_owned(), |s| {
                (s as f64 / values.len() as f64).to_string()
            }),
            "size_overflow" => values.iter().filter(|v| **v > 1 << 40).count().to_string(),
            "size_p50" => or_null(naive_quantile(values, 50)),
            "size_p90" => or_null(naive_quantile(values, 90)),
            "size_p95" => or_null(naive_quantile(values, 95)),
            "size_p99" => or_null(naive_quantile(values, 99)),
            "size" => {
                let mut state = Histogram::new(Layout::DEFAULT, false);
                values.iter().for_each(|v| state.record(i128::from(*v)));
                format!("{:?}", state.encode())
            }
            "visitors" if cell.hosts.len() <= 128 => cell.hosts.len().to_string(),
            "visitors" => naive_set(&cell).count().to_string(),
            "visitors_state" => format!("{:?}", naive_set(&cell).encode()),
            _ => continue,
        });
    }
    row
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

fn naive_set(cell: &NaiveCell) -> Distinct {
    let mut state = Distinct::new();
    cell.hosts
        .iter()
        .for_each(|h| state.insert(xxh3_64(h.as_bytes())));
    state
}

/// What the cells read, by way of the columns.
pub(crate) fn rows(definition: &Definition, level: Level, cells: &Cells) -> Rows {
    let fields = crate::read::columns(definition, level);
    let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
    let batch = crate::read::finalise(definition, level, cells, &names).expect("columns");
    let keys = definition.by().len();
    let bucket = batch.column(0).as_primitive::<TimestampMicrosecondType>();
    let mut rows = Rows::new();
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
