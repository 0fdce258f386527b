use arrow::array::Array as _;
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;
use storage::REST;

use super::*;
use crate::{Format, ParseOptions, Parser};

/// 14 November 2023: a time that a document without a stamp can have.
const RECEIVED_US: i64 = 1_700_000_000_000_000;

fn key() -> HashKey {
    HashKey::new(&[7; 32]).unwrap()
}

fn anonymiser(fields: &[(&str, Method)]) -> Anonymiser {
    let start = Anonymiser::default();
    let with = |all: Anonymiser, (name, method): &(&str, Method)| {
        all.with(name, *method, Some(&key())).unwrap()
    };
    fields.iter().fold(start, with)
}

#[test]
fn an_address_keeps_its_network_and_nothing_else_stays() {
    for (value, stored) in [
        ("203.0.113.77", "203.0.113.0"),
        ("203.0.113.77:5140", "203.0.113.0"),
        (" 203.0.113.77 ", "203.0.113.0"),
        ("::ffff:203.0.113.77", "203.0.113.0"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ("[2001:db8:1:2::6]:443", "2001:db8:1::"),
        ("[2001:db8:1:2::6]", "2001:db8:1::"),
        ("fe80::1%eth0", "fe80::"),
        // Addresses of IPv6 with 203.0.113.77 in them: 6to4, NAT64, Teredo, IPv4-compatible.
        ("2002:cb00:714d::1", "2002:cb00:7100::"),
        ("64:ff9b::203.0.113.77", "64:ff9b::"),
        ("64:ff9b:1:cb00:71:4d00::", "64:ff9b:1::"),
        ("2001:0:c633:6409:0:0:34ff:8eb2", "2001:0:c633::"),
        ("::203.0.113.77", "::"),
        ("client-77.example.org", "anonymous"),
        ("203.0.113.77, 198.51.100.9", "anonymous"),
        ("203.0.113.777", "anonymous"),
        ("", "anonymous"),
    ] {
        assert_eq!(Rule::Truncate.apply(value), stored, "{value:?}");
    }
}

#[test]
fn a_hash_is_hmac_sha_256_under_the_key() {
    // Test case 2 of RFC 4231 has a key of 4 bytes; its key padded with zeros to 32 is the same
    // key for HMAC (RFC 2104).
    let mut padded = b"Jefe".to_vec();
    padded.resize(32, 0);
    let key = HashKey::new(&padded).unwrap();
    let hash = key.hash(b"what do ya want for nothing?");
    assert_eq!(hash, "5bdcc146bf60754e6a042426089575c7");
    assert!(HashKey::new(&[7; 31]).is_none(), "a short key");
    assert_eq!(format!("{key:?}"), "HashKey(…)");
    assert!(
        Anonymiser::default()
            .with("user", Method::Hash, None)
            .is_err()
    );
}

/// Returns every value of the events as text.
fn stored(options: ParseOptions, lines: &[u8]) -> (String, usize) {
    let parsed = Parser::new(options).parse(lines).unwrap();
    assert!(parsed.quarantine.is_empty(), "{:?}", parsed.quarantine);
    let mut all = String::new();
    for (field, column) in parsed
        .events
        .schema()
        .fields()
        .iter()
        .zip(parsed.events.columns())
    {
        for row in 0..column.len() {
            if field.name() == REST && column.is_valid(row) {
                let bytes = column.as_binary::<i32>().value(row);
                let document = bson::Document::from_reader(bytes).unwrap();
                all += &format!("{}={document}\n", field.name());
                continue;
            }
            all += &format!(
                "{}={}\n",
                field.name(),
                array_value_to_string(column, row).unwrap()
            );
        }
    }
    (all, parsed.events.num_rows())
}

#[test]
fn an_access_log_has_its_fields_changed_and_the_others_kept() {
    let anonymiser = anonymiser(&[("host", Method::Truncate), ("user", Method::Hash)]);
    let options = |anonymiser| ParseOptions {
        format: Format::Combined,
        received_us: i64::MAX,
        anonymiser,
        ..ParseOptions::default()
    };
    let line = b"203.0.113.77 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 23 \"-\" \"x\"\n";
    let (all, events) = stored(options(anonymiser), line);
    assert_eq!(events, 1);
    assert!(all.contains("host=203.0.113.0\n"), "{all}");
    assert!(
        all.contains(&format!("user={}\n", key().hash(b"frank"))),
        "{all}"
    );
    assert!(all.contains("path=/a\n"), "{all}");
    assert!(!all.contains("frank") && !all.contains("113.77"), "{all}");
    for name in ["path", "request", "status", "hosst"] {
        let wrong = Anonymiser::default()
            .with(name, Method::Truncate, None)
            .unwrap();
        let refused = Parser::new(options(wrong)).parse(line).unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
    }
}

#[test]
fn forms_of_one_address_have_one_hash() {
    let hash = |value| Rule::Hash(key()).apply(value);
    for same in ["::ffff:203.0.113.77", "203.0.113.77:5140", " 203.0.113.77"] {
        assert_eq!(hash(same), hash("203.0.113.77"), "{same}");
    }
    assert_eq!(hash("2001:DB8:0:0::1"), hash("[2001:db8::1]:443"));
    assert_eq!(hash("203.0.113.77"), key().hash(b"203.0.113.77"));
    assert_eq!(hash(" frank"), key().hash(b" frank"), "no address");
}

#[test]
fn the_most_specific_rule_counts() {
    for fields in [
        [("client", Method::Truncate), ("client.id", Method::Hash)],
        [("client.id", Method::Hash), ("client", Method::Truncate)],
    ] {
        let options = ParseOptions {
            format: Format::Json,
            received_us: RECEIVED_US,
            anonymiser: anonymiser(&fields),
            ..ParseOptions::default()
        };
        let line = br#"{"client":{"id":"frank","idle":"frank","ip":"203.0.113.77"}}"#;
        let (all, _) = stored(options, line);
        let hashed = format!("client.id={}\n", key().hash(b"frank"));
        assert!(
            all.contains(&hashed) && all.contains("client=anonymous\n"),
            "{all}"
        );
        assert!(!all.contains("frank") && !all.contains("203.0"), "{all}");
    }
}

fn plain(anonymiser: Anonymiser, drop: &[&str]) -> ParseOptions {
    let mut options = ParseOptions {
        format: Format::Plain,
        site: Some("frank".into()),
        anonymiser,
        ..ParseOptions::default()
    };
    options.selection.drop = drop.iter().map(|name| (*name).to_owned()).collect();
    options
}

#[test]
fn a_plain_line_of_an_anonymised_stream_is_stored_only_without_its_text() {
    let hash = || anonymiser(&[("site", Method::Hash)]);
    let line = b"203.0.113.77 came\n";
    let refused = Parser::new(plain(hash(), &[])).parse(line).unwrap_err();
    assert!(
        refused.to_string().contains("every value of a line"),
        "{refused}"
    );
    let (all, events) = stored(plain(hash(), &["line"]), line);
    assert_eq!(events, 1);
    assert!(
        !all.contains("203.0.113") && !all.contains("frank"),
        "{all}"
    );
    assert!(all.contains(&key().hash(b"frank")), "{all}");
    let (all, _) = stored(plain(Anonymiser::default(), &[]), line);
    assert!(all.contains("line=203.0.113.77 came\n"), "{all}");
}

/// Lines that go to quarantine, of every kind of message: fixed, with an excerpt, and one of the
/// JSON parser that quotes the line.
const BAD_LINES: [(Format, &str); 7] = [
    (
        Format::Combined,
        "203.0.113.77 - - [10/Oct/2999:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2 \"-\" \"x\"\n",
    ),
    (
        Format::Combined,
        "x - 203.0.113.77 [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 203.0.113.77 2\n",
    ),
    (Format::Auto, "nothing of 203.0.113.77\n"),
    (Format::Json, "\"203.0.113.77\" x\n"),
    (
        Format::Json,
        "{\"a\":{\"203.0.113.77\":1},\"a.203.0.113.77\":2}\n",
    ),
    (
        Format::Json,
        "{\"time\":\"2999-01-01T00:00:00Z\",\"host\":\"203.0.113.77\"}\n",
    ),
    (Format::Json, "[\"203.0.113.77\"]\n"),
];

#[test]
fn quarantine_keeps_no_text_of_an_anonymised_stream_unless_it_is_told_to() {
    let hosts = anonymiser(&[("host", Method::Truncate)]);
    let keeping = hosts.clone().keeping_quarantined();
    for (format, line) in BAD_LINES {
        for (anonymiser, is_kept) in [
            (hosts.clone(), false),
            (keeping.clone(), true),
            (Anonymiser::default(), true),
        ] {
            let options = ParseOptions {
                format: format.clone(),
                received_us: RECEIVED_US,
                anonymiser,
                ..ParseOptions::default()
            };
            let mut parser = Parser::new(options);
            let parsed = parser.parse(line.as_bytes()).unwrap();
            let long = parser.reject_long(line.as_bytes(), 99).unwrap();
            assert_eq!((parsed.lines, parsed.events.num_rows()), (1, 0), "{line}");
            assert_eq!(parsed.hides_lines, !is_kept);
            for parsed in [parsed, long] {
                let [item] = &parsed.quarantine[..] else {
                    panic!("{parsed:?}");
                };
                let all = format!("{} {}", item.detail, String::from_utf8_lossy(&item.raw));
                assert_eq!(all.contains("203.0.113"), is_kept, "{line}: {all}");
                assert_eq!(
                    item.detail.contains("the line is not kept"),
                    !is_kept,
                    "{all}"
                );
                assert!(item.detail.starts_with("column "), "{all}");
            }
        }
    }
}

#[test]
fn an_anonymiser_without_its_key_stores_nothing() {
    for (format, line) in BAD_LINES {
        let options = ParseOptions {
            format,
            anonymiser: Anonymiser::default().refusing("no key"),
            ..ParseOptions::default()
        };
        let refused = Parser::new(options).parse(line.as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("no key"), "{refused}");
    }
}

proptest! {
    /// The secret is found nowhere, wherever a document has it and whatever else it has.
    #[test]
    fn no_document_keeps_a_named_value(
        shape in 0..15_usize,
        extra in 0..40_usize,
        before in any::<bool>(),
    ) {
        let secret = "203.0.113.77";
        let field = match shape {
            0 => format!(r#""client":"{secret}""#),
            1 => format!(r#""client":{{"ip":"{secret}"}}"#),
            2 => format!(r#""client.ip":"{secret}""#),
            3 => format!(r#""client":["{secret}"]"#),
            4 => format!(r#""client":{{"ips":["{secret}",{{"x":"{secret}"}}]}}"#),
            5 => format!(r#""a":[{{"ip":"{secret}"}}]"#),
            6 => format!(r#""a":{{"ip":"{secret}"}}"#),
            7 => format!(r#""client":"{secret}","client":"{secret}""#),
            8 => format!(r#""client":1,"client":"{secret}""#),
            9 => format!(r#""client":{{"$numberLong":"{secret}"}}"#),
            10 => format!(r#""client":{{"{secret}":{{}}}},"client.x":"{secret}""#),
            11 => format!(r#""c\u006cient":"{secret}""#),
            12 => format!(r#""client":{{"{secret}":{{"n":1}}}}"#),
            13 => format!(r#""a":{{"ip":{{"{secret}":1}},"ip":"{secret}"}}"#),
            _ => format!(r#""client":{{"{secret}":null}},"a":[[{{"{secret}":1}}]]"#),
        };
        let others: String = (0..extra).map(|n| format!(r#","f{n}":{n}"#)).collect();
        let line = match before {
            true => format!("{{\"z\":1,{field}{others}}}\n"),
            false => format!("{{\"z\":1{others},{field}}}\n"),
        };
        // The first line gives `client` another type; few columns send the others to the rest.
        let lines = format!("{{\"client\":7,\"z\":2}}\n{line}");
        let options = ParseOptions {
            format: Format::Json,
            received_us: RECEIVED_US,
            columns_max: 8,
            anonymiser: anonymiser(&[("client", Method::Truncate), ("a.ip", Method::Hash)]),
            ..ParseOptions::default()
        };
        let (all, events) = stored(options, lines.as_bytes());
        prop_assert_eq!(events, 2);
        prop_assert!(!all.contains("113.77"), "{}", all);
    }
}
