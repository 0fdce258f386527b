//! Lines of presets that are written out, of what seldom happens.

use serde_json::{Value, json};

use super::{event, refusal};

/// The name of a preset, a line, and its event.
type Case = (&'static str, &'static str, Value);

/// Makes cases of `preset: line => { event }`.
macro_rules! cases {
    ($($preset:literal: $line:literal => { $($event:tt)* }),* $(,)?) => {
        vec![$(($preset, $line, json!({ $($event)* }))),*]
    };
}

#[test]
fn lines_of_apache_that_seldom_come_have_their_values() {
    for (preset, line, expected) in [common(), combined(), vhost_combined()].concat() {
        assert_eq!(event(preset, line), expected, "{line}");
    }
}

#[test]
fn lines_of_nginx_that_seldom_come_have_their_values() {
    for (preset, line, expected) in [texts(), timed(), ingress()].concat() {
        assert_eq!(event(preset, line), expected, "{line}");
    }
}

/// Apache writes the name of a user as it is, but for quotes and bytes that are no letters.
fn common() -> Vec<Case> {
    cases! {
        "apache:common":
        r#"192.0.2.7 - ann lee [26/Nov/2026:09:23:38 +0100] "GET / HTTP/1.1" 200 5"# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "user": "ann lee",
            "request": "GET / HTTP/1.1", "method": "GET", "path": "/", "protocol": "HTTP/1.1",
            "status": 200, "response_size": 5,
        },
        "apache:common":
        r#"192.0.2.7 - a \"b\" c [26/Nov/2026:09:23:38 +0100] "GET /[x] HTTP/1.1" 403 -"# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "user": r#"a \"b\" c"#,
            "request": "GET /[x] HTTP/1.1", "method": "GET", "path": "/[x]",
            "protocol": "HTTP/1.1", "status": 403,
        },
        // A user whose name is empty.
        "apache:common":
        r#"192.0.2.7 unknown "" [25/Nov/2026:23:59:59 -0930] "GET HTTP/1.0" 401 381"# => {
            "time": "2026-11-26T09:29:59Z", "host": "192.0.2.7", "logname": "unknown",
            "user": "\"\"", "request": "GET HTTP/1.0", "method": "GET", "protocol": "HTTP/1.0",
            "status": 401, "response_size": 381,
        },
        "apache:common":
        r#"fe80::1%eth0 - - [26/Nov/2026:08:23:38 +0000] "\x80w\x01\x03\x01" 400 0"# => {
            "time": "2026-11-26T08:23:38Z", "host": "fe80::1%eth0",
            "request": r"\x80w\x01\x03\x01", "status": 400, "response_size": 0,
        },
    }
}

fn combined() -> Vec<Case> {
    cases! {
        "apache:combined":
        r#"192.0.2.7 - - [26/Nov/2026:09:23:38 +0100] "GET /?q=[a b]&r=\"c\\ HTTP/1.1" 200 9223372036854775807 "" "a \"b\" [c] \\""# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7",
            "request": r#"GET /?q=[a b]&r=\"c\\ HTTP/1.1"#, "method": "GET", "path": "/",
            "query": r#"q=[a b]&r=\"c\\"#, "protocol": "HTTP/1.1", "status": 200,
            "response_size": i64::MAX, "referrer": "", "user_agent": r#"a \"b\" [c] \\"#,
        },
        "apache:combinedio":
        r#"192.0.2.7 - ann lee [26/Nov/2026:09:23:38 +0100] "CONNECT a.example:443 HTTP/1.1" 405 231 "-" "-" 0 0"# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "user": "ann lee",
            "request": "CONNECT a.example:443 HTTP/1.1", "method": "CONNECT",
            "path": "a.example:443", "protocol": "HTTP/1.1", "status": 405,
            "response_size": 231, "bytes_received": 0, "bytes_sent": 0,
        },
        "apache:combinedio":
        r#"192.0.2.7 - - [26/Nov/2026:09:23:38 +0100] "\n" 400 226 "-" "\t" 1 5368709120"# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "request": r"\n", "status": 400,
            "response_size": 226, "user_agent": r"\t", "bytes_received": 1,
            "bytes_sent": 5_368_709_120_i64,
        },
    }
}

