//! A store of which only the object store is at hand: a server without state reads it there.
//!
//! # Invariant
//! Nothing is written, neither to the object store nor to the data directory, and no writer knows
//! of this reader. Its snapshots are versions of `CURRENT`, each whole. Files of a version are
//! there until the grace of the writer has passed since the next one
//! ([`crate::store::Config::grace_us`]); a query that takes longer may fail, and its repetition
//! reads a newer version.

use std::path::Path;
use std::sync::Arc;

use super::shared::wait_for;
use super::{Opened, Options, Pin, Shared, State, Store};
use crate::depot::{Depot, Tag};
use crate::error::{Error, Result};
use crate::identity::Identities;
use crate::manifest::Manifest;
use crate::objects::{self, Published};

/// Interval between two looks at `CURRENT`, microseconds.
const INTERVAL_US: i64 = 1_000_000;

impl Store {
    /// Opens the sealed data of the store in the object store of `options`, for reading only, and
    /// follows its commits: each is seen about a second later. `data` is for files of this process
    /// alone.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if there is none; an error of the object store.
    pub fn open_reader(data: &Path, options: Options) -> Result<Self> {
        let depot = options.depot.clone();
        let depot = depot.ok_or_else(|| Error::invalid("a reader needs an object store"))?;
        let published = newest(&*depot)?;
        let tag = published.pointer.tag.clone();
        let mut state = State::of(published.committed.clone());
        see(
            &mut state,
            identities(&*depot, &published.committed.manifest)?,
            published,
        );
        let shared = Arc::new(Shared::of(Opened::for_reading(data, options, state)));
        let follower = super::open::spawn(&shared, "reader", move |shared| {
            follow(shared, &*depot, tag);
        })?;
        Ok(Self {
            shared,
            commands: None,
            syncs: None,
            tail: None,
            threads: vec![follower],
        })
    }
}

/// Makes a version the one that snapshots are of.
fn see(state: &mut State, identities: Identities, published: Published) {
    let manifest = &published.committed.manifest;
    state.streams = Arc::new(manifest.streams.clone());
    state.next_seq = manifest.sealed_seq;
    state.identities = identities;
    state.pin = Arc::new(Pin);
    state.committed = published.committed;
}

/// Reads the checkpoints of a version: they say which quarantined items are resolved.
fn identities(depot: &dyn Depot, manifest: &Manifest) -> Result<Identities> {
    let mut identities = Identities::default();
    for file in &manifest.identities {
        identities.take(Path::new(depot.url()), file, &file.fetch(depot)?)?;
    }
    Ok(identities)
}

/// Follows `CURRENT` until the store closes.
fn follow(shared: &Arc<Shared>, depot: &dyn Depot, mut tag: Tag) {
    loop {
        {
            let mut state = shared.state.lock();
            if !state.closing {
                wait_for(&shared.sealing, &mut state, INTERVAL_US);
            }
            if state.closing {
                return;
            }
        }
        let seen = look(shared, depot, &mut tag);
        let mut state = shared.state.lock();
        let before = std::mem::replace(
            &mut state.tend_error,
            seen.as_ref().err().map(ToString::to_string),
        );
        drop(state);
        match (before, seen) {
            (None, Err(error)) => {
                tracing::warn!(%error, "could not read the newest version; queries read the one before");
            }
            (Some(_), Ok(())) => tracing::info!("the newest version can be read again"),
            _ => {}
        }
    }
}

/// Reads the newest version, if there is another one.
fn look(shared: &Shared, depot: &dyn Depot, tag: &mut Tag) -> Result<()> {
    if objects::pointer(depot)?.is_some_and(|there| there.tag == *tag) {
        return Ok(());
    }
    let published = newest(depot)?;
    let new = published.pointer.tag.clone();
    let identities = identities(depot, &published.committed.manifest)?;
    see(&mut shared.state.lock(), identities, published);
    *tag = new;
    Ok(())
}

fn newest(depot: &dyn Depot) -> Result<Published> {
    objects::newest(depot)?.ok_or_else(|| Error::NotAStore {
        path: depot.url().into(),
    })
}
