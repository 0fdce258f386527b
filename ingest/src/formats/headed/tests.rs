use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::formats::documents::testing::{options, parsed};
use crate::{HeaderSearch, LineBlocks, Multiline, Parsed, Parser, SourceItem};

const CSV_SOURCE: &str = "\u{feff}time,level,\"two words\",n\r\n\
    2026-11-26T09:00:00Z,info,\"a, \"\"b\"\"\",1\r\n\
    \r\n\
    2026-11-26T09:00:01Z,warn,,\n\
    too,few\n\
    time,level,\"two words\",n\n\
    2026-11-26T09:00:02Z,\"open\n\
    2026-11-26T09:00:03Z,info,grüße,2";
const TSV_SOURCE: &str = "ts\ta\tb\n1700000000\t\"x\ty\n\n1700000001\t\tz\nts\ta\n";
const W3C_SOURCE: &str = "#Version: 1.0\n\
    #Date: 2026-11-26 09:00:00\n\
    early line\n\
    #Fields: time c-ip cs-method sc-status\n\
    09:00:00 192.0.2.1 GET 200\n\
    09:00:01 192.0.2.2 - -\n\
    \n\
    #Software: other\n\
    #Fields: date time cs-uri-stem   cs(User-Agent)\r\n\
    2026-11-25 23:59:59 /a \"two words\"\n\
    too few\n\
    #Fields:\n\
    2026-11-25 23:59:59 /b x\n\
    #Fields: time x-y(z)\n\
    10:00:00 1\n\
    #Start-Date: 2026-11-20\n\
    10:00:00 2";

