//! Bad input and bounds: each gets an error of Prometheus' form that says what to do.

use super::{END_S, PAST_S, data, fails, form, get, post, served};
use crate::support::{Home, Server};

#[test]
fn a_wrong_parameter_is_named() {
    let home = Home::new();
    let server = served(&home);
    let hits = ("query", "logmill_traffic_hits_total");
    let (from, to) = (("start", "1709251200"), ("end", "1709254800"));
    for (call, parameters, said) in [
        ("query", &[][..], "the parameter query is missing"),
        ("query", &[("query", "sum(")], "invalid parameter \"query\""),
        ("query", &[hits, ("time", "noon")], "\"time\""),
        ("query", &[hits, ("time", "1e300")], "\"time\""),
        ("query", &[hits, ("timeout", "-1s")], "\"timeout\""),
        ("query", &[hits, ("timeout", "0")], "\"timeout\""),
        ("query", &[hits, ("limit", "-1")], "\"limit\""),
        (
            "query_range",
            &[hits, from, to],
            "the parameter step is missing",
        ),
        ("query_range", &[hits, from, to, ("step", "0")], "\"step\""),
        ("query_range", &[hits, from, to, ("step", "-1")], "\"step\""),
        (
            "query_range",
            &[hits, from, to, ("step", "soon")],
            "\"step\"",
        ),
        (
            "query_range",
            &[hits, to, ("step", "1")],
            "the parameter start is missing",
        ),
        (
            "query_range",
            &[hits, ("start", "2"), ("end", "1"), ("step", "1")],
            "before start time",
        ),
        (
            "query_range",
            &[("query", "a[5m]"), from, to, ("step", "60")],
            "range vector",
        ),
        (
            "query_range",
            &[("query", "'a'"), from, to, ("step", "60")],
            "string",
        ),
        ("series", &[], "no match[] parameter"),
        ("series", &[("match[]", "rate(a[5m])")], "is not a selector"),
        ("series", &[("match[]", "a{")], "query"),
        ("labels", &[("start", "yesterday")], "\"start\""),
        ("metadata", &[("limit", "many")], "\"limit\""),
    ] {
        fails(get(&server, call, parameters), 400, "bad_data", said);
    }
    for (query, said) in [
        (
            "histogram_stddev(a)",
            "the function histogram_stddev is not supported",
        ),
        ("limitk(1, a)", "the aggregation limitk is not supported"),
        (
            "{__name__=~\"logmill_traffic_(hits|bytes)_total\"} + 1",
            "same labelset",
        ),
        (
            "logmill_traffic_hits_total * on (method) logmill_traffic_hits_total",
            "many-to-many",
        ),
    ] {
        let at = END_S.to_string();
        fails(
            get(&server, "query", &[("query", query), ("time", &at)]),
            422,
            "execution",
            said,
        );
    }
    // Other layers answer in the same form.
    fails(
        get(&server, "query", &[hits, ("tim", "1")]),
        400,
        "bad_data",
        "did you mean time?",
    );
    fails(
        server.get("/prometheus/api/v1/alerts"),
        404,
        "not_found",
        "there is nothing at",
    );
    fails(
        server.delete("/prometheus/api/v1/query"),
        405,
        "bad_data",
        "does not accept DELETE",
    );
    let path = "/prometheus/api/v1/query";
    fails(
        server.post(path, &super::FORM, b"query=%zz"),
        400,
        "bad_data",
        "percent-encoded",
    );
    for (text, told) in [
        ("query=1&tmie=3", "did you mean time?"),
        ("query=1&query=2", "query is given twice"),
    ] {
        let posted = server.post(path, &super::FORM, text.as_bytes());
        fails(posted, 400, "bad_data", told);
        // A parameter of the address counts as one of the form.
        let posted = server.post(&format!("{path}?query=1"), &super::FORM, text.as_bytes());
        fails(posted, 400, "bad_data", "query is given twice");
    }
    fails(
        server.post(path, &super::FORM, b"query=\xff"),
        400,
        "bad_data",
        "UTF-8",
    );
    let long = "a".repeat((1 << 20) + 1);
    fails(
        server.post(path, &super::FORM, long.as_bytes()),
        400,
        "bad_data",
        "1 MiB",
    );
    let long = form(&[("query", &format!("{{a='{}'}}", "a".repeat(70_000)))]);
    fails(
        server.post(path, &super::FORM, long.as_bytes()),
        400,
        "bad_data",
        "65536",
    );
    let deep = form(&[(
        "query",
        &format!("{}1{}", "(".repeat(9_000), ")".repeat(9_000)),
    )]);
    fails(
        server.post(path, &super::FORM, deep.as_bytes()),
        400,
        "bad_data",
        "limit is 200",
    );
    data(get(&server, "query", &[("query", "1")]));
}

