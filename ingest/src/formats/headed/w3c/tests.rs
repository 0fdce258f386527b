mod cloudfront;
mod iis;
mod plain;
mod products;

use serde_json::{Value, json};

use crate::Format;
use crate::formats::documents::testing::{assert_fields, options, parsed, refusal};

const IIS: &str = "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n\
    #Date: 2026-11-26 08:00:00\n\
    #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip \
    cs-version cs(User-Agent) cs(Cookie) cs(Referer) cs-host sc-status sc-substatus \
    sc-win32-status sc-bytes cs-bytes time-taken\n";
const CLOUDFRONT: &str = "w3c:date time x-edge-location sc-bytes c-ip cs-method cs(Host) \
    cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) \
    x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken \
    x-forwarded-for ssl-protocol cs-protocol-version c-port time-to-first-byte";

fn events(text: &str) -> Vec<Value> {
    let (events, bad) = parsed(options(Format::W3c), text.as_bytes());
    assert!(bad.is_empty(), "{bad:?}");
    events
}

#[test]
fn a_line_of_iis_has_the_names_of_access_logs() {
    let line = "2026-11-26 08:00:13 192.0.2.80 GET /a/b.aspx c=d&e=f 443 DOMAIN\\user 192.0.2.7 \
        HTTP/2.0 Mozilla/5.0+(X11) ASP=1;+b=2 https://example.org/ www.example.org 200 0 64 \
        27028 214 1687\n";
    assert_eq!(
        events(&format!("{IIS}{line}")),
        [json!({
            "time": "2026-11-26T08:00:13Z", "s_ip": "192.0.2.80", "method": "GET",
            "path": "/a/b.aspx", "query": "c=d&e=f", "s_port": 443, "user": "DOMAIN\\user",
            "host": "192.0.2.7", "protocol": "HTTP/2.0", "user_agent": "Mozilla/5.0+(X11)",
            "cs_cookie": "ASP=1;+b=2", "referrer": "https://example.org/",
            "site": "www.example.org", "status": 200, "sc_substatus": 0, "sc_win32_status": 64,
            "response_size": 27028, "cs_bytes": 214, "time_taken": 1687,
        })]
    );
}

#[test]
fn a_line_of_cloudfront_is_read_back_from_its_escapes() {
    let line = "2026-11-26\t08:00:13\tFRA2\t1045\t2001:db8::7\tGET\td111.cloudfront.net\t\
        /a%20b\t206\thttps://example.org/?q=%2541\tMozilla/5.0%20(X11)\tc=%20d\t-\tHit\tid==\t\
        www.example.org\thttps\t23\t0.002\t-\tTLSv1.3\tHTTP/2.0\t11040\t0.001";
    assert_fields(
        CLOUDFRONT.parse().unwrap(),
        line,
        json!({
            "time": "2026-11-26T08:00:13Z", "x_edge_location": "FRA2", "response_size": 1045,
            "host": "2001:db8::7", "cs_host": "d111.cloudfront.net", "site": "www.example.org",
            // Addresses stay as clients send them; headers do not.
            "path": "/a%20b", "query": "c=%20d", "referrer": "https://example.org/?q=%41",
            "user_agent": "Mozilla/5.0 (X11)", "status": 206, "cs_cookie": null,
            "x_edge_result_type": "Hit", "x_edge_request_id": "id==", "cs_protocol": "https",
            "cs_bytes": 23, "time_taken": 0.002, "x_forwarded_for": null,
            "protocol": "HTTP/2.0", "c_port": 11040, "time_to_first_byte": 0.001,
        }),
    );
}

#[test]
fn quotes_join_words_only_where_there_are_too_many() {
    let format = || {
        "w3c:time-taken cs(User-Agent) cs(Referer)"
            .parse::<Format>()
            .unwrap()
    };
    for (line, agent, referrer) in [
        (r#"1 "two words" "r""#, "two words", "r"),
        (r#"1   " ""x"" y "   r"#, " \"x\" y ", "r"),
        (r#"1 "a" "b""#, "a", "b"),
        // Two clients, or one with two headers, each with one quote.
        (r#"1 "a b""#, "\"a", "b\""),
        (r#"1 a"b c"d"#, "a\"b", "c\"d"),
    ] {
        let expected = json!({ "time_taken": 1, "user_agent": agent, "referrer": referrer });
        assert_fields(format(), line, expected);
    }
    // Between tabs an empty field is one.
    let tabbed = "1\t\t\"two\twords\"\t";
    let refused = refusal(format(), tabbed);
    assert!(refused.contains("the line has 4 fields"), "{refused}");
    for line in ["1 a b c", r#"1 "a b c"#, r#"1 "a b"c d e"#] {
        assert!(
            refusal(format(), line).starts_with("field_count: "),
            "{line}"
        );
    }
}

#[test]
fn times_are_of_the_fields_or_of_the_day_before_them() {
    let times = |text: &str| -> Vec<Value> {
        events(text)
            .iter()
            .map(|event| event["time"].clone())
            .collect()
    };
    assert_eq!(
        times(
            "#Date: 2026-11-25 x\n#Fields: time a\n08:00:00 1\n#Date: 2026-11-26\n08:00:00.5 2\n"
        ),
        ["2026-11-25T08:00:00Z", "2026-11-26T08:00:00.500000Z"]
    );
    let local = "#Fields: date time date-local time-local\n";
    assert_eq!(
        times(&format!("{local}2026-11-26 08:00:00 2026-11-26 09:00:00\n")),
        ["2026-11-26T08:00:00Z"]
    );
    assert_eq!(
        times("#Fields: date-local time-local\n2026-11-26 09:00:00\n"),
        ["2026-11-26T09:00:00Z"]
    );
    // A date without a time is kept as it stands.
    let (events_, _) = parsed(
        options(Format::W3c),
        b"#Fields: date c-ip\n2026-11-26 192.0.2.1\n",
    );
    assert_eq!(events_[0]["date"], "2026-11-26");
    // Without a time, the event has that of its receipt.
    let (events, _) = parsed(options(Format::W3c), b"#Fields: c-ip\n192.0.2.1\n");
    assert_eq!(events[0]["time_source"], "received");
    for line in [
        "#Fields: time\n08:00:00",
        "#Fields: date time\n2026-11-31 08:00:00",
    ] {
        let (events, bad) = parsed(options(Format::W3c), line.as_bytes());
        assert!(
            events.is_empty() && bad[0].starts_with("bad_time: "),
            "{bad:?}"
        );
    }
}

#[test]
fn names_are_those_of_columns() {
    let format = "w3c:cs(X-Forwarded-For) sc(Content-Type) x-a(b)-c c-ip c-ip sc-status";
    let event = json!({
        "cs_x_forwarded_for": "1", "sc_content_type": "2", "x_a_b__c": "3", "host": "4",
        "host_2": "5", "status": 404,
    });
    assert_fields(format.parse().unwrap(), "1 2 3 4 5 404", event);
}
