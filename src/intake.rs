//! The way of lines into a stream: the options of a parser by the configuration, and the state of
//! the stream that a store has.

mod taker;

use ingest::{Format, Multiline, ParseOptions, TimeZone};
use storage::{Column, Name, Snapshot, StreamKind, StreamMeta};

use crate::config::Config;
use crate::failure::{Failure, Result};
pub(crate) use taker::{Intake, Reply, StreamState};

/// Returns the options by which the configuration reads lines of a stream.
pub(crate) fn stream_options(config: &Config, stream: &str) -> ParseOptions {
    ParseOptions {
        format: config.format(stream),
        multiline: config.multiline(stream),
        columns_max: config.ingest.columns_max,
        selection: config.selection(stream),
        anonymiser: config.anonymiser(stream),
        // Their places are those of their events.
        reads_future: config.cluster.shards > 1,
        ..sample_options(config)
    }
}

/// Returns the options by which the configuration reads lines that go to no stream.
pub(crate) fn sample_options(config: &Config) -> ParseOptions {
    ParseOptions {
        max_future_us: config.ingest.max_future.micros(),
        ..ParseOptions::default()
    }
}

/// Returns the rule by which lines are records: that of a text, of which `off` is none, else the
/// configured one.
///
/// # Errors
/// If the text is no rule.
pub(crate) fn multiline(
    text: Option<&str>,
    configured: Option<Multiline>,
) -> ingest::Result<Option<Multiline>> {
    match text {
        None => Ok(configured),
        Some("off") => Ok(None),
        Some(rule) => rule.parse().map(Some),
    }
}

/// Returns the rule of a command's option, as [`multiline`] does.
///
/// # Errors
/// If the text is no rule, or one for a format whose lines are records.
pub(crate) fn multiline_option(
    text: Option<&str>,
    configured: Option<Multiline>,
    format: &Format,
) -> Result<Option<Multiline>> {
    let rule = multiline(text, configured).map_err(Failure::usage)?;
    match (text, &rule) {
        (Some(_), Some(rule)) if format.has_record_lines() => Err(Failure::usage(format!(
            "--multiline {rule}: each line of {format} is a record; leave the option out"
        ))),
        _ => Ok(rule),
    }
}

/// Returns the columns that a stream has so far.
pub(crate) fn stream_schema(snapshot: &Snapshot, stream: &Name) -> Vec<Column> {
    let meta = snapshot.streams().get(stream);
    meta.map(StreamMeta::schema).unwrap_or_default()
}

/// Returns the kind of a stream that exists.
pub(crate) fn stream_kind(snapshot: &Snapshot, stream: &Name) -> Option<StreamKind> {
    snapshot.streams().get(stream).map(|meta| meta.kind)
}

/// Returns the zone that an option of the command line names.
pub(crate) fn zone(name: &str) -> Result<TimeZone> {
    ingest::zone(name).ok_or_else(|| {
        Failure::usage(format!(
            "{name:?} is not an IANA time zone such as Europe/Berlin"
        ))
    })
}
