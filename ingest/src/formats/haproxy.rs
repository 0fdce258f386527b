//! Logs of HAProxy: `option httplog` and `option tcplog`, with or without a header of syslog.
//!
//! ```text
//! 192.0.2.7:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ----
//! 1/1/1/1/0 0/0 {example.org} {} "GET /index.html HTTP/1.1"
//! 192.0.2.7:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0
//! ```
//!
//! (the first one line): sections "TCP log format" and "HTTP log format" of HAProxy's configuration
//! manual. The manual's `+` before a number is a column of its own: before the time and the bytes
//! the line was written before the end (`option logasap`), before the retries the session went to
//! another server. `~` behind a frontend says that the connection had TLS. A header of syslog adds
//! its columns, with the sender as `hostname`; its stamp counts for less than that of HAProxy,
//! which has milliseconds, and is not kept.
//!
//! A file of syslog has messages of HAProxy about itself, and those of other programs. Such a
//! message is the column `line` of an event at the time of its header.
//!
//! The kind of the streams is documents: lines of TCP are no requests.

use storage::StreamKind;

use super::documents::{DocumentReader, LINE, recognise_stamped};
use super::fields::{EXTRA, FieldShape, Fields, push_address};
use super::nginx_error::push_request;
use super::syslog;
use crate::bad::Bad;
use crate::documents::{DocumentRow, Value};
use crate::error::Result;
use crate::reader::FormatEntry;
use crate::stamp::{Written, read_format};
use crate::text::{ByteSpan, LineText};

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "haproxy",
    kind: StreamKind::Documents,
    recognise: Some(|line| recognise_stamped(read_request, line)),
    is_closed: |_, _| false,
    reader: |options, _| DocumentReader::of_remains(read, options),
    holds_values: false,
    keeps_mark: false,
};

const NOT_HAPROXY: &str = "not_haproxy";
/// The time at which the connection or request came, with milliseconds and without a zone.
const STAMP: &str = "%d/%b/%Y:%H:%M:%S%.3f";
const HTTP_TIMES: [&str; 5] = [
    "header_time_ms",
    "queue_time_ms",
    "connect_time_ms",
    "response_time_ms",
    "request_time_ms",
];
const TCP_TIMES: [&str; 3] = ["queue_time_ms", "connect_time_ms", "session_time_ms"];
const CONNECTIONS: [&str; 5] = ["actconn", "feconn", "beconn", "srv_conn", "retries"];
const QUEUES: [&str; 2] = ["srv_queue", "backend_queue"];
const EARLY: &str = "logged_early";

fn read(line: LineText<'_>, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
    let Err(bad) = read_request(line, row, written) else {
        return Ok(());
    };
    row.clear();
    let begin = syslog::read_head(line, row, written);
    if row.time_us.is_none() {
        return Err(bad);
    }
    row.push_text(LINE, &line.part((begin, line.bytes().len())));
    Ok(())
}

/// Reads a request or a connection.
fn read_request(
    line: LineText<'_>,
    row: &mut DocumentRow,
    written: Written<'_>,
) -> Result<(), Bad> {
    let begin = syslog::read_head(line, row, written);
    row.time_us = None;
    let mut line = HaproxyLine {
        line,
        fields: Fields::new(line, begin),
    };
    let client = line.word("an address and a port", |text| text.contains(':'))?;
    push_address("host", "client_port", &line.line.part(client), row);
    line.stamp(row, written)?;
    line.route(row)?;
    let times = line.word("times as 0/0/5007 or 10/0/30/69/109", |_| true)?;
    let is_http = line.line.part(times).matches('/').count() + 1 == HTTP_TIMES.len();
    match is_http {
        true => {
            line.numbers(times, &HTTP_TIMES, EARLY, row)?;
            let status = line.word("a status", |_| true)?;
            line.numbers(status, &["status"], EARLY, row)?;
        }
        false => line.numbers(times, &TCP_TIMES, EARLY, row)?,
    }
    let bytes = line.word("the bytes sent", |_| true)?;
    line.numbers(bytes, &["bytes_sent"], EARLY, row)?;
    if is_http {
        for name in ["request_cookie", "response_cookie"] {
            let cookie = line.word("a cookie or -", |_| true)?;
            let cookie = line.line.part(cookie);
            if cookie != "-" {
                row.push_text(name, &cookie);
            }
        }
    }
    let flags = if is_http { 4 } else { 2 };
    let is_state = |text: &str| {
        text.len() == flags && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-')
    };
    let state = line.word("the state at the end, as ---- or --", is_state)?;
    row.push_text("termination_state", &line.line.part(state));
    let connections = line.word("numbers of connections as 1/1/1/1/0", |_| true)?;
    line.numbers(connections, &CONNECTIONS, "redispatched", row)?;
    let queues = line.word("lengths of queues as 0/0", |_| true)?;
    line.numbers(queues, &QUEUES, EARLY, row)?;
    if is_http {
        line.headers(row);
        line.request(row)?;
    }
    if let Some(rest) = line.fields.rest() {
        row.push_text(EXTRA, &line.line.part(rest));
    }
    Ok(())
}

