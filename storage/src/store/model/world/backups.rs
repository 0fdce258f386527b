//! Backups: each holds what the store held when it began, for ever, or is no store at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DATA, World, options};
use crate::backup::backup;
use crate::env::{Fs, ManualClock};
use crate::error::Result;
use crate::model::{Name, WriteConcern};
use crate::store::Store;
use crate::store::model::seen::{self, DAY_US, STREAM, Seen};
use crate::testing::RECEIVED_US;

/// So many are looked after; those before were looked at often enough.
const KEPT: usize = 2;

/// A backup that was begun.
#[derive(Debug)]
pub(super) struct Made {
    place: PathBuf,
    /// What the store held when it began.
    held: Seen,
    /// Whether it was said to be done.
    done: bool,
}

impl World {
    /// Makes a backup; `opens` goes on with it as with a store of its own.
    pub(super) fn backup(&mut self, opens: bool) {
        let held = self.look();
        let place = PathBuf::from(format!("/backup{}", self.done.steps));
        self.moment();
        let (fs, clock): (Arc<dyn Fs>, _) =
            (Arc::new(self.fs.clone()), ManualClock::at(RECEIVED_US));
        let made = backup(&fs, &clock, Path::new(DATA), &place);
        self.tell(|| format!("{place:?}: {made:?}"));
        if let Err(error) = &made {
            self.excuse(error);
        }
        let done = made.is_ok();
        self.backups.push(Made {
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
        self.look_at_backups();
        if done && opens {
            self.backups.pop();
            if let Err(error) = self.go_on_with(&place) {
                self.excuse(&error);
            }
        }
    }

    /// Everything that writes is done to a backup; what it shares with the store stays as it was.
    fn go_on_with(&self, place: &Path) -> Result<()> {
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

    /// Whatever has happened since, each backup is what it was, or what was cut short is nothing.
    pub(super) fn look_at_backups(&mut self) {
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
