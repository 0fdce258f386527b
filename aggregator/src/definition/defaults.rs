//! The rollups of a stream that nothing is configured for.

use chrono_tz::Tz;
use storage::{Name, RollupMeta, StreamKind};

use super::{Definition, Key, MAX_KEYS, Measure, MeasureKind, Number};
use crate::calendar::{Level, WeekStart};
use crate::error::{Error, Result};
use crate::state::Layout;

/// The rollups that a stream gets when nothing else is configured, without those that `existing`
/// (every rollup of the store) already has.
///
/// The store's first access-log stream has `stats` and `traffic`; the rollups of any other stream
/// carry its name in front.
///
/// # Errors
/// [`Error::Definition`] when such a name would be too long.
pub fn defaults(
    stream: &Name,
    kind: StreamKind,
    existing: &[RollupMeta],
) -> Result<Vec<Definition>> {
    let short = ["stats", "traffic"];
    let plain = kind == StreamKind::Access
        && !existing
            .iter()
            .any(|r| short.contains(&r.name.as_str()) && r.stream != *stream)
        && !existing.iter().any(|r| {
            r.stream == *stream
                && short
                    .iter()
                    .any(|s| r.name.as_str() == format!("{stream}_{s}"))
        });
    let named = |short: &str| {
        let name = if plain {
            short.to_owned()
        } else {
            format!("{stream}_{short}")
        };
        Name::new(&name).map_err(|e| {
            Error::definition(&name, format!("{e}; define a rollup for {stream} yourself"))
        })
    };
    let bytes = Number {
        field: "response_size".to_owned(),
        scaled: false,
    };
    let measures = |histogram_from: Level| {
        let count = Measure {
            name: "hits".to_owned(),
            kind: MeasureKind::Count,
            from: Level::Minute,
            filter: None,
        };
        let sum = Measure {
            name: "bytes".to_owned(),
            kind: MeasureKind::Sum(bytes.clone()),
            from: Level::Minute,
            filter: None,
        };
        let size = MeasureKind::Histogram {
            field: bytes.clone(),
            layout: Layout::DEFAULT,
        };
        let visitors = MeasureKind::Distinct {
            field: "host".to_owned(),
        };
        vec![
            count,
            sum,
            Measure {
                name: "size".to_owned(),
                kind: size,
                from: histogram_from,
                filter: None,
            },
            Measure {
                name: "visitors".to_owned(),
                kind: visitors,
                from: Level::Hour,
                filter: None,
            },
        ]
    };
    let make = |short: &str, by: &[&str], measures: Vec<Measure>| -> Result<Definition> {
        let name = named(short)?;
        let keys = by
            .iter()
            .map(|field| Key::of_field(field, kind))
            .collect::<Result<Vec<_>, String>>()
            .map_err(|what| Error::definition(name.as_str(), what))?;
        let definition = Definition::new(
            name,
            stream.clone(),
            keys,
            Level::ALL.to_vec(),
            Tz::UTC,
            WeekStart::Sunday,
            measures,
        )?;
        if by.is_empty() {
            return Ok(definition);
        }
        definition.with_max_keys(MAX_KEYS)
    };
    let all = match kind {
        StreamKind::Access => vec![
            make("stats", &["site", "path"], measures(Level::Hour))?,
            make(
                "traffic",
                &["site", "status", "method"],
                measures(Level::Minute),
            )?,
        ],
        StreamKind::Quarantine => Vec::new(),
        _ => {
            let hits = Measure {
                name: "hits".to_owned(),
                kind: MeasureKind::Count,
                from: Level::Minute,
                filter: None,
            };
            vec![make("traffic", &[], vec![hits])?]
        }
    };
    Ok(all
        .into_iter()
        .filter(|d| !existing.iter().any(|r| r.name == *d.name()))
        .collect())
}
