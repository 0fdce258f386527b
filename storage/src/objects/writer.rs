//! The writer of a store, as others find it in the object store.

use super::commit::pointer;
use crate::depot::Depot;
use crate::error::Result;

/// The writer that has committed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreWriter {
    /// Its epoch: the number of the store's starts. That of a later writer is higher.
    pub epoch: u32,
    /// URL of its server, if it tells one.
    pub address: Option<String>,
}

impl StoreWriter {
    /// Reads which writer has committed last; `None` if there is no store. Blocks.
    ///
    /// # Errors
    /// An error of the object store; [`crate::Error::Corrupt`] if `CURRENT` is damaged.
    pub fn of(depot: &dyn Depot) -> Result<Option<Self>> {
        let found = pointer(depot)?.map(|pointer| pointer.current);
        let found = found.filter(|current| !current.is_claim());
        Ok(found.map(|current| Self {
            epoch: current.epoch,
            address: current.address,
        }))
    }
}
