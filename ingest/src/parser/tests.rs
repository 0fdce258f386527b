mod future;
mod items;

use std::path::PathBuf;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int16Type, Int64Type, TimestampMicrosecondType};
use proptest::prelude::*;
use storage::{Quarantined, StreamKind};

use super::*;
use crate::{LineBlocks, MAX_FUTURE_US, Selection, open, rebuild_request, stamp};

/// The end of 2026: later than every stamp in the tests that is not meant to be in the future.
const NOW_US: i64 = 1_798_761_600_000_000;
const COMMON: &str = r#"h - u [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326"#;
const COMBINED: &str = r#"h - u [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326 "r" "a""#;

fn options(format: Format) -> ParseOptions {
    ParseOptions {
        format: format.clone(),
        received_us: NOW_US,
        ..ParseOptions::default()
    }
}

fn parse(format: Format, block: impl AsRef<[u8]>) -> Parsed {
    let parsed = Parser::new(options(format)).parse(block.as_ref()).unwrap();
    check_sums(&parsed);
    parsed
}

fn check_sums(parsed: &Parsed) {
    let items = parsed.events.num_rows() as u64 + parsed.quarantine.len() as u64;
    assert_eq!(parsed.lines, items + parsed.empty);
    assert!(
        parsed
            .quarantine
            .is_sorted_by(|a, b| a.rank < b.rank && a.index < b.index && a.line < b.line)
    );
    assert!(parsed.quarantine.iter().all(|q| u64::from(q.rank) < items));
    assert_eq!(
        parsed.events.column_by_name("time").map(|t| t.null_count()),
        Some(0)
    );
}

fn text(events: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let array = events.column_by_name(column)?.as_string::<i32>();
    array.is_valid(row).then(|| array.value(row).to_owned())
}

fn reasons(parsed: &Parsed) -> Vec<&'static str> {
    parsed.quarantine.iter().map(|q| q.reason).collect()
}

#[test]
fn the_example_line_becomes_the_document_of_the_specification() {
    let line = concat!(
        r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 "#,
        r#""http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#
    );
    for format in [Format::Auto, Format::Combined] {
        let parsed = parse(format, line);
        assert_eq!(parsed.format, Format::Combined);
        assert_eq!(parsed.kind, StreamKind::Access);
        let events = &parsed.events;
        assert_eq!(
            events.schema(),
            storage::arrow_schema(&storage::access_fields())
        );
        for (column, expected) in [
            ("host", Some("127.0.0.1")),
            ("logname", None),
            ("user", Some("frank")),
            ("method", Some("GET")),
            ("path", Some("/apache_pb.gif")),
            ("query", None),
            ("protocol", Some("HTTP/1.0")),
            // Stored only where it cannot be put together again.
            ("request", None),
            ("referrer", Some("http://www.example.com/start.html")),
            ("user_agent", Some("Mozilla/4.08 [en] (Win98; I ;Nav)")),
            ("site", None),
            ("extra", None),
        ] {
            assert_eq!(text(events, column, 0).as_deref(), expected, "{column}");
        }
        let time = events["time"]
            .as_primitive::<TimestampMicrosecondType>()
            .value(0);
        assert_eq!(stamp::write(time), "2000-10-10T20:55:36Z");
        assert_eq!(events["status"].as_primitive::<Int16Type>().value(0), 200);
        assert_eq!(
            events["response_size"].as_primitive::<Int64Type>().value(0),
            2326
        );
        assert_eq!(
            rebuild_request("GET", Some("/apache_pb.gif"), None, Some("HTTP/1.0")),
            "GET /apache_pb.gif HTTP/1.0"
        );
    }
}

