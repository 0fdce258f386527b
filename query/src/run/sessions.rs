//! A pool of planning states, each used by one query at a time. A state holds hundreds of
//! functions by name, and copying them takes longer than planning a short query.

use std::fmt;
use std::sync::Arc;

use datafusion::catalog::MemoryCatalogProviderList;
use datafusion::execution::SessionState;
use parking_lot::Mutex;

/// Maximum states kept for later queries.
const IDLE_MAX: usize = 16;

/// Lends copies of the first state.
pub(crate) struct StatePool {
    first: SessionState,
    idle: Mutex<Vec<SessionState>>,
}

impl fmt::Debug for StatePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatePool").finish_non_exhaustive()
    }
}

impl StatePool {
    pub(crate) fn new(first: SessionState) -> Self {
        Self {
            first,
            idle: Mutex::default(),
        }
    }

    /// Returns the state that all others are copied from.
    pub(crate) fn first(&self) -> &SessionState {
        &self.first
    }

    /// Takes a state for exclusive use, without a catalog.
    pub(crate) fn take(&self) -> SessionState {
        let idle = self.idle.lock().pop();
        idle.unwrap_or_else(|| self.first.clone())
    }

    /// Returns a state to the pool; only its catalogs may have changed. They are removed, as they
    /// hold a snapshot.
    pub(crate) fn give_back(&self, mut session: SessionState) {
        session.register_catalog_list(Arc::new(MemoryCatalogProviderList::new()));
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::catalog::{CatalogProviderList, MemoryCatalogProvider};
    use datafusion::execution::SessionStateBuilder;

    use super::*;

    #[test]
    fn a_session_that_is_kept_holds_no_catalog_of_its_query() {
        let sessions = StatePool::new(SessionStateBuilder::new().build());
        let mut state = sessions.take();
        let catalogs = Arc::new(MemoryCatalogProviderList::new());
        let catalog = Arc::new(MemoryCatalogProvider::new());
        catalogs.register_catalog("logmill".to_owned(), Arc::clone(&catalog) as _);
        state.register_catalog_list(catalogs);
        let id = state.session_id().to_owned();
        sessions.give_back(state);
        assert_eq!(Arc::strong_count(&catalog), 1, "it would hold a snapshot");
        let again = sessions.take();
        assert_eq!(again.session_id(), id, "the one that was given back");
        assert!(again.catalog_list().catalog_names().is_empty());
    }
}
