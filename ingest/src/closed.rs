//! Decides whether the last piece of a growing file is a whole line already.

use serde::de::IgnoredAny;

use crate::access::{self, Accept, Record};
use crate::detect::detect;
use crate::format::Format;
use crate::stamp::AccessStamps;

/// Returns whether `piece`, a line without its end, keeps every value when more follows it.
///
/// A JSON object that is closed does. A Combined line does behind its last quote; `before`, the
/// line before it when there is one, must have ended there too, or what is missing may still come.
/// A Common line never does: its size may have more digits. Nor does a plain line.
pub fn is_closed(piece: &[u8], before: Option<&[u8]>, format: Format) -> bool {
    let piece = without_cr(piece);
    let format = match format {
        Format::Auto => detect(piece).format.unwrap_or_default(),
        known => known,
    };
    match format {
        Format::Json => {
            let text = piece.trim_ascii();
            text.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(text).is_ok()
        }
        Format::Combined | Format::VhostCombined | Format::Common => {
            let ends_there = |r: &Record| r.user_agent.is_some() && r.extra.is_none();
            let mut stamps = AccessStamps::new();
            let mut read =
                |line| access::read(line, Accept::VHOST.lenient(false), &mut stamps).ok();
            let same_before = before.and_then(|line| read(without_cr(line)));
            read(piece).is_some_and(|r| ends_there(&r))
                && same_before.as_ref().is_none_or(ends_there)
        }
        Format::Auto | Format::Plain => false,
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests;