#[test]
fn a_dash_is_null_and_an_empty_field_is_not() {
    let parsed = parse(
        Format::Combined,
        "- - - [10/Oct/2000:13:55:36 -0700] \"-\" 200 - \"-\" \"-\"\n\
         h l u [10/Oct/2000:13:55:36 -0700] \"\" 200 0 \"\" \"\"\n",
    );
    for column in [
        "host",
        "logname",
        "user",
        "request",
        "referrer",
        "user_agent",
    ] {
        assert_eq!(text(&parsed.events, column, 0), None, "{column}");
        assert!(text(&parsed.events, column, 1).is_some(), "{column}");
    }
    let size = parsed.events["response_size"].as_primitive::<Int64Type>();
    assert!(size.is_null(0));
    assert_eq!(size.value(1), 0);
    assert_eq!(text(&parsed.events, "request", 1).as_deref(), Some(""));
    for column in ["method", "path", "query", "protocol"] {
        assert_eq!(text(&parsed.events, column, 1), None, "{column}");
    }
}

#[test]
fn a_request_is_stored_only_where_it_cannot_be_put_together() {
    for (request, stored) in [
        ("GET /a?b HTTP/1.1", false),
        ("GET /a", false),
        ("GET HTTP/1.0", true),
        ("get /a HTTP/1.0", true),
        (r"\x16\x03", true),
    ] {
        let parsed = parse(Format::Common, COMMON.replace("GET / HTTP/1.0", request));
        assert_eq!(
            text(&parsed.events, "request", 0).as_deref(),
            stored.then_some(request)
        );
    }
}

#[test]
fn invalid_utf_8_becomes_one_replacement_per_maximal_subpart() {
    let mut block = b"good \xc3\xa9 line\n".to_vec();
    block.extend_from_slice(b"h\xff - u [10/Oct/2000:13:55:36 -0700] \"GET /\xe2\x82x\xf0\x9f\x98\x80?\xc3 HTTP/1.0\" 200 1\n");
    block.extend_from_slice(
        "\u{e9} - u [10/Oct/2000:13:55:36 -0700] \"\u{e9}\u{20ac}\" 200 1".as_bytes(),
    );
    let parsed = parse(Format::Common, &block);
    assert_eq!(
        text(&parsed.events, "host", 0).as_deref(),
        Some("h\u{fffd}")
    );
    assert_eq!(
        text(&parsed.events, "path", 0).as_deref(),
        Some("/\u{fffd}x\u{1f600}")
    );
    assert_eq!(
        text(&parsed.events, "query", 0).as_deref(),
        Some("\u{fffd}")
    );
    assert_eq!(text(&parsed.events, "request", 0), None);
    assert_eq!(text(&parsed.events, "host", 1).as_deref(), Some("\u{e9}"));
    assert_eq!(
        text(&parsed.events, "request", 1).as_deref(),
        Some("\u{e9}\u{20ac}")
    );

    let parsed = parse(Format::Common, b"\xff\x00\n");
    assert_eq!(parsed.quarantine[0].raw, b"\xff\x00");
}

#[test]
fn quarantine_names_the_place_and_keeps_the_raw_line() {
    let block = format!(
        "{COMMON}\r\n\nbad line\r\n{COMMON}\n{}\n{COMMON}",
        COMMON.replace("10/Oct", "32/Jan")
    );
    let mut parser = Parser::new(ParseOptions {
        first_line: 11,
        first_byte: 1000,
        ..options(Format::Common)
    });
    let parsed = parser.parse(block.as_bytes()).unwrap();
    check_sums(&parsed);
    assert_eq!(
        (parsed.lines, parsed.empty, parsed.events.num_rows()),
        (6, 1, 3)
    );
    let [a, b] = &parsed.quarantine[..] else {
        panic!("{:?}", parsed.quarantine)
    };
    let first = COMMON.len() as u64 + 3;
    assert_eq!(
        (a.rank, a.index, a.line, a.byte, a.reason),
        (1, 2, 13, 1000 + first, "not_common")
    );
    assert_eq!(a.raw, b"bad line");
    assert!(
        a.detail.contains("column 9: expected the remote logname"),
        "{}",
        a.detail
    );
    assert_eq!((b.rank, b.index, b.line, b.reason), (3, 4, 15, "bad_time"));
    assert_eq!(b.byte, 1000 + first + 10 + COMMON.len() as u64 + 1);
    assert!(
        b.detail
            .starts_with("column 8: expected a day of that month, found 32/Jan/2000"),
        "{}",
        b.detail
    );

    let next = parser.parse(b"worse\n").unwrap();
    let c = &next.quarantine[0];
    assert_eq!(
        (c.rank, c.index, c.line, c.byte),
        (0, 6, 17, 1000 + block.len() as u64)
    );
    parser.set_position(101, 5000);
    let c = parser.parse(b"\nworse").unwrap().quarantine.remove(0);
    assert_eq!((c.index, c.line, c.byte), (8, 102, 5001));
}

