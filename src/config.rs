//! `logmill.toml`, overlaid by `LOGMILL_SECTION__KEY` and by the command line.
//!
//! The origin of every value is kept ([`Config::origins`]). An unknown key is an error that names
//! the nearest known key. Every error names the file, the line and the accepted form of the value.

mod anonymise;
mod cluster;
mod host;
mod ingest_section;
#[cfg_attr(
    not(feature = "kafka"),
    allow(
        dead_code,
        unused_imports,
        reason = "without the Kafka source they are only checked"
    )
)]
pub(crate) mod kafka;
mod place;
mod retention;
mod server;
mod shippers;
mod stream;
mod stream_format;
mod tls;

pub(crate) use cluster::Cluster;
pub(crate) use host::Authority;
pub(crate) use ingest_section::Ingest;
use retention::Retention;
pub(crate) use server::Server;
pub(crate) use shippers::{Fluent, FluentRule, Relp, Syslog};
use stream::Stream;
use stream_format::{StreamFormat, StreamValue};
pub(crate) use tls::Tls;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use query::nearest;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::units::{Bytes, Span};

const FILE: &str = "logmill.toml";
const ENVIRONMENT: &str = "LOGMILL_";

/// The whole configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) server: Server,
    pub(crate) tls: Tls,
    pub(crate) storage: Storage,
    pub(crate) ingest: Ingest,
    pub(crate) syslog: Syslog,
    pub(crate) relp: Relp,
    pub(crate) fluent: Fluent,
    pub(crate) query: Query,
    pub(crate) cluster: Cluster,
    pub(crate) stream: BTreeMap<String, Stream>,
    pub(crate) kafka: BTreeMap<String, kafka::Kafka>,
    pub(crate) rollup: BTreeMap<String, aggregator::RollupTable>,
    #[serde(skip)]
    pub(crate) origins: Vec<Origin>,
    /// `anonymise` of each stream.
    #[serde(skip)]
    anonymisers: BTreeMap<String, ingest::Anonymiser>,
    /// Messages for who opens the store for writing.
    #[serde(skip)]
    warnings: Vec<String>,
}

/// The origin of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) origin: String,
}

/// `[storage]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Storage {
    /// Maximum age of the memtable: then it is sealed, which feeds every rollup.
    pub(crate) lag: Span,
    /// Maximum size of the memtable: then it is sealed as well.
    pub(crate) memtable_bytes_max: Bytes,
    /// Maximum interval between two syncs of the journal.
    pub(crate) sync_interval: Span,
    /// Disk space held in reserve: on a full disk, partitions can still be dropped or detached and
    /// a server stopped. At most a sixteenth of the disk; 0 reserves none.
    pub(crate) reserve: Bytes,
    /// Runs background maintenance: compacts tiles, and applies the retention of levels.
    pub(crate) tends: bool,
    /// Share of every rollup that a server verifies each interval: 0.01 verifies all in 100
    /// intervals.
    pub(crate) scrub_share: f64,
    /// Interval between two verifications.
    pub(crate) scrub_interval: Span,
    /// The object store that keeps the sealed files: `s3://bucket/prefix`. Credentials, region and
    /// endpoint come from the usual variables, `AWS_ACCESS_KEY_ID` and so on.
    pub(crate) objects: Option<String>,
    /// Time for which the object store keeps a file that the store does not need any more, for
    /// readers of other machines: longer than any of their queries.
    pub(crate) objects_grace: Span,
    /// Bytes of sealed files that stay in the data directory, newest first, beside the object
    /// store; 0: all of them.
    pub(crate) local_bytes_max: Bytes,
    /// Bytes of the data directory for blocks that queries have fetched from the object store.
    pub(crate) cache_bytes_max: Bytes,
}

impl Default for Storage {
    fn default() -> Self {
        let defaults = storage::Config::default();
        Self {
            lag: Span(std::time::Duration::from_secs(60)),
            memtable_bytes_max: Bytes(defaults.memtable_bytes_max as u64),
            sync_interval: Span(std::time::Duration::from_millis(defaults.sync_interval_ms)),
            reserve: Bytes(8 << 20),
            tends: defaults.tends,
            scrub_share: 0.01,
            scrub_interval: Span(std::time::Duration::from_secs(3600)),
            objects: None,
            objects_grace: Span(std::time::Duration::from_secs(3600)),
            local_bytes_max: Bytes(0),
            cache_bytes_max: Bytes(1 << 30),
        }
    }
}

