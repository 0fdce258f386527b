use serde_json::{Value, json};

use crate::Format;
use crate::formats::documents::testing::{event as event_of, refusal};
use crate::formats::recognise;
use crate::reader::Fit;

fn event(line: &str) -> Value {
    assert_eq!(
        recognise(line.as_bytes()),
        Some((Format::ApacheError, Fit::Whole)),
        "{line}"
    );
    event_of(Format::ApacheError, line)
}

#[test]
fn lines_of_version_2_4_have_all_their_parts() {
    assert_eq!(
        event(
            "[Thu Nov 26 09:23:38.902022 2026] [core:error] [pid 357:tid 4321] (2)No such file or directory: [client 192.0.2.7:5874] AH00128: File does not exist: /x, y, referer: http://example.org/"
        ),
        json!({
            "time": "2026-11-26T09:23:38.902022Z", "module": "core", "level": "error",
            "pid": 357, "tid": 4321, "errno": 2, "error": "No such file or directory",
            "host": "192.0.2.7", "client_port": 5874, "code": "AH00128",
            "line": "File does not exist: /x, y", "referrer": "http://example.org/",
        })
    );
    assert_eq!(
        event(
            "[Thu Nov 26 09:23:38.5 2026] [ssl:trace3] [pid 357] ssl_engine.c(1273): [client 2001:db8::7:443] text"
        ),
        json!({
            "time": "2026-11-26T09:23:38.500000Z", "module": "ssl", "level": "trace3", "pid": 357,
            "source": "ssl_engine.c(1273)", "host": "2001:db8::7", "client_port": 443,
            "line": "text",
        })
    );
}

#[test]
fn lines_of_version_2_2_have_no_port() {
    assert_eq!(
        event("[Thu Nov  5 09:23:38 2026] [error] [client 2001:db8::7] text"),
        json!({
            "time": "2026-11-05T09:23:38Z", "level": "error", "host": "2001:db8::7", "line": "text",
        })
    );
    assert_eq!(
        event("[Thu Nov 26 09:23:38 2026] [notice] caught SIGTERM [client 192.0.2.7] x"),
        json!({
            "time": "2026-11-26T09:23:38Z", "level": "notice",
            "line": "caught SIGTERM [client 192.0.2.7] x",
        })
    );
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    for (line, expected) in [
        (
            "text",
            "bad_time: column 1: expected a time in brackets, as [Fri Sep 09 10:42:29 2011], found text",
        ),
        (
            "[Thu Nov 31 09:23:38 2026] [error] x",
            "bad_time: column 1: expected a time in brackets, as [Fri Sep 09 10:42:29 2011], found [Thu Nov 31 09:23:38 2026] [erro…",
        ),
        (
            "[Thu Nov 26 09:23:38 2026] x",
            "bad_head: column 27: expected a level in brackets, found  x",
        ),
    ] {
        assert_eq!(refusal(Format::ApacheError, line), expected);
    }
    // A line that is the mark of UTF-8 alone.
    assert!(refusal(Format::ApacheError, "\u{feff}").starts_with("bad_time"));
}
