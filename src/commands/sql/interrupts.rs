//! Ctrl-C of an interactive session: it ends the running statement, and not the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use query::QueryInfo;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::client::Client;

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

/// Waits for Ctrl-C as long as the program runs.
#[derive(Debug)]
pub(super) struct Interrupts(Arc<SharedState>);

impl Interrupts {
    /// Starts to wait. A statement at `server` is cancelled there by its tag.
    pub(super) fn watch(runtime: &Runtime, server: Option<Client>) -> Self {
        let shared = Arc::new(SharedState::default());
        let state = Arc::clone(&shared);
        runtime.spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if !state.runs.load(Ordering::SeqCst) {
                    continue;
                }
                state.pressed.store(true, Ordering::SeqCst);
                state.wake.notify_waiters();
                let tag = state.tag.lock().clone();
                if let (Some(client), Some(tag)) = (server.clone(), tag) {
                    // A failed request cancels nothing; the user can press the keys again.
                    let _ = tokio::task::spawn_blocking(move || cancel(&client, &tag)).await;
                }
            }
        });
        Self(shared)
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

/// Cancels the query of a tag.
fn cancel(client: &Client, tag: &str) -> Option<()> {
    let queries = client.get_json("/api/v1/queries", &[]).ok()?;
    let queries: Vec<QueryInfo> = serde_json::from_value(queries).ok()?;
    let ours = queries.iter().filter(|q| q.tag.as_deref() == Some(tag));
    for query in ours {
        client
            .delete(&format!("/api/v1/queries/{}", query.id))
            .ok()?;
    }
    Some(())
}