#[test]
fn ordered_stops_at_the_first_bad_item_and_keeps_it() {
    let block = format!("{COMMON}\n\nbad\n{COMMON}\nworse\n");
    let mut parser = Parser::new(ParseOptions {
        ordered: true,
        ..options(Format::Common)
    });
    let parsed = parser.parse(block.as_bytes()).unwrap();
    check_sums(&parsed);
    assert_eq!(parsed.stopped_at, Some(2));
    assert_eq!(
        (
            parsed.lines,
            parsed.events.num_rows(),
            parsed.quarantine.len()
        ),
        (3, 1, 1)
    );
    let after = parser.parse(block.as_bytes()).unwrap();
    assert_eq!((after.lines, after.stopped_at), (0, Some(2)));
    assert_eq!(parser.reject_long(b"x", 9).unwrap().lines, 0);

    let unordered = parse(Format::Common, &block);
    assert_eq!(
        (
            unordered.stopped_at,
            unordered.events.num_rows(),
            unordered.quarantine.len()
        ),
        (None, 2, 2)
    );
}

#[test]
fn auto_decides_once_and_then_goes_line_by_line() {
    let block =
        format!("{COMBINED}\n{COMMON}\n{COMBINED} extra\n{COMMON} \"cut\n{{\"a\":1}}\nbad\n");
    let mut parser = Parser::new(options(Format::Auto));
    assert_eq!(parser.format(), None);
    let parsed = parser.parse(block.as_bytes()).unwrap();
    check_sums(&parsed);
    assert_eq!(
        (parsed.format.clone(), parser.format()),
        (Format::Combined, Some(Format::Combined))
    );
    assert_eq!(parsed.events.num_rows(), 4);
    let extra: Vec<_> = (0..4)
        .map(|row| text(&parsed.events, "extra", row))
        .collect();
    assert_eq!(
        extra,
        [
            None,
            None,
            Some("extra".to_owned()),
            Some("\"cut".to_owned())
        ]
    );
    assert_eq!(reasons(&parsed), ["not_combined", "not_combined"]);
    let json = parser.parse(b"{}\n{}\n").unwrap();
    assert_eq!((json.format, json.quarantine.len()), (Format::Combined, 2));

    let mut strict = Parser::new(ParseOptions {
        strict: true,
        ..options(Format::Auto)
    });
    assert_eq!(strict.parse(block.as_bytes()).unwrap().events.num_rows(), 2);
}

#[test]
fn when_no_format_fits_everything_is_quarantined() {
    let mut parser = Parser::new(options(Format::Auto));
    let parsed = parser.parse(b"some text\n\nmore text\n").unwrap();
    check_sums(&parsed);
    assert_eq!(
        (parsed.format.clone(), parser.format()),
        (Format::Auto, None)
    );
    assert_eq!(
        (parsed.events.num_rows(), reasons(&parsed)),
        (0, vec!["no_format", "no_format"])
    );
    assert!(parsed.quarantine[0].detail.contains("--format plain"));
    // A few lines in vain are not the end …
    assert_eq!(
        parser.parse(COMMON.as_bytes()).unwrap().events.num_rows(),
        1
    );
    // … a hundred are.
    let mut parser = Parser::new(options(Format::Auto));
    parser.parse("text\n".repeat(100).as_bytes()).unwrap();
    assert_eq!(
        reasons(&parser.parse(COMMON.as_bytes()).unwrap()),
        ["no_format"]
    );
}

