//! Records of CloudFront, whose values stand between tabs and have escapes as addresses do.

use serde_json::{Value, json};

use crate::formats::documents::testing::event;

/// The fields of a record, and the values that a case does not change.
const FIELDS: [(&str, &str); 33] = [
    ("date", "2026-11-26"),
    ("time", "08:00:13"),
    ("x-edge-location", "FRA56-P4"),
    ("sc-bytes", "1045"),
    ("c-ip", "192.0.2.7"),
    ("cs-method", "GET"),
    ("cs(Host)", "d7shop.cloudfront.net"),
    ("cs-uri-stem", "/shop/list.html"),
    ("sc-status", "200"),
    ("cs(Referer)", "-"),
    ("cs(User-Agent)", "curl/8.5.0"),
    ("cs-uri-query", "-"),
    ("cs(Cookie)", "-"),
    ("x-edge-result-type", "Hit"),
    ("x-edge-request-id", "aB3-_x=="),
    ("x-host-header", "shop.example"),
    ("cs-protocol", "https"),
    ("cs-bytes", "23"),
    ("time-taken", "0.002"),
    ("x-forwarded-for", "-"),
    ("ssl-protocol", "TLSv1.3"),
    ("ssl-cipher", "TLS_AES_128_GCM_SHA256"),
    ("x-edge-response-result-type", "Hit"),
    ("cs-protocol-version", "HTTP/2.0"),
    ("fle-status", "-"),
    ("fle-encrypted-fields", "-"),
    ("c-port", "51000"),
    ("time-to-first-byte", "0.001"),
    ("x-edge-detailed-result-type", "Hit"),
    ("sc-content-type", "text/html"),
    ("sc-content-len", "78"),
    ("sc-range-start", "-"),
    ("sc-range-end", "-"),
];

/// The event of a record of which a case changes nothing.
fn unchanged() -> Value {
    json!({
        "time": "2026-11-26T08:00:13Z", "x_edge_location": "FRA56-P4", "response_size": 1045,
        "host": "192.0.2.7", "method": "GET", "cs_host": "d7shop.cloudfront.net",
        "path": "/shop/list.html", "status": 200, "user_agent": "curl/8.5.0",
        "x_edge_result_type": "Hit", "x_edge_request_id": "aB3-_x==", "site": "shop.example",
        "cs_protocol": "https", "cs_bytes": 23, "time_taken": 0.002, "ssl_protocol": "TLSv1.3",
        "ssl_cipher": "TLS_AES_128_GCM_SHA256", "x_edge_response_result_type": "Hit",
        "protocol": "HTTP/2.0", "c_port": 51000, "time_to_first_byte": 0.001,
        "x_edge_detailed_result_type": "Hit", "sc_content_type": "text/html",
        "sc_content_len": 78,
    })
}

