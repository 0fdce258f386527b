//! The oracle's view of the quarantine: which batch resolved each item, and which items may have
//! been dropped.

use std::collections::BTreeSet;

use super::oracle::{Fate, Oracle, Sent};
use super::seen::Seen;
use crate::model::Identity;
use crate::resolutions::{Ranges, Settled, Settlement};
use crate::sim::Random;

impl Sent {
    pub(super) fn settles(&self) -> Option<(&Ranges, Settlement)> {
        match &self.identity {
            Some(Identity::Settles { items, how }) => Some((items, *how)),
            _ => None,
        }
    }

    /// Returns true when all items that this batch discards are discarded, by no batch before it;
    /// removes them from `left`. Returns `None` for a batch that discards nothing.
    pub(super) fn has_discarded(&self, left: &mut BTreeSet<u64>) -> Option<bool> {
        let Some((items, Settlement::Dropped)) = self.settles() else {
            return None;
        };
        let all = left.iter().filter(|seq| items.contains(**seq)).count() as u64;
        let there = all == items.count();
        if there {
            left.retain(|seq| !items.contains(*seq));
        }
        Some(there)
    }
}

impl Oracle {
    /// Adds a batch that resolves some items.
    pub(super) fn new_settling(&mut self, items: Ranges, how: Settlement) -> usize {
        let events = match how {
            Settlement::Replayed => items.count(),
            Settlement::Dropped => 0,
        };
        self.sends(events, 0, Some(Identity::Settles { items, how }))
    }

    /// Returns some quarantined items: open ones, and sometimes any.
    pub(super) fn some_items(&self, seen: &Seen, count: u64, seed: &mut Random) -> Ranges {
        let any = seed.below(4) == 0;
        let fits = |seq: &u64| any || seen.settled.how(*seq).is_none();
        let all: Vec<u64> = seen.bad.iter().copied().filter(fits).collect();
        if all.is_empty() {
            return Ranges::default();
        }
        Ranges::of((0..count).map(|_| all[seed.below(all.len() as u64) as usize]))
    }

    /// Returns the resolutions of the batches that exist, each item once.
    pub(super) fn settled(&self) -> Settled {
        let mut settled = Settled::default();
        for sent in self.sent.iter().filter(|s| s.lives()) {
            if let Some((items, how)) = sent.settles() {
                let first = matches!(settled.are_resolved(items, 0), Ok(false));
                assert!(first, "{sent:?} settles what was settled before");
                settled.add(items, how);
            }
        }
        settled
    }

    /// Returns true when only some of the items of this batch are open.
    pub(super) fn is_settled_in_part(&self, which: usize) -> bool {
        let items = self.sent[which].settles();
        items.is_some_and(|(items, _)| self.settled().are_resolved(items, 0).is_err())
    }

    /// Records that a resolving batch was answered as a duplicate: all its items had been
    /// resolved, by itself or by others. In the second case it is not stored.
    pub(super) fn settles_nothing(&mut self, which: usize) {
        let (items, _) = self.sent[which].settles().expect("it settles");
        let resolved = self.settled().are_resolved(items, 0);
        assert!(
            matches!(resolved, Ok(true)),
            "{:?} is called a duplicate",
            self.sent[which]
        );
        if !self.sent[which].lives() {
            self.sent[which].fate = Fate::Gone;
        }
    }

    /// Records that the quarantine may drop resolved items.
    pub(super) fn may_drop_settled(&mut self) {
        let settled = self.settled();
        for how in Settlement::ALL {
            self.may_be_gone.add(settled.items(how));
        }
    }

    /// Checks that the store's resolutions are those of the batches, and that dropped items had
    /// been resolved.
    pub(super) fn check_settled(&self, seen: &Seen) {
        assert_eq!(seen.settled, self.settled(), "what is settled");
        let batches = self.sent.iter().filter(|s| s.lives());
        let missing = batches
            .flat_map(Sent::bad_seqs)
            .filter(|seq| !seen.bad.contains(seq));
        for seq in missing {
            let settled = seen.settled.how(seq).is_some();
            assert!(settled, "item {seq} was given up while it waited");
        }
    }
}
