use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float64Type, Int16Type, Int64Type, TimestampMicrosecondType};
use arrow::record_batch::RecordBatch;
use bson::{Bson, Document, doc};
use proptest::prelude::*;
use storage::{Column, ColumnType, ID, REST, TIME, TIME_SOURCE};

use crate::documents::CELLS_MAX;
use crate::{Format, ParseOptions, Parsed, Parser, stamp};

const NOW_US: i64 = 1_798_761_600_000_000;

fn options() -> ParseOptions {
    ParseOptions {
        format: Format::Json,
        received_us: NOW_US,
        ..ParseOptions::default()
    }
}

fn parse_with(options: ParseOptions, lines: &str) -> Parsed {
    Parser::new(options).parse(lines.as_bytes()).unwrap()
}

fn parse(lines: &str) -> Parsed {
    parse_with(options(), lines)
}

/// Events, none being quarantined.
fn events(lines: &str) -> RecordBatch {
    let parsed = parse(lines);
    assert!(parsed.quarantine.is_empty(), "{:?}", parsed.quarantine);
    parsed.events
}

fn names(events: &RecordBatch) -> Vec<String> {
    events
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect()
}

fn text(events: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let array = events.column_by_name(column)?.as_string::<i32>();
    array.is_valid(row).then(|| array.value(row).to_owned())
}

fn int(events: &RecordBatch, column: &str, row: usize) -> Option<i64> {
    let array = events.column_by_name(column)?.as_primitive::<Int64Type>();
    array.is_valid(row).then(|| array.value(row))
}

fn rest(events: &RecordBatch, row: usize) -> Document {
    let Some(array) = events.column_by_name(REST).map(|c| c.as_binary::<i32>()) else {
        return doc! {};
    };
    if array.is_null(row) {
        doc! {}
    } else {
        Document::from_reader(array.value(row)).unwrap()
    }
}

fn time(events: &RecordBatch, row: usize) -> String {
    stamp::write(
        events[TIME]
            .as_primitive::<TimestampMicrosecondType>()
            .value(row),
    )
}

fn reason(line: &str) -> (&'static str, String) {
    let mut parsed = parse(line);
    assert_eq!(parsed.events.num_rows(), 0, "{line}");
    let item = parsed.quarantine.remove(0);
    (item.reason, item.detail)
}

#[test]
fn nested_objects_become_dotted_columns_of_their_types() {
    let events = events(
        "{\"b\":true,\"n\":{\"i\":-3,\"deep\":{\"f\":1.5}},\"s\":\"x\\n\\u00e9\",\"time\":0}\n{\"s\":\"y\",\"time\":1}\n",
    );
    assert_eq!(names(&events), ["time", "b", "n.i", "n.deep.f", "s"]);
    assert!(events["b"].as_boolean().value(0));
    assert_eq!(
        (int(&events, "n.i", 0), int(&events, "n.i", 1)),
        (Some(-3), None)
    );
    assert_eq!(
        events["n.deep.f"].as_primitive::<Float64Type>().value(0),
        1.5
    );
    assert_eq!(text(&events, "s", 0).as_deref(), Some("x\n\u{e9}"));
    assert_eq!(text(&events, "s", 1).as_deref(), Some("y"));
    assert!(!events.schema().field(0).is_nullable());
}

#[test]
fn a_value_of_another_type_stays_in_rest_with_its_own() {
    let events = events(
        "{\"a\":9007199254740993}\n{\"a\":\"one\"}\n{\"a\":1.5}\n{\"a\":true}\n{\"a\":[1,null,{\"x\":2.5}]}\n{\"a\":2}\n{\"a\":{}}\n{\"a\":{\"b\":1}}\n",
    );
    assert_eq!(names(&events), ["time", "a", "a.b", "time_source", "_rest"]);
    let a: Vec<_> = (0..8).map(|row| int(&events, "a", row)).collect();
    assert_eq!(a[0], Some(9_007_199_254_740_993));
    assert_eq!(a[1..], [None, None, None, None, Some(2), None, None]);
    assert_eq!(rest(&events, 1), doc! {"a": "one"});
    assert_eq!(rest(&events, 2), doc! {"a": 1.5});
    assert_eq!(rest(&events, 3), doc! {"a": true});
    assert_eq!(
        rest(&events, 4),
        doc! {"a": [1_i64, Bson::Null, {"x": 2.5}]}
    );
    assert_eq!(rest(&events, 5), doc! {});
    assert_eq!(rest(&events, 6), doc! {"a": {}});
    assert_eq!(int(&events, "a.b", 7), Some(1));
}

