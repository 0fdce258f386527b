mod lines;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Format, ParseOptions, explain};

/// Returns a line: the common fields of its dialect, and its own.
fn line(common: &Value, own: &Value) -> Value {
    let mut line = common.clone();
    let fields = line.as_object_mut().unwrap();
    fields.extend(own.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    line
}

/// Returns the scalars of an object with their dotted names, but for the field of the time itself.
fn scalars(value: &Value, name: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = match name {
                    "" => key.clone(),
                    name => format!("{name}.{key}"),
                };
                scalars(value, &name, found);
            }
        }
        _ if name == "time" => {}
        value => found.push((name.to_owned(), value.clone())),
    }
}

#[test]
fn every_line_of_a_dialect_has_its_time_its_name_and_all_of_its_values() {
    let mut counts = BTreeMap::new();
    for (name, common, lines) in lines::all() {
        *counts.entry(name).or_insert(0) += lines.len();
        for (own, time) in lines {
            assert_is_of(name, &line(&common, &own), time);
        }
    }
    assert!(counts.values().all(|lines| *lines >= 10), "{counts:?}");
}

fn assert_is_of(name: &str, line: &Value, time: &str) {
    let options = ParseOptions {
        received_us: 1_800_000_000_000_000,
        ..ParseOptions::default()
    };
    let sample = format!("{line}\n{line}\n");
    let told = explain("a.json", sample.as_bytes(), options).unwrap();
    assert_eq!((told.format, told.events), (Format::Json, 2), "{line}");
    assert_eq!(told.dialect, Some(name), "{line}");
    let event = told.first_event.unwrap();
    assert_eq!(event["time"], time, "{line}");
    assert!(event.get("time_source").is_none(), "{line}");
    let mut expected = Vec::new();
    scalars(line, "", &mut expected);
    let rest = event.get("_rest").cloned().unwrap_or_default();
    for (field, value) in expected {
        let stored = event.get(&field).unwrap_or(&rest[&field]);
        assert_eq!(*stored, value, "{line}: {field}");
    }
}

#[test]
fn json_of_no_dialect_has_none() {
    for sample in [
        "{\"time\":\"2026-05-01T09:00:00Z\",\"level\":\"info\"}\n",
        "{}\n",
        "x\n",
    ] {
        let told = explain("a.json", sample.as_bytes(), ParseOptions::default()).unwrap();
        assert_eq!(told.dialect, None, "{sample}");
    }
    // A line of another program among them is enough.
    let mixed = "{\"level\":30,\"time\":1,\"pid\":7,\"hostname\":\"a\"}\n{\"time\":2}\n";
    let told = explain("a.json", mixed.as_bytes(), ParseOptions::default()).unwrap();
    assert_eq!(told.dialect, None);
}
