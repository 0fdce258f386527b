//! Each call that Grafana's Prometheus data source makes. The place of its origin in Grafana's
//! sources stands with it: `pkg/promlib` is the backend, `packages/grafana-prometheus` the page.

use serde_json::json;

use super::{END_S, EVENTS, PAST_S, asked, data, form, get, post, served, value};
use crate::support::Home;

/// `pkg/promlib/healthcheck.go`: *Save & test* asks for `1+1`, then for the features of the server.
#[test]
fn the_health_check_gets_two_and_the_version_of_the_api() {
    let home = Home::new();
    let server = served(&home);
    let at = PAST_S.to_string();
    for answer in [
        post(&server, "query", &[("query", "1+1"), ("time", &at)]),
        get(&server, "query", &[("query", "1+1"), ("time", &at)]),
    ] {
        assert_eq!(answer.header("content-type"), "application/json");
        let expected = json!({ "resultType": "scalar", "result": [PAST_S, "2"] });
        assert_eq!(data(answer), expected);
    }
    let info = data(get(&server, "status/buildinfo", &[]));
    assert_eq!(info["version"], "3.0.0");
    // Without a time the present is asked.
    let now = data(get(&server, "query", &[("query", "time()")]));
    assert!(
        now["result"][0].as_f64().is_some_and(|now| now > 1.7e9),
        "{now}"
    );
}

/// `pkg/promlib/client/client.go`: a panel asks `query` or `query_range`, by POST unless the data
/// source says GET.
#[test]
fn a_panel_gets_the_same_by_get_and_by_post() {
    let home = Home::new();
    let server = served(&home);
    let (start, end) = (PAST_S.to_string(), END_S.to_string());
    let query = "sum by (status) (increase(logmill_traffic_hits_total[1h]))";
    let range = [
        ("query", query),
        ("start", &start),
        ("end", &end),
        ("step", "3600"),
    ];
    let by_get = data(get(&server, "query_range", &range));
    assert_eq!(by_get, data(post(&server, "query_range", &range)));
    assert_eq!(by_get["resultType"], "matrix");
    // 180 events an hour, a sixth of them 404.
    let series = by_get["result"].as_array().expect("series");
    let of_404 = series
        .iter()
        .find(|one| one["metric"] == json!({ "status": "404" }));
    let points: Vec<_> = (1..=5).map(|h| json!([PAST_S + h * 3_600, "30"])).collect();
    assert_eq!(of_404.expect("a series")["values"], json!(points));
    assert_eq!(series.len(), 3);
    // Parameters may be in both places.
    let split = format!("/prometheus/api/v1/query?{}", form(&[("time", &end)]));
    let answer = server.post(&split, &super::FORM, form(&[("query", query)]).as_bytes());
    assert_eq!(data(answer)["result"], asked(&server, query, END_S));
    // Other forms of a time and of a step.
    let iso = [
        ("query", query),
        ("start", "2024-03-01T00:00:00Z"),
        ("end", "2024-03-01T05:00:00Z"),
        ("step", "1h"),
    ];
    assert_eq!(data(get(&server, "query_range", &iso)), by_get);
    let texts = asked(&server, "\"text\"", PAST_S);
    assert_eq!(texts, json!([PAST_S, "text"]));
    let fraction = data(get(
        &server,
        "query",
        &[("query", "vector(0.5)"), ("time", "7.25")],
    ));
    assert_eq!(
        fraction["result"],
        json!([{ "metric": {}, "value": [7.25, "0.5"] }])
    );
    let matrix = asked(
        &server,
        "logmill_traffic_hits_total{status='500'}[2m]",
        END_S,
    );
    let values = json!([[END_S - 60, "149"], [END_S, "150"]]);
    assert_eq!(matrix[0]["values"], values);
}

#[test]
fn increases_are_the_numbers_of_events_before_and_after_a_seal() {
    let home = Home::new();
    let server = served(&home);
    let increase = |range: &str, at_s| {
        value(
            &server,
            &format!("sum(increase(logmill_traffic_hits_total[{range}]))"),
            at_s,
        )
    };
    assert_eq!(increase("5h", END_S), Some(EVENTS as f64));
    assert_eq!(increase("1h", PAST_S + 3_600), Some(180.0));
    assert_eq!(increase("1d", END_S), Some(EVENTS as f64));
    assert_eq!(increase("1m", END_S), Some(3.0));
    assert_eq!(increase("7m", END_S - 61), Some(21.0));
    // A minute and a half has two buckets or one.
    assert_eq!(increase("90s", END_S), Some(4.5));
    assert_eq!(increase("5m", PAST_S), None);
    assert_eq!(increase("5m", END_S + 600), None);
    let all = value(&server, "sum(logmill_traffic_hits_total)", END_S);
    assert_eq!(
        all,
        Some(server.number("SELECT count(*) FROM access") as f64)
    );
    server.seal();
    assert_eq!(increase("5h", END_S), Some(EVENTS as f64));
    let bytes = value(&server, "sum(logmill_stats_bytes_total)", END_S);
    assert_eq!(
        bytes,
        Some(server.number("SELECT sum(response_size) FROM access") as f64)
    );
}

