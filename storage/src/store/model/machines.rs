//! Stores on several machines that have one object store, with an oracle of what is sealed.
//!
//! Machines open the store, take it over from each other, go on as if nothing had happened
//! (stopped and continued), are killed, lose their power, and lose their disk. Calls of the object
//! store come late, twice, without an answer, or with a wrong one (`sim_depot`). After each step:
//! * every file of the manifest in `CURRENT` is there, with the bytes that it was committed with;
//! * every event whose seal succeeded, on whichever machine, is there once, in parts and tiles;
//! * a machine that nobody has superseded has every event that it has acknowledged;
//! * no sequence number was given twice;
//! * a reader of an earlier version reads all of it within the grace.
//!
//! `LOGMILL_SIM_SEED`, `LOGMILL_SIM_SECONDS` and `LOGMILL_SIM_HISTORIES` as in [`super`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::listing::{Listing, Row, rows};
use super::seen::{self, Events, STREAM};
use super::sim_depot::SimDepot;
use super::{named, on_all_cores, setting};
use crate::concern::WriteConcern;
use crate::depot::Depot;
use crate::env::{Clock, ManualClock};
use crate::error::{Error, Kind, Result};
use crate::manifest::Committed;
use crate::model::{Identity, Name};
use crate::objects::{self, Adoption, Published};
use crate::part::read_part;
use crate::sim::{Image, Random, SimFs};
use crate::snapshot::Snapshot;
use crate::store::{Config, Options, Store};
use crate::testing::{RECEIVED_US, batch};

pub(super) const DATA: &str = "/data";
pub(super) const GRACE_US: i64 = 1000;
const MACHINES: usize = 3;

/// A machine, and what was acknowledged on its disk and not superseded.
struct Machine {
    fs: SimFs,
    depot: SimDepot,
    store: Option<Store>,
    /// Events that it has acknowledged since it took the store over.
    acknowledged: Events,
    /// Events of a store that it had before there was an object store.
    before: Events,
    /// True after a power cut, which may have taken some of them.
    is_cut: bool,
}

impl Machine {
    fn new(depot: &SimDepot) -> Self {
        Self {
            fs: SimFs::new(),
            depot: depot.for_process(),
            store: None,
            acknowledged: Events::new(),
            before: Events::new(),
            is_cut: false,
        }
    }

    /// Kills its process, or cuts its power.
    fn end(&mut self, image: Option<Image>) {
        self.depot.kill();
        self.fs = match image {
            Some(image) => self.fs.crash(image),
            None => self.fs.kill(),
        };
        self.store = None;
        self.depot = self.depot.for_process();
        self.is_cut |= image.is_some();
    }
}

struct Machines {
    all: Vec<Machine>,
    depot: SimDepot,
    clock: Arc<ManualClock>,
    random: Random,
    /// Events whose seal succeeded.
    sealed: Events,
    /// Every number ever given, with its event.
    given: Events,
    /// A version that a reader has read, and when.
    reader: Option<(Published, i64)>,
    next: i64,
    /// The batches that were acknowledged: their times, and first numbers.
    sent: Vec<(Vec<i64>, u64)>,
    take_overs: u64,
    commits: u64,
}