#[test]
fn columns_keep_the_type_that_the_stream_knows() {
    let schema = [
        ("status", ColumnType::Int16),
        ("f", ColumnType::Float64),
        ("t", ColumnType::Text),
        ("when", ColumnType::Time),
        ("time", ColumnType::Time),
        ("_seq", ColumnType::Uint64),
        ("u", ColumnType::Uint64),
    ]
    .map(|(name, column_type)| Column::new(name, column_type));
    let lines = "{\"time\":1,\"new\":1,\"status\":200,\"f\":2,\"t\":3,\"when\":4,\"u\":5}\n\
                 {\"time\":1,\"status\":40000,\"f\":9007199254740993,\"t\":\"x\",\"u\":-1}\n";
    let parsed = parse_with(
        ParseOptions {
            schema: schema.to_vec(),
            ..options()
        },
        lines,
    );
    let events = &parsed.events;
    assert_eq!(
        names(events),
        ["time", "status", "f", "t", "u", "new", "_rest"]
    );
    assert_eq!(events["status"].as_primitive::<Int16Type>().value(0), 200);
    assert_eq!(events["f"].as_primitive::<Float64Type>().value(0), 2.0);
    assert_eq!(rest(events, 0), doc! {"t": 3_i64, "when": 4_i64});
    assert_eq!(
        rest(events, 1),
        doc! {"status": 40_000_i64, "f": 9_007_199_254_740_993_i64, "u": -1_i64}
    );
}

#[test]
fn types_learned_in_one_block_hold_in_the_next() {
    let mut parser = Parser::new(options());
    assert_eq!(
        int(&parser.parse(b"{\"a\":1}\n").unwrap().events, "a", 0),
        Some(1)
    );
    let parsed = parser.parse(b"{\"a\":\"x\"}\n").unwrap();
    assert_eq!(names(&parsed.events), ["time", "time_source", "_rest"]);
    assert_eq!(rest(&parsed.events, 0), doc! {"a": "x"});
}

#[test]
fn a_rejected_line_leaves_no_column_behind() {
    let parsed = parse("{\"a\":1,\"time\":9999999999}\n{\"a\":\"text\",\"time\":1}\n");
    assert_eq!(parsed.quarantine[0].reason, "future");
    assert_eq!(text(&parsed.events, "a", 0).as_deref(), Some("text"));
}

#[test]
fn integers_beyond_64_bits_lose_no_digit() {
    let big = "340282366920938463463374607431768211456";
    let events = events(&format!(
        "{{\"time\":1,\"e\":[18446744073709551616,2],\"a\":9223372036854775807,\"b\":9223372036854775808,\"c\":-9223372036854775809,\"d\":{big},\"x\":\"\\\"123456789012345678901\",\"f\":1e19}}"
    ));
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    assert_eq!(int(&events, "a", 0), Some(i64::MAX));
    let rest = rest(&events, 0);
    assert_eq!(rest.get("b"), Some(&decimal("9223372036854775808")));
    assert_eq!(rest.get("c"), Some(&decimal("-9223372036854775809")));
    assert_eq!(rest.get("d"), Some(&Bson::String(big.to_owned())));
    assert_eq!(
        rest.get("e"),
        Some(&Bson::Array(vec![
            decimal("18446744073709551616"),
            Bson::Int64(2)
        ]))
    );
    assert_eq!(events["f"].as_primitive::<Float64Type>().value(0), 1e19);
}

#[test]
fn null_is_no_field_and_the_last_of_a_name_counts() {
    let events = events(
        "{\"a\":null,\"b\":1,\"b\":2,\"c\":1,\"c\":null,\"d\":1,\"d\":\"x\",\"time\":1}\n{\"d\":3,\"c\":4,\"time\":1}\n",
    );
    assert_eq!(names(&events), ["time", "b", "c", "d", "_rest"]);
    assert_eq!(
        (
            int(&events, "b", 0),
            int(&events, "c", 0),
            int(&events, "d", 0)
        ),
        (Some(2), None, None)
    );
    assert_eq!(rest(&events, 0), doc! {"d": "x"});
    assert_eq!(
        (int(&events, "d", 1), int(&events, "c", 1)),
        (Some(3), Some(4))
    );
}

