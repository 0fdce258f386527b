//! Ctrl-C of an interactive session: it ends the running statement, and not the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use query::QueryInfo;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::client::Client;
use crate::failure::Result;

/// Time after which a server is asked again for a statement that it did not know yet.
const AGAIN: Duration = Duration::from_millis(50);

/// State that the session shares with the task that waits for signals.
#[derive(Debug, Default)]
struct SharedState {
    /// A statement runs.
    runs: AtomicBool,
    /// Ctrl-C was pressed since the statement began.
    pressed: AtomicBool,
    wake: Notify,
    /// The tag of the statement at a server.
    tag: Mutex<Option<String>>,
}

impl SharedState {
    /// Returns whether the statement of a tag still runs.
    fn runs(&self, tag: &str) -> bool {
        self.runs.load(Ordering::SeqCst) && self.tag.lock().as_deref() == Some(tag)
    }
}

/// Waits for Ctrl-C as long as the program runs.
#[derive(Debug)]
pub(super) struct Interrupts(Arc<SharedState>);

impl Interrupts {
    /// Starts to wait. A statement at `server` is cancelled there by its tag.
    pub(super) fn watch(runtime: &Runtime, server: Option<Client>) -> Result<Self> {
        let shared = Arc::new(SharedState::default());
        let state = Arc::clone(&shared);
        // From here on no signal ends the program, and none is missed between two waits.
        let mut signals = {
            let _guard = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        runtime.spawn(async move {
            while signals.recv().await.is_some() {
                if !state.runs.load(Ordering::SeqCst) {
                    continue;
                }
                state.pressed.store(true, Ordering::SeqCst);
                state.wake.notify_waiters();
                let tag = state.tag.lock().clone();
                if let (Some(client), Some(tag)) = (server.clone(), tag) {
                    let state = Arc::clone(&state);
                    let work = move || cancel(&client, &tag, &state);
                    let _panicked = tokio::task::spawn_blocking(work).await;
                }
            }
        });
        Ok(Self(shared))
    }

    /// Begins a statement.
    pub(super) fn begin(&self) {
        *self.0.tag.lock() = None;
        self.0.pressed.store(false, Ordering::SeqCst);
        self.0.runs.store(true, Ordering::SeqCst);
    }

    /// Notes the tag of the statement.
    pub(super) fn tagged(&self, tag: &str) {
        *self.0.tag.lock() = Some(tag.to_owned());
    }

    /// Ends the statement. Returns whether Ctrl-C was pressed meanwhile.
    pub(super) fn end(&self) -> bool {
        self.0.runs.store(false, Ordering::SeqCst);
        self.0.pressed.load(Ordering::SeqCst)
    }

    /// Waits until Ctrl-C is pressed.
    pub(super) async fn heard(&self) {
        let woken = self.0.wake.notified();
        tokio::pin!(woken);
        // From here on the wait notices what happens before it is polled.
        woken.as_mut().enable();
        if !self.0.pressed.load(Ordering::SeqCst) {
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
