//! Each call of Grafana's Loki data source, and of its Logs Drilldown app.

use serde_json::{Value, json};

use super::{EVENTS, call, encoded, get, message, ns, served, total};
use crate::support::{Home, PAST_S, Server};

const SELECTOR: &str = r#"{stream="access"}"#;

/// `pkg/tsdb/loki/healthcheck.go`: *Save & test* wants a vector with the value 2.
#[test]
fn the_health_check_gets_two() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let health = get(
        &server,
        "query",
        &[("query", "vector(1)+vector(1)"), ("time", "4000000000")],
    );
    assert_eq!(health["status"], "success");
    assert_eq!(health["data"]["resultType"], "vector");
    assert_eq!(
        health["data"]["result"],
        json!([{ "metric": {}, "value": [4_000_000_000_i64, "2"] }])
    );
    let info = server
        .get("/loki/api/v1/status/buildinfo")
        .status(200)
        .json();
    assert!(
        info["version"]
            .as_str()
            .is_some_and(|v| v.starts_with("3.")),
        "{info}"
    );
}

/// `pkg/tsdb/loki/api.go`, `makeDataRequest`: Explore with the type Range, by GET and, from a proxy
/// or a ruler, by POST.
#[test]
fn explore_gets_lines_with_labels_and_metadata() {
    let home = Home::new();
    let server = served(&home);
    let parameters = [
        ("query", r#"{stream="access"} |= `404`"#),
        ("direction", "backward"),
        ("start", &ns(0)),
        ("end", &ns(100)),
        ("limit", "2"),
        ("step", "15000ms"),
    ];
    let path = call("query_range", &parameters);
    let plain = server.get(&path).status(200).json();
    let data = &plain["data"];
    assert_eq!(data["resultType"], "streams");
    // Events 3, 8 and 13 have the status 404; the newest two, each in a stream of its own because
    // of its metadata.
    let streams = data["result"].as_array().expect("streams");
    assert_eq!(streams.len(), 2);
    let newest = streams
        .iter()
        .map(|s| s["values"][0][0].as_str().expect("nanoseconds"));
    let mut newest: Vec<&str> = newest.collect();
    newest.sort_unstable();
    assert_eq!(newest, [ns(8 * 7), ns(13 * 7)]);
    for stream in streams {
        let labels = &stream["stream"];
        assert_eq!(labels["stream"], "access");
        assert_eq!(labels["status_class"], "4xx");
        assert_eq!(labels["status"], "404");
        assert_eq!(labels["method"], "GET");
        let line = stream["values"][0][1].as_str().expect("a line");
        let line: Value = serde_json::from_str(line).expect("the line is JSON");
        assert_eq!(line["status"], 404);
    }
    assert!(data["stats"]["summary"]["totalLinesProcessed"].as_u64() > Some(0));
    // The form of POST, and the header by which Grafana asks for metadata apart from labels.
    let (path, form) = path.split_once('?').expect("parameters");
    let headers = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("X-Loki-Response-Encoding-Flags", "categorize-labels"),
    ];
    let apart = server
        .post(path, &headers, form.as_bytes())
        .status(200)
        .json();
    assert_eq!(apart["data"]["encodingFlags"], json!(["categorize-labels"]));
    let stream = &apart["data"]["result"][0];
    let names: Vec<&String> = stream["stream"]
        .as_object()
        .expect("labels")
        .keys()
        .collect();
    assert_eq!(names, ["host", "status_class", "stream"]);
    let kinds = &stream["values"][0][2];
    assert_eq!(kinds["structuredMetadata"]["status"], "404");
    assert_eq!(kinds["parsed"], json!({}));
}

/// `LogContextProvider.ts`: two hours before a line backward, and two hours after it forward.
#[test]
fn context_of_a_line_comes_from_both_sides() {
    let home = Home::new();
    let server = served(&home);
    let middle = 70;
    let asked = |direction: &str, start_s: i64, end_s: i64| -> Vec<String> {
        let answer = get(
            &server,
            "query_range",
            &[
                ("query", SELECTOR),
                ("direction", direction),
                ("start", &ns(start_s)),
                ("end", &ns(end_s)),
                ("limit", "3"),
            ],
        );
        let streams = answer["data"]["result"]
            .as_array()
            .expect("streams")
            .clone();
        let times = streams
            .iter()
            .flat_map(|s| s["values"].as_array().expect("values").clone());
        let mut times: Vec<String> = times
            .map(|v| v[0].as_str().expect("nanoseconds").to_owned())
            .collect();
        times.sort_unstable();
        times
    };
    // The end is not in the range, the start is.
    assert_eq!(
        asked("backward", middle - 7200, middle),
        [ns(49), ns(56), ns(63)]
    );
    assert_eq!(
        asked("forward", middle, middle + 7200),
        [ns(70), ns(77), ns(84)]
    );
}

