//! Tests of parts: rows are sorted and in the right partition, none is lost and none is invented.

use std::cmp::Ordering;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{
    DataType, Field, Float64Type, Int64Type, Schema, TimestampMicrosecondType, UInt64Type,
};
use bytes::Bytes;
use chrono::{DateTime, Datelike, TimeZone, Utc};
use proptest::prelude::*;

use super::bounds::BOUND_BYTES;
use super::calendar::{DAY_US, HOUR_US};
use super::*;
use crate::model::{REST, StreamKind};

pub(super) fn meta(width: PartitionWidth, order_by: &[&str]) -> StreamMeta {
    use ColumnType::{Bool, Float64, Int64, Text, Time};
    let columns = [
        (TIME, Time),
        ("host", Text),
        ("n", Int64),
        ("f", Float64),
        ("b", Bool),
    ];
    StreamMeta {
        kind: StreamKind::Documents,
        partition: width,
        order_by: order_by.iter().map(|s| (*s).to_owned()).collect(),
        columns: columns.iter().map(|(n, t)| Column::new(n, *t)).collect(),
        created_us: 0,
        sealed_events: 0,
        dropped: Vec::new(),
        columns_max: crate::manifest::COLUMNS_MAX,
        erasures: Vec::new(),
        divided_by: None,
    }
}

/// One event of a test. Floats are compared by their order, so not NaN.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(super) struct Row {
    pub(super) time: i64,
    pub(super) host: Option<String>,
    pub(super) n: Option<i64>,
    pub(super) f: Option<f64>,
    pub(super) b: Option<bool>,
    pub(super) seq: u64,
}

/// Flags of the columns host, n, f and b that a chunk has.
pub(super) type Has = [bool; 4];

pub(super) fn chunk(rows: &[Row], has: Has) -> Arc<Chunk> {
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|r| r.time));
    let mut columns: Vec<(&str, ArrayRef)> = vec![(TIME, Arc::new(times.with_timezone("UTC")))];
    let hosts = StringArray::from_iter(rows.iter().map(|r| r.host.as_deref()));
    let all: [(&str, ArrayRef); 4] = [
        ("host", Arc::new(hosts)),
        (
            "n",
            Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.n))),
        ),
        (
            "f",
            Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.f))),
        ),
        (
            "b",
            Arc::new(BooleanArray::from_iter(rows.iter().map(|r| r.b))),
        ),
    ];
    columns.extend(
        all.into_iter()
            .zip(has)
            .filter(|(_, has)| *has)
            .map(|(c, _)| c),
    );
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, a)| Field::new(*name, a.data_type().clone(), *name != TIME))
        .collect();
    let arrays = columns.into_iter().map(|(_, a)| a).collect();
    let events = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("fits");
    Arc::new(Chunk::new(&events, rows.iter().map(|r| r.seq).collect()).expect("a chunk"))
}

pub(super) fn rows_of(image: &PartImage) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in read_part(image.bytes.clone().into(), None).expect("a part") {
        let times = batch[TIME].as_primitive::<TimestampMicrosecondType>();
        let seqs = batch[SEQ].as_primitive::<UInt64Type>();
        let column = |name: &str, i: usize| batch.column_by_name(name).filter(|a| a.is_valid(i));
        for i in 0..batch.num_rows() {
            rows.push(Row {
                time: times.value(i),
                host: column("host", i).map(|a| a.as_string::<i32>().value(i).to_owned()),
                n: column("n", i).map(|a| a.as_primitive::<Int64Type>().value(i)),
                f: column("f", i).map(|a| a.as_primitive::<Float64Type>().value(i)),
                b: column("b", i).map(|a| a.as_boolean().value(i)),
                seq: seqs.value(i),
            });
        }
    }
    rows
}

/// Compares two rows as a part should, written as plainly as possible.
pub(super) fn compare(order_by: &[String], a: &Row, b: &Row) -> Ordering {
    for name in order_by {
        let order = match name.as_str() {
            TIME => a.time.cmp(&b.time),
            "host" => a.host.cmp(&b.host),
            "n" => a.n.cmp(&b.n),
            "f" => match (a.f, b.f) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            },
            "b" => a.b.cmp(&b.b),
            other => panic!("{other}"),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.seq.cmp(&b.seq)
}

fn host() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        2 => Just(None),
        6 => "[a-cé]{0,2}".prop_map(Some),
        1 => "(ab|é|\u{10ffff}){20,40}".prop_map(Some),
        1 => Just(Some("\u{10ffff}".repeat(17))),
        1 => Just(Some(format!("{}\u{10ffff}z", "x".repeat(64)))),
    ]
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        // Times of a few days around 1970, of a few months anywhere, and of the whole range.
        -3 * DAY_US..3 * DAY_US,
        Just(0),
        Just(-1),
        (-1_000_000_000_000_000_i64..2_000_000_000_000_000)
            .prop_map(|t| t.div_euclid(HOUR_US) * HOUR_US),
        -62_000_000_000_000_000..250_000_000_000_000_000_i64,
    ]
}