/// `[query]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Query {
    /// Memory of all queries together.
    pub(crate) memory_bytes_max: Bytes,
    /// Maximum bytes that all queries together spill to the disk.
    pub(crate) temp_bytes_max: Bytes,
    /// Maximum length of a query text.
    pub(crate) sql_bytes_max: Bytes,
    /// Maximum time of a query in a server; `0s`: no limit.
    pub(crate) time_max: Span,
    /// Maximum rows of a server's answer; 0: no limit.
    pub(crate) rows_max: u64,
    /// Maximum bytes of a server's answer in memory, and never more than a quarter of the memory
    /// of queries; 0: no limit of its own.
    pub(crate) result_bytes_max: Bytes,
    /// Maximum queries that a server runs at once.
    pub(crate) running_max: usize,
    /// Maximum queries that wait for a running one to end.
    pub(crate) queued_max: usize,
    /// Answers aggregates over raw events from rollups where the result is the same.
    pub(crate) rollup_rewrite: bool,
}

impl Default for Query {
    fn default() -> Self {
        let limits = query::Limits::default();
        Self {
            memory_bytes_max: Bytes(query::EngineOptions::default().memory_bytes as u64),
            temp_bytes_max: Bytes(limits.temp_bytes),
            sql_bytes_max: Bytes(limits.sql_bytes as u64),
            time_max: Span(limits.time.unwrap_or_default()),
            rows_max: limits.rows.unwrap_or(0),
            result_bytes_max: Bytes(limits.bytes.unwrap_or(0)),
            running_max: limits.running,
            queued_max: limits.queued,
            rollup_rewrite: true,
        }
    }
}

impl Query {
    /// Returns the limits of a server's queries.
    pub(crate) fn limits(&self) -> query::Limits {
        let some = |most: u64| (most > 0).then_some(most);
        query::Limits {
            time: (!self.time_max.0.is_zero()).then_some(self.time_max.0),
            rows: some(self.rows_max),
            bytes: some(self.result_bytes_max.0).map(|most| most.min(self.memory_bytes_max.0 / 4)),
            sql_bytes: usize::try_from(self.sql_bytes_max.0).unwrap_or(usize::MAX),
            running: self.running_max.max(1),
            queued: self.queued_max,
            temp_bytes: self.temp_bytes_max.0,
        }
    }
}

/// Default write concern of a stream, for requests that name none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Concern {
    pub(crate) w: Option<toml::Value>,
    #[serde(default)]
    pub(crate) journal: bool,
}

impl Config {
    /// Reads `explicit`, or `logmill.toml` in the working directory if there is one, and the
    /// environment.
    pub(crate) fn load(explicit: Option<&Path>) -> Result<Self> {
        let file = explicit
            .map(Path::to_path_buf)
            .or_else(|| Some(PathBuf::from(FILE)).filter(|p| p.exists()));
        let mut origins = Vec::new();
        let mut text = None;
        let mut table = toml::Table::new();
        if let Some(path) = &file {
            let read = std::fs::read_to_string(path)
                .map_err(|e| Failure::config(format!("{}: {e}", path.display())))?;
            table = read.parse().map_err(|e: toml::de::Error| {
                Failure::config(place::explained(path, &read, &e, e.message()))
            })?;
            note(&mut origins, "", &table, &path.display().to_string());
            text = Some(read);
        }
        overlay_environment(&mut table, &mut origins, std::env::vars())?;
        let source = file.unwrap_or_else(|| PathBuf::from("the environment"));
        let mut config: Self = table.try_into().map_err(|e: toml::de::Error| {
            // A table has no line numbers, so the text is parsed once more for them. It parses
            // without an error if the wrong value comes from the environment.
            let in_file = text.as_deref().and_then(|text| {
                let error = toml::from_str::<Self>(text).err()?;
                let said = with_suggestion(error.message());
                Some(place::explained(&source, text, &error, &said))
            });
            let said = in_file.unwrap_or_else(|| {
                format!(
                    "a {ENVIRONMENT}… variable: {}",
                    with_suggestion(e.message())
                )
            });
            Failure::config(said)
        })?;
        config.server.has_postgres = origins.iter().any(|o| o.key == "server.postgres");
        config.origins = origins;
        config.validate(&source, text.as_deref())?;
        Ok(config)
    }