#[test]
fn fields_with_names_of_ours_and_past_the_limit_stay_in_rest() {
    let line = "{\"time\":1,\"_seq\":1,\"_seqx\":2,\"_shard\":7,\"_rest\":\"r\",\"time_source\":\"t\",\"\":3,\"_id\":4,\"a\":5,\"b\":6}";
    let parsed = parse_with(
        ParseOptions {
            columns_max: 1,
            ..options()
        },
        line,
    );
    assert_eq!(names(&parsed.events), ["time", "a", "_rest"]);
    assert_eq!(
        rest(&parsed.events, 0),
        doc! {"_seq": 1_i64, "_seqx": 2_i64, "_shard": 7_i64, "_rest": "r", "time_source": "t", "": 3_i64, "_id": 4_i64, "b": 6_i64}
    );
}

#[test]
fn an_id_of_text_is_kept_and_an_object_id_is_its_digits() {
    let events = events(
        "{\"_id\":\"507f1f77bcf86cd799439011\"}\n{\"_id\":{\"$oid\":\"507F1F77BCF86CD799439011\"}}\n{\"_id\":\"mine\"}\n\
         {\"_id\":7}\n{\"_id\":{\"$oid\":\"short\"}}\n{\"_id\":{\"a\":1}}\n{\"_id\":null}\n",
    );
    let ids: Vec<_> = (0..7).map(|row| text(&events, ID, row)).collect();
    let oid = Some("507f1f77bcf86cd799439011".to_owned());
    assert_eq!(
        ids,
        [
            oid.clone(),
            oid,
            Some("mine".to_owned()),
            None,
            None,
            None,
            None
        ]
    );
    let sources: Vec<_> = (0..7)
        .map(|row| text(&events, TIME_SOURCE, row).unwrap())
        .collect();
    assert_eq!(
        sources,
        [
            "objectid", "objectid", "received", "received", "received", "received", "received"
        ]
    );
    assert_eq!(time(&events, 1), "2012-10-17T21:13:27Z");
    assert_eq!(rest(&events, 3), doc! {"_id": 7_i64});
    assert_eq!(rest(&events, 4), doc! {"_id.$oid": "short"});
    assert_eq!(rest(&events, 5), doc! {"_id.a": 1_i64});
    assert_eq!(names(&events), ["time", "_id", "time_source", "_rest"]);
}

#[test]
fn the_event_time_is_the_first_of_its_fields_that_parses() {
    for (line, expected, source) in [
        (
            "{\"date\":7,\"created_at\":6,\"ts\":5,\"timestamp\":4,\"@timestamp\":3,\"time\":2}",
            "1970-01-01T00:00:02Z",
            None,
        ),
        (
            "{\"date\":7,\"created_at\":6,\"ts\":5,\"timestamp\":4,\"@timestamp\":3}",
            "1970-01-01T00:00:03Z",
            None,
        ),
        (
            "{\"date\":7,\"created_at\":6,\"ts\":5,\"timestamp\":4}",
            "1970-01-01T00:00:04Z",
            None,
        ),
        (
            "{\"date\":7,\"created_at\":6,\"ts\":5}",
            "1970-01-01T00:00:05Z",
            None,
        ),
        (
            "{\"date\":7,\"created_at\":6}",
            "1970-01-01T00:00:06Z",
            None,
        ),
        ("{\"date\":7}", "1970-01-01T00:00:07Z", None),
        (
            "{\"time\":\"soon\",\"ts\":\"2021-07-21 06:07:08\"}",
            "2021-07-21T06:07:08Z",
            None,
        ),
        (
            "{\"time\":[1],\"ts\":null,\"date\":\"1626847628.5\"}",
            "2021-07-21T06:07:08.500000Z",
            None,
        ),
        (
            "{\"ts\":1761019822.3152757}",
            "2025-10-21T04:10:22.315275Z",
            None,
        ),
        (
            "{\"a\":{\"time\":5},\"Time\":5}",
            "2027-01-01T00:00:00Z",
            Some("received"),
        ),
        (
            "{\"ts\":\"xxx\",\"_id\":\"507f1f77bcf86cd799439011\"}",
            "2012-10-17T21:13:27Z",
            Some("objectid"),
        ),
    ] {
        let events = events(line);
        assert_eq!(time(&events, 0), expected, "{line}");
        assert_eq!(text(&events, TIME_SOURCE, 0).as_deref(), source, "{line}");
    }
}

