//! `logmill stream suggest-shard-key NAME --shards N`: the keys by which a cluster could divide a
//! stream.

use std::process::ExitCode;
use std::sync::Arc;

use chrono::DateTime;
use query::{ShardKeyFigures, ShardKeyInfo};
use storage::{Name, ShardKey};

use super::{Context, Place, schema};
use crate::failure::Result;
use crate::units::grouped;
use crate::wiring::{self, StoreInfo};

/// The longest hot value that is shown whole, in characters.
const VALUE_CHARS: usize = 40;

pub(super) fn run(
    context: &Context,
    name: &str,
    shards: u16,
    also: &[ShardKey],
) -> Result<ExitCode> {
    let name = Name::new(name)?;
    let found: Option<ShardKeyInfo> = match &context.place {
        Place::Server(client) => Some(client.shard_keys(name.as_str(), shards, also)?),
        Place::Data(_) => {
            let reader = context.reader()?;
            let engine = wiring::engine_of_one(&context.config, None)?;
            let sources = (
                reader.snapshot(),
                Arc::new(StoreInfo::of_reader(&reader)) as Arc<_>,
            );
            let asked = query::shard_keys(&engine, sources, &name, shards, also);
            wiring::runtime()?.block_on(asked)?
        }
    };
    schema::print(context, &name, found.as_ref(), show)
}

fn show(found: &ShardKeyInfo) {
    let time = |at_us| {
        let at = DateTime::from_timestamp_micros(at_us).unwrap_or_default();
        at.format("%Y-%m-%dT%H:%M:%SZ")
    };
    println!(
        "{}: {} events from {} to {}, on {} shards",
        found.stream,
        grouped(found.events),
        time(found.from_us),
        time(found.to_us),
        found.shards
    );
    let rows = found.keys.iter().enumerate();
    let rows = rows.map(|(place, figures)| row(figures, found.advised == Some(place)));
    let mut rows: Vec<Vec<String>> = rows.collect();
    if let Some(first) = found.keys.first() {
        rows.insert(0, heads(first));
        print_table(&rows);
    }
    for note in &found.notes {
        println!("{note}");
    }
}

/// Returns the heads of the columns; all keys have the same levels and lookups.
fn heads(figures: &ShardKeyFigures) -> Vec<String> {
    let mut heads = vec![
        "key".to_owned(),
        "work".to_owned(),
        "busiest".to_owned(),
        "in a minute".to_owned(),
    ];
    let levels = figures.cells.iter();
    heads.extend(levels.map(|level| format!("{} cells", level.level)));
    let lookups = figures.lookups.iter();
    heads.extend(lookups.map(|lookup| format!("one {}", lookup.field)));
    heads.push("a request".to_owned());
    heads.push("hottest value".to_owned());
    heads
}

fn row(figures: &ShardKeyFigures, is_advised: bool) -> Vec<String> {
    let mark = if is_advised { "* " } else { "  " };
    let mut row = vec![
        format!("{mark}{}", figures.key),
        format!("{:.2}", figures.work),
        format!("{:.2}", figures.busiest),
        format!("{:.1}", figures.busiest_in_minute),
    ];
    row.extend(
        figures
            .cells
            .iter()
            .map(|level| format!("{:.2}", level.ratio)),
    );
    let lookups = figures.lookups.iter();
    row.extend(lookups.map(|lookup| format!("{:.1}", lookup.shards)));
    row.push(format!("{:.1}", figures.parts));
    row.push(figures.hottest.as_ref().map_or_else(String::new, |hot| {
        let values = hot.values.iter();
        let values = values.map(|value| value.as_deref().unwrap_or("NULL"));
        let text = values.collect::<Vec<_>>().join(", ");
        let short: String = text.escape_debug().take(VALUE_CHARS).collect();
        format!("{:.1}% {short}", 100.0 * hot.share)
    }));
    row
}

/// Prints rows as a table: the first and the last column to the left, the others to the right.
pub(super) fn print_table(rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            last if last + 1 == columns => cell.clone(),
            _ => format!("{cell:>width$}"),
        });
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}
