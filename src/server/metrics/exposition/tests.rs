use std::time::Duration;

use axum::http::HeaderMap;
use prost::Message;

use super::protobuf::MetricFamily;
use super::*;

fn exposition() -> Exposition {
    let mut exposition = Exposition::default();
    exposition.single("a_total", "counter", "A.", 3);
    exposition.family("b", "gauge", "B.");
    exposition.sample(&[("stream", "x\"\\\ny"), ("kind", "z")], "+Inf");
    let mut durations = Durations::default();
    for us in [0, 900, 901, 2_000, 1_000_000, 90_000_000] {
        durations.add(Duration::from_micros(us));
    }
    exposition.family("c_seconds", "histogram", "C.");
    exposition.durations(&[("route", "/")], &durations);
    exposition.durations(&[("route", "/empty")], &Durations::default());
    exposition
}

#[test]
fn the_text_has_classic_buckets() {
    let text = exposition().text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        ["# HELP a_total A.", "# TYPE a_total counter", "a_total 3"]
    );
    assert_eq!(lines[5], r#"b{stream="x\"\\\ny",kind="z"} +Inf"#);
    for line in [
        r#"c_seconds_bucket{route="/",le="0.001"} 3"#,
        r#"c_seconds_bucket{route="/",le="0.005"} 4"#,
        r#"c_seconds_bucket{route="/",le="60"} 5"#,
        r#"c_seconds_bucket{route="/",le="+Inf"} 6"#,
        r#"c_seconds_count{route="/"} 6"#,
    ] {
        assert!(lines.contains(&line), "{line}: {text}");
    }
}

#[test]
fn protobuf_has_native_buckets_too() {
    let headers = |accept: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers
    };
    let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;version=0.0.4;q=0.5";
    assert!(accepts_protobuf(&headers(native)));
    assert!(!accepts_protobuf(&headers("text/plain;version=0.0.4")));
    let bytes = exposition().protobuf();
    let mut rest = bytes.as_slice();
    let mut families = Vec::new();
    while !rest.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut rest).expect("a family"));
    }
    assert_eq!(families.len(), 3);
    let [full, empty] = families[2].metric.as_slice() else {
        panic!("two series");
    };
    let full = full.histogram.as_ref().expect("a histogram");
    // Counts by native bucket, put together from spans and differences.
    let mut counts = Vec::new();
    let (mut index, mut count) = (0, 0);
    let mut deltas = full.positive_delta.iter();
    for span in &full.positive_span {
        index += span.offset.expect("an offset");
        for _ in 0..span.length.expect("a length") {
            count += deltas.next().expect("a difference");
            counts.push((index, count));
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    let total: i64 = counts.iter().map(|(_, count)| count).sum();
    // One duration is zero.
    assert_eq!(total, 5);
    assert!(counts.contains(&(0, 1)), "{counts:?}");
    assert!(counts.iter().any(|(_, count)| *count == 2), "{counts:?}");
    let empty = empty.histogram.as_ref().expect("a histogram");
    assert_eq!(empty.positive_span.len(), 1);
    assert!(empty.positive_delta.is_empty());
}
