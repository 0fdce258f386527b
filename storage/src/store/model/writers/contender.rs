//! A machine that may own the store.

use super::super::sim_depot::SimDepot;
use super::super::sim_journal::SimJournal;
use super::offers::PendingAnswer;
use crate::sim::{Image, SimFs};
use crate::store::Store;

/// A machine, and the answers that it owes.
pub(super) struct Contender {
    pub(super) fs: SimFs,
    pub(super) depot: SimDepot,
    pub(super) journal: SimJournal,
    pub(super) store: Option<Store>,
    pub(super) pending: Vec<PendingAnswer>,
    /// It had the store before, on this disk.
    pub(super) has_opened: bool,
}

impl Contender {
    pub(super) fn new(depot: &SimDepot, journal: &SimJournal) -> Self {
        Self {
            fs: SimFs::new(),
            depot: depot.for_process(),
            journal: journal.for_process(),
            store: None,
            pending: Vec::new(),
            has_opened: false,
        }
    }

    /// Kills its process, or cuts its power. No client gets the answers that it still gives.
    pub(super) fn end(&mut self, image: Option<Image>) {
        self.journal.kill();
        self.depot.kill();
        self.fs = match image {
            Some(image) => self.fs.crash(image),
            None => self.fs.kill(),
        };
        self.store = None;
        self.pending.clear();
        self.begin();
    }

    /// Gives it the connections of a new process.
    pub(super) fn begin(&mut self) {
        self.depot = self.depot.for_process();
        self.journal = self.journal.for_process();
    }

    pub(super) fn may_answer(&self) -> bool {
        self.store.is_some() && !self.journal.is_held()
    }
}

impl Drop for Contender {
    /// Ends its process: a store that is held would wait for what it cannot read.
    fn drop(&mut self) {
        self.end(None);
    }
}