    /// Returns every setting of the sections that have defaults, by its dotted key. The list is
    /// derived from the types, so that none is missing.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let sections = [
            ("server", serde_json::to_value(&self.server)),
            ("tls", serde_json::to_value(&self.tls)),
            ("storage", serde_json::to_value(&self.storage)),
            ("ingest", serde_json::to_value(&self.ingest)),
            ("syslog", serde_json::to_value(&self.syslog)),
            ("relp", serde_json::to_value(&self.relp)),
            ("fluent", serde_json::to_value(&self.fluent)),
            ("query", serde_json::to_value(&self.query)),
            ("cluster", serde_json::to_value(&self.cluster)),
        ];
        let mut settings = Vec::new();
        for (section, values) in sections {
            let values = values.expect("BUG: a section is an object of plain values");
            for (key, value) in values.as_object().into_iter().flatten() {
                let value = match value {
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                settings.push((format!("{section}.{key}"), value));
            }
        }
        settings
    }

    fn validate(&mut self, source: &Path, text: Option<&str>) -> Result<()> {
        let mut problems = Vec::new();
        self.anonymisers_of_streams(&mut problems);
        for (name, stream) in &self.stream {
            if let Err(e) = storage::Name::new(name) {
                problems.push(format!("[stream.{name}]: {e}"));
            }
            if let Some(StreamValue(Err(e))) = &stream.format {
                problems.push(format!("[stream.{name}] format: {e}"));
            }
            if let Some(StreamValue(Err(e))) = &stream.multiline {
                problems.push(format!("[stream.{name}] {e}"));
            }
            if let Some(problem) = stream.retention.and_then(Retention::problem) {
                problems.push(format!("[stream.{name}] retention: {problem}"));
            }
            for (key, indexes) in [("indexes", &stream.indexes), ("covering", &stream.covering)] {
                if let Some(several) = indexes.iter().find(|i| i.len() != 1) {
                    problems.push(format!(
                        "[stream.{name}] {key}: {several:?}: an index has one column, as in [[\"path\"], [\"user\"]]"
                    ));
                }
            }
            if let Some(both) = stream.covering.iter().find(|i| stream.indexes.contains(i)) {
                problems.push(format!(
                    "[stream.{name}] covering: {both:?} is in indexes too; a column has one index, remove it from one of them"
                ));
            }
            if let Err(e) = self.check_selection(name, stream) {
                problems.push(format!("[stream.{name}] {e}"));
            }
            if let Err(why) = self.shard_key(name) {
                problems.push(format!("[stream.{name}] {why}"));
            }
            // The brokers tell what a journal in Kafka gives.
            let given = match (self.concern(name), &self.cluster.kafka) {
                (Ok(concern), None) => storage::Durability::of_one_node(concern).map(drop),
                (read, _) => read.map(drop),
            };
            if let Err(e) = given {
                problems.push(format!("[stream.{name}] write_concern: {e}"));
            }
        }
        self.kafka_problems(&mut problems);
        self.server.problems(&mut problems);
        self.tls.problems(&mut problems);
        self.syslog.problems(&mut problems);
        self.relp.problems(&mut problems);
        self.fluent.problems(&mut problems);
        self.cluster
            .problems(self.storage.objects.is_some(), &mut problems);
        let share = self.storage.scrub_share;
        if !(0.0..=1.0).contains(&share) {
            problems.push(format!(
                "[storage] scrub_share = {share}: write a share from 0 to 1"
            ));
        }
        if let Err(e) = self.cascade() {
            problems.push(e.to_string());
        }
        if problems.is_empty() {
            return Ok(());
        }
        let located = problems.iter().map(|p| place::located(source, text, p));
        Err(Failure::config(located.collect::<Vec<_>>().join("; ")))
    }

    /// Compares `[stream.NAME]` with the existing streams. Returns the settings that cannot take
    /// effect, or do not yet, and the warnings of the configuration.
    pub(crate) fn deviations(
        &self,
        streams: &BTreeMap<storage::Name, storage::StreamMeta>,
    ) -> Vec<String> {
        let mut found = self.warnings.clone();
        for (name, stream) in &self.stream {
            let Some((_, meta)) = streams.iter().find(|(known, _)| known.as_str() == name) else {
                continue;
            };
            let mut kept = |key: &str, said: String, holds: String| {
                if said != holds {
                    found.push(format!(
                        "[stream.{name}] {key} = {said} is not applied: the stream keeps {holds} from its \
                         creation; import the data into a new stream to change it"
                    ));
                }
            };
            if let Some(partition) = stream.partition {
                kept("partition", shown(&partition), shown(&meta.partition));
            }
            if let Some(order_by) = &stream.order_by {
                kept("order_by", shown(order_by), shown(&meta.order_by));
            }
            let known = |column: &str| meta.columns.iter().any(|c| &*c.name == column);
            let indexes = [("indexes", &stream.indexes), ("covering", &stream.covering)];
            for (key, columns) in indexes {
                for column in columns.iter().flatten().filter(|c| !known(c)) {
                    let hint = match meta.kind {
                        storage::StreamKind::Documents => "it is built once documents have it",
                        _ => "see `logmill stream schema`",
                    };
                    found.push(format!(
                        "[stream.{name}] {key}: the stream has no column {column:?}; {hint}"
                    ));
                }
            }
        }
        found
    }

    /// Returns the rollups, as the aggregator takes them.
    pub(crate) fn cascade(&self) -> aggregator::Result<aggregator::Cascade> {
        let streams = self
            .stream
            .iter()
            .filter_map(|(name, s)| Some((name.clone(), s.rollups.clone()?)))
            .collect();
        aggregator::Cascade::new(aggregator::CascadeConfig {
            rollups: self.rollup.clone(),
            streams,
        })
    }

    /// Returns the settings of storage.
    pub(crate) fn store(&self) -> storage::Config {
        let streams = self.stream.iter().filter_map(|(name, stream)| {
            let config = storage::StreamConfig {
                partition: stream.partition,
                order_by: stream.order_by.clone(),
                retention: stream.retention.map(Retention::limits).unwrap_or_default(),
                indexes: stream.indexes.concat(),
                covering: stream.covering.concat(),
            };
            Some((storage::Name::new(name).ok()?, config))
        });
        storage::Config {
            lag_us: self.storage.lag.micros(),
            memtable_bytes_max: usize::try_from(self.storage.memtable_bytes_max.0)
                .unwrap_or(usize::MAX),
            sync_interval_ms: u64::try_from(self.storage.sync_interval.0.as_millis())
                .unwrap_or(u64::MAX),
            tends: self.storage.tends,
            keeps_log: true,
            columns_max: self.ingest.columns_max,
            reserve_bytes: self.storage.reserve.0,
            index_rows_min: storage::INDEX_ROWS_MIN,
            streams: streams.collect(),
            adoption: self.server.adoption,
            accounts_in: self.cluster.node.clone(),
            address: self.cluster.url.clone(),
            grace_us: self.storage.objects_grace.micros(),
            local_bytes_max: Some(self.storage.local_bytes_max.0).filter(|bytes| *bytes > 0),
            ..storage::Config::default()
        }
    }
}

