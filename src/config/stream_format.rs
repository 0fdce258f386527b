//! The format of a stream, which is compiled once and not for each request.

use ingest::Format;
use serde::{Deserialize, Deserializer};

/// A format by its name, or the reason why the name is none.
#[derive(Debug, Clone)]
pub(crate) struct StreamFormat(pub(super) Result<Format, String>);

impl<'de> Deserialize<'de> for StreamFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(Self(name.parse().map_err(|e: ingest::Error| e.to_string())))
    }
}
