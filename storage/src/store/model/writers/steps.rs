//! The steps of a history.

use super::super::machines::{GRACE_US, maintain};
use super::offers::ANSWER_MAX;
use super::{CONTENDERS, Contender, Writers};
use crate::concern::{Copies, WriteConcern};
use crate::error::{Error, Kind};
use crate::objects;
use crate::sim::Image;

impl Writers {
    pub(super) fn step(&mut self) {
        let mut which = self.random.below(CONTENDERS as u64) as usize;
        let is_open = |machine: &Contender| machine.store.is_some();
        if !is_open(&self.all[which]) {
            let other = self.all.iter().position(is_open);
            match other.filter(|_| self.random.below(4) > 0) {
                Some(other) => which = other,
                None => return self.open(which),
            }
        }
        match self.random.below(26) {
            0..9 => self.write(which),
            9..12 => self.send_again(which),
            12..15 => self.seal(which),
            15 => self.tend(which),
            16 => self.end(which, None),
            17 => {
                let seed = self.random.next_u64();
                self.end(which, Some(Image::Seed(seed)));
            }
            18 => self.stop(which),
            19 => self.close(which),
            20..23 => self.hold(which),
            23 => self.clock.advance(GRACE_US / 2),
            24 => self.collect(true),
            _ => self.lose((which + 1) % CONTENDERS),
        }
    }

    pub(super) fn write(&mut self, which: usize) {
        let (day, kind) = (self.random.below(3) as i64, self.random.below(5));
        // A batch without events leaves its identity alone.
        let count = self.random.below(4).max(u64::from(kind == 0)) as i64;
        let items = (count, self.random.below(6) == 0);
        let is_patient = self.random.below(4) > 0;
        let waiting = self.offers.to_ship(is_patient);
        let offer = match waiting.filter(|_| kind > 2) {
            Some(first) => first,
            None => self.offers.add(items, day, kind),
        };
        self.send(which, offer);
    }

    fn send_again(&mut self, which: usize) {
        if self.offers.len() > 0 {
            let offer = self.random.below(self.offers.len() as u64) as usize;
            if self.offers.has_identity(offer) {
                self.send(which, offer);
            }
        }
    }

    pub(super) fn send(&mut self, which: usize, offer: usize) {
        let concern = [
            WriteConcern::ACKNOWLEDGED,
            WriteConcern::JOURNALED,
            WriteConcern {
                w: Copies::Majority,
                j: false,
            },
        ][self.random.below(3) as usize];
        self.say(|| format!("{which} gets batch {offer}"));
        let (reply, answer) = crossbeam_channel::bounded(1);
        let pending = self.offers.send(offer, answer);
        let store = self.all[which].store.as_ref().expect("open");
        let queued = store.submit(self.offers.batch(offer), concern, move |outcome| {
            // Nobody waits for the answer of a machine that was killed.
            let _ignored = reply.send(outcome);
        });
        match queued {
            Ok(()) => self.all[which].pending.push(pending),
            Err(error) => {
                self.offers.refused(&pending);
                self.excuse(which, &error);
            }
        }
    }

    /// Takes the answers that are there, or waits for those of all machines that are not held.
    pub(super) fn collect(&mut self, waits: bool) {
        for machine in &mut self.all {
            let waits = waits && machine.may_answer();
            for pending in std::mem::take(&mut machine.pending) {
                match pending.take(waits) {
                    Some(outcome) => self.offers.answered(&pending, outcome),
                    None => machine.pending.push(pending),
                }
            }
            let is_due = waits && machine.store.is_some();
            assert!(!is_due || machine.pending.is_empty(), "no answer");
        }
    }

    /// Takes the answers of a machine whose store has ended, which gives all of them.
    fn collect_last(&mut self, which: usize) {
        for pending in std::mem::take(&mut self.all[which].pending) {
            let outcome = pending.take(true).expect("an answer");
            self.offers.answered(&pending, outcome);
        }
        self.all[which].begin();
    }

    pub(super) fn seal(&mut self, which: usize) {
        self.say(|| format!("{which} seals"));
        self.endanger(which);
        let store = self.all[which].store.as_ref().expect("open");
        match store.seal() {
            Ok(_) => self.seals += 1,
            Err(error) => self.excuse(which, &error),
        }
        self.survive(which);
    }

