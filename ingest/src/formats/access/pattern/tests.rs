mod alike;
mod presets;
mod written;

use serde_json::{Value, json};
use storage::StreamKind;

use crate::explain::first_event;
use crate::{Format, ParseOptions, Parsed, Parser};

/// 2026-11-26T12:00:00Z.
const RECEIVED_US: i64 = 1_795_694_400_000_000;
const TIME: &str = "26/Nov/2026:09:23:38 +0100";

fn options(format: &str) -> ParseOptions {
    ParseOptions {
        format: format.parse().unwrap_or_else(|e| panic!("{e}")),
        received_us: RECEIVED_US,
        ..ParseOptions::default()
    }
}

fn parsed(options: ParseOptions, lines: &str) -> Parsed {
    Parser::new(options).parse(lines.as_bytes()).unwrap()
}

/// Returns the event of a line, without nulls.
#[track_caller]
fn event(format: &str, line: &str) -> Value {
    let parsed = parsed(options(format), line);
    assert!(
        parsed.quarantine.is_empty(),
        "{format}: {:?}",
        parsed.quarantine
    );
    assert_eq!(parsed.kind, StreamKind::Access);
    let mut event = first_event(&parsed.events, StreamKind::Access).unwrap();
    event.retain(|_, value| !value.is_null());
    event.into()
}

#[track_caller]
fn refusal(format: &str, line: &str) -> String {
    let parsed = parsed(options(format), line);
    assert_eq!(parsed.events.num_rows(), 0, "{format}: {line}");
    format!(
        "{}: {}",
        parsed.quarantine[0].reason, parsed.quarantine[0].detail
    )
}

fn problem(format: &str) -> String {
    format.parse::<Format>().unwrap_err().to_string()
}

#[test]
fn times_and_sizes_of_nginx_are_numbers() {
    let line = format!(
        "192.0.2.7 - ann [{TIME}] \"GET /a?b=c HTTP/1.1\" 200 512 \"-\" \"agent/1\" 0.250 0.125"
    );
    let expected = json!({
        "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "user": "ann",
        "request": "GET /a?b=c HTTP/1.1", "method": "GET", "path": "/a", "query": "b=c",
        "protocol": "HTTP/1.1", "status": 200, "response_size": 512, "user_agent": "agent/1",
        "request_time": 0.25, "upstream_response_time": 0.125,
    });
    assert_eq!(event("nginx:timed", &line), expected);
    // The directive as it stands in a configuration.
    let directive = r#"nginx:log_format timed '$remote_addr - $remote_user [$time_local] "$request" '
        '$status $body_bytes_sent "$http_referer" "$http_user_agent" ' "$request_time ${upstream_response_time}";"#;
    assert_eq!(event(directive, &line), expected);
}

#[test]
fn several_servers_are_added_up_and_kept() {
    let format =
        "nginx:$remote_addr [$time_local] $upstream_response_time $upstream_status $status";
    let of = |times: &str, statuses: &str| {
        event(
            format,
            &format!("192.0.2.7 [{TIME}] {times} {statuses} 200"),
        )
    };
    for (times, statuses, expected) in [
        (
            "0.5",
            "200",
            json!({ "upstream_response_time": 0.5, "upstream_status": 200 }),
        ),
        ("-", "-", json!({})),
        (
            "0.5, 0.25 : 0.125",
            "502, 504 : 200",
            json!({
                "upstream_response_time": 0.875, "upstream_response_time_each": "0.5, 0.25 : 0.125",
                "upstream_status": 200, "upstream_status_each": "502, 504 : 200",
            }),
        ),
        (
            "0.5, -",
            "502, -",
            json!({
                "upstream_response_time": 0.5, "upstream_response_time_each": "0.5, -",
                "upstream_status_each": "502, -",
            }),
        ),
    ] {
        let mut found = of(times, statuses);
        for name in ["time", "host", "status"] {
            found.as_object_mut().unwrap().remove(name).expect(name);
        }
        assert_eq!(found, expected, "{times} {statuses}");
    }
    assert_eq!(
        refusal(format, &format!("192.0.2.7 [{TIME}] 0.5, x 200 200")),
        "bad_number: column 40: upstream_response_time is no number"
    );
}

#[test]
fn directives_of_apache_have_their_columns() {
    let format = r#"apache:LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\" %D %{ms}T %T %{X-Forwarded-For}i %!200,304{Accept}i %{session}C %X %I" mine"#;
    let line = format!(
        "example.org:443 192.0.2.7 - - [{TIME}] \"POST /x HTTP/2\" 404 99 \"http://r/\" \"say \\\"hi\\\"\" 1234 1 3 198.51.100.1 - abc + 77"
    );
    assert_eq!(
        event(format, &line),
        json!({
            "time": "2026-11-26T08:23:38Z", "site": "example.org", "server_port": 443,
            "host": "192.0.2.7", "request": "POST /x HTTP/2", "method": "POST", "path": "/x",
            "protocol": "HTTP/2", "status": 404, "bytes_sent": 99, "referrer": "http://r/",
            "user_agent": "say \\\"hi\\\"", "request_time_us": 1234, "request_time_ms": 1, "request_time": 3.0,
            "x_forwarded_for": "198.51.100.1", "cookie_session": "abc",
            "connection_status": "+", "bytes_received": 77,
        })
    );
}

