//! Rows as aligned text for a terminal.
//!
//! Log text is hostile: control characters, with which a line could move the cursor or recolour the
//! terminal, are shown as escapes.

use std::borrow::Cow;
use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use chrono_tz::Tz;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::Column;
use crate::error::Result;

/// Width of the separator between two columns.
const GAP: usize = 3;
/// Minimum width of a column that is cut.
const CUT_MIN: usize = 6;

/// The look of a table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TableLook {
    /// The columns of the terminal; `None` for as many as it takes.
    pub(super) width: Option<usize>,
    /// The zone of instants; `None` for UTC.
    pub(super) zone: Option<Tz>,
    /// Each column of each row on a line of its own.
    pub(super) upright: bool,
}

/// Writes a table with a header, a rule, the rows and their number. With a width, texts that are
/// too wide for it are cut with `…`: narrow columns keep their widths, and wide ones share the
/// rest. Numbers and times are never cut, since a cut one reads as another value. Where even that
/// is too wide, each row is written upright, one column per line.
pub(super) fn write(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    look: TableLook,
    to: &mut dyn Write,
) -> Result<()> {
    if schema
        .fields()
        .iter()
        .map(|f| f.name().as_str())
        .eq(["plan_type", "plan"])
    {
        return write_plan(batches, to);
    }
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|f| printable(f.name()))
        .collect();
    let (rows, mut layout) = layout(schema, &names, batches, look.zone)?;
    if look.upright && !names.is_empty() {
        return write_upright(&names, &rows, to);
    }
    if let Some(width) = look.width {
        fit(&mut layout.widths, &layout.whole, width);
        if line_width(&layout.widths) > width && names.len() > 1 {
            return write_upright(&names, &rows, to);
        }
    }
    if !names.is_empty() {
        writeln!(to, "{}", layout.line(&names))?;
        let rule: Vec<String> = layout.widths.iter().map(|w| "-".repeat(*w)).collect();
        writeln!(to, "{}", rule.join("-+-"))?;
        for row in &rows {
            writeln!(to, "{}", layout.line(row))?;
        }
    }
    let count = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    writeln!(to, "({count} {})", if count == 1 { "row" } else { "rows" })?;
    Ok(())
}

/// Layout of the columns.
struct TableLayout {
    widths: Vec<usize>,
    /// Columns that are aligned at the right.
    right: Vec<bool>,
    /// Columns that are never cut.
    whole: Vec<bool>,
}

impl TableLayout {
    fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let cell = cut(cell, self.widths[i]);
            let blank = " ".repeat(self.widths[i].saturating_sub(cell.width()));
            line.push_str(if i == 0 { "" } else { " | " });
            match (self.right[i], i + 1 == cells.len()) {
                (true, _) => line.extend([blank.as_str(), &cell]),
                (false, true) => line.push_str(&cell),
                (false, false) => line.extend([&cell, blank.as_str()]),
            }
        }
        line
    }
}

/// Returns the cells row by row, and the layout in which all of them fit.
fn layout(
    schema: &SchemaRef,
    names: &[String],
    batches: &[RecordBatch],
    zone: Option<Tz>,
) -> Result<(Vec<Vec<String>>, TableLayout)> {
    let mut layout = TableLayout {
        widths: names.iter().map(|name| name.width()).collect(),
        right: vec![false; names.len()],
        whole: vec![false; names.len()],
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for batch in batches {
        let columns = Column::of_batch(schema, batch, zone)?;
        for (i, column) in columns.iter().enumerate() {
            layout.right[i] = column.is_number();
            layout.whole[i] = column.is_number() || column.is_time();
        }
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| {
                let mut text = Vec::new();
                if !column.is_null(row) {
                    column.plain(row, &mut text);
                }
                printable(&String::from_utf8_lossy(&text))
            });
            rows.push(cells.collect());
        }
    }
    for row in &rows {
        for (width, cell) in layout.widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    Ok((rows, layout))
}

fn line_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Writes rows whose columns do not fit beside each other: each column on a line of its own,
/// uncut.
fn write_upright(names: &[String], rows: &[Vec<String>], to: &mut dyn Write) -> Result<()> {
    let width = names.iter().map(|n| n.width()).max().unwrap_or(0);
    for (n, row) in rows.iter().enumerate() {
        writeln!(to, "-- row {} {}", n + 1, "-".repeat(width))?;
        for (name, cell) in names.iter().zip(row) {
            let blank = " ".repeat(width - name.width());
            writeln!(to, "{}", format!("{name}{blank} | {cell}").trim_end())?;
        }
    }
    let count = rows.len();
    writeln!(to, "({count} {})", if count == 1 { "row" } else { "rows" })?;
    Ok(())
}

/// Narrows the widest of the columns that may be cut until a line is no wider than `width`, or none
/// of them can be narrowed any more.
fn fit(widths: &mut [usize], whole: &[bool], width: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    let line = |most: usize| -> usize {
        let cells = widths.iter().zip(whole);
        cells
            .map(|(w, whole)| if *whole { *w } else { (*w).min(most) })
            .sum()
    };
    let widest = widths.iter().copied().max().unwrap_or(0);
    let most = (CUT_MIN..=widest)
        .rev()
        .find(|most| gaps + line(*most) <= width)
        .unwrap_or(CUT_MIN);
    let mut left = width.saturating_sub(gaps + line(most));
    for (w, whole) in widths.iter_mut().zip(whole) {
        if !whole && *w > most {
            // The first columns take the remainder of the division, one each.
            *w = most + usize::from(left > 0);
            left = left.saturating_sub(1);
        }
    }
}

/// Returns at most this many columns of a text on a terminal, with `…` where some is missing.
fn cut(text: &str, width_max: usize) -> Cow<'_, str> {
    if text.width() <= width_max {
        return Cow::Borrowed(text);
    }
    let mut taken = 1;
    let end = text.char_indices().find_map(|(at, c)| {
        taken += c.width().unwrap_or(0);
        (taken > width_max).then_some(at)
    });
    Cow::Owned(format!("{}…", &text[..end.unwrap_or(text.len())]))
}

/// Writes the output of `EXPLAIN`: each plan under its name, with its lines kept.
fn write_plan(batches: &[RecordBatch], to: &mut dyn Write) -> Result<()> {
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| Column::new(column, None))
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let text = |column: &Column| {
                let mut text = Vec::new();
                column.plain(row, &mut text);
                String::from_utf8_lossy(&text).into_owned()
            };
            writeln!(to, "{}:", text(&columns[0]))?;
            for line in text(&columns[1]).trim_end().lines() {
                writeln!(to, "  {}", printable(line))?;
            }
        }
    }
    Ok(())
}

/// Returns the columns that a text takes on a terminal.
pub fn display_width(text: &str) -> usize {
    text.width()
}

/// Returns a text in which control characters, and characters that reorder the text after them,
/// are escapes.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_direction(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns whether a character reorders the text after it.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
