//! The keys by which the events of a stream could be divided into shards, each with its effects on
//! a sample of the stream's own events.
//!
//! A shard is a store: it has the cells of its own events, and a question goes to every shard that
//! may have rows of its answer. With a good key no shard gets much more than its share of events,
//! within a minute too; each cell of a rollup lies on one shard; and so do the rows that one lookup
//! returns.

mod figures;
mod sample;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use aggregator::Definition;
use datafusion::common::DataFusionError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use storage::{Name, Salt, ShardKey, Snapshot, StreamMeta};
use tokio::sync::Semaphore;

use crate::engine::Engine;
use crate::error::{Error, Fault, Result};
use crate::tables::system::SystemInfo;
use sample::{EventSample, SampleRows};

/// The most shards that a key is measured for.
pub const SHARDS_MAX: u16 = 1024;
/// The most fields that become keys by themselves.
const FIELDS_MAX: usize = 5;
/// The most rollups whose cells are counted.
const ROLLUPS_MAX: usize = 8;
/// The most work, by that of the advised key, of a key that is told as another choice.
const PRICE_MAX: f64 = 3.0;
/// The most keys that a client gives.
const GIVEN_MAX: usize = 8;
/// The field that people look up where a stream has it.
const HOST: &str = "host";

/// The effects of a key on the events of a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardKeyFigures {
    /// The key.
    pub key: ShardKey,
    /// Events of the busiest shard, by the mean of all shards.
    pub busiest: f64,
    /// The same within a minute: the mean over minutes, weighted by their events.
    pub busiest_in_minute: f64,
    /// Cells of all shards, by those of one store that has all events; for each level up to the day
    /// of the stream's first eight rollups.
    pub cells: Vec<LevelCells>,
    /// Shards that have the rows of one value of a field: the mean over events.
    pub lookups: Vec<LookupShards>,
    /// Shards that get a part of a request of 100 events: the mean.
    pub parts: f64,
    /// The value of the key that most events have, and their share.
    pub hottest: Option<HotValue>,
    /// The values that a key with a hash for hot values divides, most events first: those without a
    /// null.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot_values: Vec<Vec<String>>,
    /// The work of the busiest shard, by the mean of shards that share no cell: `busiest` times the
    /// mean of `cells`.
    pub work: f64,
}

/// Cells of a level on all shards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelCells {
    /// The level: `minute`, `hour` or `day`.
    pub level: String,
    /// The cells, by those of one store.
    pub ratio: f64,
}

/// Shards that a question for one value of a field reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookupShards {
    /// The field.
    pub field: String,
    /// The mean number of shards.
    pub shards: f64,
}

/// A value of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotValue {
    /// The values of the key's fields.
    pub values: Vec<Option<String>>,
    /// Its share of the events.
    pub share: f64,
}

/// The shard keys of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardKeyInfo {
    /// The stream.
    pub stream: String,
    /// The number of shards.
    pub shards: u16,
    /// The first time of the sample, microseconds since 1970. A sample is the end of the newest
    /// day; of a minute with too many events it has the last ones that arrived.
    pub from_us: i64,
    /// The end of the sample, exclusive.
    pub to_us: i64,
    /// The events of the sample.
    pub events: u64,
    /// Each key with its effects.
    pub keys: Vec<ShardKeyFigures>,
    /// The place of the advised key among `keys`; `None` without events.
    pub advised: Option<usize>,
    /// The reason, and what speaks against it.
    pub notes: Vec<String>,
}

