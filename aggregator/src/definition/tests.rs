use super::*;
use crate::table::RollupTable;
use crate::testing::{default_definitions, filtered, keyed, without_limit};
use serde_json::{Value, json};
use storage::StreamKind;

fn resolve(table: Value, kind: StreamKind) -> Result<Definition> {
    let table: RollupTable =
        serde_json::from_value(table).map_err(|e| Error::definition("test", e.to_string()))?;
    table.resolve(&Name::new("test").expect("a name"), kind)
}

fn refuse(change: impl Fn(&mut Value), reason: &str) {
    let mut table = json!({ "stream": "events", "by": ["path"], "measures": { "hits": "count" } });
    resolve(table.clone(), StreamKind::Access).expect("right before the change");
    change(&mut table);
    let error = resolve(table, StreamKind::Access)
        .expect_err(reason)
        .to_string();
    assert!(error.contains(reason), "{error:?} does not say {reason:?}");
}

#[test]
fn the_table_of_the_manual_is_the_default_stats() {
    let table = json!({
        "stream": "events", "by": ["site", "path"],
        "levels": ["minute", "hour", "day", "week", "month", "year"], "timezone": "UTC", "week": "sunday",
        "measures": {
            "visitors": { "distinct": "host", "from": "hour" },
            "size": { "histogram": "response_size", "from": "hour", "digits": 2, "max": "1TiB" },
            "hits": "count",
            "bytes": "sum(response_size)",
        },
    });
    let written = resolve(table, StreamKind::Access).expect("a definition");
    assert_eq!(written.to_value(), default_definitions()[0].to_value());
}

#[test]
fn the_canonical_form_is_read_back() {
    let mut definitions = default_definitions();
    definitions.push(filtered(&["path"], Tz::UTC, "hour"));
    definitions.push(keyed(Tz::UTC));
    definitions.push(without_limit(keyed(Tz::UTC)));
    for definition in definitions {
        let value = definition.to_value();
        let text = value.to_string();
        let again: Value = serde_json::from_str(&text).expect("JSON");
        let read = Definition::from_value(definition.name(), definition.stream(), &again)
            .expect("a definition");
        assert_eq!(read, definition);
        assert_eq!(read.to_value().to_string(), text);
    }
}

#[test]
fn a_newer_or_unknown_form_is_refused() {
    let definition = &default_definitions()[0];
    for change in [
        json!({ "version": 4 }),
        json!({ "max_keys": 0 }),
        json!({ "colour": "red" }),
        json!({ "timezone": "Mars/Base" }),
    ] {
        let mut value = definition.to_value();
        for (member, new) in change.as_object().expect("an object") {
            value[member] = new.clone();
        }
        assert!(Definition::from_value(definition.name(), definition.stream(), &value).is_err());
    }
}

