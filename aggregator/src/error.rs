//! The crate's error type.

/// An error of a definition, a state, a tile or a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A definition cannot be used as it is written.
    #[error("rollup {rollup}: {what}")]
    Definition {
        /// The rollup's name.
        rollup: String,
        /// The fault and its remedy.
        what: String,
    },
    /// The configuration and the store define a rollup of the same name differently.
    #[error(
        "rollup {rollup} differs from the one in the store: {what}; restore the old definition, \
         give the new one another name, or recount it with `logmill rollup redefine {rollup}`"
    )]
    Differs {
        /// The rollup's name.
        rollup: String,
        /// Each member that differs, with both values.
        what: String,
    },
    /// The bytes are not a tile, or the tile is damaged.
    #[error("tile is corrupt at byte {offset}: {what}")]
    Corrupt {
        /// Offset in the file, bytes.
        offset: u64,
        /// The fault at that offset.
        what: String,
    },
    /// The bytes are not a state, or two states cannot be merged.
    #[error("{what}")]
    State {
        /// The fault.
        what: String,
    },
    /// The rollup cannot answer the query, for example because a column enters at a coarser level.
    #[error("{what}")]
    Invalid {
        /// The fault of the query and a query that is possible instead.
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

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