#[test]
fn a_request_can_stand_in_its_parts() {
    let of_parts = json!({
        "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "request": "GET /a?b=c HTTP/1.1",
        "method": "GET", "path": "/a", "query": "b=c", "protocol": "HTTP/1.1", "status": 200,
    });
    for (format, line) in [
        (
            "apache:%a %t %m %U %q %H %s",
            format!("192.0.2.7 [{TIME}] GET /a ?b=c HTTP/1.1 200"),
        ),
        (
            "apache:%a %t \"%m %U%q %H\" %s",
            format!("192.0.2.7 [{TIME}] \"GET /a?b=c HTTP/1.1\" 200"),
        ),
        (
            "nginx:$remote_addr [$time_local] $request_method $uri$is_args$args $server_protocol $status",
            format!("192.0.2.7 [{TIME}] GET /a?b=c HTTP/1.1 200"),
        ),
        (
            "nginx:$remote_addr [$time_local] $request_method $request_uri $server_protocol $status",
            format!("192.0.2.7 [{TIME}] GET /a?b=c HTTP/1.1 200"),
        ),
        (
            "nginx:$remote_addr|$time_iso8601|$request_method|$uri|$args|$server_protocol|$status",
            "192.0.2.7|2026-11-26T09:23:38+01:00|GET|/a|b=c|HTTP/1.1|200".to_owned(),
        ),
    ] {
        assert_eq!(event(format, &line), of_parts, "{format}");
    }
}

#[test]
fn times_stand_in_many_forms() {
    for (format, time, expected) in [
        (
            "apache:%t %h",
            "[26/Nov/2026:09:23:38 +0100]",
            "2026-11-26T08:23:38Z",
        ),
        ("apache:%{sec}t %h", "1795681418", "2026-11-26T08:23:38Z"),
        (
            "apache:%{msec}t %h",
            "1795681418250",
            "2026-11-26T08:23:38.250000Z",
        ),
        (
            "apache:%{usec}t %h",
            "1795681418250001",
            "2026-11-26T08:23:38.250001Z",
        ),
        (
            "apache:%{%Y-%m-%dT%H:%M:%S%z}t %h",
            "2026-11-26T09:23:38+0100",
            "2026-11-26T08:23:38Z",
        ),
        (
            "apache:%{%Y-%m-%d %H:%M:%S}t %h",
            "2026-11-26 08:23:38",
            "2026-11-26T08:23:38Z",
        ),
        (
            "apache:[%{begin:%d/%b/%Y:%T}t.%{begin:usec_frac}t %{%z}t] %h",
            "[26/Nov/2026:09:23:38.250001 +0100]",
            "2026-11-26T08:23:38.250001Z",
        ),
        (
            "nginx:$msec $remote_addr",
            "1795681418.250",
            "2026-11-26T08:23:38.250000Z",
        ),
        (
            "nginx:$time_iso8601 $remote_addr",
            "2026-11-26T09:23:38+01:00",
            "2026-11-26T08:23:38Z",
        ),
    ] {
        let found = event(format, &format!("{time} 192.0.2.7"));
        assert_eq!(found["time"], expected, "{format}");
        assert_eq!(found["host"], "192.0.2.7", "{format}");
    }
    let mut options = options("apache:%{%Y-%m-%d %H:%M:%S}t %h");
    options.tz = crate::zone("Europe/Berlin");
    let berlin = parsed(options, "2026-11-26 09:23:38 192.0.2.7");
    let event = first_event(&berlin.events, StreamKind::Access).unwrap();
    assert_eq!(event["time"], "2026-11-26T08:23:38Z");
}

#[test]
fn a_value_that_comes_again_is_read_once_and_another_one_has_a_column() {
    assert_eq!(
        event(
            "nginx:$remote_addr [$time_local] $host $server_name $http_host $status $status",
            &format!("192.0.2.7 [{TIME}] a.example b.example c.example:81 200 200"),
        ),
        json!({
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "site": "a.example",
            "server_name": "b.example", "http_host": "c.example:81", "status": 200,
        })
    );
}

