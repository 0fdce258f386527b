//! Creation of streams where that takes requests to an object store.
//!
//! The log thread creates a stream when a batch needs it. With an object store that takes a while,
//! or for ever, and all clients would wait. So the stream is created before the batch is queued, by
//! a thread of its own, and the client waits a little for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use crate::error::{Error, Result};
use crate::model::{Name, QUARANTINE, StreamKind};
use crate::record::Record;
use crate::shard_key::Division;

/// Longest time that a client waits; it may send its batch again.
const WAIT: Duration = Duration::from_secs(2);
/// Time after a failure in which no other creation is tried, microseconds.
const AGAIN_US: i64 = 10_000_000;

/// The kind of a stream that appears, and the rule by which its events will come.
pub(super) type NewStream = (StreamKind, Option<Division>);

/// The creations under way, and the last one that the object store did not take.
#[derive(Debug, Default)]
pub(super) struct Creations {
    running: BTreeSet<Name>,
    failed: Option<(i64, String)>,
}

impl Shared {
    /// Creates the streams of a batch that are missing, if the store has an object store.
    ///
    /// # Errors
    /// [`Error::Overloaded`] while they cannot be created. Of other failures the log thread tells.
    pub(super) fn create_streams_of(self: &Arc<Self>, record: &Record) -> Result<()> {
        if self.depot.is_none() {
            return Ok(());
        }
        if record.events.num_rows() > 0 {
            self.create_soon(&record.stream, (record.kind, None))?;
        }
        if !record.ranks.is_empty() {
            let quarantine = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
            self.create_soon(&quarantine, (StreamKind::Quarantine, None))?;
        }
        Ok(())
    }

    /// Creates a stream of this kind, if it is missing.
    ///
    /// # Errors
    /// [`Error::Overloaded`] while the object store does not take it, and the errors of an edit.
    pub(super) fn create_one(self: &Arc<Self>, name: &Name, stream: NewStream) -> Result<()> {
        match &self.depot {
            Some(_) => self.create_soon(name, stream),
            None if self.state.lock().streams.contains_key(name) => Ok(()),
            None => self.create_stream(name, stream, 0),
        }
    }

    fn create_soon(self: &Arc<Self>, name: &Name, stream: NewStream) -> Result<()> {
        let is_missing = || !self.state.lock().streams.contains_key(name);
        if !is_missing() {
            return Ok(());
        }
        let mut creations = self.creations.lock();
        self.check_creations(&creations)?;
        if is_missing() && creations.running.insert(name.clone()) {
            let (shared, of) = (Arc::clone(self), name.clone());
            let thread = std::thread::Builder::new().name("logmill-create".into());
            if thread
                .spawn(move || shared.create_now(&of, stream))
                .is_err()
            {
                creations.running.remove(name);
            }
        }
        let until = Instant::now() + WAIT;
        while creations.running.contains(name) {
            if self.created.wait_until(&mut creations, until).timed_out() {
                return Err(Error::Overloaded {
                    what: format!("the stream {name} is being created in the object store"),
                });
            }
        }
        self.check_creations(&creations)
    }

    fn check_creations(&self, creations: &Creations) -> Result<()> {
        let now_us = self.options.clock.elapsed_us();
        match &creations.failed {
            Some((since_us, why)) if now_us - since_us < AGAIN_US => Err(Error::Overloaded {
                what: format!("no stream can be created now: {why}"),
            }),
            _ => Ok(()),
        }
    }

    fn create_now(&self, name: &Name, stream: NewStream) {
        let outcome = self.create_stream(name, stream, 0);
        let mut creations = self.creations.lock();
        creations.running.remove(name);
        creations.failed = match outcome {
            Err(error) if self.is_of_objects(&error) => {
                Some((self.options.clock.elapsed_us(), error.to_string()))
            }
            _ => None,
        };
        self.created.notify_all();
    }

    /// Returns whether an error is one of the object store.
    fn is_of_objects(&self, error: &Error) -> bool {
        let url = self.depot.as_ref().map(|owner| owner.depot.url());
        match (error, url) {
            (Error::Io { path, .. }, Some(url)) => path.to_string_lossy().starts_with(url),
            _ => false,
        }
    }
}
