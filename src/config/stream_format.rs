//! The format of a stream, which is compiled once and not for each request.

use ingest::Format;
use serde::{Deserialize, Deserializer};

/// A format by its name, or the reason why the name is none.
#[derive(Debug, Clone)]
pub(crate) struct StreamFormat(pub(super) Result<Format, String>);

impl StreamFormat {
    /// Returns the format, unless the name is none.
    #[cfg_attr(
        not(feature = "kafka"),
        expect(dead_code, reason = "only the Kafka source has a format of its own")
    )]
    pub(crate) fn named(&self) -> Option<Format> {
        self.0.as_ref().ok().cloned()
    }
}

impl<'de> Deserialize<'de> for StreamFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(Self(name.parse().map_err(|e: ingest::Error| e.to_string())))
    }
}