    pub(super) fn tend(&mut self, which: usize) {
        self.say(|| format!("{which} tends"));
        self.endanger(which);
        let store = self.all[which].store.as_ref().expect("open");
        let quiet = self.random.below(2) == 0;
        if let Err(error) = maintain(store, quiet) {
            self.excuse(which, &error);
        }
        self.survive(which);
    }

    /// Lets the process of a machine end at any operation of its disk from now on, perhaps.
    pub(super) fn endanger(&mut self, which: usize) {
        if !self.is_calm && self.random.below(5) == 0 {
            let fs = &self.all[which].fs;
            fs.halt_at(fs.operations() + self.random.below(60));
        }
    }

    /// Ends a process whose disk has stopped; the others are out of danger.
    fn survive(&mut self, which: usize) {
        match self.all[which].fs.halted() {
            true => self.end_halted(which),
            false => self.all[which].fs.halt_at(u64::MAX),
        }
    }

    /// Ends a process whose disk has stopped: no client got the answers that came since.
    pub(super) fn end_halted(&mut self, which: usize) {
        self.say(|| format!("{which} ends in the midst"));
        let seed = self.random.next_u64();
        let image = (seed.is_multiple_of(2)).then_some(Image::Seed(seed));
        self.all[which].end(image);
    }

    pub(super) fn end(&mut self, which: usize, image: Option<Image>) {
        self.say(|| format!("{which} ends: {image:?}"));
        self.collect(false);
        self.all[which].end(image);
    }

    /// Stops a store without a seal. It waits for messages on their way, so it sees them.
    fn stop(&mut self, which: usize) {
        self.say(|| format!("{which} stops"));
        self.all[which].journal.release();
        let store = self.all[which].store.take();
        in_time(move || drop(store));
        self.collect_last(which);
    }

    pub(super) fn close(&mut self, which: usize) {
        self.say(|| format!("{which} closes"));
        self.all[which].journal.release();
        let store = self.all[which].store.take().expect("open");
        if let Err(error) = in_time(move || store.close()) {
            assert_ne!(error.kind(), Kind::Corrupt, "{error}");
        }
        self.collect_last(which);
    }

    fn hold(&mut self, which: usize) {
        let journal = &self.all[which].journal;
        match journal.is_held() {
            true => journal.release(),
            false => journal.hold(),
        }
        self.say(|| format!("{which} is held: {}", journal.is_held()));
    }

    /// Takes a machine's disk away, and opens a new one.
    fn lose(&mut self, which: usize) {
        self.say(|| format!("{which} loses its disk"));
        let owns = self.is_owner(which);
        self.end(which, None);
        let claim = self.depot.calmly(|| objects::pointer(&self.depot));
        if owns && claim.expect("read").is_some_and(|c| c.current.is_claim()) {
            // An operator knows that the store has gone for good.
            self.depot.delete_current();
        }
        self.all[which] = Contender::new(&self.depot, &self.journal);
        self.open(which);
    }

    /// An error comes from the object store, or from another writer.
    fn excuse(&self, which: usize, error: &Error) {
        self.say(|| format!("{which} fails: {error}"));
        assert_ne!(error.kind(), Kind::Corrupt, "{error}");
        // A rollup wraps the errors of its files, also those of a process that has ended.
        let has_ended = self.all[which].fs.halted();
        let passes =
            error.kind() != Kind::Internal || has_ended || error.to_string().contains("timed out");
        assert!(passes, "{error}");
    }

    /// Ends the processes of machines that another one has superseded, in one way or the other.
    pub(super) fn exit(&mut self) {
        for which in 0..CONTENDERS {
            let store = self.all[which].store.as_ref();
            let Some(why) = store.and_then(|store| store.status().poisoned) else {
                continue;
            };
            assert!(why.contains("has taken over"), "poisoned: {why}");
            assert!(!self.is_owner(which), "superseded by itself: {why}");
            match self.random.below(3) {
                0 => self.end(which, None),
                1 => self.stop(which),
                _ => self.close(which),
            }
        }
    }
}

/// Runs `what` in a thread of its own, to notice that it waits for ever.
fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = crossbeam_channel::bounded(1);
    std::thread::spawn(move || {
        // The test may have given up.
        let _ignored = done.send(what());
    });
    let ended = wait.recv_timeout(ANSWER_MAX);
    ended.expect("a store stops within a while")
}
