//! Rows that statistics exclude are rows that no condition lets pass: the same rows have the same
//! answers from memory, where each is evaluated, and from parts, whose statistics are evaluated
//! first. The values are those at which bounds fail: shortened texts, the greatest character,
//! zeros of both signs, the ends of integers, nulls, and integers that became floats.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use serde_json::Value;
use storage::{Column, ColumnType, IndexKind, Name, StreamKind, arrow_schema};

use super::support::{Event, Fixture, Random, batch};

/// 2024-03-01T00:00:00Z.
const START: i64 = 1_709_251_200_000_000;
const PARTS: usize = 8;
const ROWS: usize = 6;
const QUERIES: usize = 120;

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = ["", "a", "b", "Z", "z", "%", "_", "é", "it's"]
        .map(str::to_owned)
        .into();
    for length in [63, 64, 65, 100] {
        texts.push("a".repeat(length));
        texts.push("a".repeat(length) + "b");
        texts.push("a".repeat(length - 1) + "é");
    }
    texts.push("\u{10FFFF}".repeat(16));
    texts.push("\u{10FFFF}".repeat(17));
    texts.push("a".repeat(60) + &"\u{10FFFF}".repeat(2));
    texts.push("é".repeat(40));
    texts
}

const FLOATS: [f64; 10] = [
    0.0,
    -0.0,
    1.5,
    -1.5,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    9_007_199_254_740_992.0,
    7.0,
    -7.0,
];
const INTEGERS: [i64; 8] = [
    i64::MIN,
    i64::MIN + 1,
    -1,
    0,
    1,
    200,
    i64::MAX - 1,
    i64::MAX,
];

fn some<T>(random: &mut Random, of: &[T]) -> Option<T>
where
    T: Clone,
{
    (random.below(6) > 0).then(|| of[random.below(of.len())].clone())
}

/// Rows of one part. In the first ones `x` holds integers.
fn documents(random: &mut Random, part: usize) -> RecordBatch {
    let x = if part < 2 {
        ColumnType::Int64
    } else {
        ColumnType::Float64
    };
    let columns = [
        Column::new("time", ColumnType::Time),
        Column::new("x", x),
        Column::new("n", ColumnType::Int64),
        Column::new("t", ColumnType::Text),
    ];
    let first = (part * ROWS) as i64;
    let times = (first..first + ROWS as i64).map(|nth| START + nth * 3_600_000_000);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let whole: [i64; 4] = [0, 7, -7, 9_007_199_254_740_992];
    let x: ArrayRef = if part < 2 {
        Arc::new(Int64Array::from_iter(
            (0..ROWS).map(|_| some(random, &whole)),
        ))
    } else {
        Arc::new(Float64Array::from_iter(
            (0..ROWS).map(|_| some(random, &FLOATS)),
        ))
    };
    let n = Int64Array::from_iter((0..ROWS).map(|_| some(random, &INTEGERS)));
    let texts = texts();
    let t = StringArray::from_iter((0..ROWS).map(|_| some(random, &texts)));
    let columns_of = vec![Arc::new(times) as ArrayRef, x, Arc::new(n), Arc::new(t)];
    RecordBatch::try_new(arrow_schema(&columns), columns_of).expect("columns fit")
}

fn literal(random: &mut Random, column: &str) -> String {
    match column {
        "n" => INTEGERS[random.below(INTEGERS.len())].to_string(),
        "x" => format!("CAST('{:e}' AS DOUBLE)", FLOATS[random.below(FLOATS.len())]),
        _ => {
            let texts = texts();
            let text = &texts[random.below(texts.len())];
            format!("'{}'", text.replace('\'', "''"))
        }
    }
}

