//! Stores on several machines that have one journal and one object store, with an oracle of what
//! is acknowledged.
//!
//! Machines open the store and take it over from each other. They are killed, lose their power or
//! their disk, and are held: then they read the journal only up to one moment, and go on as if
//! nothing had happened. Messages come late, twice, never, or without an answer (`sim_journal`),
//! and so do calls of the object store (`sim_depot`). Batches are sent again, to any machine.
//! After each step:
//! * the owner of the store has every event that was acknowledged, by any machine, at any time;
//! * an event has one number and a number one event, in all stores that ever showed them;
//! * a batch is there whole, and not at all if each attempt to send it was refused;
//! * parts and tiles of `CURRENT` have the same events, and every event that was there before.
//!
//! Threads read the journal while the steps go on, so a seed leads to a history that is similar,
//! not the same. `LOGMILL_SIM_SEED`, `LOGMILL_SIM_SECONDS` and `LOGMILL_SIM_HISTORIES` as in
//! [`super`].

mod contender;
mod offers;
mod steps;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::listing::{Listing, rows};
use super::machines::{DATA, GRACE_US, in_objects};
use super::seen::{Events, Known, STREAM, read_content};
use super::sim_depot::SimDepot;
use super::sim_journal::SimJournal;
use super::{motley, named, on_each_core, setting};
use crate::concern::WriteConcern;
use crate::env::{Clock, ManualClock};
use crate::error::{Error, Kind};
use crate::model::Ack;
use crate::objects::{self, Adoption};
use crate::sim::{Image, Random};
use crate::snapshot::Snapshot;
use crate::store::{Config, Options, Store};
use crate::testing::RECEIVED_US;
use contender::Contender;
use offers::Offers;

const CONTENDERS: usize = 3;

/// A store that a machine had before the others: its id, and its acknowledged batches.
type Apart = (String, Vec<(usize, Ack)>);

struct Writers {
    all: Vec<Contender>,
    depot: SimDepot,
    journal: SimJournal,
    clock: Arc<ManualClock>,
    random: Random,
    offers: Offers,
    apart: Vec<Apart>,
    /// Events that were in parts and tiles.
    sealed: Events,
    known: Known,
    starts: u64,
    seals: u64,
    /// No process ends any more but by a step.
    is_calm: bool,
    verbose: bool,
}

