//! The limits of the raw events of a stream.

use serde::{Deserialize, Serialize};

/// Retention limits of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Age up to which raw events are kept, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_us: Option<i64>,
    /// Bytes that the parts of the stream may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}