#[test]
fn the_field_time_is_replaced_when_it_parses_and_kept_when_not() {
    let events =
        events("{\"time\":1,\"ts\":2}\n{\"time\":\"soon\",\"ts\":2}\n{\"time\":{\"a\":1}}\n");
    assert_eq!(
        names(&events),
        ["time", "ts", "time.a", "time_source", "_rest"]
    );
    assert_eq!(rest(&events, 0), doc! {});
    assert_eq!(rest(&events, 1), doc! {"time": "soon"});
    assert_eq!(
        (int(&events, "ts", 0), int(&events, "ts", 1)),
        (Some(2), Some(2))
    );
    assert_eq!(text(&events, TIME_SOURCE, 2).as_deref(), Some("received"));
}

#[test]
fn a_stamp_without_zone_is_in_the_zone_of_the_options() {
    let options = ParseOptions {
        tz: crate::zone("America/New_York"),
        ..options()
    };
    let parsed = parse_with(options, "{\"time\":\"2024-07-01 12:00:00\"}");
    assert_eq!(time(&parsed.events, 0), "2024-07-01T16:00:00Z");
}

#[test]
fn broken_json_names_the_column() {
    assert_eq!(reason("{\"a\":1").0, "bad_json");
    let (code, detail) = reason("{\"a\": x}");
    assert_eq!(code, "bad_json");
    assert!(
        detail.starts_with("column 7: not JSON: expected value"),
        "{detail}"
    );
    for line in [
        "{\"a\":1} x",
        "{'a':1}",
        "nonsense",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":01}",
        "{\"a\":1e999}",
        "[1",
    ] {
        assert_eq!(reason(line).0, "bad_json", "{line}");
    }
}

#[test]
fn what_is_not_an_object_says_so() {
    for line in ["1", "[1,2]", "\"text\"", "null", " true "] {
        assert_eq!(reason(line).0, "not_an_object", "{line}");
    }
    assert_eq!(events(" {} ").num_rows(), 1);
}

#[test]
fn depth_and_names_have_limits() {
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert_eq!(events(&nested(100)).num_columns(), 3);
    for (open, close, each) in [("[", "]", 1), ("[{\"a\":", "}]", 2), ("{\"b\":", "}", 1)] {
        let line = |n: usize| format!("{{\"]{{\":{}1{}}}", open.repeat(n), close.repeat(n));
        assert_eq!(events(&line(99 / each)).num_rows(), 1, "{open}");
        let (code, detail) = reason(&line(100 / each));
        assert_eq!(code, "too_deep", "{open}");
        assert!(
            detail.contains("nested 101 levels deep; the limit is 100"),
            "{detail}"
        );
    }
    // Far beyond what any stack would bear.
    let (code, detail) = reason(&nested(1_000_000));
    assert_eq!(code, "too_deep");
    assert!(detail.contains("nested 1000000 levels deep"), "{detail}");
    assert_eq!(
        reason(&format!("{{\"{}\":1}}", "n".repeat(2000))).0,
        "name_too_long"
    );
    assert_eq!(reason("{\"a\\u0000b\":1}").0, "bad_name");
    assert_eq!(reason("{\"a\":[{\"b\\u0000\":1}]}").0, "bad_name");
    assert_eq!(
        text(&events("{\"a\":\"\\u0000\"}"), "a", 0).as_deref(),
        Some("\0")
    );
    let digits = format!("{{\"a\":[{}1]}}", "1,".repeat(2_000_000));
    assert_eq!(reason(&digits).0, "too_large");
}

#[test]
fn short_fields_under_a_long_name_are_bounded() {
    let fields: Vec<String> = (0..100_000).map(|i| format!("\"{i}\":1")).collect();
    let line = format!("{{\"{}\":{{{}}}}}", "n".repeat(1000), fields.join(","));
    let (code, detail) = reason(&line);
    assert_eq!(code, "too_large");
    assert!(detail.contains("64 MiB"), "{detail}");
}