/// Samples are large and their figures take seconds of a core: one is measured at a time.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// Measures the keys that a stream could have, and `also`; `None` when no stream has this name.
///
/// # Errors
/// [`Error::Invalid`] for a number of shards that is not from 2 to [`SHARDS_MAX`], for more than
/// eight keys in `also`, and for a key whose field the stream does not have; the errors of the
/// queries that read the sample.
pub async fn shard_keys(
    engine: &Engine,
    (snapshot, system): (Arc<Snapshot>, Arc<dyn SystemInfo>),
    stream: &Name,
    shards: u16,
    also: &[ShardKey],
) -> Result<Option<ShardKeyInfo>> {
    let Some(meta) = snapshot.streams().get(stream).cloned() else {
        return Ok(None);
    };
    check(shards, also, (stream, &meta)).map_err(|why| Error::of_fault(Fault::Other, why))?;
    let rollups = engine.rollups_of(&snapshot)?;
    let rollups = rollups.values().map(|rollup| &rollup.definition);
    let rollups = rollups.filter(|d| d.stream() == stream);
    let rollups: Vec<_> = rollups.take(ROLLUPS_MAX).cloned().collect();
    let lookups = looked_up(&meta, &rollups);
    let keys = candidates(&lookups, &rollups, &meta, also);
    let fields = lookups.iter().map(String::as_str);
    let fields = fields.chain(keys.iter().flat_map(ShardKey::fields));
    let fields: BTreeSet<String> = fields.map(str::to_owned).collect();
    let alone = ONE_AT_A_TIME.acquire().await;
    let alone = alone.expect("BUG: nothing closes the semaphore");
    let sources = (snapshot, system);
    let rows = SampleRows::read(engine, sources, (stream, &meta), &fields, &rollups).await?;
    let stream = stream.to_string();
    let measured = tokio::task::spawn_blocking(move || {
        // A client that goes away does not end this work.
        let _alone = alone;
        let sample = EventSample::new(rows, &fields, &rollups);
        let (from_us, to_us) = sample.range();
        let figures = |key: &ShardKey| sample.figures(key, shards, &lookups);
        let figures: Vec<_> = match sample.events() {
            0 => Vec::new(),
            _ => keys.iter().map(figures).collect(),
        };
        let advised = advised(&figures);
        ShardKeyInfo {
            notes: notes(&stream, &figures, advised),
            stream,
            shards,
            from_us,
            to_us,
            events: sample.events(),
            keys: figures,
            advised,
        }
    });
    let failed =
        |e: tokio::task::JoinError| Error::Execution(DataFusionError::ExecutionJoin(Box::new(e)));
    measured.await.map(Some).map_err(failed)
}

fn check(
    shards: u16,
    also: &[ShardKey],
    (stream, meta): (&Name, &StreamMeta),
) -> Result<(), String> {
    if !(2..=SHARDS_MAX).contains(&shards) {
        return Err(format!(
            "{shards} shards: give a number from 2 to {SHARDS_MAX}"
        ));
    }
    if also.len() > GIVEN_MAX {
        return Err(format!("{} keys: give at most {GIVEN_MAX}", also.len()));
    }
    also.iter().try_for_each(ShardKey::check)?;
    let mut fields = also.iter().flat_map(ShardKey::fields);
    match fields.find(|field| !is_field(meta, field)) {
        Some(field) => Err(format!("the stream {stream} has no column {field:?}")),
        None => Ok(()),
    }
}

fn is_field(meta: &StreamMeta, name: &str) -> bool {
    meta.column_type(name).is_some() && !name.starts_with('_')
}

/// Returns the fields by which people look events up: the host, and the keys of rollups.
fn looked_up(meta: &StreamMeta, rollups: &[Arc<Definition>]) -> Vec<String> {
    let keys = rollups.iter().flat_map(|definition| definition.by());
    let keys = keys.filter(|key| key.expr.is_none());
    let mut fields: Vec<String> = Vec::new();
    for name in keys.map(|key| key.name.as_str()).chain([HOST]) {
        if is_field(meta, name) && !fields.iter().any(|f| f == name) {
            fields.push(name.to_owned());
        }
    }
    let host = fields.iter().position(|field| field == HOST);
    // The host is the last one found, and the one that is looked up most.
    if let Some(host) = host.filter(|host| *host >= FIELDS_MAX) {
        fields.swap(FIELDS_MAX - 1, host);
    }
    fields.truncate(FIELDS_MAX);
    fields
}

