use proptest::prelude::*;

use super::*;

/// Method, path, query, protocol.
type Parts<'a> = (&'a str, Option<&'a str>, Option<&'a str>, Option<&'a str>);

fn parts(request: &str) -> Option<Parts<'_>> {
    let cut = cut(request.as_bytes())?;
    let text = |(from, to): ByteSpan| &request[from..to];
    Some((
        text(cut.method),
        cut.path.map(text),
        cut.query.map(text),
        cut.protocol.map(text),
    ))
}

#[test]
fn a_request_is_cut_at_its_first_space_its_last_word_and_its_first_question_mark() {
    for (request, expected) in [
        ("GET / HTTP/1.1", ("GET", Some("/"), None, Some("HTTP/1.1"))),
        (
            "GET /a?b=c HTTP/1.0",
            ("GET", Some("/a"), Some("b=c"), Some("HTTP/1.0")),
        ),
        (
            "GET /a?b?c HTTP/2",
            ("GET", Some("/a"), Some("b?c"), Some("HTTP/2")),
        ),
        (
            "GET /a? HTTP/2.0",
            ("GET", Some("/a"), Some(""), Some("HTTP/2.0")),
        ),
        (
            "GET ?b HTTP/1.1",
            ("GET", None, Some("b"), Some("HTTP/1.1")),
        ),
        (
            "GET /a b c HTTP/1.1",
            ("GET", Some("/a b c"), None, Some("HTTP/1.1")),
        ),
        (
            "GET /a  HTTP/1.1",
            ("GET", Some("/a "), None, Some("HTTP/1.1")),
        ),
        (
            "GET /a HTTP/1.1 ",
            ("GET", Some("/a HTTP/1.1 "), None, None),
        ),
        ("GET /", ("GET", Some("/"), None, None)),
        ("GET ", ("GET", None, None, None)),
        ("GET HTTP/1.0", ("GET", None, None, Some("HTTP/1.0"))),
        ("GET  HTTP/1.0", ("GET", None, None, Some("HTTP/1.0"))),
        (
            "GET http://a:80/b?c HTTP/1.1",
            ("GET", Some("http://a:80/b"), Some("c"), Some("HTTP/1.1")),
        ),
        (
            "M-SEARCH * HTTP/1.1",
            ("M-SEARCH", Some("*"), None, Some("HTTP/1.1")),
        ),
        (
            "VERSION_CONTROL /a HTTP/1.1",
            ("VERSION_CONTROL", Some("/a"), None, Some("HTTP/1.1")),
        ),
        ("GET /a HTTP/", ("GET", Some("/a HTTP/"), None, None)),
        ("GET /a HTTP/1.", ("GET", Some("/a HTTP/1."), None, None)),
        ("GET /a HTTP/.1", ("GET", Some("/a HTTP/.1"), None, None)),
        (
            "GET /a HTTP/1.1.1",
            ("GET", Some("/a HTTP/1.1.1"), None, None),
        ),
        ("GET /a http/1.1", ("GET", Some("/a http/1.1"), None, None)),
        (
            "GET /a\tHTTP/1.1",
            ("GET", Some("/a\tHTTP/1.1"), None, None),
        ),
        (
            "GET /\\\"q HTTP/1.1",
            ("GET", Some("/\\\"q"), None, Some("HTTP/1.1")),
        ),
        ("GET - HTTP/1.1", ("GET", Some("-"), None, Some("HTTP/1.1"))),
    ] {
        assert_eq!(parts(request), Some(expected), "{request:?}");
    }
}

#[test]
fn without_a_space_or_a_method_there_are_no_parts() {
    for request in [
        "",
        "-",
        " ",
        "GET",
        "get / HTTP/1.1",
        "Get / HTTP/1.1",
        "-GET /",
        "_GET /",
        "G3T /",
        " GET /",
        "\\x16\\x03 a",
        "GÉT /",
        "GET\t/",
    ] {
        assert_eq!(parts(request), None, "{request:?}");
    }
}

#[test]
fn only_a_protocol_right_behind_the_method_cannot_be_put_together_again() {
    for (request, rebuilds) in [
        ("GET HTTP/1.0", false),
        ("GET  HTTP/1.0", true),
        ("GET / HTTP/1.0", true),
        ("GET ", true),
    ] {
        assert_eq!(
            cut(request.as_bytes()).unwrap().rebuilds,
            rebuilds,
            "{request:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_request_is_rebuilt_or_said_not_to_be(request in "([A-Z_-]{0,4} ?)?[ /?a.]{0,8}( ?HTTP/[0-9.]{0,4})?( ?HTTP/1.1)?") {
        if let Some(cut) = cut(request.as_bytes()) {
            let (method, path, query, protocol) = parts(&request).unwrap();
            prop_assert_eq!(cut.rebuilds, rebuild_request(method, path, query, protocol) == request);
        }
    }
}
