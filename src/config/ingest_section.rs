//! The section `[ingest]`.

use serde::{Deserialize, Serialize};

use crate::units::Span;

/// `[ingest]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Ingest {
    /// An event whose timestamp is further than this after its receipt is quarantined.
    pub(crate) max_future: Span,
    /// Maximum columns of a request, and of a stream that is created from now on.
    pub(crate) columns_max: usize,
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            max_future: Span(std::time::Duration::from_micros(
                ingest::MAX_FUTURE_US.cast_unsigned(),
            )),
            columns_max: storage::COLUMNS_MAX,
        }
    }
}