impl Writers {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut one_in = |of: [u64; 4]| of[random.below(4) as usize];
        let (late_calls, late_messages) = (one_in([0, 0, 8, 40]), one_in([0, 3, 8, 40]));
        let depot = SimDepot::new(random.next_u64(), late_calls);
        let journal = SimJournal::new(random.next_u64(), late_messages);
        let new = |_| Contender::new(&depot, &journal);
        Self {
            all: (0..CONTENDERS).map(new).collect(),
            depot,
            journal,
            clock: Arc::new(ManualClock::at(RECEIVED_US)),
            random,
            offers: Offers::default(),
            apart: Vec::new(),
            sealed: Events::new(),
            known: Known::default(),
            starts: 0,
            seals: 0,
            is_calm: false,
            verbose: false,
        }
    }

    fn options(&self, which: usize) -> Options {
        let machine = &self.all[which];
        Options {
            fs: Arc::new(machine.fs.clone()),
            depot: Some(Arc::new(machine.depot.clone())),
            journal: Some(Arc::new(machine.journal.clone())),
            shard: None,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            rollup_hook: Arc::new(Listing),
            config: Config {
                adoption: Adoption::Any,
                grace_us: GRACE_US,
                columns_max: motley::COLUMNS_MAX,
                ..super::idle()
            },
            on_poison: None,
        }
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{}", what());
        }
    }

    /// Gives some machines a store with a journal of its own, perhaps with an object store. The
    /// first one is brought to the shared journal before another machine comes: until then its
    /// events are its own, and a take-over would leave them behind.
    fn begin_apart(&mut self) {
        let count = self.random.below(3) as usize;
        for which in 0..count {
            let has_depot = which == 0 && self.random.below(2) == 0;
            let options = Options {
                depot: self.options(which).depot.filter(|_| has_depot),
                journal: None,
                ..self.options(which)
            };
            let open = || Store::open(Path::new(DATA), options);
            let store = self.depot.calmly(open).expect("opens");
            let mut taken = Vec::new();
            for _ in 0..1 + self.random.below(3) {
                let nth = self.offers.add((3, false), 0, 1 + self.random.below(2));
                let batch = self.offers.batch(nth);
                let write = || store.write(batch, WriteConcern::JOURNALED);
                let ack = self.depot.calmly(write).expect("taken");
                taken.push((nth, ack));
                if self.random.below(3) == 0 {
                    self.depot.calmly(|| store.seal()).expect("seals");
                }
            }
            let id = store.snapshot().manifest().store_id.clone();
            self.apart.push((id, taken));
            match self.random.below(3) {
                0 => self.depot.calmly(|| store.close()).expect("closes"),
                1 => drop(store),
                _ => {
                    let seed = self.random.next_u64();
                    self.all[which].fs = self.all[which].fs.crash(Image::Seed(seed));
                }
            }
            self.all[which].begin();
        }
        // Another machine that has a store of its own is refused, and gets an empty disk.
        while count > 0 && self.all[0].store.is_none() {
            self.open(0);
        }
    }

    fn open(&mut self, which: usize) {
        self.endanger(which);
        let opened = Store::open(Path::new(DATA), self.options(which));
        if self.all[which].fs.halted() {
            self.say(|| format!("{which} ends while it opens"));
            drop(opened);
            return self.end_halted(which);
        }
        self.all[which].fs.halt_at(u64::MAX);
        let machine = &mut self.all[which];
        match opened {
            Ok(store) => {
                machine.has_opened = true;
                machine.store = Some(store);
                self.say(|| format!("{which} opens"));
                let id = self.id_of(which);
                for (_, taken) in self.apart.extract_if(.., |(of, _)| *of == id) {
                    self.offers.bring(&taken);
                }
                self.starts += 1;
            }
            Err(Error::Invalid { what }) => {
                self.say(|| format!("{which} is refused: {what}"));
                // It has a store of its own, or only begun to make one, and another came first.
                let is_late = what.contains("another store in each")
                    || what.contains("has taken over") && !self.all[which].has_opened;
                match is_late {
                    true => self.all[which] = Contender::new(&self.depot, &self.journal),
                    false => assert!(what.contains("being brought to this prefix"), "{what}"),
                }
            }
            Err(error) => {
                self.all[which].begin();
                self.say(|| format!("{which} does not open: {error}"));
                let passes = matches!(error.kind(), Kind::Disk | Kind::Overloaded);
                assert!(passes || error.kind() == Kind::Unavailable, "{error}");
            }
        }
    }

    fn id_of(&self, which: usize) -> String {
        let store = self.all[which].store.as_ref().expect("open");
        store.snapshot().manifest().store_id.clone()
    }

    /// Returns whether `CURRENT` names the directory of a machine.
    fn is_owner(&self, which: usize) -> bool {
        let mark = objects::owner_id(&self.all[which].fs, Path::new(DATA));
        self.depot.calmly(|| {
            let pointer = objects::pointer(&self.depot).expect("read");
            pointer.is_some_and(|p| Some(&p.current.owner) == mark.as_ref())
        })
    }

    fn check(&mut self) {
        self.collect(false);
        let depot = self.depot.clone();
        depot.calmly(|| {
            if let Some(published) = objects::newest(&depot).expect("CURRENT is whole") {
                let sealed = in_objects(&depot, &published.committed);
                let there = read_content(&sealed, [], &mut self.known).events;
                self.offers.see(&there);
                for (seq, time) in std::mem::take(&mut self.sealed) {
                    assert_eq!(there.get(&seq), Some(&time), "{seq} was sealed and is lost");
                }
                self.sealed = there;
            } else {
                assert!(self.sealed.is_empty(), "CURRENT is gone");
            }
            for which in 0..CONTENDERS {
                let Some(store) = &self.all[which].store else {
                    continue;
                };
                let snapshot = store.snapshot();
                if self.is_owner(which) {
                    let held = read_content(&snapshot, [], &mut self.known);
                    self.offers.check_all(&held);
                } else {
                    // Others may have deleted its files since, but not changed its events.
                    self.offers.see(&in_memory(&snapshot));
                }
            }
        });
    }
}

