use axum::body::to_bytes;
use axum::http::Uri;
use query::StreamColumns;
use storage::{Column, ColumnType, StreamKind};

use super::*;
use crate::server::routes::{Found, find};

const BYTES_MAX: usize = 1 << 20;

fn route(method: &str, target: &str) -> &'static Route {
    let uri: Uri = target.parse().expect("a target");
    let method = method.parse().expect("a method");
    let Found::Route(route) = find(&method, uri.path()) else {
        panic!("{method} {target} has no route");
    };
    route
}

#[test]
fn an_erasure_is_sent_with_the_columns_of_all_shards() {
    let column = Column {
        name: "user".into(),
        column_type: ColumnType::Text,
        wide: false,
        first_us: None,
    };
    let columns = StreamColumns {
        kind: StreamKind::Documents,
        columns: vec![column],
    };
    let body = Bytes::from(r#"{"where": "user = 'a'", "columns": null}"#);
    let sent = with_columns(body, Some(columns.clone()));
    let sent: EraseRequest = serde_json::from_slice(&sent).expect("a request");
    assert_eq!(sent.columns, Some(columns));
    assert_eq!(sent.condition, "user = 'a'");

    // The shards tell what is wrong with it.
    let wrong = Bytes::from("no JSON");
    assert_eq!(with_columns(wrong.clone(), None), wrong);
}

async fn told(route: &Route, replies: Replies, others: &[String]) -> (u16, Value) {
    let answer = one_answer(route, replies, others);
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), BYTES_MAX).await;
    let body = serde_json::from_slice(&body.expect("a body"));
    (status, body.expect("JSON"))
}

fn reply(status: u16, body: &Value) -> Result<ShardReply, String> {
    Ok(ShardReply {
        status: StatusCode::from_u16(status).expect("a status"),
        is_missing: false,
        body: body.to_string().into(),
    })
}

fn done(events: u64) -> Result<ShardReply, String> {
    reply(200, &json!({ "last_run": 7, "events": events }))
}

fn failed(status: u16, code: &str, why: &str) -> Result<ShardReply, String> {
    reply(
        status,
        &json!({ "error": { "code": code, "message": why } }),
    )
}

fn refused(why: &str) -> Result<ShardReply, String> {
    failed(400, "invalid", why)
}

fn missing(why: &str) -> Result<ShardReply, String> {
    let reply = refused(why);
    reply.map(|reply| ShardReply {
        is_missing: true,
        ..reply
    })
}

fn numbered(replies: Vec<Result<ShardReply, String>>) -> Replies {
    (0..).zip(replies).collect()
}

#[tokio::test]
async fn the_report_is_that_of_all_shards() {
    let run = route("POST", "/api/v1/rollups/run");
    let (status, report) = told(run, numbered(vec![done(3), done(4)]), &[]).await;
    assert_eq!((status, report), (200, json!({ "events": 7 })));

    let erase = route("POST", "/api/v1/streams/web/erase");
    let others = ["http://old:7070".to_owned()];
    let (_, report) = told(erase, numbered(vec![done(3), done(0)]), &others).await;
    assert_eq!(report["not_asked"], json!(others));

    // The second has no such index, or has dropped it before.
    let index = route("DELETE", "/api/v1/indexes/web/path");
    let dropped = || reply(200, &json!({ "dropped": true }));
    let replies = numbered(vec![dropped(), missing("there is no index")]);
    let (status, report) = told(index, replies, &[]).await;
    assert_eq!((status, report), (200, json!({ "dropped": true })));
    let replies = numbered(vec![
        missing("there is no index"),
        missing("there is no index"),
    ]);
    let (status, report) = told(index, replies, &[]).await;
    assert_eq!(
        (status, &report["error"]["message"]),
        (400, &json!("there is no index"))
    );
}

#[tokio::test]
async fn success_is_told_only_if_no_shard_has_failed() {
    let gone = || Err("connection refused".to_owned());
    let run = route("POST", "/api/v1/rollups/run");
    for (replies, expected_status, expected) in [
        (
            vec![refused("no such thing"), refused("no such thing")],
            400,
            "no such thing",
        ),
        (
            vec![refused("this"), refused("that")],
            400,
            "shard 0: this; shard 1: that",
        ),
        (
            // It is configured there, and so it is not dropped.
            vec![done(3), refused("it is still configured")],
            400,
            "shard 1: it is still configured; shard 0: done",
        ),
        (
            vec![gone(), done(3), gone()],
            503,
            "shard 0: connection refused; shard 2: connection refused; shard 1: done",
        ),
        (
            vec![done(3), failed(422, "not_done", "stopped")],
            503,
            "shard 1: stopped; shard 0: done",
        ),
        (
            vec![failed(429, "too_many_requests", "later"), done(3)],
            503,
            "shard 0: later; shard 1: done",
        ),
        (
            vec![failed(500, "internal", "damage"), gone(), done(3)],
            500,
            "shard 0: damage; shard 1: connection refused; shard 2: done",
        ),
        (
            vec![reply(502, &json!("a proxy"))],
            503,
            "shard 0: it answered 502 Bad Gateway",
        ),
    ] {
        let (status, body) = told(run, numbered(replies), &[]).await;
        assert_eq!(status, expected_status, "{body}");
        assert_eq!(body["error"]["message"], expected);
    }

    // A shard without the stream of an erasure does not refuse it.
    let erase = route("POST", "/api/v1/streams/web/erase");
    let wrong = failed(422, "not_done", "a value is no number");
    let replies = numbered(vec![done(3), wrong]);
    let (status, body) = told(erase, replies, &[]).await;
    let expected = "shard 1: a value is no number; shard 0: done";
    assert_eq!((status, &body["error"]["message"]), (400, &json!(expected)));
}
