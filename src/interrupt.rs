//! Ctrl-C and SIGTERM: the first ends an import behind what it has handed over, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::failure::{FAILED, Failure, Result};

/// The exit code after a second signal: that of a shell whose command Ctrl-C has ended.
const AT_ONCE: i32 = 130;

/// Interval at which a waiting import looks for a signal to end.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// True when the import is to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Listens for signals from now on.
    pub(crate) fn listen() -> Result<Self> {
        let interrupt = Self::default();
        let heard = Arc::clone(&interrupt.0);
        ctrlc::set_handler(move || {
            if heard.fetch_add(1, Ordering::SeqCst) > 0 {
                std::process::exit(AT_ONCE);
            }
        })
        .map_err(|e| Failure::new(FAILED, format!("cannot listen for signals: {e}")))?;
        Ok(interrupt)
    }

    /// Does work that may wait for standard input for ever on a thread of its own.
    ///
    /// # Errors
    /// Errors of the work, and one when the import is to end; the thread ends with the process
    /// then.
    pub(crate) fn unless<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (send, done) = channel();
        std::thread::Builder::new()
            .name("logmill-read".into())
            .spawn(move || {
                // The result is not received once the import is to end.
                let _ignored = send.send(work());
            })?;
        loop {
            match done.recv_timeout(LOOK_EVERY) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) if !self.is_set() => {}
                Err(_) => return Err(Failure::new(FAILED, "reading was interrupted")),
            }
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}
