//! The writer of a store, as others find it in the object store.

use super::commit::pointer;
use crate::depot::Depot;
use crate::error::Result;

/// Reads the URL of the server that has committed last; `None` if there is no store, or its writer
/// tells none. Blocks.
///
/// # Errors
/// An error of the object store; [`crate::Error::Corrupt`] if `CURRENT` is damaged.
pub fn writer_address(depot: &dyn Depot) -> Result<Option<String>> {
    let found = pointer(depot)?.map(|pointer| pointer.current);
    let found = found.filter(|current| !current.is_claim());
    Ok(found.and_then(|current| current.address))
}
