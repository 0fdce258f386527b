use super::*;

fn read_text(text: &str, oid: u32) -> Result<ScalarValue> {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    read(Some(&bytes), Format::Text, oid, None, Tz::UTC)
}

fn read_binary(bytes: &[u8], oid: u32) -> Result<ScalarValue> {
    read(
        Some(&Bytes::copy_from_slice(bytes)),
        Format::Binary,
        oid,
        None,
        Tz::UTC,
    )
}

#[test]
fn a_value_is_the_same_in_text_and_in_binary() {
    let cases: [(&str, u32, &[u8]); 12] = [
        ("t", 16, &[1]),
        ("-7", 21, &[0xff, 0xf9]),
        ("70000", 23, &[0, 1, 0x11, 0x70]),
        ("5000000000", 20, &[0, 0, 0, 1, 0x2a, 0x05, 0xf2, 0]),
        ("1.5", 701, &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
        ("ä", 25, "ä".as_bytes()),
        ("\\x00ff", 17, &[0, 255]),
        ("2000-01-02", 1082, &[0, 0, 0, 1]),
        ("2000-01-01 00:00:01+00", 1184, &[0, 0, 0, 0, 0, 0x0f, 0x42, 0x40]),
        ("2000-01-01 00:00:01", 1114, &[0, 0, 0, 0, 0, 0x0f, 0x42, 0x40]),
        ("1 mon, 2 days 00:00:01", 1186, &[0, 0, 0, 0, 0, 0x0f, 0x42, 0x40, 0, 0, 0, 2, 0, 0, 0, 1]),
        ("{1,NULL}", 1007, b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff"),
    ];
    for (text, oid, binary) in cases {
        let from_text = read_text(text, oid).expect("text");
        assert_eq!(
            read_binary(binary, oid).expect("binary"),
            from_text,
            "{text}"
        );
    }
}

#[test]
fn a_decimal_keeps_its_digits() {
    let digits = |scalar| match scalar {
        Ok(ScalarValue::Decimal128(Some(digits), _, scale)) => (digits, scale),
        other => panic!("{other:?}"),
    };
    let text = "1234567890.0123456789";
    assert_eq!(
        digits(read_text(text, 1700)),
        (12_345_678_900_123_456_789, 10)
    );
    assert_eq!(
        read_text("1.5", 1700).ok(),
        Some(ScalarValue::Float64(Some(1.5)))
    );
    let integer = read_text("9007199254740993", 1700);
    assert_eq!(
        integer.ok(),
        Some(ScalarValue::Int64(Some(9_007_199_254_740_993)))
    );
}

#[test]
fn a_timestamp_without_a_zone_is_one_of_the_session() {
    let bytes = Bytes::from_static(b"2026-07-01 12:00:00");
    let read = read(
        Some(&bytes),
        Format::Text,
        1184,
        None,
        Tz::named("Europe/Berlin"),
    );
    let utc = read_text("2026-07-01T10:00:00Z", 1184);
    assert_eq!(read.ok(), utc.ok());
}

#[test]
fn a_local_time_ignores_an_offset() {
    let local = read_text("2026-07-01 12:00:00", 1114).expect("a local time");
    for offset in ["+02", "-05:30", "Z"] {
        let text = format!("2026-07-01 12:00:00{offset}");
        assert_eq!(read_text(&text, 1114).ok().as_ref(), Some(&local), "{text}");
    }
}

#[test]
fn an_interval_is_read_in_the_spellings_of_drivers() {
    let expected = read_text("1 day 5400 seconds", 1186).expect("an interval");
    for text in [
        "1 day, 1:30:00",
        "1 day 01:30:00",
        "1 days 1 hours 30 mins 0.0 secs",
    ] {
        assert_eq!(
            read_text(text, 1186).ok().as_ref(),
            Some(&expected),
            "{text}"
        );
    }
}

#[test]
fn an_array_of_texts_has_quotes_and_escapes() {
    let list = |text| read_text(text, 1009).map(|list| list.to_string());
    assert_eq!(
        list(r#"{a,"b,\"c\\",NULL,"NULL"}"#).ok().as_deref(),
        Some(r#"[a, b,"c\, , NULL]"#)
    );
    for wrong in ["{a", "{\"a}", "{{a},{b}}", "a", "{\"a\"b}"] {
        assert_eq!(list(wrong).expect_err("refused").code, "22P02", "{wrong}");
    }
}

#[test]
fn wrong_values_are_refused_with_the_state_of_postgresql() {
    for (text, oid) in [
        ("x", 23),
        ("99999999999", 23),
        ("2026-13-01", 1082),
        ("maybe", 16),
        ("\\xf", 17),
    ] {
        assert_eq!(
            read_text(text, oid).expect_err("refused").code,
            "22P02",
            "{text}"
        );
    }
    for (bytes, oid) in [
        (&b"\0"[..], 23),
        (b"\xff", 25),
        (b"\0\0\0\x02", 1007),
        (b"", 1700),
    ] {
        assert_eq!(read_binary(bytes, oid).expect_err("refused").code, "22P03");
    }
    assert_eq!(read_text("(1,2)", 600).expect_err("a point").code, "0A000");
    let null = read(None, Format::Binary, 23, None, Tz::UTC);
    assert_eq!(null.ok(), Some(ScalarValue::Int32(None)));
}