#[test]
fn the_site_option_fills_in_where_the_format_has_none() {
    let site = |format, line: &str| {
        let mut parser = Parser::new(ParseOptions {
            site: Some("mine".to_owned()),
            ..options(format)
        });
        let parsed = parser.parse(line.as_bytes()).unwrap();
        assert_eq!(parsed.events.num_rows(), 1, "{:?}", parsed.quarantine);
        text(&parsed.events, "site", 0)
    };
    assert_eq!(site(Format::Combined, COMBINED).as_deref(), Some("mine"));
    assert_eq!(
        site(Format::VhostCombined, &format!("a.b:80 {COMBINED}")).as_deref(),
        Some("a.b")
    );
    assert_eq!(site(Format::VhostCombined, &format!("- {COMBINED}")), None);
    assert_eq!(
        site(Format::Auto, &format!("a.b:80 {COMBINED}")).as_deref(),
        Some("a.b")
    );
    assert_eq!(site(Format::Json, "{}").as_deref(), Some("mine"));
    assert_eq!(
        site(Format::Json, "{\"site\":null}").as_deref(),
        Some("mine")
    );
    assert_eq!(
        site(Format::Json, "{\"site\":\"own\"}").as_deref(),
        Some("own")
    );
    assert_eq!(site(Format::Plain, "x").as_deref(), Some("mine"));
}

#[test]
fn an_event_from_the_future_is_quarantined() {
    let time = 971_211_336_000_000; // that of COMMON
    for (received_us, max_future_us, accepted) in [
        (time, 0, 1),
        (time - 1, 0, 0),
        (time - MAX_FUTURE_US, MAX_FUTURE_US, 1),
        (time - MAX_FUTURE_US - 1, MAX_FUTURE_US, 0),
    ] {
        for (format, line) in [
            (Format::Common, COMMON),
            (Format::Json, "{\"time\":971211336}"),
            (Format::Json, "{\"ts\":\"2000-10-10T20:55:36Z\"}"),
        ] {
            let mut parser = Parser::new(ParseOptions {
                format: format.clone(),
                received_us,
                max_future_us,
                ..ParseOptions::default()
            });
            let parsed = parser.parse(line.as_bytes()).unwrap();
            assert_eq!(parsed.events.num_rows(), accepted, "{format}");
            if accepted == 0 {
                assert_eq!(reasons(&parsed), ["future"]);
                assert!(
                    parsed.quarantine[0]
                        .detail
                        .contains("stamped 2000-10-10T20:55:36Z")
                );
            }
            parser.set_received(time);
            assert_eq!(parser.parse(line.as_bytes()).unwrap().events.num_rows(), 1);
        }
    }
}

/// Go's zero time is the year 1: one such event made `to_char(time)` and `AT TIME ZONE` fail for
/// its stream.
#[test]
fn a_time_that_functions_cannot_hold_is_quarantined_in_every_format() {
    let access = |stamp: &str| COMMON.replace("10/Oct/2000:13:55:36 -0700", stamp);
    let json = |stamp: &str| format!("{{\"time\":\"{stamp}\",\"ts\":1}}");
    for (format, line, accepted) in [
        (Format::Json, json("0001-01-01T00:00:00Z"), 0),
        (Format::Json, json("1677-12-31T23:59:59.999999Z"), 0),
        (Format::Json, json("1678-01-01T00:00:00Z"), 1),
        (Format::Json, json("2261-12-31T23:59:59.999999Z"), 1),
        (Format::Json, json("2262-01-01T00:00:00Z"), 0),
        (Format::Json, "{\"@timestamp\":-9999999999}".into(), 0),
        (Format::Common, access("01/Jan/0001:00:00:00 +0000"), 0),
        (Format::Common, access("31/Dec/1677:23:59:59 +0000"), 0),
        (Format::Common, access("01/Jan/1678:00:00:00 +0000"), 1),
        (Format::Auto, access("01/Jan/1600:00:00:00 +0000"), 0),
    ] {
        let mut parser = Parser::new(ParseOptions {
            format: format.clone(),
            max_future_us: i64::MAX,
            ..ParseOptions::default()
        });
        let parsed = parser.parse(line.as_bytes()).unwrap();
        assert_eq!(parsed.events.num_rows(), accepted, "{format} {line}");
        if accepted == 0 {
            assert_eq!(reasons(&parsed), ["time_range"], "{format} {line}");
            let detail = &parsed.quarantine[0].detail;
            assert!(detail.contains("1678 to 2261"), "{detail}");
        }
    }
}