pub(super) fn chunks() -> impl Strategy<Value = Vec<(Vec<Row>, Has)>> {
    let float = prop_oneof![Just(-0.5), Just(0.5), Just(f64::INFINITY), -1e9..1e9];
    let row = (
        time(),
        host(),
        proptest::option::of(prop_oneof![-3..3_i64, any::<i64>()]),
        proptest::option::of(float),
        any::<Option<bool>>(),
    );
    let chunk = (proptest::collection::vec(row, 1..30), any::<Has>());
    proptest::collection::vec(chunk, 1..5).prop_map(|chunks| {
        let mut seq = 5;
        let mut number = |rows: Vec<_>, has: Has| {
            let number_one = |(time, host, n, f, b): (i64, Option<String>, _, _, _)| {
                seq += 1 + u64::from(time % 3 == 0);
                Row {
                    time,
                    host: host.filter(|_| has[0]),
                    n: if has[1] { n } else { None },
                    f: if has[2] { f } else { None },
                    b: if has[3] { b } else { None },
                    seq,
                }
            };
            rows.into_iter().map(number_one).collect()
        };
        chunks
            .into_iter()
            .map(|(rows, has)| (number(rows, has), has))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn parts_hold_every_row_once_sorted_and_in_its_partition(
        chunks in chunks(),
        width in prop_oneof![
            Just(PartitionWidth::Hour), Just(PartitionWidth::Day), Just(PartitionWidth::Month)
        ],
        order_by in prop_oneof![
            Just(vec![TIME]), Just(vec!["host", TIME]), Just(vec![]), Just(vec!["n", "b", "host"]),
            Just(vec!["f"]), Just(vec!["b", "n"]),
        ],
    ) {
        let meta = meta(width, &order_by);
        let made: Vec<Arc<Chunk>> = chunks.iter().map(|(rows, has)| chunk(rows, *has)).collect();
        let images = build(&meta, &made).expect("builds");
        let mut expected: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        for row in chunks.iter().flat_map(|(rows, _)| rows) {
            expected.entry(slow_partition(width, row.time)).or_default().push(row.clone());
        }
        prop_assert_eq!(
            images.iter().map(|i| i.partition_us).collect::<Vec<_>>(),
            expected.keys().copied().collect::<Vec<_>>()
        );
        for (image, rows) in images.iter().zip(expected.values_mut()) {
            rows.sort_by(|a, b| compare(&meta.order_by, a, b));
            prop_assert_eq!(&rows_of(image), &*rows);
            prop_assert_eq!(image.bounds.rows, rows.len() as u64);
            let times = rows.iter().map(|r| r.time);
            prop_assert_eq!(Some(image.bounds.time.0), times.clone().min());
            prop_assert_eq!(Some(image.bounds.time.1), times.max());
            let seqs = rows.iter().map(|r| r.seq);
            prop_assert_eq!(Some(image.bounds.seq.0), seqs.clone().min());
            prop_assert_eq!(Some(image.bounds.seq.1), seqs.max());
            let hosts: Vec<&String> = rows.iter().filter_map(|r| r.host.as_ref()).collect();
            match image.bounds.text_range.get("host") {
                Some((least, greatest)) => {
                    prop_assert!(hosts.iter().all(|h| least <= *h && *h <= greatest));
                    prop_assert!(least.len() <= BOUND_BYTES);
                }
                None => prop_assert!(hosts.is_empty() || !order_by.contains(&"host")),
            }
        }
    }
}

/// Returns the start of a partition by the calendar alone.
fn slow_partition(width: PartitionWidth, time_us: i64) -> i64 {
    use chrono::Timelike;
    let t = Utc
        .timestamp_micros(time_us)
        .single()
        .expect("within the calendar");
    let (hour, day) = match width {
        PartitionWidth::Hour => (t.hour(), t.day()),
        PartitionWidth::Day => (0, t.day()),
        PartitionWidth::Month => (0, 1),
    };
    let start = Utc.with_ymd_and_hms(t.year(), t.month(), day, hour, 0, 0);
    start
        .single()
        .expect("UTC has every hour once")
        .timestamp_micros()
}

#[test]
fn partitions_have_their_names() {
    use PartitionWidth::{Day, Hour, Month};
    let us = |text: &str| {
        let time: DateTime<Utc> = text.parse().expect("a time");
        time.timestamp_micros()
    };
    let cases = [
        (Hour, "2000-10-10T20:55:36Z", "hour=2000-10-10T20"),
        (Day, "2000-10-10T20:55:36Z", "date=2000-10-10"),
        (Month, "2000-10-10T20:55:36Z", "month=2000-10"),
        (Hour, "1969-12-31T23:59:59.999999Z", "hour=1969-12-31T23"),
        (Day, "1969-12-31T23:59:59.999999Z", "date=1969-12-31"),
        (Month, "1969-12-31T23:59:59.999999Z", "month=1969-12"),
        (Month, "1904-02-29T00:00:00Z", "month=1904-02"),
        (Day, "1970-01-01T00:00:00Z", "date=1970-01-01"),
    ];
    for (width, time, folder) in cases {
        let start = partition_start(width, us(time));
        assert_eq!(partition_folder(width, start), folder, "{time}");
        assert_eq!(
            partition_start(width, start),
            start,
            "a start is in its own partition"
        );
    }
}

#[test]
fn times_beyond_the_calendar_have_a_partition_too() {
    use PartitionWidth::{Day, Hour, Month};
    for width in [Hour, Day, Month] {
        for time in [i64::MIN, i64::MIN + 1, i64::MAX] {
            let start = partition_start(width, time);
            assert!(start <= time, "{width:?} {time}");
            let folder = partition_folder(width, start);
            assert!(folder.contains('=') && !folder.contains('/'), "{folder}");
        }
    }
}

#[test]
fn columns_that_no_row_has_are_left_out_and_read_by_their_whole_name() {
    let row = |seq| Row {
        time: 1,
        host: None,
        n: Some(3),
        f: None,
        b: None,
        seq,
    };
    let mut meta = meta(PartitionWidth::Day, &[TIME]);
    meta.columns.push(Column::new("n.b", ColumnType::Int64));
    meta.columns.push(Column::new(REST, ColumnType::Binary));
    let with = chunk(&[row(1), row(2)], [true, true, false, false]);
    let mut fields: Vec<Arc<Field>> = with.events.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("n.b", DataType::Int64, true)));
    let mut columns = with.events.columns().to_vec();
    columns.push(Arc::new(Int64Array::from(vec![8, 9])));
    let seq = fields.iter().position(|f| f.name() == SEQ).expect("there");
    fields.remove(seq);
    columns.remove(seq);
    let events = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("fits");
    let chunks = [Arc::new(Chunk::new(&events, vec![1, 2]).expect("a chunk"))];
    let images = build(&meta, &chunks).expect("builds");
    let bytes = Bytes::from(images[0].bytes.clone());
    let names = |columns: Option<&[&str]>| -> Vec<String> {
        let batches = read_part(bytes.clone(), columns).expect("a part");
        batches[0]
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect()
    };
    assert_eq!(names(None), [TIME, "n", "n.b", SEQ]);
    assert_eq!(names(Some(&["n", "host", "nowhere"])), ["n"]);
    assert_eq!(names(Some(&["n.b", TIME])), [TIME, "n.b"]);
}

