//! Ctrl-C of an interactive session: it ends the running statement, and not the program.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use query::QueryInfo;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::asker::INTERRUPTED;
use crate::client::Client;
use crate::failure::Result;

/// Time after which a server is asked again for a statement that it did not know yet.
const AGAIN: Duration = Duration::from_millis(50);

/// Time after which a second Ctrl-C ends the program, since the server does not answer the first.
const PATIENCE: Duration = Duration::from_secs(1);

/// The work of the session.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The user types or reads.
    Idle,
    /// The session asks for itself: for names, or whether there is a server.
    OwnQuestion,
    /// A statement of the user runs; the moment at which Ctrl-C was pressed.
    Statement(Option<Instant>),
}

/// State that the session shares with the task that waits for signals.
#[derive(Debug)]
struct SharedState {
    phase: Mutex<Phase>,
    wake: Notify,
    /// The tag of the statement at a server.
    tag: Mutex<Option<String>>,
}

impl SharedState {
    /// Returns whether the statement of a tag still runs.
    fn runs(&self, tag: &str) -> bool {
        matches!(*self.phase.lock(), Phase::Statement(_)) && self.tag.lock().as_deref() == Some(tag)
    }

    /// Notes that Ctrl-C was pressed. Returns whether a statement is to end.
    fn press(&self, has_server: bool) -> bool {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::OwnQuestion if has_server => std::process::exit(INTERRUPTED.into()),
            Phase::Idle | Phase::OwnQuestion => false,
            Phase::Statement(None) => {
                *phase = Phase::Statement(Some(Instant::now()));
                true
            }
            Phase::Statement(Some(first)) if has_server && first.elapsed() > PATIENCE => {
                std::process::exit(INTERRUPTED.into())
            }
            Phase::Statement(Some(_)) => false,
        }
    }

    fn is_pressed(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Statement(Some(_)))
    }
}

/// Waits for Ctrl-C as long as the program runs.
#[derive(Debug)]
pub(super) struct Interrupts(Arc<SharedState>);

impl Interrupts {
    /// Starts to wait. A statement at `server` is cancelled there by its tag.
    pub(super) fn watch(runtime: &Runtime, server: Option<Client>) -> Result<Self> {
        let shared = Arc::new(SharedState {
            phase: Mutex::new(Phase::Idle),
            wake: Notify::new(),
            tag: Mutex::default(),
        });
        let state = Arc::clone(&shared);
        // From here on no signal ends the program, and none is missed between two waits.
        let mut signals = {
            let _guard = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        runtime.spawn(async move {
            while signals.recv().await.is_some() {
                if !state.press(server.is_some()) {
                    continue;
                }
                state.wake.notify_waiters();
                let tag = state.tag.lock().clone();
                if let (Some(client), Some(tag)) = (server.clone(), tag) {
                    let state = Arc::clone(&state);
                    tokio::task::spawn_blocking(move || cancel(&client, &tag, &state));
                }
            }
        });
        Ok(Self(shared))
    }

    /// Begins a statement.
    pub(super) fn begin(&self) {
        *self.0.tag.lock() = None;
        *self.0.phase.lock() = Phase::Statement(None);
    }

    /// Notes the tag of the statement.
    pub(super) fn tagged(&self, tag: &str) {
        *self.0.tag.lock() = Some(tag.to_owned());
    }

    /// Ends the statement. Returns whether Ctrl-C was pressed meanwhile.
    pub(super) fn end(&self) -> bool {
        let ended = std::mem::replace(&mut *self.0.phase.lock(), Phase::Idle);
        matches!(ended, Phase::Statement(Some(_)))
    }

    /// Asks a question of the session itself. If a server is asked, Ctrl-C ends the program:
    /// without the answer the session cannot go on.
    pub(super) fn own_question<T>(&self, ask: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(&mut *self.0.phase.lock(), Phase::OwnQuestion);
        let answer = ask();
        *self.0.phase.lock() = before;
        answer
    }

    /// Waits until Ctrl-C is pressed.
    pub(super) async fn heard(&self) {
        let woken = self.0.wake.notified();
        tokio::pin!(woken);
        // From here on the wait notices what happens before it is polled.
        woken.as_mut().enable();
        if !self.0.is_pressed() {
            woken.await;
        }
    }
}

/// Cancels the query of a tag. The request for the query may still be on its way to the server, so
/// the server is asked for it until it knows it or the statement has ended.
fn cancel(client: &Client, tag: &str, state: &SharedState) {
    while state.runs(tag) {
        // A server that does not answer fails the statement too.
        match find(client, tag) {
            Some(id) => {
                let _ended_meanwhile = client.delete(&format!("/api/v1/queries/{id}"));
                return;
            }
            None => std::thread::sleep(AGAIN),
        }
    }
}

/// Returns the number of the query of a tag; `None` if the server runs none.
fn find(client: &Client, tag: &str) -> Option<u64> {
    let queries = client.get_json("/api/v1/queries", &[]).ok()?;
    let queries: Vec<QueryInfo> = serde_json::from_value(queries).ok()?;
    let ours = queries.iter().find(|q| q.tag.as_deref() == Some(tag));
    ours.map(|query| query.id)
}