/// A line, read field by field.
struct HaproxyLine<'a> {
    line: LineText<'a>,
    fields: Fields<'a>,
}

impl HaproxyLine<'_> {
    /// Reads a word that passes a check.
    fn word(&mut self, expected: &'static str, is: impl Fn(&str) -> bool) -> Result<ByteSpan, Bad> {
        let at = self.fields.at;
        let word = self.fields.word();
        let word = word.filter(|place| is(&self.line.part(*place)));
        word.ok_or_else(|| Bad::expected(NOT_HAPROXY, at, expected))
    }

    fn stamp(&mut self, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
        let at = self.fields.at;
        let stamp = self.fields.next(FieldShape::Bracketed);
        let us = stamp.and_then(|place| read_format(&self.line.part(place), STAMP, written.zone));
        let expected = "a time as [06/Feb/2009:12:14:14.655]";
        row.time_us = Some(us.ok_or_else(|| Bad::expected("bad_time", at, expected))?);
        Ok(())
    }

    /// Reads the frontend, the backend and the server.
    fn route(&mut self, row: &mut DocumentRow) -> Result<(), Bad> {
        let frontend = self.word("a frontend", |_| true)?;
        let frontend = self.line.part(frontend);
        let name = frontend.strip_suffix('~');
        row.push_text("frontend", name.unwrap_or(&frontend));
        if name.is_some() {
            row.push_value("tls", Value::Bool(true));
        }
        let route = self.word("a backend and a server, as static/srv1", |t| {
            t.contains('/')
        })?;
        let route = self.line.part(route);
        if let Some((backend, server)) = route.split_once('/') {
            row.push_text("backend", backend);
            row.push_text("server", server);
        }
        Ok(())
    }

    /// Appends the numbers of a word between `/`, without those that are -1; a `+` before one is
    /// the column `plus`.
    fn numbers(
        &self,
        place: ByteSpan,
        names: &[&str],
        plus: &'static str,
        row: &mut DocumentRow,
    ) -> Result<(), Bad> {
        let text = self.line.part(place);
        let expected = || Bad::expected(NOT_HAPROXY, place.0, format!("the numbers {names:?}"));
        let mut numbers = text.split('/');
        for name in names {
            let number = numbers.next().ok_or_else(expected)?;
            let number = number
                .strip_prefix('+')
                .inspect(|_| push_flag(plus, row))
                .unwrap_or(number);
            let is_plain = !number.starts_with('+');
            match number
                .parse()
                .ok()
                .filter(|_| is_plain)
                .ok_or_else(expected)?
            {
                -1 => {}
                number => row.push_value(name, Value::Int(number)),
            }
        }
        match numbers.next() {
            None => Ok(()),
            Some(_) => Err(expected()),
        }
    }

    /// Reads captured headers. Of a single group nobody can tell whether it is of the request or of
    /// the response.
    fn headers(&mut self, row: &mut DocumentRow) {
        let mut groups = Vec::new();
        while groups.len() < 2 {
            let bytes = self.line.bytes();
            let Some(rest) = bytes[self.fields.at..].strip_prefix(b"{") else {
                break;
            };
            // A brace within a header is written as #7D.
            let Some(length) = memchr::memchr(b'}', rest) else {
                break;
            };
            let begin = self.fields.at + 1;
            if bytes.get(begin + length + 1) != Some(&b' ') {
                break;
            }
            groups.push((begin, begin + length));
            self.fields.at = begin + length + 2;
        }
        let names: &[&str] = match groups.len() {
            2 => &["captured_request_headers", "captured_response_headers"],
            _ => &["captured_headers"],
        };
        for (name, group) in names.iter().zip(groups) {
            row.push_text(name, &self.line.part(group));
        }
    }

    /// Reads the request. HAProxy cuts long lines, and then the closing quote is missing.
    fn request(&mut self, row: &mut DocumentRow) -> Result<(), Bad> {
        let (at, end) = (self.fields.at, self.line.bytes().len());
        if self.line.bytes().get(at) != Some(&b'"') {
            return Err(Bad::expected(NOT_HAPROXY, at, "a request in quotes"));
        }
        let request = self.fields.next(FieldShape::Quoted).unwrap_or_else(|| {
            self.fields.at = end;
            (at + 1, end)
        });
        push_request(self.line, request, row);
        Ok(())
    }
}

fn push_flag(name: &str, row: &mut DocumentRow) {
    row.push_value(name, Value::Bool(true));
}

#[cfg(test)]
mod tests;
