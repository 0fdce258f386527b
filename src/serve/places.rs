//! Limits on connections.

/// Maximum connections beyond `connections_max`, for supervisors.
const SPARE_MAX: usize = 64;

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) connections: usize,
    pub(super) spare: usize,
}

impl Places {
    /// Reduces `wanted` connections to half of the descriptors that this process may open.
    pub(super) fn within(wanted: usize, descriptors: Option<u64>) -> Self {
        let half = descriptors.map_or(usize::MAX, |all| {
            usize::try_from(all / 2).unwrap_or(usize::MAX)
        });
        let spare = SPARE_MAX.min(half / 8).max(1);
        Self {
            connections: wanted.min(half - spare.min(half)).max(1),
            spare,
        }
    }
}
