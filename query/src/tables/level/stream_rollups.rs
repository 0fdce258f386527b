//! The rollups that may answer for the raw events of a stream.

use std::sync::Arc;

use super::{Rollup, TileCache};

/// When rollups answer aggregates over raw events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RollupUse {
    /// Where they have the same answer and raw events are likely to cost more.
    #[default]
    Auto,
    /// Where they have the same answer.
    Always,
    /// Never.
    Never,
}

/// The rollups of a stream, for the rule.
#[derive(Debug)]
pub(crate) struct StreamRollups {
    pub(crate) rollups: Vec<Rollup>,
    pub(crate) tiles: Arc<TileCache>,
    /// Also where raw events are likely to cost less: for tests.
    pub(crate) always: bool,
}
