use proptest::prelude::*;
use regex::bytes::Regex;

use super::*;

const COMMON: &str = r#"h - u [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326"#;
const COMBINED: &str = r#"h - u [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326 "r" "a""#;

fn take(line: &str, accept: Accept) -> Result<AccessLine, Bad> {
    read(line.as_bytes(), accept, &mut AccessStamps::new())
}

/// Which shape a line is read in, and its `extra`.
fn shape(line: &str, accept: Accept) -> Option<(&'static str, Option<&str>)> {
    let record = take(line, accept).ok()?;
    let shape = match (record.site, record.referrer) {
        (Some(_), _) => "vhost_combined",
        (None, Some(_)) => "combined",
        (None, None) => "common",
    };
    Some((shape, record.extra.map(|(from, to)| &line[from..to])))
}

#[test]
fn common_and_combined_match_whole_lines() {
    assert_eq!(shape(COMMON, Accept::COMMON), Some(("common", None)));
    assert_eq!(shape(COMMON, Accept::COMBINED), None);
    assert_eq!(shape(COMBINED, Accept::COMBINED), Some(("combined", None)));
    assert_eq!(shape(COMBINED, Accept::COMMON), None);
    for more in [" ", " x", "x"] {
        assert_eq!(shape(&format!("{COMMON}{more}"), Accept::COMMON), None);
        assert_eq!(shape(&format!("{COMBINED}{more}"), Accept::COMBINED), None);
    }
}

#[test]
fn auto_takes_combined_else_common_else_one_of_them_as_a_prefix() {
    let auto = Accept::COMBINED.lenient(false);
    for (line, expected) in [
        (COMMON.to_owned(), Some(("common", None))),
        (COMBINED.to_owned(), Some(("combined", None))),
        (
            format!("{COMBINED} more \"x\""),
            Some(("combined", Some("more \"x\""))),
        ),
        (format!("{COMBINED}  two"), Some(("combined", Some(" two")))),
        (format!("{COMBINED} "), Some(("combined", Some("")))),
        (format!("{COMMON} more"), Some(("common", Some("more")))),
        (format!("{COMMON} \"r\""), Some(("common", Some("\"r\"")))),
        (
            format!("{COMMON} \"r\" \"cut"),
            Some(("common", Some("\"r\" \"cut"))),
        ),
        (
            format!("{COMBINED}x"),
            Some(("common", Some("\"r\" \"a\"x"))),
        ),
        (format!("{COMMON}x"), None),
    ] {
        assert_eq!(shape(&line, auto), expected, "{line}");
    }
}

#[test]
fn strict_auto_takes_whole_lines_only() {
    let strict = Accept::COMBINED.lenient(true);
    assert_eq!(shape(COMMON, strict), Some(("common", None)));
    assert_eq!(shape(COMBINED, strict), Some(("combined", None)));
    assert_eq!(shape(&format!("{COMMON} more"), strict), None);
    assert_eq!(shape(&format!("{COMBINED} more"), strict), None);
}

#[test]
fn a_virtual_host_is_read_without_its_port() {
    for (site, expected) in [
        ("example.com", "example.com"),
        ("example.com:443", "example.com"),
        ("example.com:", "example.com:"),
        ("example.com:a1", "example.com:a1"),
        ("[::1]:80", "[::1]"),
        ("[::1]", "[::1]"),
        ("::1", "::1"),
        ("fe80::80", "fe80::80"),
        (":80", ""),
        ("80", "80"),
    ] {
        let line = format!("{site} {COMBINED}");
        for accept in [Accept::VHOST, Accept::VHOST.lenient(false)] {
            let record = take(&line, accept).unwrap();
            assert_eq!(
                record.site.map(|(from, to)| &line[from..to]),
                Some(expected),
                "{line}"
            );
            assert_eq!(&line[record.host.0..record.host.1], "h");
        }
    }
    assert_eq!(shape(COMBINED, Accept::VHOST), None);
    assert_eq!(shape(&format!("v {COMMON}"), Accept::VHOST), None);
    assert_eq!(shape(&format!("v {COMBINED} x"), Accept::VHOST), None);
    assert_eq!(
        shape(&format!("v {COMBINED} x"), Accept::VHOST.lenient(false)),
        Some(("vhost_combined", Some("x")))
    );
    assert_eq!(
        shape(COMBINED, Accept::VHOST.lenient(false)),
        Some(("combined", None))
    );
}

