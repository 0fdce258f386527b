use arrow::array::Array as _;
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;
use storage::REST;

use super::*;
use crate::{Format, ParseOptions, Parser};

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

proptest! {
    /// The secret is found nowhere, wherever a document has it and whatever else it has.
    #[test]
    fn no_document_keeps_a_named_value(
        shape in 0..12_usize,
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
            _ => format!(r#""c\u006cient":"{secret}""#),
        };
        // A name with the secret in it is no value.
        prop_assume!(shape != 10);
        let others: String = (0..extra).map(|n| format!(r#","f{n}":{n}"#)).collect();
        let line = match before {
            true => format!("{{\"z\":1,{field}{others}}}\n"),
            false => format!("{{\"z\":1{others},{field}}}\n"),
        };
        // The first line gives `client` another type; few columns send the others to the rest.
        let lines = format!("{{\"client\":7,\"z\":2}}\n{line}");
        let options = ParseOptions {
            format: Format::Json,
            received_us: i64::MAX / 2,
            columns_max: 8,
            anonymiser: anonymiser(&[("client", Method::Truncate), ("a.ip", Method::Hash)]),
            ..ParseOptions::default()
        };
        let (all, _) = stored(options, lines.as_bytes());
        prop_assert!(!all.contains("113.77"), "{}", all);
    }
}