impl Machines {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let one_in = [0, 4, 12, 40][random.below(4) as usize];
        let depot = SimDepot::new(random.next_u64(), one_in);
        Self {
            all: (0..MACHINES).map(|_| Machine::new(&depot)).collect(),
            depot,
            clock: Arc::new(ManualClock::at(RECEIVED_US)),
            random,
            sealed: Events::new(),
            given: Events::new(),
            reader: None,
            next: 0,
            sent: Vec::new(),
            take_overs: 0,
            commits: 0,
        }
    }

    fn options(&self, which: usize) -> Options {
        let machine = &self.all[which];
        Options {
            fs: Arc::new(machine.fs.clone()),
            depot: Some(Arc::new(machine.depot.clone())),
            journal: None,
            shard: None,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            rollup_hook: Arc::new(Listing),
            config: Config {
                adoption: Adoption::Any,
                grace_us: GRACE_US,
                ..super::idle()
            },
            on_poison: None,
        }
    }

    /// Gives some machines a store of their own, before there is an object store.
    fn begin_apart(&mut self) {
        for which in 0..self.random.below(3) as usize {
            let options = Options {
                depot: None,
                ..self.options(which)
            };
            let store = Store::open(Path::new(DATA), options).expect("opens");
            for _ in 0..1 + self.random.below(3) {
                let times: Vec<i64> = (self.next..self.next + 3).collect();
                self.next += 3;
                let sent = batch(&times, &[], Some(identity(&times)));
                let ack = store.write(sent, WriteConcern::JOURNALED).expect("taken");
                let first = ack.first_seq.expect("numbered");
                self.all[which].before.extend((first..).zip(times));
                store.seal().expect("seals");
            }
            store.close().expect("closes");
        }
    }

    fn open(&mut self, which: usize) {
        let opened = Store::open(Path::new(DATA), self.options(which));
        match opened {
            Ok(store) => {
                let held = self.depot.calmly(|| visible(&store.snapshot()));
                let machine = &mut self.all[which];
                // The first store that is brought to the prefix goes on there.
                let before = std::mem::take(&mut machine.before);
                machine.acknowledged.extend(before.clone());
                self.given.extend(before.clone());
                self.sealed.extend(before);
                if machine.is_cut {
                    machine.acknowledged.retain(|seq, _| held.contains_key(seq));
                    machine.is_cut = false;
                }
                machine.store = Some(store);
                self.take_overs += 1;
            }
            // It was superseded, and its disk is given up: a new one takes over.
            Err(Error::Invalid { what }) => {
                assert!(!self.is_owner(which), "the owner is refused: {what}");
                self.all[which] = Machine::new(&self.depot);
            }
            Err(error) => assert_ne!(error.kind(), Kind::Corrupt, "{error}"),
        }
    }

    /// Returns whether `CURRENT` names the directory of a machine.
    fn is_owner(&self, which: usize) -> bool {
        let machine = &self.all[which];
        let mark = objects::owner_id(&machine.fs, Path::new(DATA));
        self.depot.calmly(|| {
            let pointer = objects::pointer(&self.depot).expect("read");
            pointer.is_some_and(|p| Some(&p.current.owner) == mark.as_ref())
        })
    }

    fn step(&mut self) {
        let which = self.random.below(MACHINES as u64) as usize;
        if self.all[which].store.is_none() {
            self.open(which);
            return;
        }
        match self.random.below(20) {
            0..6 => self.write(which),
            6 => self.send_again(which),
            7..12 => self.seal(which),
            12..14 => self.tend(which),
            14 => self.all[which].end(None),
            15 => {
                let seed = self.random.next_u64();
                self.all[which].end(Some(Image::Seed(seed)));
            }
            16 => self.all[which].store = None,
            17 => self.clock.advance(GRACE_US / 2),
            18 => self.read(),
            _ => {
                let another = (which + 1) % MACHINES;
                let other = &mut self.all[another];
                if other.store.is_none() {
                    *other = Machine::new(&self.depot);
                    self.open(another);
                }
            }
        }
    }

    fn write(&mut self, which: usize) {
        let count = 1 + self.random.below(3) as i64;
        let day = seen::DAY_US * self.random.below(3) as i64;
        let times: Vec<i64> = (0..count).map(|i| day + self.next + i).collect();
        self.next += count;
        let machine = &mut self.all[which];
        let store = machine.store.as_ref().expect("open");
        let j = self.random.below(2) == 0;
        let concern = match j {
            true => WriteConcern::JOURNALED,
            false => WriteConcern::ACKNOWLEDGED,
        };
        match store.write(batch(&times, &[], Some(identity(&times))), concern) {
            Ok(ack) => {
                let first = ack.first_seq.expect("numbered");
                self.sent.push((times.clone(), first));
                for (seq, time) in (first..).zip(times) {
                    let before = self.given.insert(seq, time);
                    assert_eq!(before, None, "{seq} was given twice");
                    machine.acknowledged.insert(seq, time);
                }
            }
            Err(error) => self.excuse(which, &error),
        }
    }

    /// Sends a batch again: a writer that nobody has superseded knows those that are sealed.
    fn send_again(&mut self, which: usize) {
        if self.sent.is_empty() || !self.is_owner(which) {
            return;
        }
        let nth = self.random.below(self.sent.len() as u64) as usize;
        let (times, first) = &self.sent[nth];
        if !(*first..)
            .zip(times)
            .all(|(seq, _)| self.sealed.contains_key(&seq))
        {
            return;
        }
        let store = self.all[which].store.as_ref().expect("open");
        let again = batch(times, &[], Some(identity(times)));
        match store.write(again, WriteConcern::ACKNOWLEDGED) {
            Ok(ack) => assert!(
                ack.duplicate && ack.first_seq == Some(*first),
                "{first} was sealed and is stored again: {ack:?}"
            ),
            Err(error) => self.excuse(which, &error),
        }
    }

    fn seal(&mut self, which: usize) {
        let store = self.all[which].store.as_ref().expect("open");
        match store.seal() {
            Ok(report) => {
                self.commits += 1;
                let machine = &self.all[which];
                let below = machine.acknowledged.range(..report.cutoff);
                self.sealed.extend(below.map(|(seq, time)| (*seq, *time)));
            }
            Err(error) => self.excuse(which, &error),
        }
    }

    fn tend(&mut self, which: usize) {
        let store = self.all[which].store.as_ref().expect("open");
        let quiet = self.random.below(2) == 0;
        if let Err(error) = maintain(store, quiet) {
            self.excuse(which, &error);
        }
    }

    /// Reads a version, as a reader elsewhere does.
    fn read(&mut self) {
        let read = self.depot.calmly(|| objects::newest(&self.depot));
        let now_us = self.clock.elapsed_us();
        self.reader = read.expect("read").map(|published| (published, now_us));
    }

    /// An error comes from the object store, or from another writer.
    fn excuse(&mut self, which: usize, error: &Error) {
        assert_ne!(error.kind(), Kind::Corrupt, "{error}");
        let machine = &self.all[which];
        let poisoned = machine.store.as_ref().and_then(|s| s.status().poisoned);
        if let Some(why) = poisoned {
            let by_another = why.contains("has taken over");
            let is_owner = self.is_owner(which);
            assert!(!by_another || !is_owner, "superseded by itself: {why}");
            // The process exits.
            self.all[which].end(None);
        }
    }

    fn check(&mut self) {
        let depot = self.depot.clone();
        depot.calmly(|| {
            let Some(published) = objects::newest(&depot).expect("CURRENT is whole") else {
                assert!(self.sealed.is_empty(), "CURRENT is gone");
                return;
            };
            let there = content(&depot, &published.committed);
            for (seq, time) in &self.sealed {
                assert_eq!(there.get(seq), Some(time), "{seq} was sealed and is lost");
            }
            if let Some((published, since)) = &self.reader
                && self.clock.elapsed_us() - since < GRACE_US
            {
                content(&depot, &published.committed);
                // A copy of the prefix begins with these two.
                let body = &published.pointer.current.body;
                let whole: Vec<_> = std::iter::once(0..body.len).collect();
                depot.get(&body.name, &whole).expect("a body is there");
            }
            for which in 0..MACHINES {
                if let Some(store) = &self.all[which].store
                    && self.is_owner(which)
                {
                    let held = visible(&store.snapshot());
                    for (seq, time) in &self.all[which].acknowledged {
                        assert_eq!(
                            held.get(seq),
                            Some(time),
                            "{seq} was acknowledged and is lost"
                        );
                    }
                }
            }
        });
    }
}

