//! Ten lines for each preset, in the form that the servers' documentation gives them.

use serde_json::{Map, Value, json};

use super::super::syntax::PRESETS;
use super::{TIME, event};

/// Fields of one request. An absent text is `-` in a line, and missing in its event; nginx also has
/// empty ones.
struct Request {
    host: &'static str,
    user: &'static str,
    /// The request line as Apache escapes it, and as nginx does.
    line: [&'static str; 2],
    status: u16,
    size: u64,
    referrer: &'static str,
    agent: &'static str,
    /// Parts of the request line: of Apache's, and of nginx's if it differs.
    parts: fn(is_nginx: bool) -> Value,
}

const REQUESTS: [Request; 10] = [
    Request {
        host: "192.0.2.7",
        user: "ann",
        line: ["GET /shop/shoes?size=42&colour=red HTTP/1.1"; 2],
        status: 200,
        size: 5120,
        referrer: "https://shop.example/start?from=mail",
        agent: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        parts: |_| json!({ "method": "GET", "path": "/shop/shoes", "query": "size=42&colour=red", "protocol": "HTTP/1.1" }),
    },
    Request {
        host: "2001:db8::7:1",
        user: "-",
        line: ["POST /api/orders HTTP/2.0"; 2],
        status: 201,
        size: 17,
        referrer: "-",
        agent: "okhttp/4.12.0",
        parts: |_| json!({ "method": "POST", "path": "/api/orders", "protocol": "HTTP/2.0" }),
    },
    // A connection that sent nothing until its time was over.
    Request {
        host: "203.0.113.9",
        user: "-",
        line: ["-", ""],
        status: 408,
        size: 0,
        referrer: "-",
        agent: "-",
        parts: |_| json!({}),
    },
    // A client that speaks TLS to a port without it.
    Request {
        host: "198.51.100.23",
        user: "-",
        line: [r"\x16\x03\x01\x02", r"\x16\x03\x01\x02"],
        status: 400,
        size: 226,
        referrer: "-",
        agent: "-",
        parts: |_| json!({}),
    },
    Request {
        host: "::1",
        user: "-",
        line: ["OPTIONS * HTTP/1.0"; 2],
        status: 200,
        size: 126,
        referrer: "-",
        agent: "Apache/2.4.57 (Debian) (internal dummy connection)",
        parts: |_| json!({ "method": "OPTIONS", "path": "*", "protocol": "HTTP/1.0" }),
    },
    Request {
        host: "192.0.2.8",
        user: "j.doe@example.org",
        line: [
            r#"GET /say?what=\"hello\" HTTP/1.1"#,
            r"GET /say?what=\x22hello\x22 HTTP/1.1",
        ],
        status: 404,
        size: 209,
        referrer: "http://example.org/a b",
        agent: "curl/8.5.0",
        parts: |is_nginx| {
            let query = match is_nginx {
                true => r"what=\x22hello\x22",
                false => r#"what=\"hello\""#,
            };
            json!({ "method": "GET", "path": "/say", "query": query, "protocol": "HTTP/1.1" })
        },
    },
    Request {
        host: "gateway.example.net",
        user: "-",
        line: ["GET http://example.org/proxied HTTP/1.1"; 2],
        status: 301,
        size: 0,
        referrer: "-",
        agent: "Wget/1.21.3",
        parts: |_| json!({ "method": "GET", "path": "http://example.org/proxied", "protocol": "HTTP/1.1" }),
    },
    Request {
        host: "192.0.2.200",
        user: "-",
        line: ["HEAD / HTTP/1.0"; 2],
        status: 304,
        size: 0,
        referrer: "-",
        agent: "check_http/v2.3",
        parts: |_| json!({ "method": "HEAD", "path": "/", "protocol": "HTTP/1.0" }),
    },
    // HTTP/0.9 has no protocol.
    Request {
        host: "192.0.2.201",
        user: "-",
        line: ["GET /old"; 2],
        status: 200,
        size: 12,
        referrer: "-",
        agent: "-",
        parts: |_| json!({ "method": "GET", "path": "/old" }),
    },
    Request {
        host: "192.0.2.202",
        user: "m\\xc3\\xbcller",
        line: [r"GET /stra\xc3\x9fe/%C3%BC HTTP/1.1"; 2],
        status: 206,
        size: 4_294_967_296,
        referrer: "android-app://com.example/",
        agent: "Lavf/60.3.100",
        parts: |_| json!({ "method": "GET", "path": r"/stra\xc3\x9fe/%C3%BC", "protocol": "HTTP/1.1" }),
    },
];

/// A line, and the event that it is.
type Case = (String, Map<String, Value>);

/// Returns what a preset has before the size, and the event of it.
fn begin(request: &Request, is_nginx: bool) -> Case {
    let line = request.line[usize::from(is_nginx)];
    let logname = "-";
    let text = format!(
        "{} {logname} {} [{TIME}] \"{line}\" {}",
        request.host, request.user, request.status
    );
    let mut event = Map::new();
    event.insert("time".into(), json!("2026-11-26T08:23:38Z"));
    event.insert("host".into(), json!(request.host));
    event.insert("status".into(), json!(request.status));
    for (name, value) in [("user", request.user), ("request", line)] {
        if value != "-" {
            event.insert(name.into(), json!(value));
        }
    }
    let Value::Object(parts) = (request.parts)(is_nginx) else {
        panic!("parts are an object");
    };
    event.extend(parts);
    (text, event)
}

/// Adds the size. Apache writes `-` for no bytes.
fn sized(request: &Request, is_nginx: bool) -> Case {
    let case = begin(request, is_nginx);
    match (request.size, is_nginx) {
        (0, false) => with(case, " -", json!({})),
        (size, _) => with(case, &format!(" {size}"), json!({ "response_size": size })),
    }
}

/// Adds the size, the referrer and the agent.
fn combined(request: &Request, is_nginx: bool) -> Case {
    let (mut text, mut event) = sized(request, is_nginx);
    texts(request, &mut text, &mut event);
    (text, event)
}

fn texts(request: &Request, text: &mut String, event: &mut Map<String, Value>) {
    *text += &format!(" \"{}\" \"{}\"", request.referrer, request.agent);
    for (name, value) in [
        ("referrer", request.referrer),
        ("user_agent", request.agent),
    ] {
        if value != "-" {
            event.insert(name.into(), json!(value));
        }
    }
}

/// Adds the end of a line, and the fields that it has.
fn with((mut text, mut event): Case, end: &str, fields: Value) -> Case {
    text += end;
    let Value::Object(fields) = fields else {
        panic!("fields are an object");
    };
    event.extend(fields);
    (text, event)
}

/// Times of upstreams as nginx writes them: one, none, several, and several with a redirect.
fn upstream(which: usize) -> (&'static str, Value) {
    match which % 5 {
        0 => ("0.125", json!({ "upstream_response_time": 0.125 })),
        1 => ("-", json!({})),
        2 => (
            "0.500, 0.250",
            json!({ "upstream_response_time": 0.75, "upstream_response_time_each": "0.500, 0.250" }),
        ),
        3 => (
            "0.001 : 0.002",
            json!({ "upstream_response_time": 0.003, "upstream_response_time_each": "0.001 : 0.002" }),
        ),
        _ => ("0.000", json!({ "upstream_response_time": 0.0 })),
    }
}

fn ingress(which: usize, request: &Request) -> Case {
    let (times, time_fields) = upstream(which);
    let (servers, lengths, statuses, of_servers) = match which % 5 {
        1 => ("-", "-", "-", json!({})),
        2 => (
            "10.1.0.7:8080, 10.1.0.8:8080",
            "0, 512",
            "502, 200",
            json!({
                "upstream_addr": "10.1.0.7:8080, 10.1.0.8:8080",
                "upstream_response_length": 512, "upstream_response_length_each": "0, 512",
                "upstream_status": 200, "upstream_status_each": "502, 200",
            }),
        ),
        3 => (
            "10.1.0.7:8080 : [fd00::8]:8080",
            "7 : 8",
            "404 : 200",
            json!({
                "upstream_addr": "10.1.0.7:8080 : [fd00::8]:8080",
                "upstream_response_length": 15, "upstream_response_length_each": "7 : 8",
                "upstream_status": 200, "upstream_status_each": "404 : 200",
            }),
        ),
        _ => (
            "10.1.0.7:8080",
            "512",
            "200",
            json!({ "upstream_addr": "10.1.0.7:8080", "upstream_response_length": 512, "upstream_status": 200 }),
        ),
    };
    let id = format!("{which:032x}");
    let end = format!(
        " 71{which} 0.01{which} [shop-web-80] [] {servers} {lengths} {times} {statuses} {id}"
    );
    let case = with(combined(request, true), &end, time_fields);
    let fields = json!({
        "request_length": 710 + which, "request_time": format!("0.01{which}").parse::<f64>().unwrap(),
        "proxy_upstream_name": "shop-web-80", "proxy_alternative_upstream_name": "", "req_id": id,
    });
    with(with(case, "", of_servers), "", fields)
}

/// Returns a line of a preset, and its event.
fn case(preset: (&str, &str), which: usize, request: &Request) -> Case {
    match preset {
        ("apache", "common") => sized(request, false),
        ("apache", "combined") => combined(request, false),
        ("apache", "combinedio") => {
            let received = 400 + which;
            let fields = json!({ "bytes_received": received, "bytes_sent": request.size + 300 });
            let end = format!(" {received} {}", request.size + 300);
            with(combined(request, false), &end, fields)
        }
        ("apache", "vhost_combined") => {
            let (line, event) = begin(request, false);
            let text = format!("www.example.org:8443 {line} {}", request.size);
            let (mut text, mut event) = with(
                (text, event),
                "",
                json!({
                    "site": "www.example.org", "server_port": 8443, "bytes_sent": request.size,
                }),
            );
            texts(request, &mut text, &mut event);
            (text, event)
        }
        ("nginx", "combined") => combined(request, true),
        ("nginx", "main") => match which % 3 {
            0 => with(combined(request, true), " \"-\"", json!({})),
            1 => with(
                combined(request, true),
                " \"198.51.100.1\"",
                json!({ "x_forwarded_for": "198.51.100.1" }),
            ),
            _ => with(
                combined(request, true),
                " \"2001:db8::1, 10.0.0.1, unknown\"",
                json!({ "x_forwarded_for": "2001:db8::1, 10.0.0.1, unknown" }),
            ),
        },
        ("nginx", "timed") => {
            let (times, fields) = upstream(which);
            let end = format!(" 1.2{which}0 {times}");
            let time = format!("1.2{which}").parse::<f64>().unwrap();
            let case = with(combined(request, true), &end, fields);
            with(case, "", json!({ "request_time": time }))
        }
        ("nginx", "ingress") => ingress(which, request),
        other => panic!("{other:?} has no lines"),
    }
}

#[test]
fn every_preset_reads_ten_lines_of_its_server() {
    for (server, name, _) in PRESETS {
        for (which, request) in REQUESTS.iter().enumerate() {
            let (line, expected) = case((server, name), which, request);
            let found = event(&format!("{server}:{name}"), &line);
            assert_eq!(found, Value::Object(expected), "{server}:{name}: {line}");
        }
    }
}
