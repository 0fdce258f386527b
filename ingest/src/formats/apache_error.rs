//! The error log of Apache httpd, in its default `ErrorLogFormat` of 2.4 and that of 2.2.
//!
//! ```text
//! [Fri Sep 09 10:42:29.902022 2011] [core:error] [pid 35708:tid 4328636416] [client
//! 192.0.2.7:5874] AH00128: File does not exist: /x, referer: http://example.org/
//! ```
//!
//! (one line). The client becomes `host`, as in access logs. The brackets before the message are
//! the server's own, so that a client cannot forge an address.

use std::sync::LazyLock;

use memchr::memmem;
use regex::bytes::Regex;
use storage::StreamKind;

use super::documents::{DocumentReader, recognise_stamped};
use crate::bad::Bad;
use crate::documents::{DocumentRow, Value};
use crate::error::Result;
use crate::reader::FormatEntry;
use crate::stamp::{Written, read_ctime};
use crate::text::LineText;

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "apache_error",
    kind: StreamKind::Documents,
    recognise: Some(|line| recognise_stamped(read, line)),
    is_closed: |_, _| false,
    reader: |options, _| DocumentReader::of_remains(read, options),
    holds_values: false,
    keeps_mark: false,
};

const REFERRER: &[u8] = b", referer: ";

/// All before the message, as httpd's `ap_log_error` writes it: module and level, process and
/// thread, the place in the source, the error of the system, the client, the code.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\A \[(?:(?<module>[\w-]+):)?(?<level>[a-z]+[0-9]?)\](?: \[pid (?<pid>[0-9]{1,18})(?::tid (?<tid>[0-9]{1,18}))?\])? (?:(?<source>[\w./\\-]+\([0-9]+\)): )?(?:\((?<errno>-?[0-9]{1,18})\)(?<error>[^\[\]]*?): )?(?:\[(?:client|remote) (?<client>[^\] ]+)\] )?(?:(?<code>AH[0-9]{5}): )?",
    )
    .expect("BUG: the pattern is a constant")
});

fn read(line: LineText<'_>, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
    let bytes = line.bytes();
    let end = memchr::memchr(b']', bytes).filter(|_| bytes.starts_with(b"["));
    let stamp = end.and_then(|end| Some((end + 1, read_ctime(&bytes[1..end], written)?)));
    let Some((begin, stamp)) = stamp else {
        let expected = "a time in brackets, as [Fri Sep 09 10:42:29 2011]";
        return Err(Bad::expected("bad_time", 0, expected));
    };
    let Some(head) = HEAD.captures(&bytes[begin..]) else {
        return Err(Bad::expected("bad_head", begin, "a level in brackets"));
    };
    row.time_us = Some(stamp);
    let field = |name| {
        let found = head.name(name)?;
        Some(line.part((begin + found.start(), begin + found.end())))
    };
    for name in ["module", "level", "source", "error", "code"] {
        if let Some(text) = field(name) {
            row.push_text(name, &text);
        }
    }
    for name in ["pid", "tid", "errno"] {
        if let Some(number) = field(name).and_then(|digits| digits.parse().ok()) {
            row.push_value(name, Value::Int(number));
        }
    }
    if let Some(client) = field("client") {
        // Version 2.2 writes no port, and an IPv6 address without one has the form of one with it.
        let has_port = field("pid").is_some();
        let port = client.rsplit_once(':').filter(|_| has_port);
        let port = port.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        row.push_text("host", port.map_or(&*client, |(host, _)| host));
        if let Some((_, port)) = port {
            row.push_value("client_port", Value::Int(i64::from(port)));
        }
    }
    let begin = begin + head[0].len();
    let referrer = memmem::rfind(&bytes[begin..], REFERRER).map(|at| begin + at);
    let end = referrer.unwrap_or(bytes.len());
    row.push_text("line", &line.part((begin, end)));
    if let Some(at) = referrer {
        row.push_text("referrer", &line.part((at + REFERRER.len(), bytes.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
