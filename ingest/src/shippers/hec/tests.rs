use serde_json::json;

use super::super::testing::values;
use super::*;

#[test]
fn events_keep_their_metadata_and_fields() {
    let body = concat!(
        r#"{"time":1426279439.123,"host":"web1","source":"s","sourcetype":"t","event":"Hello","#,
        r#""fields":{"device":"mac","host":"f"}}"#,
        "\n",
        r#"{"event":{"message":"m","n":12345678901234567890123,"time":"x","a":{"b":[1]}},"index":"Main"}"#,
        r#"{"time":"1426279439","event":5}{"event":[1,"x"],"index":null,"host":null,"extra":1}"#,
    );
    let defaults = HecDefaults {
        host: Some("h"),
        ..HecDefaults::default()
    };
    let streams = decode_events(body.as_bytes(), defaults).unwrap();
    let of_splunk = vec![
        json!({"time": 1426279439.123, "host": "web1", "source": "s", "sourcetype": "t",
            "line": "Hello", "device": "mac", "fields.host": "f"}),
        json!({"time": "1426279439", "host": "h", "event": 5}),
        json!({"host": "h", "extra": 1, "event": [1, "x"]}),
    ];
    let mut found = values(&streams);
    let (main, records) = found.pop().unwrap();
    assert_eq!((main, records.len()), ("main", 1));
    // A number of any length stays as it was sent.
    let record = streams[1].records.items(0).next().unwrap();
    let record = String::from_utf8(record.bytes.to_vec()).unwrap();
    assert_eq!(
        record,
        r#"{"host":"h","message":"m","n":12345678901234567890123,"event.time":"x","a":{"b":[1]}}"#
    );
    // A null host is none, and the later member of the object counts.
    let mut last = of_splunk;
    last[2]["host"] = json!("h");
    assert_eq!(found, [("splunk", last)]);
}

#[test]
fn lines_become_events_with_the_metadata_of_the_request() {
    let defaults = HecDefaults {
        index: Some("web-2026.11.26"),
        source: Some("access.log"),
        ..HecDefaults::default()
    };
    let lines = decode_lines(b"a\r\n\n\"b\"\xff", defaults).unwrap();
    let expected = vec![
        json!({"line": "a", "source": "access.log"}),
        json!({"line": "\"b\"\u{fffd}", "source": "access.log"}),
    ];
    assert_eq!(values(&[lines]), [("web", expected)]);
    assert_eq!(decode_lines(b"\n\r\n", defaults).unwrap_err().code, 5);
}

#[test]
fn invalid_events_are_refused_by_number() {
    for (body, code, event) in [
        ("", 5, None),
        (" \n", 5, None),
        ("{\"event\":1}\n{\"host\":\"a\"}", 12, Some(1)),
        ("{\"event\":null}", 12, Some(0)),
        ("{\"event\":\"\"}", 13, Some(0)),
        ("{\"event\":1}{\"event\":", 6, Some(1)),
        ("hello", 6, Some(0)),
    ] {
        let refused = decode_events(body.as_bytes(), HecDefaults::default()).unwrap_err();
        assert_eq!((refused.code, refused.event), (code, event), "{body}");
    }
}