#[test]
fn plain_takes_every_line_at_its_receipt() {
    let parsed = parse(Format::Plain, b"one\r\n\n two \xff\n{}");
    assert_eq!(
        (parsed.kind, parsed.empty, parsed.events.num_rows()),
        (StreamKind::Documents, 1, 3)
    );
    let lines: Vec<_> = (0..3)
        .map(|row| text(&parsed.events, "line", row).unwrap())
        .collect();
    assert_eq!(lines, ["one", " two \u{fffd}", "{}"]);
    assert_eq!(
        parsed.events["time"]
            .as_primitive::<TimestampMicrosecondType>()
            .values(),
        &[NOW_US; 3]
    );
    assert_eq!(parsed.events.num_columns(), 2);
}

#[test]
fn nothing_in_nothing_out() {
    for format in [Format::Auto, Format::Common, Format::Json, Format::Plain] {
        let parsed = parse(format.clone(), b"");
        assert_eq!((parsed.lines, parsed.events.num_rows()), (0, 0));
        if format == Format::Plain {
            assert!(parsed.events.column_by_name("line").is_some());
        }
        let parsed = parse(format, b"\n\r\n");
        assert_eq!((parsed.lines, parsed.empty), (2, 2));
    }
}

#[test]
fn a_block_beyond_the_limit_is_refused() {
    let block = vec![b'\n'; BLOCK_BYTES_MAX + 1];
    let error = Parser::new(options(Format::Plain))
        .parse(&block)
        .unwrap_err();
    assert!(matches!(error, Error::BlockTooLarge { .. }), "{error}");
}

#[test]
fn a_line_beyond_the_limit_is_quarantined_and_the_source_goes_on() {
    let source = format!("{COMMON}\n{}\n{COMMON}\n", "x".repeat(500));
    let mut parser = Parser::new(options(Format::Common));
    let (mut rows, mut quarantine) = (0, Vec::new());
    for block in LineBlocks::new(source.as_bytes()).with_limits(10, 100) {
        let parsed = parser.parse_block(&block.unwrap()).unwrap();
        check_sums(&parsed);
        rows += parsed.events.num_rows();
        quarantine.extend(parsed.quarantine);
    }
    assert_eq!((rows, quarantine.len()), (2, 1));
    let q = &quarantine[0];
    assert_eq!(
        (q.reason, q.index, q.line, q.byte, q.raw.len()),
        ("line_too_long", 1, 2, COMMON.len() as u64 + 1, 100)
    );
}

#[test]
fn values_that_are_not_one_to_a_line_keep_their_places() {
    let source = b"[{\"a\":1},\n {\"a\" 2}, 3,\n{\n\"a\":4}, {\"a\":5";
    for format in [Format::Auto, Format::Json] {
        let parsed = Parser::new(options(format.clone())).parse(source).unwrap();
        assert_eq!((parsed.format, parsed.lines), (Format::Json, 5));
        assert_eq!(parsed.events.num_rows(), 2);
        let places = parsed.quarantine.iter();
        let places: Vec<_> = places.map(|q| (q.index, q.rank, q.line, q.byte)).collect();
        assert_eq!(places, [(1, 1, 2, 11), (2, 2, 2, 20), (4, 4, 4, 33)]);
        assert_eq!(parsed.quarantine[1].raw, b"3");
        // The same in blocks, of which each begins where the one before ended.
        for block_bytes in 1..60 {
            let mut parser = Parser::new(options(format.clone()));
            let (mut events, mut found) = (0, Vec::new());
            let blocks = LineBlocks::new(&source[..]).with_limits(block_bytes, 100);
            for block in blocks.of_values(true) {
                let parsed = parser.parse_block(&block.unwrap()).unwrap();
                events += parsed.events.num_rows();
                found.extend(parsed.quarantine.iter().map(|q| (q.index, q.line, q.byte)));
            }
            assert_eq!(events, 2, "{block_bytes}");
            assert_eq!(found, [(1, 2, 11), (2, 2, 20), (4, 4, 33)], "{block_bytes}");
        }
    }
}