/// A server can be named by an address, with brackets or without.
fn vhost_combined() -> Vec<Case> {
    let request = |site: &str, port: u16| {
        json!({
            "time": "2026-11-26T08:23:38Z", "site": site, "server_port": port,
            "host": "2001:db8::7", "request": "GET / HTTP/1.1", "method": "GET", "path": "/",
            "protocol": "HTTP/1.1", "status": 200, "bytes_sent": 0, "user_agent": "a:1 b",
        })
    };
    let preset = "apache:vhost_combined";
    vec![
        (
            preset,
            r#"[2001:db8::5]:443 2001:db8::7 - - [26/Nov/2026:09:23:38 +0100] "GET / HTTP/1.1" 200 0 "-" "a:1 b""#,
            request("[2001:db8::5]", 443),
        ),
        (
            preset,
            r#"2001:db8::5:8443 2001:db8::7 - - [26/Nov/2026:09:23:38 +0100] "GET / HTTP/1.1" 200 0 "-" "a:1 b""#,
            request("2001:db8::5", 8443),
        ),
        (
            preset,
            r#"b_1.example:80 2001:db8::7 - - [26/Nov/2026:09:23:38 +0100] "GET / HTTP/1.1" 200 0 "-" "a:1 b""#,
            request("b_1.example", 80),
        ),
    ]
}

fn texts() -> Vec<Case> {
    cases! {
        "nginx:combined":
        r#"unix: - ann lee [26/Nov/2026:09:23:38 +0100] "PRI * HTTP/2.0" 000 0 "" "a \x22b\x22 \x5C""# => {
            "time": "2026-11-26T08:23:38Z", "host": "unix:", "user": "ann lee",
            "request": "PRI * HTTP/2.0", "method": "PRI", "path": "*", "protocol": "HTTP/2.0",
            "status": 0, "response_size": 0, "referrer": "", "user_agent": r"a \x22b\x22 \x5C",
        },
        "nginx:main":
        r#"192.0.2.7 - - [26/Nov/2026:09:23:38 +0100] "-" 444 0 "-" "-" """# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "status": 444,
            "response_size": 0, "x_forwarded_for": "",
        },
        "nginx:main":
        r#"192.0.2.7 - - [26/Nov/2026:09:23:38 +0100] "GET /a\x0Ab HTTP/1.1" 400 150 "-" "-" "a, \x22b\x22""# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7",
            "request": r"GET /a\x0Ab HTTP/1.1", "method": "GET", "path": r"/a\x0Ab",
            "protocol": "HTTP/1.1", "status": 400, "response_size": 150,
            "x_forwarded_for": r"a, \x22b\x22",
        },
    }
}

/// A server that was left before it answered has no time.
fn timed() -> Vec<Case> {
    cases! {
        "nginx:timed":
        r#"192.0.2.7 - - [26/Nov/2026:09:23:38 +0100] "GET / HTTP/3.0" 499 0 "-" "-" 86400.000 -, 0.5 : -"# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "request": "GET / HTTP/3.0",
            "method": "GET", "path": "/", "protocol": "HTTP/3.0", "status": 499,
            "response_size": 0, "request_time": 86400.0, "upstream_response_time": 0.5,
            "upstream_response_time_each": "-, 0.5 : -",
        },
        "nginx:timed":
        r#"192.0.2.7 - - [26/Nov/2026:09:23:38 +0100] "" 400 0 "-" "-" 0.000 - : 0.25"# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "request": "", "status": 400,
            "response_size": 0, "request_time": 0.0, "upstream_response_time": 0.25,
            "upstream_response_time_each": "- : 0.25",
        },
    }
}