fn in_memory(snapshot: &Snapshot) -> Events {
    let chunks = snapshot.chunks(STREAM);
    let events: Vec<_> = chunks.iter().flat_map(|c| rows(&c.events)).collect();
    let count = events.len();
    let events: Events = events.into_iter().collect();
    assert_eq!(events.len(), count, "a number is there twice");
    events
}

fn live(mut world: Writers) -> Writers {
    world.begin_apart();
    for _ in 0..60 {
        world.step();
        world.exit();
        world.check();
    }
    // All that is on its way arrives or not, and a last writer goes on with nothing but the journal
    // and the object store.
    world.is_calm = true;
    world.depot.settle();
    world.journal.settle();
    world.collect(false);
    world.check();
    for which in 0..CONTENDERS {
        world.end(which, None);
    }
    let claim = objects::pointer(&world.depot).expect("read");
    if claim.is_some_and(|claim| claim.current.is_claim()) {
        world.depot.delete_current();
    }
    world.all[0] = Contender::new(&world.depot, &world.journal);
    world.open(0);
    assert!(
        world.all[0].store.is_some(),
        "the last writer does not open"
    );
    world.check();
    let again = (0..world.offers.len()).filter(|nth| world.offers.has_identity(*nth));
    for offer in again.collect::<Vec<_>>() {
        world.send(0, offer);
        world.collect(true);
        assert!(world.offers.is_acknowledged(offer), "{offer} is not taken");
    }
    world.write(0);
    world.collect(true);
    world.check();
    world.seal(0);
    world.tend(0);
    world.check();
    assert!(world.sealed.len() >= world.offers.acknowledged.len());
    world.close(0);
    world
}

#[test]
fn writers_with_one_journal_lose_nothing_that_is_acknowledged() {
    if let Some(seed) = setting("LOGMILL_SIM_SEED") {
        let mut world = Writers::new(seed);
        world.verbose = true;
        named(&format!("seed {seed}"), || live(world));
        return;
    }
    let started = Instant::now();
    // A fourth of the time of the model of one machine.
    let limit = Duration::from_secs(setting("LOGMILL_SIM_SECONDS").unwrap_or(10)) / 4;
    let at_least = setting("LOGMILL_SIM_HISTORIES").unwrap_or(1);
    let counts = [0; 6].map(AtomicU64::new);
    // A history waits more than it works.
    on_each_core(8, |seed| {
        let world = named(&format!("seed {seed}"), || live(Writers::new(seed)));
        let Offers {
            acks,
            refusals,
            unknown,
            ..
        } = world.offers;
        let of_one = [1, world.starts, world.seals, acks, unknown, refusals];
        for (count, of_one) in counts.iter().zip(of_one) {
            count.fetch_add(of_one, Ordering::SeqCst);
        }
        counts[0].load(Ordering::SeqCst) >= at_least && started.elapsed() >= limit
    });
    let [histories, starts, seals, acks, unknown, refusals] = counts.map(AtomicU64::into_inner);
    println!(
        "{histories} histories, {starts} starts, {seals} seals, {acks} acknowledgements, \
         {unknown} unknown outcomes, {refusals} refusals in {:.1?}",
        started.elapsed()
    );
    assert!(starts >= histories && seals >= histories && acks >= histories);
}