fn condition(random: &mut Random, column: &str) -> String {
    let (a, b) = (literal(random, column), literal(random, column));
    match random.below(14) {
        0 | 1 => format!("{column} = {a}"),
        2 => format!("{column} <> {a}"),
        3 => format!("{column} < {a}"),
        4 => format!("{column} <= {a}"),
        5 => format!("{column} > {a}"),
        6 => format!("{column} >= {a}"),
        7 => format!("{column} IN ({a}, {b})"),
        8 => format!("{column} NOT IN ({a}, {b})"),
        9 => format!("{column} BETWEEN {a} AND {b}"),
        10 => format!("({column} IS NOT DISTINCT FROM {a})"),
        11 => format!("({column} = {a} OR {column} IS NULL)"),
        12 => format!("NOT ({column} > {a})"),
        _ => match column {
            "x" | "n" => format!("{column} + 0 = {a}"),
            _ => format!("{column} LIKE concat({a}, '%')"),
        },
    }
}

fn question(random: &mut Random, columns: &[&str], stream: &str) -> String {
    let column = columns[random.below(columns.len())];
    let mut terms = vec![condition(random, column)];
    if random.below(3) == 0 {
        let other = columns[random.below(columns.len())];
        terms.push(condition(random, other));
    }
    let terms = terms.join([" AND ", " OR "][random.below(2)]);
    match random.below(4) {
        0 => {
            format!("SELECT {column} AS v, time FROM {stream} WHERE {terms} ORDER BY 1, 2 LIMIT 5")
        }
        1 => format!(
            "SELECT min({column}) AS a, max({column}) AS b, count(*) AS n FROM {stream} WHERE {terms}"
        ),
        _ => format!("SELECT time FROM {stream} WHERE {terms} ORDER BY time"),
    }
}

/// Runs the same queries on two stores.
async fn compare(random: &mut Random, stores: [&Fixture; 2], columns: &[&str], stream: &str) {
    let mut found = 0;
    for _ in 0..QUERIES {
        let seed = random.0;
        let sql = question(random, columns, stream);
        let [in_memory, in_parts] = stores.map(|store| store.rows(&sql));
        let (expected, rows): (Vec<Value>, Vec<Value>) = (in_memory.await, in_parts.await);
        assert_eq!(rows, expected, "seed {seed}: {sql}");
        found += usize::from(!rows.is_empty());
    }
    assert!(found * 3 >= QUERIES, "{found} of {QUERIES} found rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_leave_out_no_document_that_a_condition_lets_pass() {
    let mut random = Random(u64::from(std::process::id()));
    let [in_memory, in_parts] = [(); 2].map(|()| Fixture::without_rollups());
    for part in 0..PARTS {
        let events = documents(&mut random, part);
        for store in [&in_memory, &in_parts] {
            store.write("docs", StreamKind::Documents, events.clone());
        }
        in_parts.store.seal().expect("seals");
    }
    let stores = [&in_memory, &in_parts];
    compare(&mut random, stores, &["x", "n", "t"], "docs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_of_the_order_and_indexes_leave_out_no_event_that_a_condition_lets_pass() {
    let mut random = Random(u64::from(std::process::id()));
    let [in_memory, in_parts] = [(); 2].map(|()| Fixture::without_rollups());
    let hosts: Vec<&'static str> = texts().into_iter().map(|t| &*t.leak()).collect();
    for part in 0..PARTS {
        let event = |nth: usize| Event {
            time: START + (part * ROWS + nth) as i64 * 3_600_000_000,
            host: hosts[random.below(hosts.len())],
            path: some(&mut random, &texts()),
            status: some(&mut random, &[i16::MIN, -1, 0, 200, i16::MAX]),
            ..Event::default()
        };
        let events = batch(&(0..ROWS).map(event).collect::<Vec<_>>());
        for store in [&in_memory, &in_parts] {
            store.write("access", StreamKind::Access, events.clone());
        }
        in_parts.store.seal().expect("seals");
    }
    let access = Name::new("access").expect("a name");
    let kind = [IndexKind::Inverted, IndexKind::Covering][random.below(2)];
    let created = in_parts.store.create_index(&access, "path", kind);
    created.expect("suits");
    in_parts.store.build_indexes().expect("builds");
    let stores = [&in_memory, &in_parts];
    compare(&mut random, stores, &["host", "path"], "access").await;
    in_parts.store.compact_parts(None, true).expect("compacts");
    compare(&mut random, stores, &["host", "path"], "access").await;
}
