//! Rows as aligned text for a terminal.
//!
//! Log text is hostile: control characters, with which a line could move the cursor or recolour the
//! terminal, are shown as escapes.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::text::Column;
use crate::error::Result;

/// Text wider than this is cut, so that one long URL does not make every line wrap.
const WIDTH_MAX: usize = 120;

/// Writes a table with a header, a rule, the rows and their number.
pub(super) fn write(schema: &SchemaRef, batches: &[RecordBatch], to: &mut dyn Write) -> Result<()> {
    if schema
        .fields()
        .iter()
        .map(|f| f.name().as_str())
        .eq(["plan_type", "plan"])
    {
        return write_plan(batches, to);
    }
    let names: Vec<String> = schema.fields().iter().map(|f| shown(f.name())).collect();
    let mut widths: Vec<usize> = names.iter().map(|n| n.chars().count()).collect();
    let mut right = vec![false; names.len()];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(Column::new)
            .collect::<Result<Vec<_>>>()?;
        for (right, column) in right.iter_mut().zip(&columns) {
            *right = column.is_number();
        }
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| {
                let mut text = Vec::new();
                if !column.is_null(row) {
                    column.plain(row, &mut text);
                }
                shown(&String::from_utf8_lossy(&text))
            });
            rows.push(cells.collect());
        }
    }
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String], right: &[bool]| {
        let mut line = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let width = widths[i];
            let last = i + 1 == cells.len();
            line.push_str(if i == 0 { "" } else { " | " });
            match (right[i], last) {
                (true, _) => line.push_str(&format!("{cell:>width$}")),
                (false, true) => line.push_str(cell),
                (false, false) => line.push_str(&format!("{cell:<width$}")),
            }
        }
        line
    };
    if !names.is_empty() {
        writeln!(to, "{}", line(&names, &right))?;
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        writeln!(to, "{}", rule.join("-+-"))?;
        for row in &rows {
            writeln!(to, "{}", line(row, &right))?;
        }
    }
    let count = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    writeln!(to, "({count} {})", if count == 1 { "row" } else { "rows" })?;
    Ok(())
}

/// Writes what `EXPLAIN` gives: each plan under its name, with its lines kept.
fn write_plan(batches: &[RecordBatch], to: &mut dyn Write) -> Result<()> {
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(Column::new)
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let text = |column: &Column| {
                let mut text = Vec::new();
                column.plain(row, &mut text);
                String::from_utf8_lossy(&text).into_owned()
            };
            writeln!(to, "{}:", text(&columns[0]))?;
            for line in text(&columns[1]).trim_end().lines() {
                writeln!(to, "  {}", escaped(line, usize::MAX))?;
            }
        }
    }
    Ok(())
}

/// Text without control characters, cut to [`WIDTH_MAX`].
fn shown(text: &str) -> String {
    escaped(text, WIDTH_MAX)
}

fn escaped(text: &str, chars_max: usize) -> String {
    let mut shown = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        if i == chars_max {
            shown.push('…');
            break;
        }
        if c.is_control() || is_direction(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Characters that reorder the text after them.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