#[test]
fn what_lines_become_is_bounded() {
    let most = |format, bytes_max| ParseOptions {
        bytes_max,
        site: Some("s".repeat(100)),
        ..options(format)
    };
    for (format, line) in [
        (Format::Plain, "x\n"),
        (Format::Combined, "x\n"),
        (Format::Common, &format!("{COMMON}\n")),
        (Format::Json, "{}\n"),
    ] {
        let block = line.repeat(1000);
        let parsed = Parser::new(most(format.clone(), 1 << 20)).parse(block.as_bytes());
        assert_eq!(parsed.unwrap().lines, 1000, "{format}");
        let mut parser = Parser::new(most(format.clone(), 10_000));
        let refused = parser.parse(block.as_bytes());
        let Err(Error::TooMuch { lines, max: 10_000 }) = refused else {
            panic!("{format}: {refused:?}")
        };
        assert!(lines < 200, "{format}: {lines}");
        // Nothing of it is left.
        assert_eq!(parser.parse(line.as_bytes()).unwrap().lines, 1);
    }
}

/// Lines of every kind, good, bad, empty and not UTF-8.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(COMMON.as_bytes().to_vec()),
        Just(COMBINED.as_bytes().to_vec()),
        Just(format!("{COMBINED} more").into_bytes()),
        Just(format!("v:80 {COMBINED}").into_bytes()),
        Just(b"{\"a\":{\"b\":1},\"ts\":1}".to_vec()),
        Just(b"{\"a\":{\"b\":\"x\",\"c\":[1,{}]}}".to_vec()),
        Just(b"".to_vec()),
        Just(b"h - u [10/Oct/2000:13:55:36 -0700] \"\xff\" 200 1".to_vec()),
        prop::collection::vec(any::<u8>().prop_filter("one line", |&b| b != b'\n'), 0..30),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_events_quarantined_or_empty_in_every_format(
        block in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(any_line(), 0..8).prop_map(|lines| lines.join(&b"\n"[..])),
        ],
        strict in any::<bool>(),
        ordered in any::<bool>(),
    ) {
        for format in [Format::Auto, Format::Common, Format::Combined, Format::VhostCombined, Format::Json, Format::Plain] {
            // Values that are not one to a line are counted as values: `values/tests.rs`.
            let may_be_values = matches!(format, Format::Auto | Format::Json);
            if may_be_values && holds_values(&block) {
                continue;
            }
            let mut parser = Parser::new(ParseOptions { strict, ordered, ..options(format) });
            let parsed = parser.parse(&block).unwrap();
            check_sums(&parsed);
            if !ordered {
                let ends = block.iter().filter(|&&b| b == b'\n').count();
                let last = usize::from(!block.is_empty() && !block.ends_with(b"\n"));
                prop_assert_eq!(parsed.lines, (ends + last) as u64);
            }
        }
    }

    #[test]
    fn block_by_block_is_the_same_as_the_whole(
        lines in prop::collection::vec(any_line(), 1..12),
        block_bytes in 1_usize..400,
        format in prop::sample::select(&[Format::Common, Format::Combined, Format::VhostCombined, Format::Plain][..]),
        auto in any::<bool>(),
    ) {
        // The decision of `auto` depends on the first block, so its first line decides here.
        let (format, first) = if auto { (Format::Auto, format!("{COMBINED}\n")) } else { (format, String::new()) };
        let mut source = first.repeat(20).into_bytes();
        source.extend(lines.join(&b"\n"[..]));
        let whole = parse(format.clone(), &source);
        let mut parser = Parser::new(options(format.clone()));
        let (mut batches, mut quarantine, mut lines) = (Vec::new(), Vec::new(), 0);
        for block in LineBlocks::new(&source[..]).with_limits(block_bytes, 1000) {
            let parsed = parser.parse_block(&block.unwrap()).unwrap();
            check_sums(&parsed);
            batches.push(parsed.events);
            quarantine.extend(parsed.quarantine);
            lines += parsed.lines;
        }
        prop_assert_eq!(lines, whole.lines);
        if !batches.is_empty() {
            prop_assert_eq!(concat_batches(&whole.events.schema(), &batches).unwrap(), whole.events);
        }
        // Ranks count within a block, everything else within the source.
        let without_rank = |q: &Quarantined| Quarantined { rank: 0, ..q.clone() };
        prop_assert_eq!(
            quarantine.iter().map(without_rank).collect::<Vec<_>>(),
            whole.quarantine.iter().map(without_rank).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_request_comes_back_as_it_was(request in "([A-Z_-]{0,5} ?)?[ -!#-\\[\\]-~\u{e9}]{0,20}( HTTP/1\\.[01])?") {
        let parsed = parse(Format::Common, COMMON.replace("GET / HTTP/1.0", &request));
        prop_assert_eq!(parsed.events.num_rows(), 1);
        let column = |name| text(&parsed.events, name, 0);
        let back = match (column("request"), column("method")) {
            (Some(request), _) => Some(request),
            (None, Some(method)) => Some(rebuild_request(
                &method,
                column("path").as_deref(),
                column("query").as_deref(),
                column("protocol").as_deref(),
            )),
            (None, None) => None,
        };
        prop_assert_eq!(back, (request != "-").then_some(request));
    }
}

/// A row of the table of real logs: file, lines, strict Combined, strict Common.
type RealLog = (String, u64, u64, u64);

/// The folder of real logs and the rows of its table whose files are there.
fn real_logs() -> Option<(PathBuf, Vec<RealLog>)> {
    let root = PathBuf::from(std::env::var_os("LOGMILL_TEST_DATA")?);
    let table = std::fs::read_to_string(root.join("README.md")).unwrap();
    let number = |text: &str| text.trim().replace(',', "").parse::<u64>().unwrap();
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| `access/") || line.starts_with("| `edge/"))
        .filter_map(|line| {
            // A `|` inside a cell is escaped and shifts the columns behind it; no access log has
            // one.
            let cells: Vec<&str> = line.split('|').collect();
            let (combined, common) = cells[9].split_once('/')?;
            Some((
                cells[1].trim().trim_matches('`').to_owned(),
                number(cells[4]),
                number(combined),
                number(common),
            ))
        })
        .filter(|row| root.join(&row.0).exists())
        .collect();
    Some((root, rows))
}

#[test]
fn real_logs_have_as_many_combined_and_common_lines_as_their_table_says() {
    let Some((root, rows)) = real_logs() else {
        println!("skipped: LOGMILL_TEST_DATA is not set");
        return;
    };
    assert!(rows.len() > 40, "{}", rows.len());
    for (file, lines, combined, common) in rows {
        for (format, expected) in [
            (Format::Combined, combined),
            (Format::Common, common),
            (Format::Auto, 0),
        ] {
            let mut parser = Parser::new(options(format.clone()));
            let (mut total, mut events) = (0, 0);
            for block in
                LineBlocks::new(open(&root.join(&file)).unwrap()).with_limits(200_000, 1 << 20)
            {
                let parsed = parser.parse_block(&block.unwrap()).unwrap();
                check_sums(&parsed);
                total += parsed.lines;
                events += parsed.events.num_rows() as u64;
            }
            assert_eq!(total, lines, "{file}");
            if format == Format::Auto {
                assert!(events >= combined + common, "{file}");
            } else {
                assert_eq!(events, expected, "{file} {format}");
            }
        }
    }
}

/// The lines of a block that was given up must not become those of the next.
#[test]
fn a_block_that_takes_too_much_leaves_no_raw_line() {
    let selection = Selection {
        raw_line: true,
        ..Selection::default()
    };
    let mut parser = Parser::new(ParseOptions {
        bytes_max: 5000,
        selection,
        ..options(Format::Common)
    });
    let refused = parser.parse(format!("{COMMON}\n").repeat(100).as_bytes());
    assert!(matches!(refused, Err(Error::TooMuch { .. })), "{refused:?}");
    let parsed = parser.parse(COMMON.as_bytes()).unwrap();
    assert_eq!(text(&parsed.events, "raw_line", 0).as_deref(), Some(COMMON));
}
