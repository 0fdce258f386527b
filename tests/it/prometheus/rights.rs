//! A client sees the rollups of its streams and no others.

use serde_json::{Value, json};

use super::{END_S, Server, fails, form, path, served};
use crate::support::{Home, PAST_S, line, run_with_input};

/// Sends a call with a token. Returns the status and the answer.
fn as_token(server: &Server, token: &str, call: &str, parameters: &[(&str, &str)]) -> (u16, Value) {
    let (status, body) = server.raw(&format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n",
        path(call, parameters),
        server.address
    ));
    (status, serde_json::from_str(&body).expect("JSON"))
}

#[test]
fn a_token_of_one_stream_reads_the_rollups_of_that_stream_alone() {
    let home = Home::new();
    let server = served(&home);
    server.ingest("web", line("203.0.113.9", PAST_S, "/secret", 418, 1));
    let token = |args: &[&str]| {
        let all = [
            &["token", "create"],
            args,
            &["--output", "json", "--data", &home.data],
        ]
        .concat();
        let created = run_with_input(&all, b"").code(0).json();
        created["token"].as_str().expect("a token").to_owned()
    };
    let web = token(&["web", "--role", "read", "--stream", "web"]);
    let all = token(&["all", "--role", "read"]);
    let sender = token(&["sender", "--role", "ingest"]);
    let at = END_S.to_string();
    let sum = |token: &str, metric: &str| {
        let query = format!("sum({metric})");
        let parameters = [("query", query.as_str()), ("time", at.as_str())];
        let (status, answer) = as_token(&server, token, "query", &parameters);
        assert_eq!(status, 200, "{answer}");
        answer["data"]["result"][0]["value"][1].clone()
    };
    assert_eq!(sum(&web, "logmill_web_traffic_hits_total"), "1");
    assert_eq!(sum(&web, "logmill_traffic_hits_total"), Value::Null);
    assert_eq!(sum(&web, "{__name__=~\".+_hits_total\",status!=\"\"}"), "1");
    assert_eq!(sum(&all, "logmill_web_traffic_hits_total"), "1");
    assert_eq!(sum(&all, "logmill_traffic_hits_total"), "900");
    let of = |token: &str, call: &str, parameters: &[(&str, &str)]| {
        let (status, answer) = as_token(&server, token, call, parameters);
        assert_eq!(status, 200, "{answer}");
        answer["data"].clone()
    };
    let everything = [("match[]", "{__name__=~\".+\"}")];
    assert_eq!(of(&web, "label/status/values", &[]), json!(["418"]));
    assert_eq!(
        of(&web, "label/path/values", &everything),
        json!(["/secret"])
    );
    assert_eq!(
        of(&all, "label/status/values", &[]),
        json!(["200", "404", "418", "500"])
    );
    for (call, parameters) in [
        ("label/__name__/values", &[][..]),
        ("series", &everything),
        ("metadata", &[]),
        ("labels", &[]),
    ] {
        let told = of(&web, call, parameters).to_string();
        let is_own = told.contains("logmill_web_") || call == "labels";
        assert!(
            is_own && !told.contains("logmill_traffic") && !told.contains("logmill_stats"),
            "{told}"
        );
    }
    for token in [&sender, "lm_wrong"] {
        for call in [
            "query",
            "series",
            "labels",
            "metadata",
            "rules",
            "status/buildinfo",
        ] {
            let (status, answer) = as_token(&server, token, call, &[]);
            assert!(status == 401 || status == 403, "{call}: {status}");
            assert_eq!(
                (&answer["status"], &answer["errorType"]),
                (&json!("error"), &json!("bad_data"))
            );
        }
    }
    let query = form(&[("query", "1+1")]);
    fails(
        server.get(&format!("/prometheus/api/v1/query?{query}")),
        401,
        "bad_data",
        "",
    );
}