fn sources() -> [(Format, &'static str); 3] {
    [
        (Format::Csv, CSV_SOURCE),
        (Format::Tsv, TSV_SOURCE),
        (Format::W3c, W3C_SOURCE),
    ]
}

/// Events, quarantined lines with their places, and empty lines.
type Outcome = (Vec<Value>, Vec<(String, u64, u64, Vec<u8>)>, u64);

fn outcome(parsed: &Parsed) -> Outcome {
    let rows = 0..parsed.events.num_rows();
    let event = |row| crate::explain::first_event(&parsed.events.slice(row, 1), parsed.kind);
    let bad = parsed.quarantine.iter();
    let bad = bad.map(|item| {
        let message = format!("{}: {}", item.reason, item.detail);
        (message, item.line, item.byte, item.raw.clone())
    });
    let events = rows.map(|row| Value::Object(event(row).unwrap()));
    (events.collect(), bad.collect(), parsed.empty)
}

fn joined(pieces: Vec<Outcome>) -> Outcome {
    let mut all: Outcome = Default::default();
    for (events, bad, empty) in pieces {
        all.0.extend(events);
        all.1.extend(bad);
        all.2 += empty;
    }
    all
}

/// Parses pieces, each with a parser of its own that knows the format behind the one before, as a
/// server does; `by_content` finds the format as an import does that was killed.
fn in_pieces(format: &Format, source: &str, cuts: &[usize], by_content: bool) -> Outcome {
    let (mut begin, mut line) = (0, 1);
    let (mut next, mut schema) = (format.clone(), Vec::new());
    let mut outcomes = Vec::new();
    for &end in cuts.iter().chain([&source.len()]) {
        let mut parser = Parser::new(crate::ParseOptions {
            schema: std::mem::take(&mut schema),
            ..options(next.clone())
        });
        parser.set_position(line, begin as u64);
        let parsed = parser.parse(&source.as_bytes()[begin..end]).unwrap();
        outcomes.push(outcome(&parsed));
        let fields = parsed.events.schema();
        let column = |field: &Arc<arrow::datatypes::Field>| {
            let of = storage::ColumnType::of(field.data_type())?;
            Some(storage::Column::new(field.name().as_str(), of))
        };
        schema = fields.fields().iter().filter_map(column).collect();
        line += parsed.lines;
        begin = end;
        next = match by_content {
            false => {
                assert_eq!(parsed.format, next.after(&source.as_bytes()[..end]));
                // It travels as text.
                parsed.format.to_string().parse().unwrap()
            }
            true => {
                let mut search = HeaderSearch::new(format);
                source.as_bytes()[..end]
                    .chunks(7)
                    .for_each(|bytes| search.take(bytes));
                search.format()
            }
        };
    }
    joined(outcomes)
}

fn line_ends(source: &str) -> Vec<usize> {
    source.match_indices('\n').map(|(at, _)| at + 1).collect()
}

#[test]
fn a_cut_behind_any_line_changes_nothing() {
    for (format, source) in sources() {
        let whole = in_pieces(&format, source, &[], false);
        assert!(
            whole.0.len() >= 2 && !whole.1.is_empty() && whole.2 > 1,
            "{whole:?}"
        );
        let ends = line_ends(source);
        for by_content in [false, true] {
            for end in &ends {
                let pieces = in_pieces(&format, source, &[*end], by_content);
                assert_eq!(pieces, whole, "{format} cut at {end}");
            }
            assert_eq!(in_pieces(&format, source, &ends, by_content), whole);
        }
    }
}

proptest! {
    /// Sources of headers, events and noise in any order.
    #[test]
    fn any_source_can_be_cut_anywhere(
        lines in prop::collection::vec(0..12_usize, 0..24),
        cut in any::<prop::sample::Index>(),
        syntax in 0..3_usize,
    ) {
        const LINES: [&str; 12] = [
            "#Fields: time c-ip", "#Fields: c-ip", "#Fields:", "#Date: 2026-11-20 x",
            "09:00:00 192.0.2.1", "a,b", "1,2", "a\tb", "1\t\"2", "\"open", "", "#Date: none",
        ];
        let source: String = lines.iter().map(|line| format!("{}\n", LINES[*line])).collect();
        let format = [Format::Csv, Format::Tsv, Format::W3c][syntax].clone();
        let ends = line_ends(&source);
        let at = if ends.is_empty() { 0 } else { ends[cut.index(ends.len())] };
        let whole = in_pieces(&format, &source, &[], false);
        prop_assert_eq!(in_pieces(&format, &source, &[at], false), whole.clone());
        prop_assert_eq!(in_pieces(&format, &source, &[at], true), whole);
    }
}

#[test]
fn no_rule_joins_lines_of_a_format_with_headers() {
    for (format, source) in sources() {
        let expected = in_pieces(&format, source, &[], false);
        for rule in ["indent", "start:^2026", "start:^no line begins so"] {
            let rule: Multiline = rule.parse().unwrap();
            let read = |format: &Format, block_bytes| {
                let mut parser = Parser::new(crate::ParseOptions {
                    multiline: Some(rule.clone()),
                    ..options(format.clone())
                });
                let blocks = LineBlocks::new(source.as_bytes())
                    .with_limits(block_bytes, 1 << 20)
                    .of_records(Some(rule.clone()));
                let parsed = |block: crate::SourceBlock| parser.parse_block(&block).unwrap();
                let parsed = blocks.map(|block| block.unwrap()).map(parsed);
                joined(parsed.map(|parsed| outcome(&parsed)).collect())
            };
            for block_bytes in [40, 4096] {
                assert_eq!(read(&format, block_bytes), expected, "{format} {rule}");
            }
            if format == Format::W3c {
                assert_eq!(read(&Format::Auto, 4096), expected, "auto {rule}");
            }
        }
    }
}

#[test]
fn a_header_is_an_empty_line_and_a_bad_one_a_quarantined_line() {
    let (events, bad) = parsed(options(Format::Csv), b"a,\"b\n1,2\na,b\n");
    assert!(events.is_empty());
    assert!(
        bad[0].starts_with("bad_header: column 1: the header: a quote is open"),
        "{bad:?}"
    );
    // The next line is not taken for a header.
    assert!(
        bad[1].starts_with("no_header: ") && bad[2].starts_with("no_header: "),
        "{bad:?}"
    );
    let long = format!("#Fields: {}\n1\n", "c-ip ".repeat(1000));
    let (events, bad) = parsed(options(Format::W3c), long.as_bytes());
    assert!(events.is_empty());
    assert!(bad[0].contains("longer than 4096 bytes"), "{bad:?}");
    assert!(bad[1].starts_with("no_header: "), "{bad:?}");
}

#[test]
fn names_with_fields_are_read_back() {
    for name in [
        "csv:a,b",
        "csv:",
        "tsv:a\tb c",
        "w3c:date time c-ip",
        "w3c:date=2026-11-26 time x",
        "w3c:",
    ] {
        let format: Format = name.parse().unwrap();
        assert_eq!(format.to_string(), name);
        assert!(!format.awaits_header());
        assert_eq!(format.kind(), StreamKind::Documents);
    }
    for (name, why) in [
        ("csv:a,\"b", "a quote is open at the end of the line"),
        (
            "w3c:date=yesterday time",
            "date=yesterday is no day as 2026-11-26",
        ),
        ("csv:a\0", "a field name holds a NUL character"),
    ] {
        let error = name.parse::<Format>().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.kind(), storage::Kind::Invalid);
    }
    assert!(Format::Csv.awaits_header() && Format::W3c.awaits_header());
}

