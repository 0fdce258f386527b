//! The default rollups of a stream, which has them if none are configured.

use chrono_tz::Tz;
use storage::{COUNTER, COUNTER_PATH, INCREMENT, Name, StreamKind};

use super::{Definition, Key, MAX_KEYS, Measure, MeasureKind, Number};
use crate::calendar::{Level, WeekStart};
use crate::error::{Error, Result};
use crate::state::Layout;

/// Length limit of a rollup's name, characters.
const NAME_CHARS_MAX: usize = 63;

/// Joins the stream's name and `short`. If the result is too long for a name, the stream's name is
/// cut, and a checksum of all of it (CRC-32C, eight hexadecimal digits) replaces the rest. Stores
/// hold these names, so the rule never changes.
fn long(stream: &Name, short: &str) -> String {
    let name = format!("{stream}_{short}");
    if name.len() <= NAME_CHARS_MAX {
        return name;
    }
    let checksum = crc32c::crc32c(stream.as_str().as_bytes());
    let tail = format!("_{checksum:08x}_{short}");
    // Names are ASCII, so the cut does not split a character.
    format!("{}{tail}", &stream.as_str()[..NAME_CHARS_MAX - tail.len()])
}

/// Returns the rollups that a stream has if none are configured, without those whose names are
/// `taken`: every rollup of the store by its name, with its stream.
///
/// The store's first access-log stream has `stats` and `traffic`. The names of the rollups of any
/// other stream begin with its name, which is cut if the result is too long (`NAME_CHARS_MAX`).
///
/// # Errors
/// [`Error::Definition`] if a definition breaks a rule.
pub fn defaults(
    stream: &Name,
    kind: StreamKind,
    taken: &[(&Name, &str)],
) -> Result<Vec<Definition>> {
    let short = ["stats", "traffic"];
    let is_own_long_name = |name: &Name| short.iter().any(|s| name.as_str() == long(stream, s));
    let plain = kind == StreamKind::Access
        && !taken.iter().any(|(name, of)| match *of == stream.as_str() {
            true => is_own_long_name(name),
            false => short.contains(&name.as_str()),
        });
    let named = |short: &str| {
        let name = if plain {
            short.to_owned()
        } else {
            long(stream, short)
        };
        Name::new(&name).map_err(|e| Error::definition(&name, e.to_string()))
    };
    let bytes = Number {
        field: "response_size".to_owned(),
        scaled: false,
    };
    let measures = |histogram_from: Level| {
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
            hits(),
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
        StreamKind::Counters => vec![counters(named("counters")?, stream)?],
        StreamKind::Quarantine => Vec::new(),
        _ => vec![make("traffic", &[], vec![hits()])?],
    };
    Ok(all
        .into_iter()
        .filter(|d| !taken.iter().any(|(name, _)| *name == d.name()))
        .collect())
}

fn hits() -> Measure {
    Measure {
        name: "hits".to_owned(),
        kind: MeasureKind::Count,
        from: Level::Minute,
        filter: None,
    }
}

/// Returns the sums of counters, by which they are read. Each key has its name: a sum of all the
/// others would be a wrong number.
fn counters(name: Name, stream: &Name) -> Result<Definition> {
    let keys = [COUNTER, COUNTER_PATH];
    let keys = keys.map(|field| Key::of_field(field, StreamKind::Counters));
    let keys: Result<Vec<_>, String> = keys.into_iter().collect();
    let sum = Measure {
        name: "total".to_owned(),
        kind: MeasureKind::Sum(Number {
            field: INCREMENT.to_owned(),
            scaled: false,
        }),
        from: Level::Month,
        filter: None,
    };
    Definition::new(
        name.clone(),
        stream.clone(),
        keys.map_err(|what| Error::definition(name.as_str(), what))?,
        vec![Level::Month, Level::Year],
        Tz::UTC,
        WeekStart::Sunday,
        vec![sum],
    )
}
