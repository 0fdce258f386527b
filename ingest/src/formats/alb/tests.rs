use serde_json::json;

use crate::Format;
use crate::formats::documents::testing::{assert_fields, event as event_of, refusal};
use crate::formats::recognise;
use crate::reader::Fit;

const TAIL: &str = r#"ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/t/7 "Root=1-5833-abc" "www.example.org" "arn:aws:acm:eu-west-1:1:certificate/1" 0 2026-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1"#;
const HEAD: &str = "app/lb/50dc 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57";

fn event(line: &str) -> serde_json::Value {
    event_of(Format::Alb, line)
}

fn https(request: &str, agent: &str) -> String {
    format!("https 2026-07-02T22:23:00.186641Z {HEAD} \"{request}\" \"{agent}\" {TAIL}")
}

#[test]
fn every_field_of_a_line_has_its_column_and_type() {
    let line = https(
        "GET https://www.example.org:443/a/b?c=d HTTP/1.1",
        "curl/7.46.0",
    );
    assert_eq!(
        event(&line),
        json!({
            "time": "2026-07-02T22:23:00.186641Z", "type": "https", "elb": "app/lb/50dc",
            "host": "192.168.131.39", "client_port": 2817,
            "target_host": "10.0.0.1", "target_port": 80,
            "request_processing_time": 0.086, "target_processing_time": 0.048,
            "response_processing_time": 0.037, "status": 200, "target_status": 200,
            "bytes_received": 0, "bytes_sent": 57,
            "method": "GET", "scheme": "https", "site": "www.example.org", "server_port": 443,
            "path": "/a/b", "query": "c=d", "protocol": "HTTP/1.1", "user_agent": "curl/7.46.0",
            "ssl_cipher": "ECDHE-RSA-AES128-GCM-SHA256", "ssl_protocol": "TLSv1.2",
            "target_group_arn": "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/t/7",
            "trace_id": "Root=1-5833-abc", "domain_name": "www.example.org",
            "chosen_cert_arn": "arn:aws:acm:eu-west-1:1:certificate/1",
            "matched_rule_priority": 0, "request_creation_time": "2026-07-02T22:22:48.364000Z",
            "actions_executed": "authenticate,forward", "target_port_list": "10.0.0.1:80",
            "target_status_code_list": "200", "conn_trace_id": "TID_1",
        })
    );
    assert_eq!(recognise(line.as_bytes()), Some((Format::Alb, Fit::Whole)));
}