#[test]
fn two_fields_of_one_dotted_name_are_told_apart() {
    for line in [
        "{\"a.b\":1,\"a\":{\"b\":2}}",
        "{\"a\":{\"b\":[1]},\"a.b\":[2]}",
        "{\"a.b\":{\"c\":1},\"a\":{\"b.c\":2}}",
        // No column comes of the first, one comes of the second.
        "{\"a.b\":{},\"a\":{\"b\":2}}",
        "{\"a\":{\"b\":[1]},\"a.b\":2}",
    ] {
        assert_eq!(reason(line).0, "ambiguous_name", "{line}");
    }
    // Null is no field.
    let events = events("{\"a.b\":1,\"a\":{\"b\":null}}\n{\"a\":{\"b\":null},\"a.b\":[2]}");
    assert_eq!(names(&events), ["time", "a.b", "time_source", "_rest"]);
    assert_eq!(rest(&events, 1), doc! { "a.b": [2_i64] });
    // One after the other they are one field, as they are when it is asked for.
    let events = self::events("{\"a.b\":1}\n{\"a\":{\"b\":2}}");
    assert_eq!(names(&events), ["time", "a.b", "time_source"]);
    // A name that is repeated counts as last written, whatever became of the first.
    let events = self::events("{\"a\":[1],\"a\":null,\"b\":1,\"b\":\"x\",\"c\":1,\"c\":[2]}");
    assert_eq!(names(&events), ["time", "time_source", "_rest"]);
    assert_eq!(rest(&events, 0), doc! { "b": "x", "c": [2_i64] });
    let events = self::events("{\"a\":[1],\"a\":2,\"b\":{},\"b\":3}");
    assert_eq!(names(&events), ["time", "a", "b", "time_source"]);
}

#[test]
fn numbers_keep_every_digit() {
    let long = [
        "0.30000000000000004",
        "123456789.12345678901",
        "5e-324",
        "1.7976931348623157e308",
        "9007199254740993.5",
        "2.2250738585072011e-308",
        "1e23",
        "-8.5e-23",
        // The least power that 64 bits hold, and the one below.
        "1e-9223372036854775808",
        "1e-9223372036854775809",
    ];
    for number in long {
        let events = events(&format!(
            "{{\"s\":\"1.5e300\",\"f\":{number},\"l\":[{number}]}}"
        ));
        let wanted: f64 = number.parse().unwrap();
        let float = events["f"].as_primitive::<Float64Type>().value(0);
        assert_eq!(float.to_bits(), wanted.to_bits(), "{number}");
        let list = doc! { "l": [wanted] };
        assert_eq!(rest(&events, 0), list, "{number}");
    }
    let (code, detail) = reason("{\"a\":1e400}");
    assert_eq!(code, "bad_json");
    assert!(detail.contains("number out of range"), "{detail}");
}

#[test]
fn integers_become_floats_with_the_first_float() {
    let floating = events("{\"n\":1}\n{\"m\":1}\n{\"n\":2.5}\n{\"n\":3}");
    let floats = floating["n"].as_primitive::<Float64Type>();
    let found: Vec<Option<f64>> = floats.iter().collect();
    assert_eq!(found, [Some(1.0), None, Some(2.5), Some(3.0)]);
    // Not where a float would lose digits, before it or after.
    let wide = events("{\"n\":9007199254740993}\n{\"n\":2.5}");
    assert_eq!(rest(&wide, 1), doc! { "n": 2.5 });
    let wide = events("{\"n\":2.5}\n{\"n\":9007199254740993}");
    assert_eq!(rest(&wide, 1), doc! { "n": 9007199254740993_i64 });
}

/// Every line has a field of its own: as columns they would take a thousand times what is there.
#[test]
fn a_batch_of_very_many_lines_has_fewer_columns_at_once() {
    let lines: String = (0..200_000)
        .map(|i| format!("{{\"f{}\":1}}\n", i % 1000))
        .collect();
    let events = events(&lines);
    let width = CELLS_MAX / 200_000;
    assert_eq!(
        events.num_columns(),
        width + 3,
        "time, time_source and _rest"
    );
    let values = |(i, row): (usize, usize)| match int(&events, &format!("f{i}"), row) {
        None => rest(&events, row) == doc! { format!("f{i}"): 1_i64 },
        Some(1) => rest(&events, row).is_empty(),
        Some(_) => false,
    };
    assert!((0..1000).zip(0..).all(values));
}