#[test]
fn a_large_part_keeps_its_order_across_writes() {
    let rows: Vec<Row> = (0..3 * WRITE_ROWS as i64)
        .map(|i| Row {
            time: (i * 7919) % 86_400_000_000,
            host: Some(format!("h{}", (i * 31) % 500)),
            n: None,
            f: None,
            b: None,
            seq: i as u64,
        })
        .collect();
    let meta = meta(PartitionWidth::Day, &["host", TIME]);
    let chunks: Vec<_> = rows.chunks(5000).map(|r| chunk(r, [true; 4])).collect();
    let images = build(&meta, &chunks).expect("builds");
    let mut expected = rows;
    expected.sort_by(|a, b| compare(&meta.order_by, a, b));
    assert_eq!(images.len(), 1);
    assert!(rows_of(&images[0]) == expected, "the order differs");
    assert_eq!(
        images[0].bounds.text_range["host"],
        ("h0".to_owned(), "h99".to_owned())
    );
}

#[test]
fn a_column_that_was_widened_is_sorted_as_what_it_is_now() {
    let row = |n, f, seq| Row {
        time: 1,
        host: None,
        n,
        f,
        b: None,
        seq,
    };
    let whole = [row(Some(3), None, 1), row(Some(-7), None, 2)];
    let parted = [row(None, Some(2.5), 3), row(None, Some(-8.5), 4)];
    let chunks = [
        chunk(&whole, [false, true, false, false]),
        chunk(&parted, [false, false, true, false]),
    ];
    // The first chunk arrived while the column was one of integers.
    let old = &chunks[0].events;
    let fields = old.schema();
    let renamed = fields
        .fields()
        .iter()
        .map(|field| match field.name().as_str() {
            "n" => Arc::new(field.as_ref().clone().with_name("f")),
            _ => Arc::clone(field),
        });
    let schema = Arc::new(Schema::new(renamed.collect::<Vec<_>>()));
    let old = RecordBatch::try_new(schema, old.columns().to_vec()).expect("fits");
    let without_seq: Vec<usize> = (0..old.num_columns() - 1).collect();
    let old = old.project(&without_seq).expect("projected");
    let old = Arc::new(Chunk::new(&old, vec![1, 2]).expect("a chunk"));
    let meta = meta(PartitionWidth::Day, &["f"]);
    let images = build(&meta, &[old, Arc::clone(&chunks[1])]).expect("builds");
    let floats: Vec<_> = rows_of(&images[0]).iter().map(|r| r.f).collect();
    assert_eq!(floats, [Some(-8.5), Some(-7.0), Some(2.5), Some(3.0)]);
}
