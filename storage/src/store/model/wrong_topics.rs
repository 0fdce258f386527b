//! Topics that are not the journal of the store, or not whole: a start refuses them.

use std::path::Path;
use std::sync::Arc;

use super::listing::Listing;
use super::sim_depot::SimDepot;
use super::sim_journal::SimJournal;
use crate::concern::WriteConcern;
use crate::env::ManualClock;
use crate::error::{Error, Result};
use crate::model::{Batch, Name};
use crate::objects::Adoption;
use crate::shared_journal::{Fence, MessageHead, RULES, encode_fence, encode_group};
use crate::sim::SimFs;
use crate::store::{Config, Options, Store};
use crate::testing::{RECEIVED_US, batch};

const DATA: &str = "/data";

/// A store with a shared journal, and no faults.
struct Place {
    fs: SimFs,
    depot: SimDepot,
    journal: SimJournal,
}

impl Place {
    fn new() -> Self {
        Self {
            fs: SimFs::new(),
            depot: SimDepot::new(1, 0),
            journal: SimJournal::new(1, 0),
        }
    }

    fn options(&self) -> Options {
        Options {
            fs: Arc::new(self.fs.clone()),
            depot: Some(Arc::new(self.depot.clone())),
            journal: Some(Arc::new(self.journal.clone())),
            clock: Arc::new(ManualClock::at(RECEIVED_US)),
            rollup_hook: Arc::new(Listing),
            config: Config {
                adoption: Adoption::No,
                ..super::idle()
            },
            ..Options::default()
        }
    }

    fn open(&self) -> Result<Store> {
        Store::open(Path::new(DATA), self.options())
    }

    /// Returns a place whose store has sealed some events and acknowledged others.
    fn with_events() -> Self {
        let place = Self::new();
        let store = place.open().expect("opens");
        write(&store, 1);
        store.seal().expect("seals");
        write(&store, 2);
        drop(store);
        place
    }

    #[track_caller]
    fn is_refused(&self, why: &str) {
        let error = self.open().expect_err("refused");
        assert!(error.to_string().contains(why), "{error}");
    }

    fn head(store_id: &str) -> MessageHead<'_> {
        MessageHead {
            epoch: 9,
            number: 0,
            store_id,
        }
    }

    fn store_id(&self) -> String {
        let store = self.open().expect("opens");
        let id = store.snapshot().manifest().store_id.clone();
        drop(store);
        id
    }
}

fn write(store: &Store, time: i64) {
    let sent = batch(&[time], &[], None);
    store
        .write(sent, WriteConcern::ACKNOWLEDGED)
        .expect("taken");
}

fn events(store: &Store) -> u64 {
    let snapshot = store.snapshot();
    let parts: u64 = snapshot.manifest().parts.iter().map(|part| part.rows).sum();
    let fresh = snapshot.chunks(super::seen::STREAM);
    parts
        + fresh
            .iter()
            .map(|c| c.events.num_rows() as u64)
            .sum::<u64>()
}

#[test]
fn a_topic_that_is_whole_is_gone_on_with_and_one_without_its_oldest_messages_too() {
    let place = Place::with_events();
    let store = place.open().expect("opens");
    assert_eq!(events(&store), 2);
    store.close().expect("closes");
    // Retention deletes what is sealed.
    place.journal.delete_all();
    let store = place.open().expect("opens");
    assert_eq!(events(&store), 2);
    write(&store, 3);
    assert_eq!(events(&store), 3);
}

#[test]
fn a_store_that_was_copied_earlier_goes_on_with_everything_in_the_topic() {
    let place = Place::with_events();
    let copied = place.depot.copy();
    for time in 3..6 {
        let store = place.open().expect("opens");
        write(&store, time);
        store.seal().expect("seals");
        write(&store, time + 10);
    }
    let place = Place {
        fs: SimFs::new(),
        depot: copied,
        ..place
    };
    let options = || Options {
        config: Config {
            adoption: Adoption::Any,
            ..super::idle()
        },
        ..place.options()
    };
    // The epochs of the starts since the copy are in the topic, and none of them is taken again.
    let mut tries = 0;
    let store = loop {
        match Store::open(Path::new(DATA), options()) {
            Ok(store) => break store,
            Err(error) => assert!(matches!(error, Error::Unknown { .. }), "{error}"),
        }
        tries += 1;
        assert!(tries < 10, "it never opens");
    };
    assert!(tries >= 3, "{tries}");
    assert_eq!(events(&store), 8);
    write(&store, 20);
    assert_eq!(events(&store), 9);
}

#[test]
fn a_topic_that_was_created_again_is_refused() {
    let place = Place::with_events();
    place.journal.create_again();
    place.is_refused("messages are gone");
}

#[test]
fn a_topic_that_lost_messages_is_refused_where_a_commit_tells_of_them() {
    let place = Place::with_events();
    // The group with the second event; its number comes again.
    place.journal.lose(1);
    let store = place
        .open()
        .expect("nothing tells that it was acknowledged");
    assert_eq!(events(&store), 1);
    drop(store);

    let place = Place::with_events();
    // A commit has noted the number behind the second event.
    let store = place.open().expect("opens");
    let other = Batch {
        stream: Name::new("another").expect("a name"),
        ..batch(&[5], &[], None)
    };
    store
        .write(other, WriteConcern::ACKNOWLEDGED)
        .expect("taken");
    drop(store);
    place.journal.lose(3);
    place.is_refused("the brokers have lost some");
}

#[test]
fn a_topic_that_lost_what_is_sealed_is_refused() {
    let place = Place::with_events();
    place.journal.lose(2);
    place.is_refused("is another than the one that was read before");
}

#[test]
fn messages_of_others_are_passed_over_and_those_of_newer_programs_refused() {
    let place = Place::with_events();
    let other = "f".repeat(32);
    for message in [
        b"hello".to_vec(),
        encode_group(Place::head(&other), [&b"no record"[..]].into_iter()),
        vec![0; 100],
    ] {
        place.journal.add(message);
        let store = place.open().expect("opens");
        write(&store, 3);
        store.seal().expect("seals");
    }
    assert_eq!(events(&place.open().expect("opens")), 5);

    let place = Place::with_events();
    let id = place.store_id();
    let fence = Fence {
        rules: RULES + 1,
        nonce: 0,
        host: "b".into(),
    };
    place.journal.add(encode_fence(Place::head(&id), &fence));
    let error = place.open().expect_err("refused");
    assert!(matches!(error, Error::FormatTooNew { .. }), "{error}");
}

#[test]
fn a_store_has_one_journal_and_says_which() {
    let place = Place::with_events();
    let without = Options {
        journal: None,
        ..place.options()
    };
    let error = Store::open(Path::new(DATA), without).expect_err("refused");
    assert!(error.to_string().contains("topic store"), "{error}");

    let alone = Place::new();
    let without = Options {
        depot: None,
        ..alone.options()
    };
    let error = Store::open(Path::new(DATA), without).expect_err("refused");
    assert!(error.to_string().contains("object store"), "{error}");
}

#[test]
fn a_batch_that_is_too_long_for_a_message_is_refused_alone() {
    let place = Place::new();
    let store = place.open().expect("opens");
    write(&store, 1);
    let many: Vec<i64> = (0..200_000).collect();
    let long = store.write(batch(&many, &[], None), WriteConcern::ACKNOWLEDGED);
    match long {
        Err(Error::Invalid { what }) => assert!(what.contains("max.message.bytes"), "{what}"),
        other => panic!("{other:?}"),
    }
    write(&store, 2);
    assert_eq!(events(&store), 2);
}
