//! The stream of a collection.

use query::nearest;
use storage::{Name, QUARANTINE, Snapshot};

use super::error::{CommandError, Result, code};

/// Databases of MongoDB's own.
pub(super) const OWN: [&str; 3] = ["admin", "local", "config"];

/// The object of a store that a collection stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Collection {
    Stream(Name),
    /// A level of a rollup.
    Level {
        rollup: String,
        level: String,
    },
}

impl Collection {
    /// Returns its name in SQL.
    pub(super) fn table(&self) -> String {
        match self {
            Self::Stream(stream) => format!("\"{stream}\""),
            Self::Level { rollup, level } => format!("\"{rollup}\".\"{level}\""),
        }
    }

    /// Returns the object of a collection. Letters become lower case, `-` and `.` become `_`; only
    /// `a.b` where `a` is a rollup is a level of it.
    ///
    /// # Errors
    /// If the name is none of a stream.
    pub(super) fn of(database: &str, named: &str, snapshot: &Snapshot) -> Result<Self> {
        if OWN.contains(&database) {
            return Err(CommandError::new(
                code::INVALID_NAMESPACE,
                format!(
                    "the database '{database}' has no collections here; use any name but {}",
                    OWN.join(", ")
                ),
            ));
        }
        if let Some((rollup, level)) = named.split_once('.') {
            let rollups = &snapshot.manifest().rollups;
            if rollups.iter().any(|known| known.name.as_str() == rollup) {
                return Ok(Self::Level {
                    rollup: rollup.to_owned(),
                    level: level.to_owned(),
                });
            }
        }
        let spelled = named.to_lowercase().replace(['.', '-'], "_");
        match Name::new(&spelled) {
            Ok(name) if name.as_str() != QUARANTINE => Ok(Self::Stream(name)),
            _ => {
                let streams = snapshot.streams().keys().map(Name::as_str);
                let near = nearest(&spelled, streams)
                    .map(|name| format!("; '{name}' is a stream"))
                    .unwrap_or_default();
                Err(CommandError::new(
                    code::INVALID_NAMESPACE,
                    format!(
                        "Invalid namespace specified '{database}.{named}': a collection is a stream, whose name begins with a letter or _ and has up to 63 of a-z, 0-9 and _{near}"
                    ),
                ))
            }
        }
    }
}
