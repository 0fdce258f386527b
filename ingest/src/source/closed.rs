//! Decides whether the last piece of a growing file is a whole line already.

use crate::formats::{Format, recognise};

/// Returns whether `piece`, a line without its end, keeps every value when more follows it.
///
/// A JSON object that is closed does. A Combined line does behind its last quote; `before`, the
/// line before it when there is one, must have ended there too, or the missing rest may still come.
/// A Common line never does: its size may have more digits. Nor does a plain line.
pub fn is_closed(piece: &[u8], before: Option<&[u8]>, format: &Format) -> bool {
    let piece = without_cr(piece);
    let entry = match format {
        Format::Auto => recognise(piece)
            .map_or(Format::Auto, |(format, _)| format)
            .entry(),
        named => named.entry(),
    };
    (entry.is_closed)(piece, before.map(without_cr))
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests;