#[test]
fn what_is_wrong_is_named() {
    refuse(|t| t["by"] = json!(["time"]), "time cannot be a key");
    let keys = [
        (
            json!({ "name": "class", "expr": "status / " }),
            "key class: a field or a literal is expected",
        ),
        (
            json!({ "name": "class", "expr": "status = 5" }),
            "a value is expected, not a condition, at character 1",
        ),
        (
            json!({ "name": "class", "expr": "path / 5" }),
            "key class: path is text",
        ),
        (
            json!({ "name": "day", "expr": "path_prefix(time, 1)" }),
            "buckets already divide by time",
        ),
        (json!({ "name": "A b", "expr": "path" }), "key A b: "),
        (
            json!({ "name": "part", "expr": "regexp_capture(path, '(')" }),
            "the pattern is invalid",
        ),
        (json!({ "name": "class" }), "missing field `expr`"),
        (json!(5), "by lists field names and { name, expr }"),
    ];
    for (key, reason) in keys {
        refuse(|t| t["by"] = json!([key.clone()]), reason);
    }
    refuse(
        |t| t["by"] = json!(["path", "path"]),
        "two columns would be named path",
    );
    refuse(
        |t| t["by"] = json!(["hits"]),
        "two columns would be named hits",
    );
    refuse(|t| t["levels"] = json!([]), "levels is empty");
    refuse(|t| t["levels"] = json!(["decade"]), "decade");
    refuse(|t| t["timezone"] = json!("Berlin"), "Europe/Berlin");
    refuse(
        |t| t["retention"] = json!({ "minute": "7 days" }),
        "retention of level minute: \"7 days\" is not an age",
    );
    // As microseconds it would begin again at 0, and the level would lose all but a day.
    refuse(
        |t| t["retention"] = json!({ "minute": "213503983d" }),
        "retention of level minute: \"213503983d\" is beyond all time",
    );
    refuse(
        |t| t["retention"] = json!({ "day": "30d" }),
        "retention of level day: the days of a rollup with keys are the list",
    );
    refuse(|t| t["max_keys"] = json!(0), "max_keys is 0");
    refuse(|t| t["max_keys"] = json!("5"), "invalid type");
    refuse(
        |t| {
            t["by"] = json!([]);
            t["max_keys"] = json!(5);
        },
        "max_keys limits keys",
    );
    refuse(|t| t["measure"] = json!({}), "unknown field `measure`");
    refuse(|t| t["measures"] = json!({}), "needs a measure");
    let measures = [
        (json!("variance(path)"), "path is not a number"),
        (json!("median(response_size)"), "not a function"),
        (json!("sum(path)"), "path is not a number"),
        (json!("hits"), "not a measure"),
        (
            json!({ "of": "count", "filter": "status >= " }),
            "filter: a field or a literal is expected, not the end, at character 11 of \"status >= \"",
        ),
        (
            json!({ "of": "count", "filter": "path >= 500" }),
            "filter: path is text; compare it with text such as '500'",
        ),
        (
            json!({ "of": "count", "filter": "status in (500, '404')" }),
            "filter: status is a number; compare it with a number, not with '404'",
        ),
        (
            json!({ "of": "count", "filter": "time > 5" }),
            "buckets already divide by time",
        ),
        (
            json!({ "of": "count", "filter": "path / 2 = 5" }),
            "path is text; / and % need integers",
        ),
        (
            json!({ "histogram": "response_size", "digits": 4 }),
            "digits is 4",
        ),
        (
            json!({ "histogram": "response_size", "max": "1 furlong" }),
            "not a size",
        ),
        (
            json!({ "distinct": "host", "digits": 2 }),
            "belong to a histogram",
        ),
        (
            json!({ "distinct": "host", "histogram": "response_size" }),
            "one of",
        ),
        (
            json!({ "distinct": "host", "since": "hour" }),
            "unknown field `since`",
        ),
    ];
    for (measure, reason) in measures {
        refuse(|t| t["measures"]["m"] = measure.clone(), reason);
    }
    refuse(
        |t| {
            t["levels"] = json!(["minute", "hour"]);
            t["measures"]["m"] = json!({ "distinct": "host", "from": "week" });
        },
        "starts at level week",
    );
}

#[test]
fn sum_mean_and_histogram_of_a_field_share_their_numbers() {
    let table = json!({ "stream": "events", "measures": {
        "total": "sum(response_size)", "average": "mean(response_size)", "largest": { "of": "max(response_size)", "from": "day" },
        "size": { "histogram": "response_size", "from": "hour" }, "coarse": { "histogram": "response_size", "digits": 1 },
    }});
    let definition = resolve(table, StreamKind::Access).expect("a definition");
    assert_eq!(definition.components().len(), 3);
    let Component::Numeric {
        from, range_from, ..
    } = &definition.components()[0]
    else {
        panic!("numbers first")
    };
    // The histogram that enters at the minute needs extremes there.
    assert_eq!((*from, *range_from), (Level::Minute, Some(Level::Minute)));
}

#[test]
fn measures_with_one_filter_share_their_numbers() {
    let definition = filtered(&[], Tz::UTC, "hour");
    let fields: Vec<String> = definition
        .components()
        .iter()
        .map(|c| format!("{c:?}"))
        .collect();
    // Numbers without a filter, of page_bytes, of least with late_spread, of most, and of average
    // with size.
    assert_eq!(
        fields.iter().filter(|c| c.starts_with("Numeric")).count(),
        5
    );
    assert_eq!(fields.len(), 5 + 2 + 2 + 2 + 2);
    assert_eq!(
        definition.fields(),
        ["host", "method", "path", "response_size", "site", "status"]
    );
}

#[test]
fn a_filter_has_one_spelling_and_plain_definitions_keep_theirs() {
    let spelled = |filter: &str| {
        let table = json!({ "stream": "events", "measures": {
            "errors": { "of": "count", "filter": filter },
        }});
        resolve(table, StreamKind::Access)
            .expect("a definition")
            .to_value()
    };
    let value = spelled("NOT (status IN (200,301) OR site IS NULL)AND 500<=status");
    assert_eq!(
        value["measures"][0].to_string(),
        r#"{"name":"errors","kind":"count","from":"minute","filter":"not (status in (200, 301) or site is null) and status >= 500"}"#
    );
    assert_eq!(value["version"], 2);
    assert_eq!(
        value,
        spelled("(not (status in (200, 301) or (site is null))) and (status >= 500)")
    );
    assert_ne!(value, spelled("status >= 500"));
    // Definitions without filters keep version 1: stores hold it, and tiles hold its fingerprint.
    assert!(
        default_definitions()
            .into_iter()
            .all(|d| without_limit(d).to_value()["version"] == 1)
    );
}