#[test]
fn invalid_utf_8_becomes_replacements_in_the_values() {
    let parsed = Parser::new(options())
        .parse(b"{\"a\":\"x\xffy\"}\n{\"a\":\"\xe2\x82\xac\"}")
        .unwrap();
    assert_eq!(text(&parsed.events, "a", 0).as_deref(), Some("x\u{fffd}y"));
    assert_eq!(text(&parsed.events, "a", 1).as_deref(), Some("\u{20ac}"));
}

/// JSON scalars and trees of them.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(serde_json::Value::from),
        "[a-c\u{e9}\"\\\\\n]{0,4}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

/// The dotted fields of an object, by a naive recursion.
fn flatten(prefix: &str, value: &serde_json::Value, into: &mut Document) {
    for (name, value) in value.as_object().unwrap() {
        let name = format!("{prefix}{name}");
        match value {
            serde_json::Value::Object(fields) if !fields.is_empty() => {
                flatten(&format!("{name}."), value, into)
            }
            other => {
                into.insert(name, naive_bson(other));
            }
        }
    }
}

fn naive_bson(value: &serde_json::Value) -> Bson {
    match value {
        serde_json::Value::Null => Bson::Null,
        serde_json::Value::Bool(b) => Bson::Boolean(*b),
        serde_json::Value::Number(n) => n
            .as_i64()
            .map_or_else(|| Bson::Double(n.as_f64().unwrap()), Bson::Int64),
        serde_json::Value::String(s) => Bson::String(s.clone()),
        serde_json::Value::Array(items) => Bson::Array(items.iter().map(naive_bson).collect()),
        serde_json::Value::Object(fields) => Bson::Document(
            fields
                .iter()
                .map(|(k, v)| (k.clone(), naive_bson(v)))
                .collect(),
        ),
    }
}

/// Everything an event holds, columns and rest together.
fn gather(events: &RecordBatch, row: usize) -> Document {
    let mut all = rest(events, row);
    for (field, array) in events.schema().fields().iter().zip(events.columns()) {
        if array.is_null(row) || [TIME, TIME_SOURCE, REST].contains(&field.name().as_str()) {
            continue;
        }
        let value = match ColumnType::of(field.data_type()) {
            Some(ColumnType::Bool) => Bson::Boolean(array.as_boolean().value(row)),
            Some(ColumnType::Int64) => Bson::Int64(array.as_primitive::<Int64Type>().value(row)),
            Some(ColumnType::Float64) => {
                Bson::Double(array.as_primitive::<Float64Type>().value(row))
            }
            Some(ColumnType::Text) => Bson::String(array.as_string::<i32>().value(row).to_owned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            all.insert(field.name(), value),
            None,
            "{} is there twice",
            field.name()
        );
    }
    all
}

/// Documents by name, and integers in float columns as floats: what may differ.
fn comparable(
    document: Document,
    floats: &RecordBatch,
) -> std::collections::BTreeMap<String, Bson> {
    let is_float = |name: &str| {
        floats
            .schema()
            .column_with_name(name)
            .is_some_and(|(_, f)| ColumnType::of(f.data_type()) == Some(ColumnType::Float64))
    };
    document
        .into_iter()
        .map(|(name, value)| match value {
            Bson::Int64(n) if is_float(&name) && n.unsigned_abs() <= 1 << 53 => {
                (name, Bson::Double(n as f64))
            }
            value => (name, value),
        })
        .collect()
}

proptest! {
    #[test]
    fn no_value_of_any_document_is_lost(
        lines in prop::collection::vec(prop::collection::btree_map("[a-d]", any_json(), 0..5), 1..6),
        columns_max in 0_usize..8,
    ) {
        let documents: Vec<serde_json::Value> =
            lines.into_iter().map(|m| serde_json::Value::Object(m.into_iter().collect())).collect();
        let source: String = documents.iter().map(|d| format!("{d}\n")).collect();
        let parsed = parse_with(ParseOptions { columns_max, ..options() }, &source);
        prop_assert!(parsed.quarantine.is_empty(), "{:?}", parsed.quarantine);
        for (row, document) in documents.iter().enumerate() {
            let mut expected = doc! {};
            flatten("", document, &mut expected);
            prop_assert_eq!(
                comparable(gather(&parsed.events, row), &parsed.events),
                comparable(expected, &parsed.events)
            );
        }
    }
}
