//! Server access logs of Amazon S3.
//!
//! The fields and their order are those of the page "Amazon S3 server access log format" in
//! Amazon's user guide. AWS appends new fields at the end: a line may end behind the user agent,
//! and what follows the last field known here is `extra`.
//!
//! Texts of the client stand in quotes without an escape of quotes in them, so that a user agent
//! could pretend to be the fields behind it. A line with more quotes than its fields have is
//! therefore quarantined. What is no request of a client (a deletion of a batch) has a bare `-` for
//! each of these texts.
//!
//! The kind of the streams is documents: operations of S3 itself (`S3.EXPIRE.OBJECT`) are no
//! requests, and most columns belong to S3 alone.

use storage::StreamKind;

use super::documents::{DocumentReader, recognise_stamped};
use super::fields::{FieldRule, FieldShape, FieldType, read_fields};
use super::nginx_error::push_request;
use crate::bad::Bad;
use crate::documents::{DocumentRow, SITE};
use crate::error::Result;
use crate::reader::{Fit, FormatEntry};
use crate::stamp::{AccessStamps, Written};
use crate::text::LineText;

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "s3_access",
    kind: StreamKind::Documents,
    recognise: Some(recognise),
    is_closed: |_, _| false,
    reader: |options, _| DocumentReader::boxed(read, options),
    holds_values: false,
    keeps_mark: false,
};

const NOT_S3_ACCESS: &str = "not_s3_access";
/// Hexadecimal digits of a canonical user id, by which `auto` recognises a line.
const OWNER_DIGITS: usize = 64;
/// Fields that every line has: up to the user agent.
const REQUIRED: usize = 17;

const RULES: [FieldRule; 26] = [
    FieldRule::word("bucket_owner"),
    FieldRule::word("bucket"),
    FieldRule::new("time", FieldShape::Bracketed, FieldType::Stamp(stamp)),
    FieldRule::word("host"),
    FieldRule::word("user"),
    FieldRule::word("request_id"),
    FieldRule::word("operation"),
    FieldRule::word("key"),
    FieldRule::new(
        "request",
        FieldShape::Quoted,
        FieldType::Parts(push_request),
    ),
    FieldRule::int("status"),
    FieldRule::word("error_code"),
    FieldRule::int("response_size"),
    FieldRule::int("object_size"),
    FieldRule::int("request_time_ms"),
    FieldRule::int("turn_around_time_ms"),
    FieldRule::new("referrer", FieldShape::Quoted, FieldType::Text),
    FieldRule::new("user_agent", FieldShape::Quoted, FieldType::Text),
    FieldRule::word("version_id"),
    FieldRule::word("host_id"),
    FieldRule::word("signature_version"),
    FieldRule::word("cipher_suite"),
    FieldRule::word("auth_type"),
    FieldRule::word(SITE),
    FieldRule::word("tls_version"),
    FieldRule::word("access_point_arn"),
    FieldRule::word("acl_required"),
];

fn stamp(text: &str, _: Written<'_>) -> Option<i64> {
    AccessStamps::new()
        .read(text.as_bytes().try_into().ok()?)
        .ok()
}

fn recognise(line: &[u8]) -> Result<Fit, Bad> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    if digits != OWNER_DIGITS || line.get(digits) != Some(&b' ') {
        let expected = "an owner's id of 64 hexadecimal digits";
        return Err(Bad::expected(NOT_S3_ACCESS, 0, expected));
    }
    recognise_stamped(read, line)
}

fn read(line: LineText<'_>, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
    let rules = (&RULES[..], REQUIRED);
    let quoted = read_fields(line, rules, NOT_S3_ACCESS, row, written)?;
    match memchr::memchr_iter(b'"', line.bytes()).nth(2 * quoted) {
        None => Ok(()),
        Some(at) => {
            let message =
                "a quote within a text of the client: the fields behind it could be forged";
            Err(Bad::because(NOT_S3_ACCESS, at, message))
        }
    }
}

#[cfg(test)]
mod tests;
