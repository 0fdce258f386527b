//! Access logs of AWS Application Load Balancers.
//!
//! The fields and their order are those of the section "Syntax" of the page "Access logs for your
//! Application Load Balancer" in Amazon's user guide. AWS appends new fields at the end, so that a
//! line may end behind the request, and what follows the last one known here is `extra`.
//!
//! The kind of the streams is documents: a column `response_size` of an access log has no headers
//! in it, and these sizes have; a line can be one of a WebSocket; and each has a dozen columns that
//! belong to load balancers alone.

use storage::StreamKind;

use super::access::cut;
use super::documents::{DocumentReader, recognise_stamped};
use super::fields::{FieldRule, FieldShape, FieldType, read_fields};
use crate::bad::Bad;
use crate::documents::{DocumentRow, SITE, Value};
use crate::error::Result;
use crate::reader::FormatEntry;
use crate::stamp::{Written, read_text};
use crate::text::{ByteSpan, LineText};

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "alb",
    kind: StreamKind::Documents,
    recognise: Some(|line| recognise_stamped(read, line)),
    is_closed: |_, _| false,
    reader: |options, _| DocumentReader::boxed(read, options),
    holds_values: false,
    keeps_mark: false,
};

const NOT_ALB: &str = "not_alb";
/// The types of requests and connections.
const TYPES: [&[u8]; 6] = [b"http", b"https", b"h2", b"grpcs", b"ws", b"wss"];
/// Fields that every line has: up to the request.
const REQUIRED: usize = 13;

const RULES: [FieldRule; 33] = [
    FieldRule::word("type"),
    FieldRule::new("time", FieldShape::Word, FieldType::Stamp(stamp)),
    FieldRule::word("elb"),
    FieldRule::new("host", FieldShape::Word, FieldType::Address("client_port")),
    FieldRule::new(
        "target_host",
        FieldShape::Word,
        FieldType::Address("target_port"),
    ),
    seconds("request_processing_time"),
    seconds("target_processing_time"),
    seconds("response_processing_time"),
    FieldRule::int("status"),
    FieldRule::int("target_status"),
    FieldRule::int("bytes_received"),
    FieldRule::int("bytes_sent"),
    FieldRule::new(
        "request",
        FieldShape::Escaped,
        FieldType::Parts(push_request),
    ),
    quoted("user_agent"),
    FieldRule::word("ssl_cipher"),
    FieldRule::word("ssl_protocol"),
    FieldRule::word("target_group_arn"),
    quoted("trace_id"),
    quoted("domain_name"),
    quoted("chosen_cert_arn"),
    // Here -1 says that the rules could not be evaluated.
    FieldRule::int("matched_rule_priority"),
    FieldRule::word("request_creation_time"),
    quoted("actions_executed"),
    quoted("redirect_url"),
    quoted("error_reason"),
    quoted("target_port_list"),
    quoted("target_status_code_list"),
    quoted("classification"),
    quoted("classification_reason"),
    FieldRule::word("conn_trace_id"),
    quoted("transformed_host"),
    quoted("transformed_uri"),
    quoted("request_transform_status"),
];

const fn quoted(name: &'static str) -> FieldRule {
    FieldRule::new(name, FieldShape::Escaped, FieldType::Text)
}

const fn seconds(name: &'static str) -> FieldRule {
    FieldRule::new(name, FieldShape::Word, FieldType::FloatOrMinusOne)
}

fn stamp(text: &str, written: Written<'_>) -> Option<i64> {
    read_text(text, written.zone).filter(|_| text.contains('T'))
}

fn read(line: LineText<'_>, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
    let bytes = line.bytes();
    let end = memchr::memchr(b' ', bytes).unwrap_or(bytes.len());
    if !TYPES.contains(&&bytes[..end]) {
        let expected = "the type http, https, h2, grpcs, ws or wss";
        return Err(Bad::expected(NOT_ALB, 0, expected));
    }
    read_fields(line, (&RULES, REQUIRED), NOT_ALB, row, written).map(|_| ())
}

/// Appends the parts of a request, whose target is `SCHEME://HOST:PORT/PATH?QUERY`; and the request
/// itself where they do not make it.
fn push_request(line: LineText<'_>, (from, to): ByteSpan, row: &mut DocumentRow) {
    let whole = line.part((from, to));
    let parts = cut(whole.as_bytes()).filter(|cut| cut.rebuilds);
    let parts =
        parts.and_then(|cut| Some((cut, RequestUrl::of(&whole[cut.path?.0..cut.path?.1])?)));
    let Some((cut, target)) = parts else {
        row.push_text("request", &whole);
        return;
    };
    row.push_text("method", &whole[cut.method.0..cut.method.1]);
    row.push_text("scheme", target.scheme);
    row.push_text(SITE, target.site);
    row.push_value("server_port", Value::Int(i64::from(target.port)));
    if !target.path.is_empty() {
        row.push_text("path", target.path);
    }
    for (name, place) in [("query", cut.query), ("protocol", cut.protocol)] {
        if let Some((from, to)) = place {
            row.push_text(name, &whole[from..to]);
        }
    }
}

/// The parts of a target without its query.
struct RequestUrl<'a> {
    scheme: &'a str,
    site: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> RequestUrl<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let slash = rest.find('/').unwrap_or(rest.len());
        let (site, digits) = rest[..slash].rsplit_once(':')?;
        let port: u16 = digits.parse().ok()?;
        // The parts make the target again.
        let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && port.to_string() == digits;
        is_plain.then_some(Self {
            scheme,
            site,
            port,
            path: &rest[slash..],
        })
    }
}

#[cfg(test)]
mod tests;
