//! Items that come one by one, such as those of a quarantine.

use super::*;
use crate::SourceItem;

/// Items without a place, each with its time of receipt.
fn items<'a>(kept: &[(&'a [u8], i64)]) -> Vec<SourceItem<'a>> {
    let item = |&(bytes, received_us): &(&'a [u8], i64)| SourceItem {
        bytes,
        received_us,
        line: 0,
        byte: 0,
        sender: None,
    };
    kept.iter().map(item).collect()
}

#[test]
fn items_are_read_as_if_each_had_just_come() {
    let stamp_us = 971_211_336_000_000;
    // In the last the line end belongs to the line: it was kept so.
    let kept: [(&[u8], i64); 4] = [
        (COMBINED.as_bytes(), stamp_us),
        (COMBINED.as_bytes(), stamp_us - MAX_FUTURE_US - 1),
        (b"garbage", stamp_us),
        (b"a\nb", stamp_us),
    ];
    let parse = |format| {
        let mut parser = Parser::new(options(format));
        parser.parse_items(items(&kept).into_iter()).unwrap()
    };
    let parsed = parse(Format::Combined);
    assert_eq!((parsed.lines, parsed.events.num_rows()), (4, 1));
    assert_eq!(reasons(&parsed), ["future", "not_combined", "not_combined"]);
    let indexes: Vec<u64> = parsed.quarantine.iter().map(|q| q.index).collect();
    assert_eq!(indexes, [1, 2, 3]);
    let plain = parse(Format::Plain);
    let times = plain.events["time"].as_primitive::<TimestampMicrosecondType>();
    let came: Vec<i64> = kept.iter().map(|(_, at)| *at).collect();
    assert_eq!(times.values(), &came[..]);
    assert_eq!(text(&plain.events, "line", 3).as_deref(), Some("a\nb"));
    let auto = parse(Format::Auto);
    assert_eq!((auto.format, auto.events.num_rows()), (Format::Combined, 1));
}

#[test]
fn items_are_stored_as_they_came_where_that_is_wanted() {
    let kept: [(&[u8], i64); 3] = [(b"{\"a\":1}", 0), (b"garbage", 0), (b"{\"b\":2}", 0)];
    let selection = Selection {
        drop: vec!["b".into()],
        raw_line: true,
        ..Selection::default()
    };
    let options = ParseOptions {
        selection,
        ..options(Format::Json)
    };
    let parsed = Parser::new(options)
        .parse_items(items(&kept).into_iter())
        .unwrap();
    assert_eq!(parsed.quarantine.len(), 1);
    let lines = |row| text(&parsed.events, "raw_line", row);
    assert_eq!(lines(0).as_deref(), Some("{\"a\":1}"));
    assert_eq!(lines(1).as_deref(), Some("{\"b\":2}"));
    assert!(parsed.events.column_by_name("a").is_some());
    assert!(parsed.events.column_by_name("b").is_none());
}

#[test]
fn items_keep_their_places_from_call_to_call_and_ordered_stops_at_the_first_bad_one() {
    let message = |bytes: &'static [u8], offset| SourceItem {
        bytes,
        received_us: NOW_US,
        line: 7,
        byte: offset,
        sender: None,
    };
    let messages = [
        message(b"{\"a\":1}", 100),
        message(b"no json", 101),
        message(b"", 102),
        message(b"{\"a\":2}", 103),
    ];
    let places = |parsed: &Parsed| {
        let items = parsed.quarantine.iter();
        let places: Vec<_> = items.map(|q| (q.index, q.rank, q.line, q.byte)).collect();
        places
    };
    let mut parser = Parser::new(options(Format::Json));
    let parsed = parser.parse_items(messages.into_iter()).unwrap();
    assert_eq!((parsed.lines, parsed.empty), (4, 0));
    assert_eq!(places(&parsed), [(1, 1, 7, 101), (2, 2, 7, 102)]);
    let parsed = parser.parse_items(messages.into_iter()).unwrap();
    assert_eq!(places(&parsed), [(5, 1, 7, 101), (6, 2, 7, 102)]);
    let mut parser = Parser::new(ParseOptions {
        ordered: true,
        ..options(Format::Json)
    });
    let parsed = parser.parse_items(messages.into_iter()).unwrap();
    assert_eq!((parsed.lines, parsed.stopped_at), (2, Some(1)));
    let after = parser.parse_items(messages.into_iter()).unwrap();
    assert_eq!((after.lines, after.stopped_at), (0, Some(1)));
    let mut parser = Parser::new(ParseOptions {
        bytes_max: 100,
        ..options(Format::Json)
    });
    let refused = parser.parse_items(messages.into_iter());
    assert!(matches!(refused, Err(Error::TooMuch { .. })), "{refused:?}");
}

#[test]
fn a_record_beyond_its_limit_is_quarantined_and_keeps_its_beginning() {
    let options = ParseOptions {
        format: Format::Plain,
        received_us: NOW_US,
        record_bytes_max: 4,
        ..ParseOptions::default()
    };
    let mut records = crate::Records::default();
    for record in ["1234", "12345", "1"] {
        records.push(record.as_bytes());
    }
    let parsed = Parser::new(options).parse_items(records.items(NOW_US));
    let parsed = parsed.expect("columns");
    assert_eq!((parsed.events.num_rows(), parsed.quarantine.len()), (2, 1));
    let long = &parsed.quarantine[0];
    assert_eq!((&*long.raw, long.reason), (&b"1234"[..], "line_too_long"));
    assert_eq!((long.index, long.line), (1, 2));
}
