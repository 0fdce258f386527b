//! Limits on connections.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::sync::Semaphore;

/// Maximum connections beyond `connections_max`, for supervisors.
const SPARE_MAX: usize = 64;

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) connections: usize,
    pub(crate) spare: usize,
}

impl Places {
    /// Reduces `wanted` connections to half of the descriptors that this process may open.
    pub(crate) fn within(wanted: usize, descriptors: Option<u64>) -> Self {
        let half = descriptors.map_or(usize::MAX, |all| {
            usize::try_from(all / 2).unwrap_or(usize::MAX)
        });
        let spare = SPARE_MAX.min(half / 8).max(1);
        Self {
            connections: wanted.min(half - spare.min(half)).max(1),
            spare,
        }
    }

    /// Returns the connections of shippers: theirs stay open without a byte, and the other half is
    /// for requests.
    fn shippers(self) -> usize {
        self.connections.div_ceil(2)
    }

    /// Reduces `wanted` tails to half of the connections: tails stay open, and the other half is
    /// for other requests.
    pub(crate) fn tails(self, wanted: usize) -> usize {
        wanted.min(self.connections / 2)
    }
}

/// The connections of all listeners.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Places for more of them.
    pub(crate) free: Arc<Semaphore>,
    /// Places among these for connections of shippers.
    pub(crate) shippers: Arc<Semaphore>,
    /// Open ones, those beyond a limit too.
    pub(crate) open: Arc<AtomicUsize>,
}

impl Connections {
    /// Creates the places.
    pub(crate) fn within(places: Places) -> Self {
        Self {
            free: Arc::new(Semaphore::new(places.connections)),
            shippers: Arc::new(Semaphore::new(places.shippers())),
            open: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_at_most_half_of_the_descriptors() {
        let places = |wanted, descriptors| {
            let places = Places::within(wanted, descriptors);
            (places.connections, places.spare)
        };
        assert_eq!(places(1000, None), (1000, 64));
        assert_eq!(places(1000, Some(20_000)), (1000, 64));
        assert_eq!(places(1000, Some(1024)), (448, 64));
        assert_eq!(places(1000, Some(128)), (56, 8));
        assert_eq!(places(1000, Some(16)), (7, 1));
        assert_eq!(places(1000, Some(0)), (1, 1));
        assert_eq!(places(10, Some(1024)), (10, 64));
    }

    #[test]
    fn tails_take_at_most_half_of_the_connections() {
        let places = Places::within(1000, Some(1024));
        assert_eq!((places.tails(500), places.tails(9)), (224, 9));
    }
}