/// Merges tiles and parts, and tends the object store.
pub(super) fn maintain(store: &Store, quiet: bool) -> Result<()> {
    store.compact_tiles(quiet)?;
    let name = Name::new(STREAM).expect("a name");
    if store.snapshot().streams().contains_key(&name) {
        store.compact_parts(Some(&name), quiet)?;
    }
    store.tend_objects()
}

/// Returns the identity of a batch, which no other one has.
fn identity(times: &[i64]) -> Identity {
    Identity::Range {
        producer: format!("p{}", times[0]),
        from: 0,
        to: times.len() as u64,
        content: 1,
    }
}

/// Returns a version that is read from the object store alone.
pub(super) fn in_objects(depot: &SimDepot, committed: &Committed) -> Snapshot {
    let fs = Arc::new(SimFs::new());
    let manifest = Arc::clone(&committed.manifest);
    let mut snapshot = Snapshot::of_manifest(fs, Path::new("/elsewhere"), manifest);
    snapshot.depot = Some(Arc::new(depot.clone()) as Arc<dyn Depot>);
    snapshot
}

/// Returns the events of a version, once in parts and once in tiles.
fn content(depot: &SimDepot, committed: &Committed) -> Events {
    let snapshot = in_objects(depot, committed);
    for file in &snapshot.manifest().identities {
        snapshot.read(file).expect("a checkpoint is there");
    }
    let parts = visible(&snapshot);
    assert_eq!(seen::tiles(&snapshot), parts, "tiles, and parts");
    parts
}

