//! The section of a stream, and the terms on which lines come into it.

use std::collections::BTreeMap;

use serde::Deserialize;
use storage::{Salt, ShardKey};

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
    /// The key by which a cluster divides the events of the stream among its shards.
    pub(crate) shard_key: Option<String>,
    /// Values of the key, or lists of values for several fields, whose events are divided further.
    pub(crate) hot_values: Vec<HotKeyValue>,
}

/// A shard key with its hot values, each with a text for every field.
pub(crate) type ConfiguredKey = (ShardKey, Vec<Vec<String>>);

/// A value of a shard key: of its one field, or of each of its fields.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum HotKeyValue {
    One(String),
    Each(Vec<String>),
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

    /// Returns the shard key that is configured for a stream, with its hot values.
    ///
    /// # Errors
    /// The reason why it is none.
    pub(crate) fn shard_key(&self, stream: &str) -> Result<Option<ConfiguredKey>, String> {
        let config = self.stream.get(stream);
        let Some(text) = config.and_then(|config| config.shard_key.as_ref()) else {
            return match config.is_some_and(|config| !config.hot_values.is_empty()) {
                true => Err("hot_values: they need a shard_key, as \"path + hash if hot\"".into()),
                false => Ok(None),
            };
        };
        let key: ShardKey = text.parse().map_err(|why| format!("shard_key: {why}"))?;
        key.check().map_err(|why| format!("shard_key: {why}"))?;
        let hot = config.map_or(&[][..], |config| &config.hot_values).iter();
        let hot: Vec<Vec<String>> = hot
            .map(|value| match value {
                HotKeyValue::One(text) => vec![text.clone()],
                HotKeyValue::Each(texts) => texts.clone(),
            })
            .collect();
        let is_by_hot = matches!(
            &key,
            ShardKey::Fields {
                salt: Salt::Hot,
                ..
            }
        );
        if is_by_hot == hot.is_empty() {
            return Err(match is_by_hot {
                true => format!("shard_key: {text:?} needs hot_values, the values to divide"),
                false => format!(
                    "hot_values: only a key with \" + hash if hot\" has them, and not {text:?}"
                ),
            });
        }
        let fields = key.fields().count();
        match hot.iter().find(|value| value.len() != fields) {
            Some(wrong) => Err(format!(
                "hot_values: {wrong:?}: write a list of {fields} values, one for each field of the key"
            )),
            None => Ok(Some((key, hot))),
        }
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
