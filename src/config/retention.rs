//! The retention of a stream.

use serde::Deserialize;

use crate::units::{Bytes, Span};

/// Limits of a stream's raw events; at least one is set.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retention {
    pub(crate) age: Option<Span>,
    pub(crate) bytes: Option<Bytes>,
}

impl Retention {
    pub(super) fn problem(self) -> Option<&'static str> {
        if self.age.is_none() && self.bytes.is_none() {
            return Some("write age, bytes or both, as in { age = \"90d\", bytes = \"200GB\" }");
        }
        let nothing = self.age.is_some_and(|age| age.micros() == 0)
            || self.bytes.is_some_and(|bytes| bytes.0 == 0);
        nothing.then_some("0 would keep nothing")
    }

    pub(super) fn limits(self) -> storage::Retention {
        storage::Retention {
            age_us: self.age.map(Span::micros),
            bytes: self.bytes.map(|bytes| bytes.0),
        }
    }
}
