//! Errors of a query in Prometheus' language.

/// A failure to read or to evaluate a query.
#[derive(Debug)]
pub(crate) enum PromqlError {
    /// The text or a parameter is wrong.
    BadData(String),
    /// The query cannot be evaluated, or exceeds a limit.
    Execution(String),
    /// The time of the request is over.
    Timeout,
    /// The cells could not be read.
    Read(Box<query::Error>),
}

impl PromqlError {
    /// Returns the error of a query that cannot be evaluated.
    pub(crate) fn execution(message: impl Into<String>) -> Self {
        Self::Execution(message.into())
    }
}

impl From<query::Error> for PromqlError {
    fn from(error: query::Error) -> Self {
        Self::Read(Box::new(error))
    }
}

/// The result of an evaluation.
pub(super) type Result<T> = std::result::Result<T, PromqlError>;
