//! Bodies as large, as deep and as wide as the server takes: each is stored, as events or in
//! quarantine.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::bombs::{ALMOST, Bomb, ZEROS, gzip_of, gzip_zeros, throw};
use super::stage::Stage;

pub(crate) fn run(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let almost = stage.of(4 << 20, ALMOST);
        let event =
            |n: usize| format!("{{\"id\":{n},\"level\":\"info\",\"text\":\"one of many\"}}\n");
        let events: String = (0..almost / event(almost).len()).map(event).collect();
        let fields: String = (0..100_000).map(|i| format!(",\"f{i}\":{i}")).collect();
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let bodies: Vec<Bomb> = vec![
            ("", format!("{{\"id\":0{fields}}}\n").into_bytes()),
            ("", format!("{{\"a\":{deep}}}\n").into_bytes()),
            ("", "{\"a\":".repeat(100_000).into_bytes()),
            // A bomb in a bomb, of which the server opens the outer one: lines of no format.
            ("Content-Encoding: gzip\r\n", gzip_of(&gzip_zeros(ZEROS))),
            ("Content-Encoding: gzip\r\n", gzip_of(events.as_bytes())),
            ("", events.into_bytes()),
            ("", vec![b'a'; almost]),
        ];
        throw(&stage, bodies).await;
    })
}
