//! Rows as text.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    ListArray, RecordBatch, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use arrow::ipc::reader::StreamReader;
use unicode_width::UnicodeWidthStr;

use super::{Output, Writer, type_name, write};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, array)| array).collect(),
    )
    .expect("columns fit")
}

fn written(format: Output, batch: &RecordBatch) -> String {
    let mut out = Vec::new();
    write(
        format,
        &batch.schema(),
        std::slice::from_ref(batch),
        &mut out,
    )
    .expect("written");
    String::from_utf8(out).expect("text")
}

fn times(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
}

#[test]
fn json_keeps_nulls_and_64_bit_integers_and_writes_times_in_rfc_3339() {
    let rows = batch(vec![
        (
            "t",
            times(vec![
                Some(971_211_336_000_000),
                Some(971_211_336_500_000),
                None,
                Some(-1),
            ]),
        ),
        (
            "i",
            Arc::new(Int64Array::from(vec![
                Some(i64::MAX),
                Some(i64::MIN),
                None,
                Some(0),
            ])),
        ),
        (
            "u",
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, None, Some(0)])),
        ),
        (
            "f",
            Arc::new(Float64Array::from(vec![
                Some(1.0),
                Some(0.1),
                Some(f64::NAN),
                Some(1e300),
            ])),
        ),
        (
            "b",
            Arc::new(BooleanArray::from(vec![
                Some(true),
                None,
                Some(false),
                None,
            ])),
        ),
    ]);
    assert_eq!(
        written(Output::Json, &rows),
        "[\n\
         {\"t\":\"2000-10-10T20:55:36Z\",\"i\":9223372036854775807,\"u\":18446744073709551615,\"f\":1.0,\"b\":true},\n\
         {\"t\":\"2000-10-10T20:55:36.500Z\",\"i\":-9223372036854775808,\"u\":null,\"f\":0.1,\"b\":null},\n\
         {\"t\":null,\"i\":null,\"u\":null,\"f\":null,\"b\":false},\n\
         {\"t\":\"1969-12-31T23:59:59.999999Z\",\"i\":0,\"u\":0,\"f\":1e300,\"b\":null}\n\
         ]\n"
    );
    assert_eq!(written(Output::Ndjson, &rows).lines().count(), 4);
    assert_eq!(written(Output::Json, &rows.slice(0, 0)), "[]\n");
}

#[test]
fn hostile_text_stays_text() {
    let text = "a\"b\\c\n\r\t\u{0}\u{1b}[31m</script>é\u{7f}\u{2028}";
    let rows = batch(vec![("x\"", Arc::new(StringViewArray::from(vec![text])))]);
    let json = written(Output::Json, &rows);
    let back: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(back[0]["x\""], text);
    let table = written(Output::Table, &rows);
    assert!(
        table.chars().all(|c| c == '\n' || !c.is_control()),
        "{table:?}"
    );
    let csv = written(
        Output::Csv,
        &batch(vec![(
            "a",
            Arc::new(StringArray::from(vec![
                Some("x,\"y\"\n"),
                Some(""),
                None,
                Some("z"),
            ])),
        )]),
    );
    assert_eq!(csv, "a\n\"x,\"\"y\"\"\n\"\n\"\"\n\nz\n");
}

#[test]
fn other_types_have_a_form_too() {
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
    let field = Arc::new(Field::new("s", DataType::Utf8, true));
    let record = StructArray::from(vec![(
        field,
        Arc::new(StringArray::from(vec!["v", "w"])) as ArrayRef,
    )]);
    let rows = batch(vec![
        (
            "bytes",
            Arc::new(BinaryArray::from(vec![
                Some(b"\xff\0raw".as_slice()),
                Some(b"ab".as_slice()),
            ])),
        ),
        ("list", Arc::new(list)),
        ("record", Arc::new(record)),
        ("date", Arc::new(Date32Array::from(vec![0, 11_240]))),
        (
            "ns",
            Arc::new(TimestampNanosecondArray::from(vec![1, 1_000_000_000])),
        ),
        (
            "money",
            Arc::new(
                Decimal128Array::from(vec![12_345, -5])
                    .with_precision_and_scale(10, 2)
                    .expect("fits"),
            ),
        ),
    ]);
    assert_eq!(
        written(Output::Ndjson, &rows),
        "{\"bytes\":\"/wByYXc=\",\"list\":[1,null],\"record\":{\"s\":\"v\"},\"date\":\"1970-01-01\",\
         \"ns\":\"1970-01-01T00:00:00.000000001Z\",\"money\":123.45}\n\
         {\"bytes\":\"YWI=\",\"list\":null,\"record\":{\"s\":\"w\"},\"date\":\"2000-10-10\",\
         \"ns\":\"1970-01-01T00:00:01Z\",\"money\":-0.05}\n"
    );
}

#[test]
fn tables_are_aligned() {
    let rows = batch(vec![
        (
            "path",
            Arc::new(StringArray::from(vec![Some("/a"), None, Some("/longer")])),
        ),
        ("n", Arc::new(Int64Array::from(vec![1, 20, 300]))),
    ]);
    assert_eq!(
        written(Output::Table, &rows),
        "path    |   n\n\
         --------+----\n\
         /a      |   1\n        |  20\n\
         /longer | 300\n\
         (3 rows)\n"
    );
}

