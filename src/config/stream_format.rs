//! Values of a stream that are compiled once and not for each request.

use std::str::FromStr;

use ingest::{Format, Multiline};
use serde::{Deserialize, Deserializer};

/// A value by its text, or the reason why the text is none.
#[derive(Debug, Clone)]
pub(crate) struct StreamValue<T>(pub(super) Result<T, String>);

pub(crate) type StreamFormat = StreamValue<Format>;
pub(crate) type StreamMultiline = StreamValue<Multiline>;

impl<T: Clone> StreamValue<T> {
    /// Returns the value, unless the text is none.
    pub(crate) fn value(&self) -> Option<T> {
        self.0.as_ref().ok().cloned()
    }
}

impl<'de, T: FromStr<Err = ingest::Error>> Deserialize<'de> for StreamValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(text.parse().map_err(|e: ingest::Error| e.to_string())))
    }
}
