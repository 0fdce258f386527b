use axum::http::Request;

use super::*;

/// Returns the status with which a server at `127.0.0.1:7070` with two configured names refuses a
/// request; 200 if it does not.
fn status(version: Version, headers: &[(&str, &str)]) -> u16 {
    let hosts = [
        "logs.example.org".to_owned(),
        "logs.example.org:8443".to_owned(),
    ];
    let own = OwnNames::new("127.0.0.1:7070".parse().expect("an address"), &hosts);
    let mut request = Request::builder().uri("/health").version(version);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).expect("a request").into_parts();
    own.check(&head)
        .map_or_else(|r| r.status().as_u16(), |()| 200)
}

#[test]
fn a_host_is_one_of_the_own_names_with_its_port() {
    for (host, expected) in [
        ("127.0.0.1:7070", 200),
        ("localhost:7070", 200),
        ("LocalHost:7070", 200),
        ("[::1]:7070", 200),
        ("[0:0:0:0:0:0:0:1]:7070", 200),
        ("logs.example.org", 200),
        ("logs.example.org:443", 200),
        ("logs.example.org:7070", 200),
        ("logs.example.org:8443", 200),
        ("logs.example.org:8444", 421),
        ("evil.logs.example.org", 421),
        ("logs.example.org.evil.example", 421),
        ("localhost", 421),
        ("localhost:7071", 421),
        ("127.0.0.1", 421),
        ("127.0.0.1:7071", 421),
        ("127.0.0.2:7070", 421),
        ("127.0.0.1.evil.example:7070", 421),
        ("evil.example:7070", 421),
        ("evil.example", 421),
        ("user@127.0.0.1:7070", 421),
        ("127.0.0.1:+7070", 421),
        ("127.0.0.1:7070:7070", 421),
        ("[::1", 421),
        ("[evil]:7070", 421),
        (":7070", 421),
        ("", 421),
    ] {
        assert_eq!(
            status(Version::HTTP_11, &[("host", host)]),
            expected,
            "{host:?}"
        );
    }
}

#[test]
fn http_1_1_wants_exactly_one_host() {
    assert_eq!(status(Version::HTTP_11, &[]), 400);
    assert_eq!(status(Version::HTTP_10, &[]), 200);
    let own = ("host", "127.0.0.1:7070");
    assert_eq!(status(Version::HTTP_11, &[own, own]), 400);
    assert_eq!(status(Version::HTTP_10, &[("host", "evil.example")]), 421);
}

#[test]
fn a_target_that_names_another_server_is_refused_as_a_host_is() {
    let own = OwnNames::new("127.0.0.1:7070".parse().expect("an address"), &[]);
    for (target, refused) in [
        ("http://evil.example/health", true),
        ("http://127.0.0.1:7070/health", false),
    ] {
        let request = Request::builder()
            .uri(target)
            .header("host", "127.0.0.1:7070");
        let (head, ()) = request.body(()).expect("a request").into_parts();
        assert_eq!(own.check(&head).is_err(), refused, "{target}");
    }
}

#[test]
fn a_page_of_another_origin_is_refused() {
    for (name, value, expected) in [
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "Same-Origin", 403),
        ("sec-fetch-site", "", 403),
        ("origin", "http://127.0.0.1:7070", 200),
        ("origin", "http://localhost:7070", 200),
        ("origin", "http://[::1]:7070", 200),
        ("origin", "https://logs.example.org", 200),
        ("origin", "https://logs.example.org:8443", 200),
        ("origin", "https://logs.example.org:9000", 403),
        ("origin", "http://127.0.0.1:7071", 403),
        ("origin", "http://127.0.0.1", 403),
        ("origin", "http://evil.example", 403),
        ("origin", "http://127.0.0.1:7070.evil.example", 403),
        ("origin", "http://127.0.0.1:7070@evil.example", 403),
        ("origin", "ftp://127.0.0.1:7070", 403),
        ("origin", "file://", 403),
        ("origin", "chrome-extension://abcdef", 403),
        ("origin", "null", 403),
        ("origin", "", 403),
    ] {
        let headers = [("host", "127.0.0.1:7070"), (name, value)];
        let context = format!("{name}: {value}");
        assert_eq!(status(Version::HTTP_11, &headers), expected, "{context}");
    }
}

#[test]
fn each_of_several_headers_counts() {
    let own = ("host", "127.0.0.1:7070");
    let (good, bad) = (("origin", "http://127.0.0.1:7070"), ("origin", "null"));
    assert_eq!(status(Version::HTTP_11, &[own, good, bad]), 403);
    let (here, there) = (("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site"));
    assert_eq!(status(Version::HTTP_11, &[own, here, there]), 403);
    assert_eq!(status(Version::HTTP_11, &[own, good, here]), 200);
    assert_eq!(status(Version::HTTP_11, &[own, bad, here]), 403);
    // A rebound name: to the browser, the page and the server have the same origin.
    let rebound = ("host", "evil.example:7070");
    let origin = ("origin", "http://evil.example:7070");
    let same = ("sec-fetch-site", "same-origin");
    assert_eq!(status(Version::HTTP_11, &[rebound, origin, same]), 421);
}

#[test]
fn a_listener_at_port_80_is_asked_without_a_port() {
    let own = OwnNames::new("127.0.0.3:80".parse().expect("an address"), &[]);
    for (host, expected) in [
        ("localhost", true),
        ("127.0.0.3", true),
        ("127.0.0.3:80", true),
        ("127.0.0.4", false),
    ] {
        let request = Request::builder().uri("/").header("host", host);
        let (head, ()) = request.body(()).expect("a request").into_parts();
        assert_eq!(own.check(&head).is_ok(), expected, "{host}");
    }
}