fn within(width: usize, batch: &RecordBatch) -> String {
    let writer = Writer::new(Output::Table, &batch.schema(), Vec::new()).expect("begins");
    let mut writer = writer.within(Some(width));
    writer.batch(batch).expect("written");
    String::from_utf8(writer.finish().expect("ends")).expect("text")
}

#[test]
fn a_table_fits_the_width_and_cuts_no_number() {
    let long = "/long".repeat(70);
    let text = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
    let rows = batch(vec![
        ("t", times(vec![Some(971_211_336_000_000), None])),
        ("path", text(vec![long.as_str(), "/a"])),
        ("n", Arc::new(Int64Array::from(vec![i64::MAX, 1]))),
        (
            "agent",
            text(vec![
                "日本語のエージェント".repeat(9).as_str(),
                "\u{2}\u{202e}é",
            ]),
        ),
        ("short", text(vec!["yes", "no"])),
    ]);
    for width in [90, 100, 133, 200] {
        let table = within(width, &rows);
        assert!(table.contains("9223372036854775807"), "{table}");
        assert!(table.contains("2000-10-10T20:55:36Z"), "{table}");
        assert!(table.contains("yes") && table.contains('…'), "{table}");
        assert!(table.contains("\\u{2}\\u{202e}é"), "{table}");
        let widths: Vec<usize> = table.lines().map(UnicodeWidthStr::width).collect();
        assert_eq!(widths.iter().max(), Some(&width), "{table}");
        // The columns are aligned, whether their text is escaped or wide.
        let bars = |line: &str| -> Vec<usize> {
            let found = line.match_indices([' ', '-']).map(|(at, _)| at);
            let found = found.filter(|at| matches!(line.get(*at..at + 3), Some(" | " | "-+-")));
            found.map(|at| line[..at].width()).collect()
        };
        let lines: Vec<&str> = table.lines().take(4).collect();
        assert!(
            lines.iter().all(|line| bars(line) == bars(lines[0])),
            "{table}"
        );
    }
    // Without a terminal nothing is cut. Where the columns do not fit at all, rows are written
    // upright and uncut.
    assert!(written(Output::Table, &rows).contains(&long));
    let upright = within(40, &rows);
    assert!(upright.contains(&format!("path  | {long}\n")), "{upright}");
    assert!(
        upright.contains("-- row 2 -----\nt     |\npath  | /a\n"),
        "{upright}"
    );
    assert!(upright.ends_with("short | no\n(2 rows)\n"), "{upright}");
}

#[test]
fn the_overflow_column_is_json_but_in_arrow() {
    let document = bson::doc! { "a": [1, "x\u{1b}\""], "b": { "c": 1.5 } };
    let bytes = document.to_vec().expect("BSON");
    let rest = BinaryArray::from(vec![
        Some(bytes.as_slice()),
        None,
        Some(b"no BSON".as_slice()),
    ]);
    let rows = batch(vec![("_rest", Arc::new(rest))]);
    let json: serde_json::Value =
        serde_json::from_str(&written(Output::Json, &rows)).expect("JSON");
    let wanted = serde_json::json!({ "a": [1, "x\u{1b}\""], "b": { "c": 1.5 } });
    assert_eq!(json[0]["_rest"], wanted);
    assert_eq!(json[1]["_rest"], serde_json::Value::Null);
    assert_eq!(json[2]["_rest"], "bm8gQlNPTg==");
    assert!(written(Output::Csv, &rows).contains("\"\"b\"\":{\"\"c\"\":1.5}"));
    assert!(written(Output::Table, &rows).contains("\"b\":{\"c\":1.5}"));
    let mut writer = Writer::new(Output::Arrow, &rows.schema(), Vec::new()).expect("begins");
    writer.batch(&rows).expect("written");
    let out = writer.finish().expect("ends");
    let back = StreamReader::try_new(out.as_slice(), None).expect("a stream");
    let back: Vec<RecordBatch> = back.collect::<Result<_, _>>().expect("batches");
    assert_eq!(back, [rows]);
}

#[test]
fn an_arrow_stream_reads_back() {
    let rows = batch(vec![("n", Arc::new(Int64Array::from(vec![1, 2])))]);
    let mut writer = Writer::new(Output::Arrow, &rows.schema(), Vec::new()).expect("begins");
    writer.batch(&rows).expect("written");
    writer.batch(&rows).expect("written");
    let bytes = writer.finish().expect("ends");
    let back: Vec<RecordBatch> = StreamReader::try_new(bytes.as_slice(), None)
        .expect("a stream")
        .collect::<Result<_, _>>()
        .expect("batches");
    let twice = arrow::compute::concat_batches(&rows.schema(), [&rows, &rows]);
    assert_eq!(back, [twice.expect("one schema")]);
}

#[test]
fn types_have_their_sql_names() {
    let names = [
        (DataType::Utf8View, "text"),
        (DataType::Utf8, "text"),
        (DataType::Int64, "bigint"),
        (DataType::UInt64, "bigint"),
        (DataType::Int16, "smallint"),
        (DataType::Float64, "double precision"),
        (DataType::Boolean, "boolean"),
        (DataType::Binary, "bytea"),
        (
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            "timestamp with time zone",
        ),
    ];
    for (data_type, name) in names {
        assert_eq!(type_name(&data_type), name);
    }
}