/// `LanguageProvider.ts`: the label browser and completion.
#[test]
fn the_label_browser_gets_labels_values_and_series() {
    let home = Home::new();
    let server = served(&home);
    let (start, end) = (ns(0), ns(7 * EVENTS));
    let range = [("start", start.as_str()), ("end", end.as_str())];
    let labels = get(&server, "labels", &range);
    assert_eq!(
        labels["data"],
        json!(["host", "site", "status_class", "stream"])
    );
    assert_eq!(get(&server, "label", &range), labels);
    let values = |label: &str, more: &[(&str, &str)]| {
        let path = format!("label/{label}/values");
        get(&server, &path, &[&range[..], more].concat())["data"].clone()
    };
    assert_eq!(values("stream", &[]), json!(["access"]));
    assert_eq!(
        values("status_class", &[]),
        json!(["2xx", "3xx", "4xx", "5xx"])
    );
    let of_host = [("query", r#"{host="203.0.113.3"}"#)];
    assert_eq!(values("status_class", &of_host), json!(["4xx"]));
    assert_eq!(values("level", &[]), json!([]));
    assert_eq!(values("method", &[]), json!([]));
    let series = get(
        &server,
        "series",
        &[&range[..], &[("match[]", SELECTOR)]].concat(),
    );
    let series = series["data"].as_array().expect("sets of labels").clone();
    assert_eq!(series.len(), 5, "{series:?}");
    let set = json!({ "host": "203.0.113.3", "status_class": "4xx", "stream": "access" });
    assert!(series.contains(&set), "{series:?}");
    // The page of series may ask by POST.
    let form = format!(
        "match%5B%5D={}&start={}&end={}",
        encoded(SELECTOR),
        ns(0),
        ns(8)
    );
    let posted = server.post("/loki/api/v1/series", &[], form.as_bytes());
    assert_eq!(
        posted.status(200).json()["data"].as_array().map(Vec::len),
        Some(2)
    );
}

/// `datasource.ts`, `getStats` and `getQueryStats`; the volumes of Drilldown.
#[test]
fn the_size_of_a_query_is_told() {
    let home = Home::new();
    let server = served(&home);
    let (start, end) = (ns(0), ns(7 * EVENTS));
    let range = [
        ("query", SELECTOR),
        ("start", start.as_str()),
        ("end", end.as_str()),
    ];
    let stats = get(&server, "index/stats", &range);
    assert_eq!(
        (&stats["entries"], &stats["streams"]),
        (&json!(EVENTS), &json!(1))
    );
    assert!(stats["bytes"].as_u64() > Some(0), "{stats}");
    let volume = get(
        &server,
        "index/volume",
        &[
            &range[..],
            &[("targetLabels", "status_class"), ("limit", "2")],
        ]
        .concat(),
    );
    let result = volume["data"]["result"]
        .as_array()
        .expect("a vector")
        .clone();
    assert_eq!(volume["data"]["resultType"], "vector");
    assert_eq!(result.len(), 2);
    assert_eq!(result[0]["metric"], json!({ "status_class": "2xx" }));
    // The window of a volume is (start, end], and event 0 lies on the start.
    let query = format!(
        "sum by (status_class) (bytes_over_time({SELECTOR}[{}s]))",
        7 * EVENTS
    );
    let bytes = get(&server, "query", &[("query", &query), ("time", &end)]);
    let of_2xx = bytes["data"]["result"].as_array().expect("a vector").iter();
    let of_2xx = of_2xx
        .clone()
        .find(|s| s["metric"]["status_class"] == "2xx");
    assert_eq!(
        result[0]["value"][1],
        of_2xx.expect("bytes of 2xx")["value"][1]
    );
    let ranged = get(
        &server,
        "index/volume_range",
        &[&range[..], &[("aggregateBy", "labels"), ("step", "60s")]].concat(),
    );
    assert_eq!(ranged["data"]["resultType"], "matrix");
    assert_eq!(
        ranged["data"]["result"][0]["metric"],
        json!({ "stream": "" })
    );
    assert!(total(&ranged) > 0);
}

/// Logs Drilldown, `services/datasource.ts`: the probes at its start.
#[test]
fn drilldown_finds_labels_fields_and_no_patterns() {
    let home = Home::new();
    let server = served(&home);
    let (start, end) = (ns(0), ns(7 * EVENTS));
    let range = [("start", start.as_str()), ("end", end.as_str())];
    let labels = get(&server, "detected_labels", &range);
    let found = labels["detectedLabels"].as_array().expect("labels").clone();
    let five = json!({ "label": "host", "cardinality": 5 });
    assert!(found.contains(&five), "{found:?}");
    let query = [("query", SELECTOR), ("line_limit", "100")];
    let fields = get(&server, "detected_fields", &[&range[..], &query].concat());
    let found = fields["fields"].as_array().expect("fields").clone();
    let status = json!({ "label": "status", "type": "int", "cardinality": 4, "parsers": null });
    assert!(found.contains(&status), "{found:?}");
    let values = get(
        &server,
        "detected_field/status/values",
        &[&range[..], &query].concat(),
    );
    assert_eq!(values["values"], json!(["200", "304", "404", "500"]));
    let patterns = get(&server, "patterns", &[&range[..], &query[..1]].concat());
    assert_eq!(patterns, json!({ "status": "success", "data": [] }));
}

/// `pkg/tsdb/loki/api.go`, `makeLokiError`: Grafana shows the member `message`.
#[test]
fn errors_name_the_operator_and_its_position() {
    let home = Home::new();
    let server = served(&home);
    let asked = |query: &str| {
        let path = call(
            "query_range",
            &[("query", query), ("start", &ns(0)), ("end", &ns(9))],
        );
        message(server.get(&path), 400)
    };
    let told = asked("{stream=\"access\"} | decolorize");
    assert!(
        told.contains("line 1, column 21") && told.contains("decolorize"),
        "{told}"
    );
    let told = asked("{stream=\"access\", method=\"GET\"}");
    assert!(told.contains("method of access is no label"), "{told}");
    let told = asked("rate({stream=\"access\"}[5m:1m])");
    assert!(told.contains("subqueries"), "{told}");
    let log = call("query", &[("query", SELECTOR)]);
    assert!(message(server.get(&log), 400).contains("query_range"));
    let unknown = server.get("/loki/api/v1/query_range?quer=x");
    assert!(message(unknown, 400).contains("did you mean query?"));
    let form = server.post("/loki/api/v1/query_range", &[], b"nonsense=1");
    assert!(message(form, 400).contains("nonsense"));
    assert!(message(server.get("/loki/api/v1/nonsense"), 404).contains("nothing at"));
    for (name, value) in [
        ("start", "yesterday"),
        ("end", "1"),
        ("step", "0"),
        ("limit", "0"),
        ("limit", "5001"),
        ("direction", "up"),
        ("interval", "5s"),
        ("since", "x"),
    ] {
        let path = call("query_range", &[("query", SELECTOR), (name, value)]);
        let path = match name {
            "end" => path + &format!("&start={}", ns(0)),
            _ => path,
        };
        message(server.get(&path), 400);
    }
}

/// Times are nanoseconds, seconds or RFC 3339, as `pkg/loghttp/params.go` of Loki reads them.
#[test]
fn times_are_read_in_every_form() {
    let home = Home::new();
    let server = served(&home);
    for (start, end) in [
        (ns(0), ns(8)),
        (PAST_S.to_string(), (PAST_S + 8).to_string()),
        (format!("{PAST_S}.0"), format!("{}.5", PAST_S + 7)),
        (
            "2024-03-01T00:00:00Z".to_owned(),
            "2024-03-01T01:00:07.5+01:00".to_owned(),
        ),
    ] {
        let parameters = [("query", SELECTOR), ("start", &start), ("end", &end)];
        let answer = get(&server, "query_range", &parameters);
        let streams = answer["data"]["result"].as_array().expect("streams").len();
        assert_eq!(streams, 2, "{start} to {end}");
    }
}
