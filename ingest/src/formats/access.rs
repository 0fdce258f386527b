//! Access logs: Common, Combined, and Combined behind a virtual host.
//!
//! `line.rs` has the grammar, `request.rs` the request within a line, `columns.rs` the Arrow
//! columns that lines become, and `stored.rs` the choice of those that a stream keeps.

mod columns;
mod line;
mod pattern;
mod reader;
mod request;
mod stored;

use storage::StreamKind;

use self::line::{Accept, AccessLine, read};
pub use self::pattern::AccessPattern;
use self::reader::AccessReader;
pub(super) use self::request::cut;
pub use self::request::rebuild_request;
use crate::anonymise::Anonymiser;
use crate::bad::Bad;
use crate::error::Result;
use crate::reader::{Fit, FormatEntry};
use crate::select::Selection;
use crate::stamp::AccessStamps;

pub(super) static COMMON: FormatEntry = FormatEntry {
    name: "common",
    kind: StreamKind::Access,
    recognise: Some(|line| fit(line, Accept::COMMON)),
    is_closed,
    reader: |options, choice| Box::new(AccessReader::new(Accept::COMMON, options, choice)),
    holds_values: false,
    keeps_mark: false,
};

pub(super) static COMBINED: FormatEntry = FormatEntry {
    name: "combined",
    kind: StreamKind::Access,
    recognise: Some(|line| fit(line, Accept::COMBINED)),
    is_closed,
    reader: |options, choice| Box::new(AccessReader::new(Accept::COMBINED, options, choice)),
    holds_values: false,
    keeps_mark: false,
};

pub(super) static VHOST_COMBINED: FormatEntry = FormatEntry {
    name: "vhost_combined",
    kind: StreamKind::Access,
    recognise: Some(|line| fit(line, Accept::VHOST)),
    is_closed,
    reader: |options, choice| Box::new(AccessReader::new(Accept::VHOST, options, choice)),
    holds_values: false,
    keeps_mark: false,
};

/// The entry of all patterns, each of which makes its own readers.
pub(super) static PATTERN: FormatEntry = FormatEntry {
    name: "pattern",
    kind: StreamKind::Access,
    recognise: None,
    is_closed: |_, _| false,
    reader: |_, _| unreachable!("BUG: a pattern makes its readers"),
    holds_values: false,
    keeps_mark: false,
};

/// Checks the names that a stream's configuration has for fields of an access log.
///
/// # Errors
/// [`Error::UnknownField`](crate::Error::UnknownField);
/// [`Error::NotAnonymised`](crate::Error::NotAnonymised) for a name that is no column of text, or
/// one whose value can be read in another column.
pub(super) fn check(selection: &Selection, anonymiser: &Anonymiser) -> Result<()> {
    stored::check(selection, anonymiser, &storage::access_fields())
}

/// Recognises a line that has one of the accepted shapes or begins so.
fn fit(line: &[u8], accept: Accept) -> Result<Fit, Bad> {
    let accept = Accept {
        prefix: true,
        ..accept
    };
    let fields = read(line, accept, &mut AccessStamps::new()).map_err(|bad| {
        // Words before a stamp are in any line of text, and bring none nearer to an access log.
        let has_stamp = line[..bad.at].contains(&b'[');
        Bad {
            at: if has_stamp { bad.at } else { 0 },
            ..bad
        }
    })?;
    Ok(match fields.extra {
        None => Fit::Whole,
        Some(_) => Fit::Beginning,
    })
}

/// A Combined line keeps its values behind its last quote; the line before it, when there is one,
/// must have ended there too, or the missing rest may still come. A Common line never does: its
/// size may have more digits.
fn is_closed(piece: &[u8], before: Option<&[u8]>) -> bool {
    let ends_there = |line: &AccessLine| line.user_agent.is_some() && line.extra.is_none();
    let mut stamps = AccessStamps::new();
    let mut read = |line| read(line, Accept::VHOST.lenient(false), &mut stamps).ok();
    let line_before = before.and_then(&mut read);
    read(piece).is_some_and(|line| ends_there(&line)) && line_before.as_ref().is_none_or(ends_there)
}