/// Values beside the column that another one has, and names that columns have already.
#[test]
fn no_value_is_lost_and_no_two_columns_have_one_name() {
    let format = "nginx:$remote_addr [$time_local] \"$request\" $uri $args $request_method $http_time $path $http_user $site $upstream_status $upstream_status_each $raw_line $remote_user $status $http__id";
    let line = format!(
        "192.0.2.7 [{TIME}] \"GET /a?b=c HTTP/1.1\" /index x=y GET t p u s 200 e r ann 200 i"
    );
    let found = parsed(options(format), &line);
    let schema = found.events.schema();
    let mut names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
    assert_eq!(
        event(format, &line),
        json!({
            "time": "2026-11-26T08:23:38Z", "host": "192.0.2.7", "user": "ann", "status": 200,
            "request": "GET /a?b=c HTTP/1.1", "method": "GET", "path": "/a", "query": "b=c",
            "protocol": "HTTP/1.1", "uri": "/index", "args": "x=y", "request_method": "GET",
            "time_2": "t", "path_2": "p", "user_2": "u", "site_2": "s", "upstream_status": 200,
            "upstream_status_each_2": "e", "raw_line_2": "r", "_id_2": "i",
        })
    );
    // A target tells path and query, wherever it stands.
    assert_eq!(
        event(
            "nginx:$msec $uri $args $request_uri",
            "1795681418 /index x=y /a?b=c",
        ),
        json!({
            "time": "2026-11-26T08:23:38Z", "path": "/a", "query": "b=c", "uri": "/index",
            "args": "x=y",
        })
    );
    let event = event(
        "apache:%t %u %<u %s %>s %U%q %r",
        &format!("[{TIME}] a b 404 200 /x?y GET / HTTP/1.0"),
    );
    assert_eq!(
        (&event["user"], &event["user_2"]),
        (&json!("a"), &json!("b"))
    );
    assert_eq!(
        (&event["status"], &event["other_status"]),
        (&json!(404), &json!(200))
    );
    assert_eq!(
        (&event["path"], &event["url_path"]),
        (&json!("/"), &json!("/x?y"))
    );
}

#[test]
fn a_line_that_differs_is_named_with_its_place() {
    let format = "nginx:$remote_addr [$time_local] \"$request\" $status";
    for (line, expected) in [
        (
            "192.0.2.7",
            "not_the_pattern: column 1: $remote_addr does not end:  [ does not follow",
        ),
        (
            "192.0.2.7 [26/Nov/2026:09:23:38 +0100] \"GET / HTTP/1.1\" 2000",
            "bad_status: column 57: expected a status of three digits, found 2000",
        ),
        (
            "192.0.2.7 [26/Nov/2026:09:23:61 +0100] \"GET / HTTP/1.1\" 200",
            "bad_time: column 30: expected a second from 00 to 59, found 61 +0100] \\\"GET / HTTP/1.1\\\" 200",
        ),
        (
            "192.0.2.7 [26/Nov/2026:09:23:38 +0100] \"GET / HTTP/1.1\"x200",
            "not_the_pattern: column 55: expected \\\" , the text behind the field before",
        ),
    ] {
        assert_eq!(refusal(format, line), expected, "{line}");
    }
    assert_eq!(
        refusal("apache:%h %t|", "192.0.2.7 [26/Nov/2026:09:23:38 +0100]|x"),
        "not_the_pattern: column 40: expected the end of the line, found x"
    );
}

#[test]
fn a_pattern_that_cannot_be_read_is_refused_with_the_reason() {
    for (format, why) in [
        ("apache:%h %l", "it has no time, which every event has"),
        ("nginx:", "it has no time, which every event has"),
        ("apache:%t%h", "%t and %h have no text between them"),
        ("apache:%t %y", "the directive \"%y\" is not known"),
        ("apache:%t %{x", "{ is not closed in \"%{x\""),
        ("apache:%{%Q}t", "the directive \"%{%Q}t\" is not known"),
        ("apache:%t %", "the directive \"%\" is not known"),
        ("apache:%t %t", "%t is a second time"),
        ("nginx:$msec ${x", "{ is not closed in \"${x\""),
        ("nginx:$msec $", "\"$\" has no name of a variable"),
        (
            "nginx:log_format j escape=json '{\"t\":$msec}'",
            "its lines are JSON: use the format json",
        ),
        ("nginx:'$msec", "the quote ' is not closed"),
    ] {
        let told = problem(format);
        assert!(told.contains(why) && told.contains(format), "{told}");
    }
    let long = format!("apache:%t {}", "x".repeat(5000));
    assert!(problem(&long).contains("longer than 4096 bytes"));
}

#[test]
fn every_preset_has_a_name_and_is_written_as_it_is_read() {
    for (server, name, _) in super::syntax::PRESETS {
        let name = format!("{server}:{name}");
        let format: Format = match name.parse() {
            Ok(format) => format,
            Err(e) => panic!("{name}: {e}"),
        };
        assert_eq!(format.to_string(), name);
        let written = serde_json::to_string(&format).unwrap();
        assert_eq!(serde_json::from_str::<Format>(&written).unwrap(), format);
    }
}