fn range<'a>(
    query: &'a str,
    start: &'a str,
    end: &'a str,
    step: &'a str,
) -> [(&'a str, &'a str); 4] {
    [
        ("query", query),
        ("start", start),
        ("end", end),
        ("step", step),
    ]
}

#[test]
fn steps_time_windows_and_samples_are_bounded() {
    let home = Home::new();
    let server = served(&home);
    let hits = "logmill_traffic_hits_total";
    let many = range(hits, "0", "11000", "1");
    fails(
        get(&server, "query_range", &many),
        400,
        "bad_data",
        "11000 points per timeseries",
    );
    let most = range("1", "0", "10999", "1");
    let answer = data(get(&server, "query_range", &most));
    assert_eq!(
        answer["result"][0]["values"].as_array().map(Vec::len),
        Some(11_000)
    );
    let slow = ("query", "count_over_time(vector(1)[10d:1s])");
    fails(
        post(&server, "query", &[slow, ("timeout", "10ms")]),
        503,
        "timeout",
        "timeout",
    );
    let slow = range("count_over_time(vector(1)[10d:1s])", "0", "10000", "1");
    fails(
        post(&server, "query_range", &slow),
        422,
        "execution",
        "20000000 samples",
    );
    let at = END_S.to_string();
    let short = format!("rate({hits}[30s])");
    fails(
        get(&server, "query", &[("query", &short), ("time", &at)]),
        422,
        "execution",
        "at least one minute",
    );
    let short = format!("irate({hits}[59s])");
    fails(
        get(&server, "query", &[("query", &short), ("time", &at)]),
        422,
        "execution",
        "at least one minute",
    );
    let long = format!("increase({hits}[20y])");
    fails(
        get(
            &server,
            "query",
            &[("query", &long), ("time", "1709254817")],
        ),
        422,
        "execution",
        "more than 4000000 cells",
    );
    // The same number of years, by whole ones.
    let years = format!("sum(increase({hits}[1d]))");
    let answer = data(get(
        &server,
        "query_range",
        &range(&years, "1577836800", "1767225600", "86400"),
    ));
    assert_eq!(
        answer["result"][0]["values"],
        serde_json::json!([[PAST_S + 86_400, "900"]])
    );
}

#[test]
fn a_limit_cuts_an_answer_and_says_so() {
    let home = Home::new();
    let server = served(&home);
    let (at, query) = (END_S.to_string(), ("query", "logmill_traffic_hits_total"));
    let cut = get(&server, "query", &[query, ("time", &at), ("limit", "2")])
        .status(200)
        .json();
    assert_eq!(cut["data"]["result"].as_array().map(Vec::len), Some(2));
    assert_eq!(cut["warnings"][0], "results truncated due to limit");
    let whole = get(&server, "query", &[query, ("time", &at), ("limit", "3")])
        .status(200)
        .json();
    assert_eq!(whole["data"]["result"].as_array().map(Vec::len), Some(3));
    assert!(whole.get("warnings").is_none(), "{whole}");
    let (from, to) = (PAST_S.to_string(), END_S.to_string());
    let parameters = [&range(query.1, &from, &to, "3600")[..], &[("limit", "1")]].concat();
    let cut = get(&server, "query_range", &parameters).status(200).json();
    assert_eq!(cut["data"]["result"].as_array().map(Vec::len), Some(1));
}

#[test]
fn too_many_series_are_refused_and_their_sum_is_not() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let lines: String = (0..21_000)
        .map(|n| crate::support::line("203.0.113.1", PAST_S + n / 100, &format!("/{n}"), 200, 1))
        .collect();
    server.ingest("access", lines);
    let at = (PAST_S + 600).to_string();
    let ask = |query: &str| get(&server, "query", &[("query", query), ("time", &at)]);
    fails(
        ask("rate(logmill_stats_hits_total[10m])"),
        422,
        "execution",
        "more than 20000 series",
    );
    let sum = data(ask("sum(increase(logmill_stats_hits_total[10m]))"));
    assert_eq!(sum["result"][0]["value"][1], "21000");
    fails(
        get(
            &server,
            "series",
            &[("match[]", "logmill_stats_hits_total")],
        ),
        422,
        "execution",
        "more than 20000 series",
    );
    let some = data(ask("logmill_stats_hits_total{path=~\"/2000.\"}"));
    assert_eq!(some["result"].as_array().map(Vec::len), Some(10));
}
