//! Edits of parts. That no event is lost by one is what `proof.rs` checks.

use std::collections::BTreeSet;

use super::{Manifest, PartMeta, Pending};

impl Manifest {
    /// Puts parts in the place of others, which hold the same events.
    pub(crate) fn replace_parts(&mut self, gone: &BTreeSet<u64>, new: Vec<PartMeta>) {
        let since = self.version + 1;
        let pending = &mut self.pending;
        self.parts.retain_mut(|part| {
            let keep = !gone.contains(&part.id);
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
