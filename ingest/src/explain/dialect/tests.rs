mod lines;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

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
        Value::Object(fields) if name.is_empty() || !fields.is_empty() => {
            for (key, value) in fields {
                let name = match name {
                    "" => key.clone(),
                    name => format!("{name}.{key}"),
                };
                scalars(value, &name, found);
            }
        }
        _ if name == "time" => {}
        // Beyond 64 bits with a sign, a number is told as the text of its digits.
        Value::Number(number) if number.as_u64().is_some_and(|n| i64::try_from(n).is_err()) => {
            found.push((name.to_owned(), json!(number.to_string())));
        }
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
    for (name, line, time) in written::all() {
        *counts.get_mut(name).expect(name) += 1;
        assert_is_of(name, &line, time);
    }
    assert!(counts.values().all(|lines| *lines >= 10), "{counts:?}");
}

/// Writes JSON in letters of ASCII, with escapes that its writers may use and need not.
fn escaped(line: &str) -> String {
    let unit = |unit: u16| format!("\\u{unit:04x}");
    let escape = |c: char| match c {
        '/' => "\\/".to_owned(),
        '<' | '>' | '&' | '\u{80}'.. => c
            .encode_utf16(&mut [0; 2])
            .iter()
            .copied()
            .map(unit)
            .collect(),
        c => c.to_string(),
    };
    line.chars().map(escape).collect()
}

fn assert_is_of(name: &str, line: &Value, time: &str) {
    let mut expected = Vec::new();
    scalars(line, "", &mut expected);
    let text = line.to_string();
    for text in [escaped(&text), text] {
        let options = ParseOptions {
            received_us: 1_800_000_000_000_000,
            ..ParseOptions::default()
        };
        let told = explain("a.json", format!("{text}\n{text}\n").as_bytes(), options).unwrap();
        assert_eq!((told.format, told.events), (Format::Json, 2), "{text}");
        assert_eq!(told.dialect, Some(name), "{text}");
        let mut event = told.first_event.unwrap();
        assert_eq!(event.remove("time"), Some(json!(time)), "{text}");
        if let Some(Value::Object(rest)) = event.remove("_rest") {
            event.extend(rest);
        }
        for (field, value) in &expected {
            assert_eq!(
                event.get(field).unwrap_or(&Value::Null),
                value,
                "{text}: {field}"
            );
        }
        // And it has no other field.
        let has = expected.iter().filter(|(_, value)| !value.is_null());
        let has: BTreeSet<&str> = has.map(|(field, _)| field.as_str()).collect();
        let found: BTreeSet<&str> = event.keys().map(String::as_str).collect();
        assert_eq!(found, has, "{text}");
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