#[test]
fn a_quoted_field_ends_at_the_first_quote_behind_an_even_number_of_backslashes() {
    for (field, fits) in [
        (r"", true),
        (r"a", true),
        (r#"\""#, true),
        (r"\\", true),
        (r#"\\\""#, true),
        (r#"a\"b\"c"#, true),
        (r"\x16\x03", true),
        (r"a\", false),
        (r"\\\", false),
        (r#"a"b"#, false),
        (r#"\\""#, false),
    ] {
        let line = COMBINED.replace("\"r\"", &format!("\"{field}\""));
        let record = take(&line, Accept::COMBINED);
        assert_eq!(record.is_ok(), fits, "{line}");
        if let Ok(AccessLine {
            referrer: Some((from, to)),
            ..
        }) = record
        {
            assert_eq!(&line[from..to], field);
        }
    }
}

#[test]
fn a_bad_line_names_the_column_and_what_belongs_there() {
    for (from, to, reason, at) in [
        ("h - u", "", "not_combined", 0),
        ("h - u", "h  u", "not_combined", 2),
        ("h - u", "h\" - u", "not_combined", 1),
        ("h - u", "h -", "not_combined", 26),
        ("h - u", "h - u v", "not_combined", 6),
        ("10/Oct", "32/Oct", "bad_time", 7),
        (":13:", ":25:", "bad_time", 19),
        ("-0700]", "-0700 ", "bad_time", 33),
        ("] \"GET", "]\"GET", "not_combined", 34),
        ("\"GET", "GET", "not_combined", 35),
        (" 200 ", " - ", "bad_status", 52),
        (" 200 ", " 20 ", "bad_status", 52),
        (" 200 ", " 2000 ", "bad_status", 52),
        (" 2326", " x", "bad_size", 56),
        (" 2326", " -1", "bad_size", 57),
        (" 2326", " 99999999999999999999", "bad_size", 56),
        (" \"r\"", "", "not_combined", 64),
        (" \"r\" \"a\"", "", "not_combined", 60),
        ("\"r\" \"a\"", "\"r\" a", "not_combined", 65),
        ("\"a\"", "\"a", "not_combined", 67),
        ("\"a\"", "\"a\" x", "not_combined", 68),
    ] {
        let line = COMBINED.replacen(from, to, 1);
        let bad = take(&line, Accept::COMBINED).unwrap_err();
        assert_eq!((bad.reason, bad.at), (reason, at), "{line}: {bad:?}");
    }
}

#[test]
fn sizes_are_digits_or_a_dash_and_status_any_three_digits() {
    for (size, expected) in [
        ("-", None),
        ("0", Some(0)),
        ("007", Some(7)),
        ("9223372036854775807", Some(i64::MAX)),
    ] {
        let line = COMMON.replace("2326", size);
        assert_eq!(take(&line, Accept::COMMON).unwrap().size, expected);
    }
    for (status, expected) in [("000", 0), ("099", 99), ("999", 999)] {
        let line = COMMON.replace(" 200 ", &format!(" {status} "));
        assert_eq!(take(&line, Accept::COMMON).unwrap().status, expected);
    }
}

#[test]
fn hosts_may_be_names_and_ipv6_addresses_and_users_mail_addresses() {
    for host in [
        "::1",
        "2a03::8000",
        "proxy.example",
        "-",
        "\u{e9}",
        "a,b",
        "[x]",
    ] {
        let line = COMMON.replacen("h - u", &format!("{host} - a.b@example.com"), 1);
        let record = take(&line, Accept::COMMON).unwrap();
        assert_eq!(&line[record.host.0..record.host.1], host);
        assert_eq!(&line[record.user.0..record.user.1], "a.b@example.com");
    }
}

/// The grammar once more, as patterns: an oracle that shares nothing with the parser.
fn patterns() -> (Regex, Regex) {
    let common = concat!(
        r#"(?s-u)^[^ "]+ [^ "]+ [^ "]+ \[(?:0[1-9]|[12][0-9]|3[01])/(?:Jan|Mar|Oct)/[0-9]{4}:"#,
        r#"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9] [+-](?:[01][0-9]|2[0-3])[0-5][0-9]\] "#,
        r#""(?:[^"\\]|\\.)*" [0-9]{3} (?:[0-9]{1,18}|-)"#,
    );
    let combined = format!(r#"{common} "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"$"#);
    (
        Regex::new(&format!("{common}$")).unwrap(),
        Regex::new(&combined).unwrap(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn lines_match_as_the_patterns_say(
        edits in prop::collection::vec((0_usize..80, prop::sample::select(&b" \"\\-x0[]/:\xff"[..]), 0_u8..3), 0..3),
        combined in any::<bool>(),
    ) {
        let mut line = if combined { COMBINED } else { COMMON }.as_bytes().to_vec();
        for (at, byte, edit) in edits {
            let at = at.min(line.len() - 1);
            match edit {
                0 => line[at] = byte,
                1 => line.insert(at, byte),
                _ => { line.remove(at); }
            }
        }
        let (common_pattern, combined_pattern) = patterns();
        let mut stamps = AccessStamps::new();
        // The year 0 is the one thing the patterns do not know.
        prop_assume!(!line.windows(6).any(|w| w == b"/0000:"));
        prop_assert_eq!(read(&line, Accept::COMMON, &mut stamps).is_ok(), common_pattern.is_match(&line));
        prop_assert_eq!(read(&line, Accept::COMBINED, &mut stamps).is_ok(), combined_pattern.is_match(&line));
    }
}