/// A record of a queue, or of the quarantine, stands for itself.
#[test]
fn no_item_is_the_header_of_others() {
    let read = |format: &str, items: &[&str]| {
        let items = items.iter().zip(0..).map(|(bytes, byte)| SourceItem {
            bytes: bytes.as_bytes(),
            received_us: 1,
            line: 0,
            byte,
            sender: None,
        });
        let parsed = Parser::new(options(format.parse().unwrap()))
            .parse_items(items)
            .unwrap();
        let reasons = parsed.quarantine.iter().map(|item| item.reason.to_owned());
        (
            parsed.events.num_rows(),
            parsed.empty,
            reasons.collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        read("csv", &["a,b", "1,2"]),
        (0, 0, vec!["no_header".into(), "no_header".into()])
    );
    assert_eq!(
        read("csv:a,b", &["a,b", "1,2"]),
        (1, 0, vec!["no_event".into()])
    );
    assert_eq!(
        read("w3c", &["#Fields: a", "1"]),
        (0, 0, vec!["no_header".into(), "no_header".into()])
    );
    assert_eq!(read("w3c:c-ip", &["192.0.2.1"]), (1, 0, vec![]));
    let line = "1969-11-26 09:00:00 192.0.2.1";
    for header in ["#Fields: c-ip", "#Fields:", "#Date: 2026-11-27"] {
        assert_eq!(
            read("w3c:date time c-ip", &[header, line]),
            (1, 0, vec!["no_event".into()]),
            "{header}"
        );
    }
    // One directive among records decides nothing.
    let (events, _, reasons) = read("auto", &["{\"a\":1}", "#Remark: x", "{\"a\":2}"]);
    assert_eq!((events, reasons.len()), (2, 1), "{reasons:?}");
}

/// A header of many equal names, and many directives behind it, cost no more than they are long.
#[test]
fn directives_are_read_in_time_whatever_they_name() {
    let mut source = format!("#Fields:{}\n", " a".repeat(2000));
    for day in 0..20_000 {
        source += ["#Date: 2026-11-26\n", "#Date: 2026-11-27\n"][day % 2];
    }
    let began = std::time::Instant::now();
    let parsed = Parser::new(options(Format::W3c))
        .parse(source.as_bytes())
        .unwrap();
    assert_eq!(parsed.empty, 20_001);
    // Hours, when each directive numbers the names again.
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

/// The reader, and the search in pieces of any length, agree on the longest header.
#[test]
fn a_header_is_as_long_wherever_it_is_cut() {
    for spaces in [1, 8_100, 8_173, 8_174, 8_175, 8_176, 8_200, 20_000] {
        let source = format!("#Fields: date{}time\r\n", " ".repeat(spaces));
        let mut parser = Parser::new(options(Format::W3c));
        let read = parser.parse(source.as_bytes()).unwrap().format;
        for length in [1, 100, 8_192, 8_193, 8_194, source.len()] {
            let mut search = HeaderSearch::new(&Format::W3c);
            source
                .as_bytes()
                .chunks(length)
                .for_each(|piece| search.take(piece));
            assert_eq!(search.format(), read, "{spaces} spaces, pieces of {length}");
        }
    }
}

#[test]
fn lines_that_are_stored_are_told_from_headers() {
    for (format, lines, has) in [
        (Format::Csv, "a,b\n\r\n", false),
        (Format::Csv, "a,b\n1,2\n", true),
        (Format::W3c, "#Fields: a\n#x\n\n", false),
        (Format::W3c, "#Fields:\n", true),
        (Format::Json, "\n\r\n", false),
        (Format::Json, "{}\n", true),
    ] {
        assert_eq!(format.has_items(lines.as_bytes()), has, "{format} {lines}");
    }
}

#[test]
fn auto_finds_w3c_by_its_directives_and_lines() {
    let detection = crate::detect(W3C_SOURCE.as_bytes(), None);
    assert_eq!(detection.format, Some(Format::W3c), "{detection:?}");
    // Eight directives, and lines that have the fields of the last one.
    assert_eq!(detection.votes[&Format::W3c], 8 + 4, "{detection:?}");
    let found = crate::search_header(&Format::Auto, W3C_SOURCE.as_bytes()).format();
    assert_eq!(found, Format::W3c);
    let lines = "a,b\n1,2\n";
    assert_eq!(crate::detect(lines.as_bytes(), None).format, None);
    assert_eq!(
        crate::search_header(&Format::Auto, lines.as_bytes()).format(),
        Format::Auto
    );
    let (events, _) = parsed(options(Format::Auto), W3C_SOURCE.as_bytes());
    assert_eq!(
        events[0],
        json!({
            "time": "2026-11-26T09:00:00Z", "host": "192.0.2.1", "method": "GET", "status": 200,
        })
    );
}
