//! The error log of nginx.
//!
//! ```text
//! 2026/11/26 09:23:38 [error] 71#72: *9 open() "/x" failed (2: No such file or directory),
//! client: 192.0.2.7, server: example.org, request: "GET /x HTTP/1.1", host: "example.org"
//! ```
//!
//! (one line): `ngx_log_error_core` writes the head, `ngx_http_log_error_handler` the tail. The
//! client becomes `host` and the server `site`, as in access logs; the request is cut as there.
//!
//! The path in the message and the request are texts of the client, who can forge a tail in either.
//! So a line in which more than one tail can be read keeps it in `line`, and has no host.

use std::sync::LazyLock;

use memchr::memmem;
use regex::bytes::{Captures, Regex};
use storage::StreamKind;

use super::access::cut;
use super::documents::{DocumentReader, recognise_stamped};
use crate::bad::Bad;
use crate::documents::{DocumentRow, SITE, Value};
use crate::error::Result;
use crate::reader::FormatEntry;
use crate::stamp::{Written, read_slashes};
use crate::text::{ByteSpan, LineText};

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "nginx_error",
    kind: StreamKind::Documents,
    recognise: Some(|line| recognise_stamped(read, line)),
    is_closed: |_, _| false,
    reader: |options, _| DocumentReader::of_remains(read, options),
    holds_values: false,
    keeps_mark: false,
};

/// Bytes of a stamp.
const STAMP: usize = 19;
const CLIENT: &[u8] = b", client: ";
/// The longest message in which a tail is looked for, in bytes: eight times the longest line that
/// nginx writes (`NGX_MAX_ERROR_STR`).
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// The most places at which a tail is looked for; a line with more of them is a forged one.
const TAILS_MAX: usize = 8;

/// The level, the process, the thread and, for messages of a connection, its number.
static HEAD: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\A \[([a-z]+)\] ([0-9]{1,18})#([0-9]{1,18}): (?:\*([0-9]{1,18}) )?"));

/// The tail from its client on. Texts in quotes are those of the client and of other servers.
static TAIL: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?s)\A, client: (?<host>[^, "]+)(?:, server: (?<site>[^, "]*))?(?:, request: "(?<request>.*?)")?(?:, subrequest: "(?<subrequest>.*?)")?(?:, upstream: "(?<upstream>.*?)")?(?:, host: "(?<http_host>.*?)")?(?:, referrer: "(?<referrer>.*?)")?\z"#,
    )
});

/// Fields of the tail whose text is stored as it is.
const FIELDS: [&str; 6] = [
    "host",
    SITE,
    "subrequest",
    "upstream",
    "http_host",
    "referrer",
];

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("BUG: the pattern is a constant")
}

fn read(line: LineText<'_>, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
    let bytes = line.bytes();
    let stamp = bytes
        .get(..STAMP)
        .and_then(|text| read_slashes(text, written));
    let Some(stamp) = stamp else {
        return Err(Bad::expected(
            "bad_time",
            0,
            "a time as yyyy/mm/dd hh:mm:ss",
        ));
    };
    let Some(head) = HEAD.captures(&bytes[STAMP..]) else {
        let expected = "a level in brackets and process#thread:";
        return Err(Bad::expected("bad_head", STAMP, expected));
    };
    row.time_us = Some(stamp);
    let part = |(from, to): ByteSpan| line.part((STAMP + from, STAMP + to));
    row.push_text("level", &part(span(&head, 1).unwrap_or_default()));
    for (group, name) in [(2, "pid"), (3, "tid"), (4, "connection")] {
        let number = span(&head, group).and_then(|digits| part(digits).parse().ok());
        if let Some(number) = number {
            row.push_value(name, Value::Int(number));
        }
    }
    let begin = STAMP + head[0].len();
    let tail = tail(&bytes[begin..]);
    let end = tail.as_ref().map_or(bytes.len(), |(at, _)| begin + at);
    row.push_text("line", &line.part((begin, end)));
    if let Some((_, tail)) = tail {
        let part = |(from, to): ByteSpan| line.part((end + from, end + to));
        for name in FIELDS {
            if let Some(field) = tail.name(name) {
                row.push_text(name, &part((field.start(), field.end())));
            }
        }
        if let Some(request) = tail.name("request") {
            let place = (end + request.start(), end + request.end());
            push_request(line, place, row);
        }
    }
    Ok(())
}

/// Returns the only tail of a message, and its place; `None` where there is none or more than one.
fn tail(message: &[u8]) -> Option<(usize, Captures<'_>)> {
    if message.len() > MESSAGE_BYTES_MAX {
        return None;
    }
    let places: Vec<usize> = memmem::find_iter(message, CLIENT)
        .take(TAILS_MAX + 1)
        .collect();
    if places.len() > TAILS_MAX {
        return None;
    }
    let tails = places.into_iter();
    let mut tails = tails.filter_map(|at| Some((at, TAIL.captures(&message[at..])?)));
    let only = tails.next()?;
    tails.next().is_none().then_some(only)
}

fn span(captures: &Captures<'_>, group: usize) -> Option<ByteSpan> {
    captures
        .get(group)
        .map(|found| (found.start(), found.end()))
}

/// Appends the parts of a request, and the request itself where they do not make it.
pub(super) fn push_request(line: LineText<'_>, (from, to): ByteSpan, row: &mut DocumentRow) {
    let cut = cut(&line.bytes()[from..to]);
    let part = |(begin, end): ByteSpan| line.part((from + begin, from + end));
    if cut.is_none_or(|cut| !cut.rebuilds) {
        row.push_text("request", &line.part((from, to)));
    }
    let Some(cut) = cut else { return };
    let parts = [
        ("method", Some(cut.method)),
        ("path", cut.path),
        ("query", cut.query),
        ("protocol", cut.protocol),
    ];
    for (name, place) in parts {
        if let Some(place) = place {
            row.push_text(name, &part(place));
        }
    }
}

#[cfg(test)]
mod tests;
