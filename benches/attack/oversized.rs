//! Requests that have too much of something: each is refused.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;

use super::door::attacker;
use super::house::ADMIN;
use super::http;
use super::stage::{AGAIN, Stage};

const MIB: usize = 1 << 20;
/// Requests under way at once.
const AT_ONCE: usize = 4;

struct Case {
    name: &'static str,
    bytes: Vec<u8>,
}

pub(crate) fn run(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut cases = heads(&stage);
        cases.extend(bodies(&stage));
        let cases = Arc::new(cases);
        stage
            .all(AT_ONCE, |stage, which| {
                let cases = Arc::clone(&cases);
                async move {
                    // Every case at least once, however long that takes.
                    for round in 0.. {
                        for case in cases.iter().skip(which).step_by(AT_ONCE) {
                            if round > 0 && stage.is_over() {
                                return;
                            }
                            try_case(&stage, case).await;
                        }
                    }
                }
            })
            .await;
    })
}

async fn try_case(stage: &Stage, case: &Case) {
    let Ok(connection) = stage.door.connect(attacker(0)).await else {
        stage.note("closed");
        return tokio::time::sleep(AGAIN).await;
    };
    match http::exchange(connection, &case.bytes).await {
        Ok((Some(answer), _)) => {
            if answer.status < 400 {
                stage.breaks(format!("{}: {}", case.name, answer.status));
            }
            stage.note(answer.status.to_string());
        }
        _ => stage.note("closed"),
    }
}

fn refused(name: &'static str, bytes: Vec<u8>) -> Case {
    Case { name, bytes }
}

/// Returns requests with too much before the body.
fn heads(stage: &Stage) -> Vec<Case> {
    let host = stage.door.host();
    let get =
        |target: &str, headers: &str| http::request(&format!("GET {target}"), &host, headers, b"");
    let path = "/api/v1/streams";
    let long = "a".repeat(MIB);
    let reader = http::bearer(&stage.tokens.stolen_reader);
    let headers: String = (0..10_000).map(|i| format!("X-{i}: a\r\n")).collect();
    let parameters = |number: usize| format!("{path}?{}", "a&".repeat(number));
    let password = BASE64_STANDARD.encode(format!("{ADMIN}:{long}"));
    vec![
        refused(
            "a request line of 70 KiB",
            get(&format!("/{}", &long[..70 << 10]), ""),
        ),
        refused("a request line of 1 MiB", get(&format!("/{long}"), "")),
        refused("10,000 headers", get(path, &(headers + &reader))),
        refused("65 headers", get(path, &("X: a\r\n".repeat(65) + &reader))),
        refused(
            "a header of 1 MiB",
            get(path, &format!("{reader}X: {long}\r\n")),
        ),
        refused("a token of 1 MiB", get(path, &http::bearer(&long))),
        refused(
            "a token of 300 KiB",
            get(path, &http::bearer(&long[..300 << 10])),
        ),
        refused(
            "a key of 1 MiB",
            get(path, &format!("X-API-Key: {long}\r\n")),
        ),
        refused(
            "a cookie of 1 MiB",
            get(path, &format!("Cookie: logmill_session={long}\r\n")),
        ),
        refused(
            "100,000 cookies",
            get(
                path,
                &format!("Cookie: {}\r\n", "logmill_session=a; ".repeat(15_000)),
            ),
        ),
        refused(
            "a password of 1 MiB",
            get(path, &format!("Authorization: Basic {password}\r\n")),
        ),
        refused("100,000 parameters", get(&parameters(100_000), &reader)),
        refused("30,000 parameters", get(&parameters(30_000), &reader)),
        refused(
            "a parameter of 60 KiB",
            http::request(
                &format!("POST /api/v1/ingest/large?site={}", &long[..60 << 10]),
                &host,
                &http::bearer(&stage.tokens.stolen_shipper),
                b"",
            ),
        ),
        refused(
            "an Idempotency-Key of 200 KiB",
            http::request(
                "POST /api/v1/ingest/large",
                &host,
                &format!(
                    "{}Idempotency-Key: {}\r\n",
                    http::bearer(&stage.tokens.stolen_shipper),
                    &long[..200 << 10]
                ),
                b"{}",
            ),
        ),
    ]
}

/// Returns requests with too much in the body.
fn bodies(stage: &Stage) -> Vec<Case> {
    let host = stage.door.host();
    let shipper = http::bearer(&stage.tokens.stolen_shipper);
    let reader = http::bearer(&stage.tokens.stolen_reader);
    let ingest = |format: &str, body: &[u8]| {
        let line = format!("POST /api/v1/ingest/large?format={format}");
        http::request(&line, &host, &shipper, body)
    };
    let sql = |body: &str| http::request("POST /api/v1/sql", &host, &reader, body.as_bytes());
    let login = |body: &str| http::request("POST /api/v1/login", &host, "", body.as_bytes());
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let long = "a".repeat(MIB);
    vec![
        refused("a line of 64 MiB", ingest("plain", &vec![b'a'; 64 * MIB])),
        refused("64 MiB in one chunk", {
            let mut bytes = format!(
                "POST /api/v1/ingest/large HTTP/1.1\r\nHost: {host}\r\n{shipper}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n",
                64 * MIB
            )
            .into_bytes();
            bytes.resize(bytes.len() + 64 * MIB, b'a');
            bytes.extend_from_slice(b"\r\n0\r\n\r\n");
            bytes
        }),
        refused(
            "a statement of 10 MB",
            sql(&format!("SELECT '{}'", "x".repeat(10_000_000))),
        ),
        refused(
            "deep arrays as parameters",
            sql(&format!("{{\"sql\":\"SELECT 1\",\"params\":{deep}}}")),
        ),
        refused(
            "a deep statement",
            sql(&format!(
                "SELECT {}1{}",
                "(".repeat(100_000),
                ")".repeat(100_000)
            )),
        ),
        refused(
            "a login of 1 MiB",
            login(&format!("{{\"user\":\"{ADMIN}\",\"password\":\"{long}\"}}")),
        ),
        refused(
            "a user of 15 KiB",
            login(&format!(
                "{{\"user\":\"{}\",\"password\":\"a\"}}",
                &long[..15 << 10]
            )),
        ),
        refused("a deep login", login(&deep)),
    ]
}
