//! Threads of lower priority for work that must not hold up other clients.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_channel::{Receiver, Sender};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs, which end when this is dropped.
#[derive(Debug)]
pub(super) struct Workers(Sender<Job>);

impl Workers {
    /// Starts `count` threads, whose priority is lower by `nice`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(super) fn start(name: &str, count: usize, nice: i32) -> std::io::Result<Self> {
        let (jobs, inbox): (Sender<Job>, Receiver<Job>) = crossbeam_channel::unbounded();
        for _ in 0..count {
            let inbox = inbox.clone();
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    storage::step_back(nice);
                    for job in &inbox {
                        // The waiting request notices that its job has gone. A panic must not
                        // affect the next request.
                        let _ignored = catch_unwind(AssertUnwindSafe(job));
                    }
                })?;
        }
        Ok(Self(jobs))
    }

    /// Runs `job` on the next free thread.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        // The threads live as long as the sender does.
        let _ignored = self.0.send(Box::new(job));
    }
}