#[test]
fn a_rollup_with_keys_has_a_limit_and_days() {
    let of = |by: Value, levels: Value, max_keys: Option<u64>| {
        let mut table = json!({ "stream": "events", "by": by, "levels": levels, "measures": { "hits": "count" } });
        if let Some(max_keys) = max_keys {
            table["max_keys"] = max_keys.into();
        }
        let definition = resolve(table, StreamKind::Access).expect("a definition");
        let value = definition.to_value();
        (
            value["version"].clone(),
            value["levels"].clone(),
            value.get("max_keys").cloned(),
        )
    };
    assert_eq!(
        of(json!(["path"]), json!(["hour", "year"]), None),
        (
            json!(3),
            json!(["hour", "day", "year"]),
            Some(json!(100_000))
        )
    );
    assert_eq!(
        of(json!(["path"]), json!(["day"]), Some(7)),
        (json!(3), json!(["day"]), Some(json!(7)))
    );
    assert_eq!(
        of(json!([]), json!(["hour"]), None),
        (json!(1), json!(["hour"]), None)
    );
}

#[test]
fn a_key_may_be_made_by_an_expression() {
    let made = |expr: &str, kind| {
        let table = json!({ "stream": "events", "by": [{ "name": "k", "expr": expr }], "measures": { "hits": "count" } });
        without_limit(resolve(table, kind).expect("a definition"))
    };
    for (expr, access, documents, canonical) in [
        (
            "PATH_PREFIX(path,1)",
            "text",
            "text",
            Some("path_prefix(path, 1)"),
        ),
        ("status/100", "int64", "int64", Some("status / 100")),
        ("status", "int16", "text", Some("status")),
        ("k", "text", "text", None),
    ] {
        for (kind, key_type) in [
            (StreamKind::Access, access),
            (StreamKind::Documents, documents),
        ] {
            let definition = made(expr, kind);
            let value = definition.to_value();
            assert_eq!(value["by"][0]["type"], key_type, "{expr}");
            assert_eq!(
                value["by"][0].get("expr").and_then(Value::as_str),
                canonical
            );
            assert_eq!(value["version"], if canonical.is_some() { 2 } else { 1 });
        }
    }
    let fields = made("regexp_capture(lower(path), '/(.)')", StreamKind::Access).fields();
    assert_eq!(fields, ["path"]);
}

#[test]
fn each_level_is_built_from_the_nearest_finer_one() {
    let table = json!({ "stream": "events", "levels": ["year", "hour", "week", "day"], "measures": { "hits": "count" } });
    let definition = resolve(table, StreamKind::Access).expect("a definition");
    assert_eq!(
        definition.levels(),
        [Level::Hour, Level::Day, Level::Week, Level::Year]
    );
    let sources = definition
        .levels()
        .iter()
        .map(|l| definition.source(*l))
        .collect::<Vec<_>>();
    assert_eq!(
        sources,
        [None, Some(Level::Hour), Some(Level::Day), Some(Level::Day)]
    );
}

#[test]
fn types_follow_the_kind_of_the_stream() {
    let table = json!({ "stream": "events", "by": ["status"], "measures": { "total": "sum(response_size)" } });
    let access = resolve(table.clone(), StreamKind::Access).expect("a definition");
    let documents = resolve(table, StreamKind::Documents).expect("a definition");
    assert_eq!(
        (access.by()[0].key_type, documents.by()[0].key_type),
        (KeyType::Int16, KeyType::Text)
    );
    assert_ne!(access.to_value(), documents.to_value());
}

#[test]
fn the_default_rollups_of_a_stream_with_a_long_name_have_names_too() {
    let names = |stream: &str| -> Vec<String> {
        let stream = Name::new(stream).expect("a name");
        let definitions = defaults(&stream, StreamKind::Documents, &[]).expect("definitions");
        definitions.iter().map(|d| d.name().to_string()).collect()
    };
    for length in 1..=63 {
        let stream = "s".repeat(length);
        let found = names(&stream);
        assert!(found[0].len() <= 63 && found[0].ends_with("_traffic"));
        assert_eq!(found[0] == format!("{stream}_traffic"), length <= 55);
    }
    let (one, other) = ("s".repeat(62) + "a", "s".repeat(62) + "b");
    assert_ne!(names(&one), names(&other));
    // Stores hold this name.
    assert_eq!(
        names(&one),
        [format!("{}_942a6eaa_traffic", "s".repeat(46))]
    );
}
