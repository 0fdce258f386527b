//! The choice of a start between a journal of its own and a shared one, which is for ever.

use std::path::Path;

use crate::error::{Error, Result};
use crate::manifest::{self, KafkaJournal, Manifest};
use crate::shared_journal::JournalPosition;
use crate::store::{Options, Store};

/// Returns the entry of a store's shared journal, with which it goes on or begins.
pub(super) fn shared_journal(
    manifest: &Manifest,
    options: &Options,
    (next_seq, has_events): (u64, bool),
) -> Result<Option<KafkaJournal>> {
    let journal = options.journal.as_ref();
    match (&manifest.journal, journal) {
        (None, None) => Ok(None),
        (Some(known), None) => Err(Error::invalid(format!(
            "the journal of this store is {}; set `kafka` of [cluster]",
            known.named()
        ))),
        (Some(known), Some(journal)) if known.is_at(journal.place()) => Ok(Some(known.clone())),
        (Some(known), Some(journal)) => {
            let other = KafkaJournal::at(journal.place(), JournalPosition::default());
            Err(Error::invalid(format!(
                "the journal of this store is {}, and [cluster] names {}",
                known.named(),
                other.named()
            )))
        }
        (None, Some(_)) if options.depot.is_none() => Err(Error::invalid(
            "a shared journal needs the sealed files in an object store; set `objects` of [storage]",
        )),
        (None, Some(_)) if has_events => Err(Error::invalid(
            "the store has events in its own journal alone; start it once without `kafka` of [cluster], and stop it",
        )),
        (None, Some(journal)) => {
            let begins = JournalPosition {
                next_seq,
                ..JournalPosition::default()
            };
            Ok(Some(KafkaJournal::at(journal.place(), begins)))
        }
    }
}

/// Seals what a store has in a journal of its own, if it is to have a shared one.
pub(super) fn leave_own_journal(data: &Path, options: &Options) -> Result<()> {
    if options.journal.is_none() {
        return Ok(());
    }
    let found = manifest::find_newest(&*options.fs, data)?;
    let has_own = found.is_some_and(|found| {
        let manifest = &found.committed.manifest;
        manifest.journal.is_none() && !manifest.clean
    });
    if !has_own {
        return Ok(());
    }
    let options = Options {
        journal: None,
        ..options.clone()
    };
    Store::open(data, options)?.close()
}
