//! Edits of parts. The check that none of them loses an event is in `proof.rs`.

use std::collections::BTreeSet;

use super::{Manifest, PartMeta, Pending};

impl Manifest {
    /// Replaces parts by others that hold the same events.
    pub(crate) fn replace_parts(&mut self, old: &BTreeSet<u64>, new: Vec<PartMeta>) {
        let since = self.version + 1;
        let pending = &mut self.pending;
        self.parts.retain_mut(|part| {
            let keep = !old.contains(&part.id);
            if !keep {
                let path = std::mem::take(&mut part.file.path);
                pending.push(Pending { path, since });
            }
            keep
        });
        self.parts.extend(new);
        self.parts.sort_by_key(|part| part.id);
    }
}