/// Formats a value as the configuration spells it.
fn shown(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Applies variables: `LOGMILL_STORAGE__LAG=5s` sets `lag` of `[storage]`. A name without `__` is
/// no setting.
fn overlay_environment(
    table: &mut toml::Table,
    origins: &mut Vec<Origin>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<()> {
    for (name, text) in variables {
        let Some(path) = name.strip_prefix(ENVIRONMENT).filter(|p| p.contains("__")) else {
            continue;
        };
        let keys: Vec<String> = path.split("__").map(str::to_ascii_lowercase).collect();
        // Numbers, booleans and lists as TOML spells them; anything else is text.
        let value = format!("v = {text}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut t| t.remove("v"))
            .unwrap_or_else(|| toml::Value::String(text.clone()));
        let (last, sections) = keys
            .split_last()
            .expect("BUG: a split gives at least one piece");
        let mut at = &mut *table;
        for section in sections {
            at = at
                .entry(section.clone())
                .or_insert_with(|| toml::Value::Table(toml::Table::new()))
                .as_table_mut()
                .ok_or_else(|| Failure::config(format!("{name}: {section} is not a section")))?;
        }
        at.insert(last.clone(), value);
        let key = keys.join(".");
        origins.retain(|o| o.key != key);
        origins.push(Origin {
            key,
            value: text,
            origin: name,
        });
    }
    Ok(())
}

fn note(origins: &mut Vec<Origin>, prefix: &str, table: &toml::Table, origin: &str) {
    for (key, value) in table {
        let key = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            toml::Value::Table(inner) => note(origins, &key, inner, origin),
            other => origins.push(Origin {
                key,
                value: other.to_string(),
                origin: origin.to_owned(),
            }),
        }
    }
}

/// Adds the nearest known field to the message of serde, ``unknown field `lagg`, expected one of
/// `lag`, …``.
fn with_suggestion(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let Some(unknown) = names
        .next()
        .filter(|_| message.starts_with("unknown field"))
    else {
        return message.to_owned();
    };
    let known: Vec<&str> = names.collect();
    let meant = nearest(unknown, known.iter().copied());
    // Further names of this section are kept.
    if known.first() == Some(&cluster::FIRST_KEY) && meant.is_none() {
        return format!(
            "`{unknown}` is reserved for stores of several nodes, which this version does not have"
        );
    }
    meant.map_or_else(
        || message.to_owned(),
        |known| format!("{message}; did you mean `{known}`?"),
    )
}

#[cfg(test)]
mod tests;
