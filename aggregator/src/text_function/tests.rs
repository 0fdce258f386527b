use arrow::array::{Array, StringArray};
use proptest::prelude::*;

use super::{TextFunction, url_parameter};

fn value(name: &str, text: &str) -> Option<String> {
    let function = TextFunction::of_name(name).expect("a function");
    function.of(text).map(|value| value.into_owned())
}

/// Returns the values of functions with a common beginning of their names, a dash for null.
fn parts(function: &str, names: [&str; 5], text: &str) -> String {
    let part = |name| value(&format!("{function}_{name}"), text);
    names
        .map(|name| part(name).unwrap_or_else(|| "-".to_owned()))
        .join(" ")
}

#[test]
fn urls_have_parts() {
    let names = ["protocol", "host", "path", "query", "fragment"];
    let parts = |url: &str| parts("url_extract", names, url);
    for (url, expected) in [
        (
            "https://Example.org/a/b?q=1#top",
            "https example.org /a/b q=1 top",
        ),
        (
            "HTTP://user:secret@example.org:8080",
            "http example.org - - -",
        ),
        ("http://[2001:DB8::1]:80/", "http [2001:db8::1] / - -"),
        ("http://[2001:db8::1]/", "http [2001:db8::1] / - -"),
        ("http://[2001:db8::1/a", "http [2001 /a - -"),
        ("//cdn.example.org/x.js", "- cdn.example.org /x.js - -"),
        ("/a?b?c#d#e", "- - /a b?c d#e"),
        ("?q", "- - - q -"),
        ("#", "- - - - "),
        ("mailto:a@example.org", "mailto - a@example.org - -"),
        ("1http://a/b", "- - 1http://a/b - -"),
        ("https:///etc", "https - /etc - -"),
        ("http://a?x=/b", "http a - x=/b -"),
        ("http://a#x?/b", "http a - - x?/b"),
        ("http://u@v@w:1:2/", "http w / - -"),
        ("", "- - - - -"),
        ("http://ex ample/a b", "http ex ample /a b - -"),
    ] {
        assert_eq!(parts(url), expected, "{url:?}");
    }
}

#[test]
fn parameters_are_decoded() {
    for (url, name, expected) in [
        (
            "/a?x=1&utm_source=news+letter",
            "utm_source",
            Some("news letter"),
        ),
        ("https://a/?q=%C3%BC%ff#q=2", "q", Some("ü\u{fffd}")),
        ("/a?b&c=", "b", Some("")),
        ("/a?b&c=", "c", Some("")),
        ("/a?x=1&x=2", "x", Some("1")),
        ("/a?%78=1", "x", Some("1")),
        ("/a?x=1=2", "x", Some("1=2")),
        ("x=1&y=2", "y", Some("2")),
        ("https://a/p#t?x=1", "x", None),
        ("/a/x=1", "x", None),
        ("/a?", "x", None),
        ("/a?x=1", "X", None),
        ("", "", Some("")),
    ] {
        let found = url_parameter(url, name);
        assert_eq!(found.as_deref(), expected, "{name:?} of {url:?}");
    }
    assert_eq!(
        value("url_decode", "a%2Fb+c%zz%").as_deref(),
        Some("a/b c%zz%")
    );
}

#[test]
fn user_agents_name_programs() {
    let names = ["family", "version", "os", "os_version", "category"];
    let parts = |agent: &str| parts("user_agent", names, agent);
    for (agent, expected) in [
        (
            "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
            "Firefox 128.0 Linux - pc",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 \
             (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
            "Safari 17.5 iPhone 17.5 smartphone",
        ),
        (
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Googlebot - - - crawler",
        ),
        ("-", "- - - - -"),
        ("", "- - - - -"),
    ] {
        assert_eq!(parts(agent), expected, "{agent:?}");
    }
}

#[test]
fn a_column_has_the_values_of_its_texts() {
    let texts = ["a/B", "-", "a/B", "Googlebot/2.1", "Googlebot/2.1"].map(Some);
    let column: StringArray = texts.into_iter().chain([None]).collect();
    for function in TextFunction::ALL {
        let values = function.of_column(&column);
        for (row, text) in column.iter().enumerate() {
            let value = (!values.is_null(row)).then(|| values.value(row));
            let single = text.and_then(|text| function.of(text));
            assert_eq!(value, single.as_deref(), "{} of {text:?}", function.name());
        }
    }
}

proptest! {
    /// No agent stops a seal: the database is code of others, and agents are hostile.
    #[test]
    fn any_text_has_a_value_or_none(
        text in prop_oneof![
            any::<String>(),
            "(Mozilla/|MSIE |Windows |Phone|Version/|Opera|DoCoMo/|KDDI-|iPhone|Android| rv:|\
              \\(|\\)|;|[0-9.]{0,3}|ü| |/|[a-z]:|//|[?#&=%+@:\\[\\]]){0,20}",
        ]
    ) {
        for function in TextFunction::ALL {
            let _ = function.of(&text);
        }
        let _ = url_parameter(&text, "a");
    }
}