/// Fields of a record that a case changes, and those of its event; null for one that is gone.
type Change = (&'static [(&'static str, &'static str)], Value);

#[test]
fn ten_lines_of_cloudfront_have_their_values() {
    let changes = [requests(), answers()].concat();
    assert!(changes.len() >= 10);
    let names = FIELDS.map(|(name, _)| name).join(" ");
    for (fields, of_event) in changes {
        for (name, _) in fields {
            assert!(FIELDS.iter().any(|(known, _)| known == name), "{name}");
        }
        let value = |(name, value)| {
            let own = fields.iter().find(|(changed, _)| *changed == name);
            own.map_or(value, |(_, own)| *own)
        };
        let record = FIELDS.map(value).join("\t");
        let mut expected = unchanged();
        let all = expected.as_object_mut().unwrap();
        all.extend(of_event.as_object().unwrap().clone());
        all.retain(|_, value| !value.is_null());
        let format = format!("w3c:{names}").parse().unwrap();
        assert_eq!(event(format, &record), expected, "{record}");
    }
}

fn requests() -> Vec<Change> {
    vec![
        (&[], json!({})),
        (
            &[
                ("c-ip", "2001:db8::7"),
                ("cs-protocol-version", "HTTP/3.0"),
                ("c-port", "443"),
            ],
            json!({ "host": "2001:db8::7", "protocol": "HTTP/3.0", "c_port": 443 }),
        ),
        // Addresses stay as clients send them, and headers do not.
        (
            &[
                ("cs-uri-stem", "/gr%C3%BC%C3%9Fe%20an/alle"),
                ("cs-uri-query", "a=1&b=%2541&c"),
                ("cs(Referer)", "https://a.example/?q=%2541"),
                ("cs(Cookie)", "sid=1;%20theme=%22dark%22"),
            ],
            json!({
                "path": "/gr%C3%BC%C3%9Fe%20an/alle", "query": "a=1&b=%2541&c",
                "referrer": "https://a.example/?q=%41", "cs_cookie": "sid=1; theme=\"dark\"",
            }),
        ),
        (
            &[(
                "cs(User-Agent)",
                "Mozilla/5.0%2520(X11;%2520Linux)%20gr%C3%BC%C3%9Fe+1",
            )],
            json!({ "user_agent": "Mozilla/5.0%20(X11;%20Linux) grüße+1" }),
        ),
        // An agent in bytes that are no UTF-8 keeps its escapes.
        (
            &[("cs(User-Agent)", "b%FFd%20agent"), ("cs(Referer)", "100%")],
            json!({ "user_agent": "b%FFd%20agent", "referrer": "100%" }),
        ),
        (
            &[
                ("x-forwarded-for", "198.51.100.1,%20203.0.113.2"),
                ("cs-method", "OPTIONS"),
            ],
            json!({ "x_forwarded_for": "198.51.100.1,%20203.0.113.2", "method": "OPTIONS" }),
        ),
        (
            &[
                ("cs-method", "POST"),
                ("cs-bytes", "5368709120"),
                ("fle-status", "Processed"),
                ("fle-encrypted-fields", "3"),
                ("x-edge-result-type", "Miss"),
            ],
            json!({
                "method": "POST", "cs_bytes": 5_368_709_120_i64, "fle_status": "Processed",
                "fle_encrypted_fields": "3", "x_edge_result_type": "Miss",
            }),
        ),
    ]
}

fn answers() -> Vec<Change> {
    vec![
        // The client went before it had a status.
        (
            &[
                ("sc-status", "000"),
                ("sc-bytes", "0"),
                ("x-edge-result-type", "Error"),
                ("x-edge-detailed-result-type", "ClientCommError"),
                ("sc-content-len", "-"),
            ],
            json!({
                "status": 0, "response_size": 0, "x_edge_result_type": "Error",
                "x_edge_detailed_result_type": "ClientCommError", "sc_content_len": null,
            }),
        ),
        (
            &[
                ("sc-status", "206"),
                ("sc-range-start", "0"),
                ("sc-range-end", "1048575"),
                ("sc-content-len", "1048576"),
                ("sc-content-type", "video/mp4;%20codecs=a"),
            ],
            json!({
                "status": 206, "sc_range_start": 0, "sc_range_end": 1_048_575,
                "sc_content_len": 1_048_576, "sc_content_type": "video/mp4;%20codecs=a",
            }),
        ),
        (
            &[
                ("sc-status", "301"),
                ("cs-protocol", "http"),
                ("ssl-protocol", "-"),
                ("ssl-cipher", "-"),
                ("x-edge-result-type", "Redirect"),
                ("cs(User-Agent)", "-"),
            ],
            json!({
                "status": 301, "cs_protocol": "http", "ssl_protocol": null, "ssl_cipher": null,
                "x_edge_result_type": "Redirect", "user_agent": null,
            }),
        ),
        (
            &[
                ("sc-status", "101"),
                ("cs-protocol", "wss"),
                ("time-taken", "3600.123"),
                ("sc-bytes", "5368709120"),
                ("time-to-first-byte", "1"),
                ("time", "11:59:59"),
            ],
            json!({
                "status": 101, "cs_protocol": "wss", "time_taken": 3600.123,
                "response_size": 5_368_709_120_i64, "time_to_first_byte": 1,
                "time": "2026-11-26T11:59:59Z",
            }),
        ),
    ]
}
