//! One error type for the room.

/// What went wrong while reading a definition, a state or a tile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A definition cannot be used as it is written.
    #[error("rollup {rollup}: {what}")]
    Definition {
        /// The rollup's name.
        rollup: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// The configuration and the store disagree about a rollup of one name.
    #[error(
        "rollup {rollup} differs from the one in the store: {what}; restore the old definition, give \
         the new one another name, or have it counted anew with `logmill rollup redefine {rollup}`"
    )]
    Differs {
        /// The rollup's name.
        rollup: String,
        /// Each member that differs, with both values.
        what: String,
    },
    /// Bytes that are not a tile, or a damaged one.
    #[error("tile is corrupt at byte {offset}: {what}")]
    Corrupt {
        /// Where in the file, bytes from its start.
        offset: u64,
        /// What was expected there.
        what: String,
    },
    /// Bytes that are not a state, or two states that cannot be merged.
    #[error("{what}")]
    State {
        /// What is wrong with them.
        what: String,
    },
    /// A question that the rollup cannot answer, such as a column that enters at a coarser level.
    #[error("{what}")]
    Invalid {
        /// What was asked and what can be asked instead.
        what: String,
    },
    /// A part or a tile cannot be read.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// Arrow refused an operation on columns.
    #[error("columns: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
}

impl Error {
    pub(crate) fn definition(rollup: &str, what: impl Into<String>) -> Self {
        Self::Definition {
            rollup: rollup.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn corrupt(offset: usize, what: impl Into<String>) -> Self {
        Self::Corrupt {
            offset: offset as u64,
            what: what.into(),
        }
    }

    pub(crate) fn state(what: impl Into<String>) -> Self {
        Self::State { what: what.into() }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }
}

/// The room's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
