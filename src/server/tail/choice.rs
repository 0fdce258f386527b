//! The choice of events that a client follows.

use query::StreamColumns;
use serde::{Deserialize, Serialize};
use storage::Name;

/// The choice of events that a client follows, and the form in which it gets them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::server) enum Follow {
    /// Events that pass an SQL condition, as server-sent events.
    Where(Option<String>),
    /// Lines of a LogQL query, as messages of Loki's live tail.
    Logql(String),
}

/// A stream and a choice of its events.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(in crate::server) struct Followed {
    pub(in crate::server) stream: Name,
    pub(in crate::server) follow: Follow,
    /// Columns upon which several stores agree, as JSON; `None` for those of this store alone.
    pub(in crate::server) agreed: Option<String>,
}

impl Followed {
    pub(in crate::server) fn of(
        stream: &Name,
        follow: Follow,
        agreed: Option<&StreamColumns>,
    ) -> Self {
        let agreed = agreed.map(serde_json::to_string).transpose();
        Self {
            stream: stream.clone(),
            follow,
            agreed: agreed.expect("BUG: columns are JSON"),
        }
    }

    /// Returns the columns upon which several stores agree.
    ///
    /// # Errors
    /// [`query::Error::Invalid`] if they are no columns.
    pub(in crate::server) fn agreed(&self) -> query::Result<Option<StreamColumns>> {
        let columns = self.agreed.as_deref().map(serde_json::from_str);
        let columns = columns.transpose();
        columns.map_err(|e| query::Error::invalid(format!("the columns of a tail: {e}")))
    }
}