/// `packages/grafana-prometheus/src/resource_clients.ts` and `language_provider.ts`: names and
/// values for the query builder and for variables.
#[test]
fn the_query_builder_gets_series_labels_and_values() {
    let home = Home::new();
    let server = served(&home);
    let (start, end) = (PAST_S.to_string(), END_S.to_string());
    let within = [("start", start.as_str()), ("end", end.as_str())];
    let with = |more: &[(&'static str, &'static str)]| [&within[..], more].concat();
    let names = data(get(
        &server,
        "label/__name__/values",
        &with(&[("limit", "40000")]),
    ));
    for name in [
        "logmill_traffic_hits_total",
        "logmill_stats_size_bucket",
        "logmill_stats_visitors",
    ] {
        assert!(
            names.as_array().expect("names").contains(&json!(name)),
            "{names}"
        );
    }
    let of =
        |call: &str, more: &[(&'static str, &'static str)]| data(get(&server, call, &with(more)));
    let matched = ("match[]", "logmill_traffic_hits_total{status!='200'}");
    assert_eq!(of("label/status/values", &[matched]), json!(["404", "500"]));
    assert_eq!(of("label/status/values", &[]), json!(["200", "404", "500"]));
    assert_eq!(of("label/path/values", &[matched]), json!([]));
    assert_eq!(of("label/nothing/values", &[]), json!([]));
    let levels = ("match[]", "logmill_stats_visitors{level=~'hour|day'}");
    assert_eq!(of("label/level/values", &[levels]), json!(["day", "hour"]));
    assert_eq!(
        of("labels", &[matched]),
        json!(["__name__", "method", "site", "status"])
    );
    let bounds = ("match[]", "logmill_stats_size_bucket");
    assert_eq!(
        of("labels", &[bounds]),
        json!(["__name__", "le", "path", "site"])
    );
    assert_eq!(
        of(
            "labels",
            &[("match[]", "logmill_traffic_hits_total{le='1'}")]
        ),
        json!([])
    );
    let posted = data(post(&server, "labels", &with(&[matched])));
    assert_eq!(posted, json!(["__name__", "method", "site", "status"]));
    let series = json!([
        { "__name__": "logmill_traffic_hits_total", "method": "GET", "status": "404" },
        { "__name__": "logmill_traffic_hits_total", "method": "GET", "status": "500" },
    ]);
    assert_eq!(of("series", &[matched]), series);
    assert_eq!(data(post(&server, "series", &with(&[matched]))), series);
    let both = [
        matched,
        ("match[]", "logmill_traffic_bytes_total{status='200'}"),
    ];
    assert_eq!(of("series", &both).as_array().map(Vec::len), Some(3));
    let before = [("start", "1000"), ("end", "2000"), matched];
    assert_eq!(data(get(&server, "series", &before)), json!([]));
    let cut = get(&server, "series", &with(&[matched, ("limit", "1")]))
        .status(200)
        .json();
    assert_eq!(cut["data"].as_array().map(Vec::len), Some(1));
    assert_eq!(cut["warnings"], json!(["results truncated due to limit"]));
}

/// `packages/grafana-prometheus/src/language_provider.ts` (metadata), `datasource.ts` (exemplars
/// and the rules of *Recording rules*), `querybuilder` (format).
#[test]
fn metadata_exemplars_and_rules_have_their_forms() {
    let home = Home::new();
    let server = served(&home);
    let all = data(get(&server, "metadata", &[("limit", "100000")]));
    let kind = |name: &str| all[name][0]["type"].clone();
    assert_eq!(kind("logmill_traffic_hits_total"), "counter");
    assert_eq!(kind("logmill_traffic_size_bucket"), "histogram");
    assert_eq!(kind("logmill_traffic_size_p99"), "gauge");
    assert!(
        all["logmill_stats_bytes_total"][0]["help"]
            .as_str()
            .is_some_and(|h| h.contains("response_size"))
    );
    let one = data(get(
        &server,
        "metadata",
        &[("metric", "logmill_stats_hits"), ("limit", "5")],
    ));
    assert_eq!(one.as_object().map(|map| map.len()), Some(1));
    let exemplars = [
        ("query", "logmill_stats_hits"),
        ("start", "1"),
        ("end", "2"),
    ];
    assert_eq!(data(get(&server, "query_exemplars", &exemplars)), json!([]));
    assert_eq!(
        data(post(&server, "query_exemplars", &exemplars)),
        json!([])
    );
    assert_eq!(data(get(&server, "rules", &[])), json!({ "groups": [] }));
    let text = data(get(
        &server,
        "format_query",
        &[("query", "sum  (rate(a[5m]))by(b)")],
    ));
    assert_eq!(text, "sum by (b) (rate(a[5m]))");
}

/// The example of `docs/clients/prometheus.md`.
#[test]
fn a_known_alert_rule_fires_when_its_share_is_exceeded() {
    let home = Home::new();
    let server = served(&home);
    let share = "sum(rate(logmill_traffic_hits_total{status=~\"5..\"}[10m])) / sum(rate(logmill_traffic_hits_total[10m]))";
    let found = value(&server, share, END_S).expect("a share");
    assert!((found - 1.0 / 6.0).abs() < 1e-12, "{found}");
    assert_eq!(
        value(&server, &format!("{share} > 0.05"), END_S),
        Some(found)
    );
    assert_eq!(value(&server, &format!("{share} > 0.5"), END_S), None);
    let quantile =
        "histogram_quantile(0.99, sum by (le) (increase(logmill_traffic_size_bucket[5h])))";
    let found = value(&server, quantile, END_S).expect("a quantile");
    let exact = 0.99 * 899.0 * 13.0;
    assert!(
        (found / exact - 1.0).abs() < 0.01,
        "{found} instead of about {exact}"
    );
}
