//! Errors of MongoDB's query language, with the codes of its server.

use std::fmt;

/// A query that cannot be understood, or cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// The code, as MongoDB numbers it.
    pub code: i32,
    /// The reason.
    pub message: String,
}

pub(super) type Result<T, E = QueryError> = std::result::Result<T, E>;

impl QueryError {
    pub(super) fn located(code: i32, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    pub(super) fn bad_value(message: impl Into<String>) -> Self {
        Self::located(2, message)
    }

    pub(super) fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::located(9, message)
    }

    pub(super) fn type_mismatch(message: impl Into<String>) -> Self {
        Self::located(14, message)
    }

    pub(super) fn not_supported(message: impl Into<String>) -> Self {
        Self::located(115, message)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for QueryError {}