/// Returns the keys to measure, each once: whole batches, each field, the keys of each rollup
/// together, those of the first one with a salt, the time, and `also`.
fn candidates(
    lookups: &[String],
    rollups: &[Arc<Definition>],
    meta: &StreamMeta,
    also: &[ShardKey],
) -> Vec<ShardKey> {
    let of = |fields: Vec<String>, salt| ShardKey::Fields { fields, salt };
    let together = rollups.iter().map(|definition| {
        let plain = definition.by().iter().filter(|key| key.expr.is_none());
        let names = plain.map(|key| key.name.clone());
        names.filter(|name| is_field(meta, name)).collect()
    });
    let together: Vec<Vec<String>> = together.filter(|by: &Vec<_>| !by.is_empty()).collect();
    let mut keys = vec![ShardKey::Batch];
    keys.extend(lookups.iter().map(|f| of(vec![f.clone()], Salt::None)));
    keys.extend(together.iter().map(|by| of(by.clone(), Salt::None)));
    let first = together.first().cloned();
    let first = first.or_else(|| lookups.first().map(|field| vec![field.clone()]));
    if let Some(first) = first {
        keys.push(of(first.clone(), Salt::All));
        keys.push(of(first, Salt::Hot));
    }
    keys.push(ShardKey::Time);
    keys.extend_from_slice(also);
    let mut seen = HashSet::new();
    keys.retain(|key| seen.insert(key.clone()));
    keys
}

/// Chooses the key with the least work for the busiest shard; of equal ones the one that divides
/// requests least. The time is never advised: one shard would take all events of the present.
fn advised(figures: &[ShardKeyFigures]) -> Option<usize> {
    let places = figures.iter().enumerate();
    let places = places.filter(|(_, figures)| figures.key != ShardKey::Time);
    let best = places.min_by(|(_, a), (_, b)| {
        let by_work = a.work.total_cmp(&b.work);
        by_work.then(a.parts.total_cmp(&b.parts))
    });
    best.map(|(place, _)| place)
}

/// Returns the reason for a key, and the keys that keep the rows of a lookup together, with their
/// price.
fn notes(stream: &str, figures: &[ShardKeyFigures], advised: Option<usize>) -> Vec<String> {
    let Some(best) = advised.map(|place| &figures[place]) else {
        return vec!["the stream has no events to measure".to_owned()];
    };
    let (key, busiest, cells) = (&best.key, best.busiest, best.work / best.busiest);
    let mut reason = format!("{key}: the busiest shard has {busiest:.2} times the mean of events");
    if !best.cells.is_empty() {
        reason += &format!(", and all shards keep {cells:.2} times the cells of one store");
    }
    let mut notes = vec![reason];
    for LookupShards { field, shards } in &best.lookups {
        let fields = vec![field.clone()];
        let salt = Salt::None;
        let together = ShardKey::Fields { fields, salt };
        let together = figures.iter().find(|other| other.key == together);
        let price = together.map(|other| other.work / best.work);
        if let Some(price) = price.filter(|price| *shards > 1.5 && *price < PRICE_MAX) {
            notes.push(format!(
                "a question for one {field} reads {shards:.1} shards; with {field} as the key it reads one, and the busiest shard has {price:.2} times the work"
            ));
        }
    }
    notes.push(setting(stream, best));
    notes.push("time as the key sends the events of a minute to one shard".to_owned());
    notes
}

/// Returns the lines of the configuration that set a key, in one.
fn setting(stream: &str, best: &ShardKeyFigures) -> String {
    // Texts of TOML have the escapes of JSON.
    let hot = match best.hot_values.as_slice() {
        [] => String::new(),
        // A key of one field has its values without lists.
        hot if hot[0].len() == 1 => format!("; hot_values = {}", json!(hot.concat())),
        hot => format!("; hot_values = {}", json!(hot)),
    };
    let key = json!(best.key.to_string());
    format!("in the configuration: [stream.{stream}] shard_key = {key}{hot}")
}

#[cfg(test)]
mod tests;
