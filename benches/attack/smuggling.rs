//! Requests of which two readers could disagree where they end.
//!
//! Each faulty request is followed by another one that stores an event. The server must refuse the
//! first with one answer of 4xx (or 501, 505), or close the connection, and must not read what
//! follows; [`Must`] has the exceptions. Those that count as answered twice would store an event in
//! [`STREAM`], and the end of the bench looks there.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::door::attacker;
use super::http::{self, Answers};
use super::stage::Stage;
use corpus::{Case, Must, corpus};

mod corpus;

/// The stream to which no event may come.
pub(crate) const STREAM: &str = "smuggled";
/// Requests under way at once.
const AT_ONCE: usize = 8;
/// A server that has said nothing for this time waits for more of the request.
const SILENCE: Duration = Duration::from_secs(3);

pub(crate) fn run(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let cases = Arc::new(corpus(&stage.door.host(), &stage.tokens.stolen_shipper));
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
                            try_case(&stage, which, case).await;
                        }
                    }
                }
            })
            .await;
    })
}

async fn try_case(stage: &Stage, which: usize, case: &Case) {
    let Ok(connection) = stage.door.connect(attacker(which as u8)).await else {
        return stage.note("closed");
    };
    let (statuses, is_closed) = answers(connection, &case.bytes).await;
    let told = match (&*statuses, is_closed) {
        ([], true) => "closed".to_owned(),
        ([], false) => "waits".to_owned(),
        (some, _) => {
            let all: Vec<_> = some.iter().map(u16::to_string).collect();
            all.join(" and ")
        }
    };
    let is_refusal = |status: &u16| (400..500).contains(status) || matches!(status, 501 | 505);
    let is_refused = match &*statuses {
        [] => is_closed,
        // The server had no room, and has not looked at the request.
        [503] => true,
        [status] => is_refusal(status),
        _ => false,
    };
    let holds = match case.must {
        Must::Refuse => is_refused,
        Must::CloseBehind => is_refused || statuses.len() == 1 && is_closed,
        Must::Agree => is_refused || *statuses == [200, 200],
        Must::AnswerOnce => statuses.len() <= 1,
    };
    if holds {
        stage.note(told);
    } else {
        stage.breaks(format!("{}: {told}", case.name));
    }
}

/// Sends bytes and reads all answers. Returns their statuses, and whether the server closed the
/// connection.
async fn answers(connection: super::door::Connection, bytes: &[u8]) -> (Vec<u16>, bool) {
    use tokio::io::AsyncWriteExt;
    let (mut from, mut into) = tokio::io::split(connection);
    let send = async {
        // A server that has refused the beginning reads no more.
        let _ignored = into.write_all(bytes).await;
        let _ignored = into.flush().await;
    };
    let read = async {
        let mut statuses = Vec::new();
        let mut answers = Answers::new();
        loop {
            match tokio::time::timeout(SILENCE, answers.next(&mut from)).await {
                Ok(Ok(Some(answer))) => statuses.push(answer.status),
                Ok(_) => return (statuses, true),
                Err(_) => return (statuses, false),
            }
        }
    };
    let mut read = std::pin::pin!(read);
    tokio::select! {
        read = read.as_mut() => read,
        () = send => read.await,
    }
}

/// Returns a whole request that stores an event.
fn storing(host: &str, token: &str) -> Vec<u8> {
    let line = format!("POST /api/v1/ingest/{STREAM}");
    http::request(&line, host, &http::bearer(token), corpus::EVENT.as_bytes())
}