/// A group of which no server could be asked is named itself, and a server may be a socket.
fn ingress() -> Vec<Case> {
    cases! {
        "nginx:ingress":
        r#"192.0.2.7 - ann [26/Nov/2026:09:23:38 +0100] "GET / HTTP/1.1" 502 150 "-" "-" 71 0.002 [shop-web-80] [shop-canary-80] upstream_balancer 0 0.000 502 7f"# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "user": "ann",
            "request": "GET / HTTP/1.1", "method": "GET", "path": "/", "protocol": "HTTP/1.1",
            "status": 502, "response_size": 150, "request_length": 71, "request_time": 0.002,
            "proxy_upstream_name": "shop-web-80",
            "proxy_alternative_upstream_name": "shop-canary-80",
            "upstream_addr": "upstream_balancer", "upstream_response_length": 0,
            "upstream_response_time": 0.0, "upstream_status": 502, "req_id": "7f",
        },
        "nginx:ingress":
        r#"2001:db8::7 - - [26/Nov/2026:09:23:38 +0100] "GET / HTTP/1.1" 200 5 "-" "-" 71 1.250 [] [] unix:/run/a.sock, [fd00::8]:80 : 10.1.0.7:80 -, 0 : 5 0.5, 0.25 : 0.125 504, 502 : 200 8f"# => {
            "time": "2026-11-26T08:23:38Z", "host": "2001:db8::7", "request": "GET / HTTP/1.1",
            "method": "GET", "path": "/", "protocol": "HTTP/1.1", "status": 200,
            "response_size": 5, "request_length": 71, "request_time": 1.25,
            "proxy_upstream_name": "", "proxy_alternative_upstream_name": "",
            "upstream_addr": "unix:/run/a.sock, [fd00::8]:80 : 10.1.0.7:80",
            "upstream_response_length": 5, "upstream_response_length_each": "-, 0 : 5",
            "upstream_response_time": 0.875, "upstream_response_time_each": "0.5, 0.25 : 0.125",
            "upstream_status": 200, "upstream_status_each": "504, 502 : 200", "req_id": "8f",
        },
        "nginx:ingress":
        r#"192.0.2.7 - - [26/Nov/2026:09:23:38 +0100] "\x16\x03\x01" 400 150 "-" "-" 0 0.114 [] [] - - - - 9f"# => {
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "request": r"\x16\x03\x01",
            "status": 400, "response_size": 150, "request_length": 0, "request_time": 0.114,
            "proxy_upstream_name": "", "proxy_alternative_upstream_name": "", "req_id": "9f",
        },
    }
}

/// Of a site without a port, the first colon is the end.
#[test]
fn a_site_ends_before_a_path_that_has_colons() {
    let found = event(
        "apache:%v:%U %t",
        "a.example:/x:80 [26/Nov/2026:09:23:38 +0100]",
    );
    assert_eq!(
        (&found["site"], &found["path"]),
        (&json!("a.example"), &json!("/x:80"))
    );
}

/// A name with spaces is one only before the bracket of the time.
#[test]
fn a_user_ends_before_the_time() {
    for line in [
        r#"192.0.2.7 - ann [26/Nov/2026:09:23:38] "GET / HTTP/1.1" 200 5"#,
        r#"192.0.2.7 - ann 26/Nov/2026:09:23:38 +0100 "GET / HTTP/1.1" 200 5"#,
        r#"192.0.2.7 - ann [x] [26/Nov/2026:09:23:38 +0100] "GET / HTTP/1.1" 200 5"#,
    ] {
        let refused = refusal("apache:common", line);
        assert!(refused.starts_with("bad_time: "), "{refused}");
    }
    let elsewhere = event(
        "apache:%t %u %h",
        "[26/Nov/2026:09:23:38 +0100] ann 192.0.2.7",
    );
    assert_eq!(
        (&elsewhere["user"], &elsewhere["host"]),
        (&json!("ann"), &json!("192.0.2.7"))
    );
}