#[test]
fn lines_of_every_type_and_length_are_read() {
    let stamp = "2026-07-02T22:23:00.186641Z";
    let get = "\"GET http://h:80/ HTTP/1.1\" \"-\"";
    let none = "app/lb/50dc 10.0.0.7:1 - -1 -1 -1 460 - 0 0";
    for (line, expected) in [
        (
            format!(
                "http {stamp} {HEAD} {get} - - arn \"R\" \"-\" \"-\" 0 t \"forward\" \"-\" \"-\""
            ),
            json!({ "ssl_cipher": null, "domain_name": null, "user_agent": null, "path": "/",
                "actions_executed": "forward", "conn_trace_id": null }),
        ),
        (
            format!("h2 {stamp} {HEAD} \"GET https://h:443/ HTTP/2.0\" \"a\" {TAIL}"),
            json!({ "type": "h2", "protocol": "HTTP/2.0" }),
        ),
        (
            format!("ws {stamp} {HEAD} {get} - - arn \"R\" \"-\" \"-\" 1 t \"f\" \"-\" \"-\""),
            json!({ "type": "ws", "matched_rule_priority": 1 }),
        ),
        (
            format!("wss {stamp} {HEAD} \"GET https://h:443/ws HTTP/1.1\" \"a\" {TAIL}"),
            json!({ "type": "wss", "path": "/ws" }),
        ),
        (
            format!("grpcs {stamp} {HEAD} \"POST https://h:443/s.S/M HTTP/2.0\" \"grpc\" {TAIL}"),
            json!({ "type": "grpcs", "method": "POST", "path": "/s.S/M" }),
        ),
        // No target was reached, and the client has an IPv6 address.
        (
            format!("http {stamp} app/lb/50dc 2001:db8::7:5055 - -1 -1 -1 504 - 12 3 {get}"),
            json!({ "host": "2001:db8::7", "client_port": 5055, "target_host": null,
                "target_port": null, "request_processing_time": null,
                "target_processing_time": null, "response_processing_time": null,
                "status": 504, "target_status": null, "bytes_received": 12, "bytes_sent": 3 }),
        ),
        (
            format!(
                "http {stamp} {none} \"- http://lb.example.org:80- -\" \"-\" - - - \"-\" \"-\" \"-\" - t \"-\" \"-\" \"-\""
            ),
            json!({ "request": "- http://lb.example.org:80- -", "method": null, "status": 460,
                "matched_rule_priority": null }),
        ),
        (
            format!(
                "http {stamp} {none} {get} - - - \"-\" \"-\" \"-\" -1 t \"waf-failed\" \"-\" \"LambdaTimeout\""
            ),
            json!({ "matched_rule_priority": -1, "error_reason": "LambdaTimeout" }),
        ),
        (
            format!(
                "http {stamp} {none} {get} - - - \"-\" \"-\" \"-\" 5 t \"redirect\" \"https://h:443/x\" \"-\" \"-\" \"-\" \"Ambiguous\" \"UndefinedContentLengthSemantics\""
            ),
            json!({ "redirect_url": "https://h:443/x", "classification": "Ambiguous",
                "classification_reason": "UndefinedContentLengthSemantics" }),
        ),
        (
            https("GET https://h:443/ HTTP/1.1", r#"a \"b\" c\\"#),
            json!({ "user_agent": r#"a \"b\" c\\"# }),
        ),
        (
            https("GET https://h:443/ HTTP/1.1", "a")
                + " \"h2\" \"/u\" \"TransformSuccess\" more \"x\"",
            json!({ "transformed_host": "h2", "transformed_uri": "/u",
                "request_transform_status": "TransformSuccess", "extra": "more \"x\"" }),
        ),
    ] {
        assert_fields(Format::Alb, &line, expected);
        assert_eq!(
            recognise(line.as_bytes()),
            Some((Format::Alb, Fit::Whole)),
            "{line}"
        );
    }
}

/// The parts of a request make it again, or it is there.
#[test]
fn a_request_that_its_parts_do_not_make_stays_whole() {
    for request in [
        "GET /relative HTTP/1.1",
        "GET https://h/no-port HTTP/1.1",
        "GET https://h:0443/ HTTP/1.1",
        "GET https://h:443/a b",
        "CONNECT h:443 HTTP/1.1",
        "",
    ] {
        let event = event(&https(request, "a"));
        let parts = event.get("method").is_some();
        assert_eq!(event.get("request").is_none(), parts, "{request}: {event}");
        assert!(parts || event["request"] == request, "{event}");
        if parts {
            let text = |name: &str| event[name].as_str().unwrap();
            let rest = format!(
                "{}://{}:{}{}",
                text("scheme"),
                text("site"),
                event["server_port"],
                text("path")
            );
            assert_eq!(format!("{} {rest}", text("method")), request);
        }
    }
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    let good = https("GET https://h:443/ HTTP/1.1", "a");
    for (line, expected) in [
        (
            "tcp x".to_owned(),
            "not_alb: column 1: expected the type http, https, h2, grpcs, ws or wss, found tcp x",
        ),
        (
            good.replace("2026-07-02T22:23:00.186641Z app", "yesterday app"),
            "bad_time: column 7: expected a time, found yesterday app/lb/50dc 192.168.13…",
        ),
        (
            good.replace(" 0.048 ", " fast "),
            "not_alb: column 85: expected the field target_processing_time, found fast 0.037 200 200 0 57 \\\"GET htt…",
        ),
        (
            good.replace(" \"a\" ", " \"a\"b "),
            "not_alb: column 140: expected the field user_agent, found \\\"a\\\"b ECDHE-RSA-AES128-GCM-SHA256…",
        ),
        (
            "http 2026-07-02T22:23:00.186641Z a b".to_owned(),
            "not_alb: column 37: expected the field target_host, found the end of the line",
        ),
    ] {
        assert_eq!(refusal(Format::Alb, &line), expected);
    }
}
