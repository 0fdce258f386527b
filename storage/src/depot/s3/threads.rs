//! The threads of a depot, on which its requests run.

use std::future::Future;
use std::io;

use crossbeam_channel::Receiver;
use tokio::runtime::Runtime;

use super::THREADS;

/// The threads on which requests run.
pub(super) struct DepotThreads {
    /// None while it is dropped.
    runtime: Option<Runtime>,
}

impl DepotThreads {
    pub(super) fn start() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("depot")
            .enable_all()
            .build()
            .map_err(|e| format!("could not start the threads of the object store: {e}"))?;
        Ok(Self {
            runtime: Some(runtime),
        })
    }

    pub(super) fn handle(&self) -> &tokio::runtime::Handle {
        let runtime = self.runtime.as_ref();
        runtime.expect("BUG: it runs until it is dropped").handle()
    }

    /// Starts a request, and returns the channel of its answer.
    pub(super) fn start_one<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Receiver<T> {
        let (answer, receiver) = crossbeam_channel::bounded(1);
        self.handle().spawn(async move {
            // Nobody may wait any more.
            let _ignored = answer.send(request.await);
        });
        receiver
    }

    /// Waits for the answer of a request.
    ///
    /// # Errors
    /// An error if the request panicked.
    pub(super) fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        answer(&self.start_one(request))
    }
}

impl Drop for DepotThreads {
    fn drop(&mut self) {
        // An ordinary drop waits for the threads, which panics inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(super) fn answer<T>(receiver: &Receiver<T>) -> io::Result<T> {
    let lost = |_| io::Error::other("a request to the object store ended without an answer");
    receiver.recv().map_err(lost)
}
