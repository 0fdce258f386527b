//! The mark of columns that hold states.

/// Key of a column's Arrow metadata that names the kind of its states.
pub const STATE: &str = "logmill.state";

/// The kind of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKind {
    /// A [`super::Histogram`].
    Histogram,
    /// A [`super::Distinct`].
    Distinct,
}

impl StateKind {
    /// Returns the name in the metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Histogram => "histogram",
            Self::Distinct => "distinct",
        }
    }

    /// Returns the kind of a name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Histogram, Self::Distinct];
        all.into_iter().find(|kind| kind.name() == name)
    }
}
