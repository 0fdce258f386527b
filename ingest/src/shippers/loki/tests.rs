use serde_json::json;

use super::super::testing::values;
use super::*;

const NS: i64 = 1_795_170_728_945_867_776;

fn protobuf(streams: Vec<PushedStream>) -> Vec<u8> {
    PushRequest { streams }.encode_to_vec()
}

fn entry(ns: i64, line: &[u8], metadata: &[(&str, &str)]) -> PushedEntry {
    let pairs = metadata.iter().map(|(name, value)| Pair {
        name: name.as_bytes().to_vec(),
        value: value.as_bytes().to_vec(),
    });
    PushedEntry {
        timestamp: Some(Timestamp {
            seconds: ns.div_euclid(1_000_000_000),
            nanos: i32::try_from(ns.rem_euclid(1_000_000_000)).unwrap(),
        }),
        line: line.to_vec(),
        metadata: pairs.collect(),
    }
}

#[test]
fn both_encodings_of_a_push_give_the_same_records() {
    let of_protobuf = protobuf(vec![PushedStream {
        labels: br#"{app="a", host="web1", line="x", time="y"}"#.to_vec(),
        entries: vec![
            entry(NS, b"to loki", &[]),
            entry(
                NS + 224,
                b"{\"a\":1}",
                &[("trace", "t"), ("host", "h"), ("line", "l")],
            ),
        ],
    }]);
    let of_json = json!({"streams": [{
        "stream": {"app": "a", "host": "web1", "line": "x", "time": "y"},
        "values": [
            [NS.to_string(), "to loki"],
            [(NS + 224).to_string(), "{\"a\":1}", {"trace": "t", "host": "h", "line": "l"}],
        ],
    }]});
    let of_json = serde_json::to_vec(&of_json).unwrap();
    let us = NS / 1000;
    let expected = [(
        "a",
        vec![
            json!({"time": us, "time_nanos": 776, "line": "to loki", "app": "a", "host": "web1",
                "labels.line": "x", "labels.time": "y"}),
            json!({"time": us + 1, "line": "{\"a\":1}", "app": "a", "host": "web1",
                "labels.line": "x", "labels.time": "y",
                "trace": "t", "metadata.host": "h", "metadata.line": "l"}),
        ],
    )];
    assert_eq!(
        values(&decode_protobuf(&of_protobuf, None).unwrap()),
        expected
    );
    assert_eq!(values(&decode_json(&of_json, None).unwrap()), expected);
    assert_eq!(decode_json(&of_json, Some("all")).unwrap()[0].stream, "all");
}

#[test]
fn labels_name_the_stream() {
    for (labels, stream) in [
        (r#"{job="fluent-bit", stream="Nginx"}"#, "nginx"),
        (
            r#"{stream="stderr", service_name="checkout", job="j"}"#,
            "checkout",
        ),
        (r#"{stream="stdout"}"#, "loki"),
        (r#"{service_name="--", job="varlogs"}"#, "varlogs"),
        ("{}", "loki"),
    ] {
        let labels = read_labels(labels).unwrap();
        assert_eq!(stream_of(&labels, None), stream, "{labels:?}");
        assert_eq!(stream_of(&labels, Some("web")), "web");
    }
}

#[test]
fn an_entry_that_is_none_is_kept_for_quarantine() {
    let body = br#"{"streams":[{"stream":{},"values":[
        ["1","a"], ["x","b"], [2,"c"], ["3"], ["4","d",{"k":5}], 7, ["-1500","e"]]}]}"#;
    let streams = decode_json(body, None).unwrap();
    let expected = vec![
        json!({"time": "1970-01-01T00:00:00Z", "time_nanos": 1, "line": "a"}),
        json!(["x", "b"]),
        json!({"time": "1970-01-01T00:00:00Z", "time_nanos": 2, "line": "c"}),
        json!(["3"]),
        json!(["4", "d", {"k": 5}]),
        json!(7),
        json!({"time": "1969-12-31T23:59:59.999998Z", "time_nanos": 500, "line": "e"}),
    ];
    assert_eq!(values(&streams), [("loki", expected)]);
    for refused in [
        "",
        "[]",
        "{}",
        "{\"streams\":[{}]}",
        "{\"streams\":[{\"values\":{}}]}",
    ] {
        assert!(decode_json(refused.as_bytes(), None).is_err(), "{refused}");
    }
}

#[test]
fn bytes_that_are_no_push_are_refused() {
    assert!(decode_protobuf(b"", None).unwrap().is_empty());
    assert!(decode_protobuf(b"{\"streams\":[]}", None).is_err());
    let unlabelled = protobuf(vec![PushedStream {
        labels: b"app".to_vec(),
        entries: vec![entry(NS, b"\xff\xfe", &[])],
    }]);
    assert!(
        decode_protobuf(&unlabelled, None)
            .unwrap_err()
            .contains("where { belongs")
    );
}

#[test]
fn every_time_is_read_as_it_was_sent() {
    let mut times = vec![
        i64::MIN,
        i64::MAX,
        0,
        1,
        -1,
        99_999_999_999_999_999,
        100_000_000_000_000_000,
    ];
    times.extend((0..63).flat_map(|bit| [1_i64 << bit, -(1_i64 << bit), (1_i64 << bit) - 1]));
    for ns in times {
        let mut out = Vec::new();
        write(
            &mut out,
            Some(ns),
            "",
            &PushedLabels::new(),
            std::iter::empty(),
        );
        let value: Value = serde_json::from_slice(&out).unwrap();
        let us = match &value["time"] {
            Value::String(text) => crate::stamp::read_text(text, None),
            number => crate::stamp::read_integer(number.as_i64().unwrap().into()),
        };
        let rest = value["time_nanos"].as_i64().unwrap_or(0);
        assert_eq!(
            us.map(|us| i128::from(us) * 1000 + i128::from(rest)),
            Some(ns.into()),
            "{value}"
        );
    }
}
