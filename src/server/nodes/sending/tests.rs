use axum::body::to_bytes;
use serde_json::json;
use storage::{Column, ColumnType, StreamKind};

use super::*;
use crate::server::routes::{Found, find};

const BYTES_MAX: usize = 1 << 20;

/// Returns the tables of a shard: its streams with the names of their columns.
fn tables(streams: &[(&str, &[&str])]) -> Arc<PeerTables> {
    let column = |name: &&str| Column {
        name: (*name).into(),
        column_type: ColumnType::Text,
        wide: false,
        first_us: None,
    };
    let streams = streams.iter().map(|(name, columns)| {
        let columns = StreamColumns {
            kind: StreamKind::Documents,
            columns: columns.iter().map(column).collect(),
        };
        (Name::new(name).expect("a name"), columns)
    });
    Arc::new(PeerTables {
        streams: streams.collect(),
        rollups: Vec::new(),
    })
}

fn request(method: &str, target: &str) -> (&'static Route, Uri) {
    let uri: Uri = target.parse().expect("a target");
    let method = method.parse().expect("a method");
    let Found::Route(route) = find(&method, uri.path()) else {
        panic!("{method} {target} has no route");
    };
    (route, uri)
}

#[test]
fn a_request_goes_to_the_shards_that_have_what_it_names() {
    let all = vec![
        (0, tables(&[("notes", &["host"]), ("web", &[])])),
        (1, tables(&[("notes", &["host", "user"])])),
        (2, tables(&[])),
    ];
    for (method, target, expected) in [
        ("POST", "/api/v1/streams/notes/erase", &[0, 1][..]),
        ("POST", "/api/v1/streams/web/erase", &[0]),
        ("POST", "/api/v1/streams/nothing/erase", &[0, 1, 2]),
        ("POST", "/api/v1/streams/No%20Name/erase", &[0, 1, 2]),
        (
            "DELETE",
            "/api/v1/partitions?date=2024-01-01&stream=web",
            &[0],
        ),
        ("POST", "/api/v1/partitions/compact", &[0, 1, 2]),
        ("POST", "/api/v1/indexes/notes/user", &[1]),
        ("POST", "/api/v1/indexes/notes/us%65r?covering=true", &[1]),
        ("POST", "/api/v1/indexes/notes/nothing", &[0, 1]),
        ("POST", "/api/v1/quarantine/replay?stream=web", &[0, 1, 2]),
        ("POST", "/api/v1/rollups/web/verify", &[0, 1, 2]),
    ] {
        let (route, uri) = request(method, target);
        let shards = Subject::of(route, &uri).shards(&all);
        assert_eq!(shards, expected, "{method} {target}");
    }
}

#[test]
fn an_erasure_is_sent_with_the_columns_of_all_shards() {
    let all = vec![
        (0, tables(&[("notes", &["host"])])),
        (1, tables(&[("notes", &["user"])])),
    ];
    let target = "/api/v1/streams/notes/erase";
    let (route, uri) = request("POST", target);
    let subject = Subject::of(route, &uri);
    let (head, ()) = Request::post(target)
        .body(())
        .expect("a request")
        .into_parts();
    let body = Bytes::from(r#"{"where": "user = 'a'"}"#);
    let sent = request_to_shards(route, &head, body, &subject, &all).expect("one kind");
    let sent: EraseRequest = serde_json::from_slice(&sent.body).expect("JSON");
    let columns = sent.columns.expect("columns").columns;
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["host", "user"]);

    // A shard tells what is wrong with it.
    let wrong = Bytes::from("no JSON");
    let sent = request_to_shards(route, &head, wrong.clone(), &subject, &all);
    assert_eq!(sent.expect("no columns are needed").body, wrong);
}

async fn told(replies: Replies) -> (u16, Value) {
    let (route, _) = request("POST", "/api/v1/rollups/run");
    let answer = one_answer(route, replies);
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), BYTES_MAX)
        .await
        .expect("a body");
    (status, serde_json::from_slice(&body).expect("JSON"))
}

fn reply(status: u16, body: &Value) -> Result<ShardReply, String> {
    Ok(ShardReply {
        status: StatusCode::from_u16(status).expect("a status"),
        body: body.to_string().into(),
    })
}

#[tokio::test]
async fn an_answer_tells_success_only_if_all_have_told_it() {
    let done = |events: u64| reply(200, &json!({ "last_run": 7, "events": events }));
    let refused = |why: &str| {
        reply(
            400,
            &json!({ "error": { "code": "invalid", "message": why } }),
        )
    };
    let gone = || Err("connection refused".to_owned());

    let (status, report) = told(vec![(0, done(3)), (1, done(4))]).await;
    assert_eq!((status, report), (200, json!({ "events": 7 })));

    for (replies, expected_status, expected) in [
        (
            vec![(0, refused("no such thing")), (1, refused("no such thing"))],
            400,
            "no such thing",
        ),
        (
            vec![(0, refused("this")), (1, refused("that"))],
            400,
            "shard 0: this; shard 1: that",
        ),
        (
            vec![(0, done(3)), (1, refused("this"))],
            400,
            "shard 1: this; shard 0: done",
        ),
        (
            vec![(0, gone()), (1, done(3)), (2, refused("this"))],
            503,
            "shard 0: connection refused; shard 2: this; shard 1: done",
        ),
        (
            vec![(0, reply(502, &json!("a proxy")))],
            503,
            "it answered 502 Bad Gateway",
        ),
    ] {
        let (status, body) = told(replies).await;
        assert_eq!(status, expected_status, "{body}");
        assert_eq!(body["error"]["message"], expected);
    }
}
