//! Backups: each keeps the content that the store had when it began, for ever, or is no store at
//! all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DATA, World, options};
use crate::backup::backup;
use crate::concern::WriteConcern;
use crate::env::{Fs, ManualClock};
use crate::error::Result;
use crate::model::Name;
use crate::store::Store;
use crate::store::model::seen::{self, DAY_US, STREAM, Seen};
use crate::testing::RECEIVED_US;

/// Number of backups that are checked; older ones were checked often enough.
const KEPT: usize = 2;

/// A backup that was begun.
#[derive(Debug)]
pub(super) struct Backup {
    place: PathBuf,
    /// Content of the store when the backup began.
    held: Seen,
    /// True when the backup was reported as done.
    done: bool,
}

impl World {
    /// Makes a backup; with `opens`, writes to it as a store of its own.
    pub(super) fn backup(&mut self, opens: bool) {
        let held = self.read_content();
        let place = PathBuf::from(format!("/backup{}", self.done.steps));
        self.moment();
        let (fs, clock): (Arc<dyn Fs>, _) =
            (Arc::new(self.fs.clone()), ManualClock::at(RECEIVED_US));
        let made = backup(&fs, &clock, Path::new(DATA), &place);
        self.trace(|| format!("{place:?}: {made:?}"));
        if let Err(error) = &made {
            self.excuse(error);
        }
        let done = made.is_ok();
        self.backups.push(Backup {
            place: place.clone(),
            held,
            done,
        });
        if self.backups.len() > KEPT {
            self.backups.remove(0);
        }
        if self.fs.halted() {
            return;
        }
        self.check_backups();
        if done && opens {
            self.backups.pop();
            if let Err(error) = self.write_to_backup(&place) {
                self.excuse(&error);
            }
        }
    }

    /// Runs all kinds of writes on a backup; files shared with the store must not change.
    fn write_to_backup(&self, place: &Path) -> Result<()> {
        let store = Store::open(place, options(&self.fs))?;
        let batch = self.oracle.never_sent(3, 1, None).build();
        store.write(batch, WriteConcern::ACKNOWLEDGED)?;
        store.seal()?;
        store.compact_tiles(true)?;
        store.retain_levels()?;
        let stream = Name::new(STREAM).expect("a name");
        store.drop_partitions(&stream, (-DAY_US, DAY_US), false)?;
        store.close()
    }

    /// Checks that each complete backup is unchanged and that each interrupted one is no store.
    pub(super) fn check_backups(&mut self) {
        self.fs.suspend(true);
        for made in &self.backups {
            match seen::at_rest(&self.fs, &made.place, &mut self.oracle.known) {
                Some(seen) => assert_eq!(seen, made.held, "{:?}", made.place),
                None => assert!(!made.done, "{:?} is gone", made.place),
            }
        }
        self.fs.suspend(false);
    }
}
