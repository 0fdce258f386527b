//! The section of a stream, and the terms on which lines come into it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::stream_format::{StreamFormat, StreamMultiline, StreamValue};
use super::{Concern, Config, Retention};

/// `[stream.NAME]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Stream {
    pub(crate) format: Option<StreamFormat>,
    /// Lines that are one record: `indent` or `start:EXPRESSION`.
    pub(crate) multiline: Option<StreamMultiline>,
    pub(crate) partition: Option<storage::PartitionWidth>,
    pub(crate) order_by: Option<Vec<String>>,
    /// Indexes, each as the list of its columns: always one.
    pub(crate) indexes: Vec<Vec<String>>,
    /// Covering indexes, in the same form.
    pub(crate) covering: Vec<Vec<String>>,
    pub(crate) write_concern: Option<Concern>,
    /// Rollups of the stream; `[]`: not even the default ones.
    pub(crate) rollups: Option<Vec<String>>,
    /// Limits of the raw events; without them all are kept for ever.
    pub(crate) retention: Option<Retention>,
    /// Stores only these fields, and the fields below them.
    pub(crate) keep: Option<Vec<String>>,
    /// Does not store these fields.
    pub(crate) drop: Option<Vec<String>>,
    /// Also stores the unparsed line, in the column `raw_line`.
    pub(crate) raw_line: bool,
    /// Fields that are stored without the person behind them: `truncate` or `hash`.
    pub(crate) anonymise: BTreeMap<String, String>,
    /// Keeps quarantined lines of an anonymised stream, as they came.
    pub(crate) quarantine_raw: bool,
}

impl Config {
    /// Returns the default write concern of a stream.
    pub(crate) fn concern(&self, stream: &str) -> storage::Result<storage::WriteConcern> {
        let Some(concern) = self
            .stream
            .get(stream)
            .and_then(|s| s.write_concern.as_ref())
        else {
            return Ok(storage::WriteConcern::default());
        };
        let w = concern
            .w
            .as_ref()
            .map(|w| w.as_str().map_or_else(|| w.to_string(), str::to_owned));
        storage::WriteConcern::parse(w.as_deref(), Some(concern.journal))
    }

    /// Returns the default format of a stream.
    pub(crate) fn format(&self, stream: &str) -> ingest::Format {
        let named = self.stream.get(stream).and_then(|s| s.format.as_ref());
        let named = named.and_then(StreamValue::value);
        named.unwrap_or(ingest::Format::Auto)
    }

    /// Returns the rule by which lines of a stream are records.
    pub(crate) fn multiline(&self, stream: &str) -> Option<ingest::Multiline> {
        let rule = self.stream.get(stream)?.multiline.as_ref()?;
        rule.value()
    }

    /// Returns the selection of fields that a stream stores.
    pub(crate) fn selection(&self, stream: &str) -> ingest::Selection {
        let Some(stream) = self.stream.get(stream) else {
            return ingest::Selection::default();
        };
        ingest::Selection {
            keep: stream.keep.clone(),
            drop: stream.drop.clone().unwrap_or_default(),
            raw_line: stream.raw_line,
        }
    }

    pub(super) fn check_selection(&self, name: &str, stream: &Stream) -> Result<(), String> {
        if stream.keep.is_some() && stream.drop.is_some() {
            return Err("has both keep and drop; set only one of them".into());
        }
        let checked = self
            .format(name)
            .check(&self.selection(name), &self.anonymiser(name));
        checked.map_err(|e| e.to_string())
    }
}