/// Returns the events of a snapshot.
fn visible(snapshot: &Snapshot) -> Events {
    let mut all = BTreeMap::new();
    let mut add = |rows: Vec<Row>| {
        for (seq, payload) in rows {
            let before = all.insert(seq, payload);
            assert_eq!(before, None, "sequence {seq} is there twice");
        }
    };
    for part in &snapshot.manifest().parts {
        let bytes = snapshot.read(&part.file).expect("a part is there");
        for batch in read_part(bytes, None).expect("a part") {
            add(rows(&batch));
        }
    }
    for chunk in snapshot.chunks(STREAM) {
        add(rows(&chunk.events));
    }
    all
}

fn live(seed: u64) -> Machines {
    let mut world = Machines::new(seed);
    world.begin_apart();
    for _ in 0..60 {
        world.step();
        world.check();
    }
    // Everything that is on its way arrives, and a last writer goes on.
    world.depot.settle();
    world.check();
    for which in 0..MACHINES {
        world.all[which].end(None);
    }
    // An operator knows that a store which has claimed the prefix has gone for good.
    let claim = objects::pointer(&world.depot).expect("read");
    if claim.is_some_and(|claim| claim.current.is_claim()) {
        world.depot.delete_current();
    }
    world.all[0] = Machine::new(&world.depot);
    world.open(0);
    world.check();
    world.write(0);
    world.seal(0);
    world.tend(0);
    world.check();
    world
}

#[test]
fn machines_with_one_object_store_lose_nothing_that_is_sealed() {
    if let Some(seed) = setting("LOGMILL_SIM_SEED") {
        named(&format!("seed {seed}"), || live(seed));
        return;
    }
    let started = Instant::now();
    // A fourth of the time of the model of one machine.
    let limit = Duration::from_secs(setting("LOGMILL_SIM_SECONDS").unwrap_or(10)) / 4;
    let at_least = setting("LOGMILL_SIM_HISTORIES").unwrap_or(1);
    let counts = [0; 3].map(AtomicU64::new);
    on_all_cores(|seed| {
        let world = named(&format!("seed {seed}"), || live(seed));
        let [histories, take_overs, commits] = &counts;
        take_overs.fetch_add(world.take_overs, Ordering::SeqCst);
        commits.fetch_add(world.commits, Ordering::SeqCst);
        let enough = histories.fetch_add(1, Ordering::SeqCst) + 1 >= at_least;
        enough && started.elapsed() >= limit
    });
    let [histories, take_overs, commits] = counts.map(AtomicU64::into_inner);
    println!(
        "{histories} histories, {take_overs} starts, {commits} seals in {:.1?}",
        started.elapsed()
    );
    assert!(take_overs >= histories && commits >= histories);
}
