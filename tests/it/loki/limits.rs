//! Rights, origins and bounds of the routes.

use serde_json::{Value, json};

use super::{access, call, message, ns};
use crate::support::{Home, Server, run};

/// Creates a token and returns its header.
fn token(home: &Home, name: &str, role: &str, stream: Option<&str>) -> String {
    let mut args = vec!["token", "create", name, "--role", role];
    args.extend(stream.iter().flat_map(|stream| ["--stream", stream]));
    args.extend(["--data", &home.data, "--output", "json"]);
    let made = run(&args).code(0).json();
    format!("Bearer {}", made["token"].as_str().expect("a token"))
}

fn streams_of(answer: &Value) -> Vec<String> {
    let values = answer["data"].as_array().expect("values").iter();
    values
        .map(|v| v.as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn a_client_of_some_streams_finds_nothing_of_the_others() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for stream in ["web", "db"] {
        server.ingest(stream, access(0..20));
    }
    let own = token(&home, "own", "read", Some("web"));
    let all = token(&home, "all", "read", None);
    let writer = token(&home, "writer", "ingest", None);
    let asked = |header: &str, path: &str, parameters: &[(&str, &str)]| {
        let form: String = call(path, parameters);
        server.get_with(&form, &[("Authorization", header)])
    };
    let range = [("start", ns(0)), ("end", ns(1000))];
    let range = range
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let of = |header: &str, path: &str, more: &[(&str, &str)]| {
        asked(header, path, &[&range[..], more].concat())
    };
    let values = "label/stream/values";
    assert_eq!(
        streams_of(&of(&own, values, &[]).status(200).json()),
        ["web"]
    );
    assert_eq!(
        streams_of(&of(&all, values, &[]).status(200).json()),
        ["db", "web"]
    );
    for (query, expected) in [
        ("sum(count_over_time({}[1000s]))", "19"),
        (r#"sum(count_over_time({stream=~".*"}[1000s]))"#, "19"),
    ] {
        let parameters = [("query", query), ("time", range[1].1)];
        let told = asked(&own, "query", &parameters).status(200).json();
        assert_eq!(told["data"]["result"][0]["value"][1], expected, "{query}");
        let told = asked(&all, "query", &parameters).status(200).json();
        assert_eq!(told["data"]["result"][0]["value"][1], "38", "{query}");
    }
    for query in [r#"{stream="db"}"#, r#"{stream!="web"}"#] {
        let told = of(&own, "query_range", &[("query", query)])
            .status(200)
            .json();
        assert_eq!(told["data"]["result"], json!([]), "{query}");
        let told = of(&own, "series", &[("match[]", query)]).status(200).json();
        assert_eq!(told["data"], json!([]), "{query}");
        let told = of(&own, "index/stats", &[("query", query)])
            .status(200)
            .json();
        assert_eq!(told["entries"], 0, "{query}");
    }
    message(of(&writer, values, &[]), 403);
    message(of("Bearer lm_wrong", values, &[]), 401);
    message(server.get(&call(values, &[])), 401);
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("web", access(0..20));
    let path = "/loki/api/v1/query_range";
    let form = b"query=%7B%7D";
    for header in [
        ("Origin", "http://evil.example"),
        ("Sec-Fetch-Site", "cross-site"),
    ] {
        message(server.post(path, &[header], form), 403);
        message(
            server.get_with(&format!("{path}?query=%7B%7D"), &[header]),
            403,
        );
    }
    let own = server.url.clone();
    server.post(path, &[("Origin", &own)], form).status(200);
}

#[test]
fn a_query_is_bounded() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("web", access(0..20));
    let asked = |query: &str, end: &str, step: &str| {
        let parameters = [
            ("query", query),
            ("start", &ns(0)),
            ("end", end),
            ("step", step),
        ];
        server.get(&call("query_range", &parameters))
    };
    let count = r#"count_over_time({stream="web"}[1s])"#;
    let told = message(asked(count, &ns(11_000), "1s"), 400);
    assert!(told.contains("11001 steps are more than 11000"), "{told}");
    asked(count, &ns(10_999), "1s").status(200);
    let many = vec![count; 33].join(" + ");
    let told = message(asked(&many, &ns(10), "1s"), 400);
    assert!(told.contains("33 range aggregations"), "{told}");
    let deep = format!("{}1{}", "(".repeat(500), ")".repeat(500));
    assert!(message(asked(&deep, &ns(10), "1s"), 400).contains("nests deeper"));
    let long = format!("query={}", "x".repeat(2 << 20));
    let told = message(server.post("/loki/api/v1/query", &[], long.as_bytes()), 400);
    assert!(told.contains("1 MiB"), "{told}");
}

#[test]
fn a_parameter_of_a_form_is_checked_as_one_of_the_address() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for (form, told) in [
        ("query=vector(1)&tmie=3", "did you mean time?"),
        ("query=vector(1)&query=vector(2)", "query is given twice"),
        ("query=%zz", "percent-encoded"),
    ] {
        let posted = server.post("/loki/api/v1/query", &[], form.as_bytes());
        let message = message(posted, 400);
        assert!(message.contains(told), "{message}");
    }
    let posted = server.post("/loki/api/v1/query", &[], b"query=vector(1)&time=3");
    posted.status(200);
}
