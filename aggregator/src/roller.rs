//! The seam to storage: which rollups a stream gets, and the tiles of a seal.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use serde::Deserialize;
use serde_json::Value;
use storage::{BoxError, Name, NewRollup, Roller, RollupMeta, StreamKind, TileImage};

use crate::cascade::cascade;
use crate::definition::{Definition, defaults};
use crate::error::{Error, Result};
use crate::table::RollupTable;
use crate::tile::encode;

/// What the configuration says about rollups.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The tables `[rollup.NAME]`.
    pub rollups: BTreeMap<String, RollupTable>,
    /// The member `rollups` of `[stream.NAME]`, where it is given; only `[]` is known: no defaults.
    pub streams: BTreeMap<String, Vec<String>>,
}

/// Storage's [`Roller`]: pure, to be called from any thread.
#[derive(Debug, Default)]
pub struct Cascade {
    rollups: BTreeMap<Name, RollupTable>,
    without_defaults: Vec<String>,
}

impl Cascade {
    /// Checks the configuration.
    ///
    /// # Errors
    /// [`Error::Definition`] naming the first table that cannot be used.
    pub fn new(config: Config) -> Result<Self> {
        let mut rollups = BTreeMap::new();
        for (name, table) in config.rollups {
            let name = Name::new(&name).map_err(|e| Error::definition(&name, e.to_string()))?;
            // The kind of its stream is not known yet: wrong is what fits no kind.
            if let Err(error) = table.resolve(&name, StreamKind::Access)
                && table.resolve(&name, StreamKind::Documents).is_err()
            {
                return Err(error);
            }
            rollups.insert(name, table);
        }
        let mut without_defaults = Vec::new();
        for (stream, list) in config.streams {
            if !list.is_empty() {
                return Err(Error::invalid(format!(
                    "stream {stream}: rollups = [] means no defaults; define rollups as [rollup.NAME] with stream = {stream:?}"
                )));
            }
            without_defaults.push(stream);
        }
        Ok(Self {
            rollups,
            without_defaults,
        })
    }

    /// The definitions that `stream` is to have and `existing` (every rollup of the store) lacks.
    ///
    /// # Errors
    /// [`Error::Differs`] when the configuration changed a definition that the store has.
    pub fn missing(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<Definition>> {
        if kind == StreamKind::Quarantine {
            return Ok(Vec::new());
        }
        let mut missing = Vec::new();
        let mut configured = false;
        for (name, table) in self
            .rollups
            .iter()
            .filter(|(_, table)| table.stream == stream.as_str())
        {
            configured = true;
            let definition = table.resolve(name, kind)?;
            match existing
                .iter()
                .filter(|r| r.name == *name)
                .max_by_key(|r| r.id)
            {
                Some(current) => require_equal(&definition, current)?,
                None => missing.push(definition),
            }
        }
        if configured || self.without_defaults.iter().any(|s| s == stream.as_str()) {
            return Ok(missing);
        }
        // A name that the configuration gives to another stream is taken before that stream exists.
        let mut taken = existing.to_vec();
        for (name, table) in &self.rollups {
            let stream = Name::new(&table.stream)
                .map_err(|e| Error::definition(name.as_str(), e.to_string()))?;
            let definition = Value::Null;
            taken.push(RollupMeta {
                id: 0,
                name: name.clone(),
                stream,
                definition,
                first_seq: 0,
                created_us: 0,
            });
        }
        defaults(stream, kind, &taken)
    }
}

/// Compares a configured definition with the stored one, member by member.
fn require_equal(configured: &Definition, stored: &RollupMeta) -> Result<()> {
    let new = configured.to_value();
    let mut differences = Vec::new();
    if stored.stream != *configured.stream() {
        differences.push(format!(
            "stream is {} there and {} here",
            stored.stream,
            configured.stream()
        ));
    }
    if new != stored.definition {
        for member in ["by", "levels", "timezone", "week", "measures", "version"] {
            let (here, there) = (
                &new[member],
                stored.definition.get(member).unwrap_or(&Value::Null),
            );
            if here != there {
                differences.push(format!("{member} is {there} there and {here} here"));
            }
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Differs {
        rollup: configured.name().to_string(),
        what: differences.join("; "),
    })
}

impl Roller for Cascade {
    fn rollups_for(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        let missing = self.missing(stream, kind, existing)?;
        Ok(missing
            .into_iter()
            .map(|d| NewRollup {
                name: d.name().clone(),
                definition: d.to_value(),
            })
            .collect())
    }

    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
    ) -> Result<Vec<TileImage>, BoxError> {
        let definitions = rollups
            .iter()
            .map(|r| Definition::from_meta(r))
            .collect::<Result<Vec<_>>>()?;
        let by_reference: Vec<&Definition> = definitions.iter().collect();
        let sets = cascade(&by_reference, events)?;
        Ok(definitions
            .iter()
            .zip(&sets)
            .map(|(definition, set)| encode(definition, set))
            .collect())
    }
}

#[cfg(test)]
mod tests;
