//! The rollups that may answer for the raw events of a stream.

use std::sync::Arc;

use super::{Rollup, TileCache};

/// Policy by which rollups answer aggregates over raw events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RollupUse {
    /// Use rollups that have the same answer where raw events are likely to cost more.
    #[default]
    Auto,
    /// Use rollups wherever they have the same answer.
    Always,
    /// Never use rollups.
    Never,
}

/// The rollups of a stream, as the rule needs them.
#[derive(Debug)]
pub(crate) struct StreamRollups {
    pub(crate) rollups: Vec<Rollup>,
    pub(crate) tiles: Arc<TileCache>,
    /// True to use rollups even where raw events are likely to cost less: for tests and for
    /// random questions (`questions.rs`).
    pub(crate) always: bool,
}
