//! Lines in every format and with every option.

use std::sync::LazyLock;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::TimestampMicrosecondType;
use storage::{Quarantined, SEQ, TIME};

use super::{RECEIVED_US, choices, received};
use crate::anonymise::{Anonymiser, HashKey, Method};
use crate::error::Error;
use crate::formats::Format;
use crate::header_search::HeaderSearch;
use crate::options::{MAX_FUTURE_US, ParseOptions};
use crate::parsed::Parsed;
use crate::parser::Parser;
use crate::source::Lines;

/// Formats that are patterns, with every form of a time.
static PATTERNED: LazyLock<Vec<Format>> = LazyLock::new(|| {
    let patterns = [
        "apache:vhost_combined",
        "nginx:ingress",
        "apache:%{%d/%b/%Y %T}t.%{usec_frac}t %{%z}t %a %{X}i|%m %U%q %D",
        "nginx:$msec $remote_addr $request_uri \"$http_x\" $upstream_status $upstream_response_time",
    ];
    let regex = r"regex:(?<time:%d/%b/%Y %H:%M:%S>[^|]*)\|(?<n:int>[^|]*)\|(?<f:float>[^|]*)\|(?s:(?<line>.*))";
    let patterns = patterns.into_iter().chain([regex]);
    patterns
        .map(|text| text.parse().expect("a pattern"))
        .collect()
});

/// Formats that came last: with the header in their names, and grok.
static NAMED: LazyLock<Vec<Format>> = LazyLock::new(|| {
    let names = [
        "csv:time,n,\"a, b\"",
        "tsv:ts\ta",
        "w3c:date=2024-10-20 time c-ip sc-bytes cs(A)",
        "grok:\\[%{HTTPDATE:time}\\] %{IP:ip} %{NUMBER:n:float} %{GREEDYDATA:line}",
    ];
    let formats = names.into_iter().map(|name| name.parse().expect("a name"));
    formats.collect()
});
/// The formats that came before the patterns: inputs of the corpus know formats by this order.
const BEFORE_PATTERNS: usize = 10;

/// Parses lines: the first two bytes are the format and the options, the next two the place of a
/// cut. Every line is an event, quarantined with its bytes and its place, or empty; and two blocks
/// have the events and quarantined lines of one.
pub fn line_formats(bytes: &[u8]) {
    let ([format, flags, low, high], lines) = choices(bytes);
    let format = format_of(format);
    let options = options(format.clone(), flags);
    let ordered = options.ordered;
    let mut parser = Parser::new(options.clone());
    let whole = match parser.parse(lines) {
        // Formats in which the rest of a line is stored are refused for an anonymised stream.
        Err(Error::LineNotAnonymised { .. }) if !options.anonymiser.is_empty() => return,
        parsed => parsed.expect("lines are never an error"),
    };
    check(&whole, lines, ordered);
    // `auto` decides by the lines of a block, and the first value decides a column of documents.
    if *format == Format::Auto || options.values != Some(false) {
        return;
    }
    let at = usize::from(u16::from_le_bytes([low, high])) % (lines.len() + 1);
    let end = memchr::memchr(b'\n', &lines[at..]);
    let (before, after) = lines.split_at(end.map_or(lines.len(), |end| at + end + 1));
    let mut parser = Parser::new(options.clone());
    let first = parser.parse(before).expect("lines are never an error");
    let second = parser.parse(after).expect("lines are never an error");
    assert_eq!(first.lines + second.lines, whole.lines);
    assert_eq!(first.empty + second.empty, whole.empty);
    let both = first.quarantine.iter().chain(&second.quarantine);
    assert!(both.map(place).eq(whole.quarantine.iter().map(place)));
    let rows = first.events.num_rows() + second.events.num_rows();
    assert_eq!(rows, whole.events.num_rows());
    check_header(format, options, (before, &first), (after, &second));
    // Their columns have the types of the first values.
    let is_typed = !matches!(
        format,
        Format::Json
            | Format::Logfmt
            | Format::Regex(_)
            | Format::W3c
            | Format::Csv
            | Format::Tsv
            | Format::Bson
            | Format::Counters
            | Format::Fields(_)
    );
    if is_typed {
        assert_same_columns(&whole.events, [&first.events, &second.events]);
    }
}

/// Checks that the second block is read as well by a parser that knows the format behind the first,
/// and that the header is found in bytes that are cut anywhere.
fn check_header(
    format: &Format,
    options: ParseOptions,
    (before, first): (&[u8], &Parsed),
    (after, second): (&[u8], &Parsed),
) {
    // Nothing behind an item that stops the parser is read.
    if first.stopped_at.is_some() {
        return;
    }
    let mut search = HeaderSearch::new(format);
    let third = before.len() / 3;
    search.take(&before[..third]);
    search.take(&before[third..]);
    assert_eq!(search.format(), first.format);
    let name = first.format.to_string();
    let mut parser = Parser::new(ParseOptions {
        format: name.parse().expect("the name of a format"),
        first_line: 1 + first.lines,
        first_byte: before.len() as u64,
        ..options
    });
    let alone = parser.parse(after).expect("lines are never an error");
    assert_eq!(alone.events.num_rows(), second.events.num_rows());
    let place = |item: &Quarantined| (item.reason, item.line, item.byte, item.raw.clone());
    let alone = alone.quarantine.iter().map(place);
    assert!(alone.eq(second.quarantine.iter().map(place)));
}

/// Returns the format that the first byte of an input stands for.
pub(super) fn format_of(byte: u8) -> &'static Format {
    let (before, behind) = Format::ALL.split_at(BEFORE_PATTERNS);
    let formats = before
        .iter()
        .chain(&*PATTERNED)
        .chain(behind)
        .chain(&*NAMED);
    let formats: Vec<&Format> = formats.collect();
    formats[usize::from(byte) % formats.len()]
}

fn options(format: Format, flags: u8) -> ParseOptions {
    let has = |bit: u8| flags & 1 << bit != 0;
    let mut options = ParseOptions {
        format,
        strict: has(0),
        ordered: has(1),
        site: has(2).then(|| "shop".to_owned()),
        tz: has(3).then(|| crate::stamp::zone("Europe/Berlin").expect("a zone")),
        values: has(4).then_some(false),
        ..received()
    };
    options.selection.raw_line = has(5);
    if has(6) {
        let key = HashKey::new(&[7; 32]).expect("a key of 32 bytes");
        let method = if has(7) {
            Method::Hash
        } else {
            Method::Truncate
        };
        let hidden = Anonymiser::default().with("host", method, Some(&key));
        options.anonymiser = hidden.expect("a key for the hash");
    }
    options
}

fn check(parsed: &Parsed, lines: &[u8], ordered: bool) {
    let (events, bad) = (
        parsed.events.num_rows() as u64,
        parsed.quarantine.len() as u64,
    );
    assert_eq!(parsed.lines, events + bad + parsed.empty);
    assert_eq!(parsed.stopped_at.is_some(), ordered && bad > 0);
    let sent = Lines::new(lines).count() as u64;
    assert!(ordered || parsed.lines == sent || crate::source::holds_values(lines));
    let mut ranks = parsed.quarantine.iter().map(|item| u64::from(item.rank));
    assert!(ranks.all(|rank| rank < events + bad));
    assert!(parsed.quarantine.is_sorted_by(|a, b| {
        (a.rank, a.index, a.byte) < (b.rank, b.index, b.byte) && a.line <= b.line
    }));
    for item in &parsed.quarantine {
        let at = usize::try_from(item.byte).expect("a place in memory");
        assert!(lines[at..].starts_with(&item.raw), "{item:?}");
        let ends = memchr::memchr_iter(b'\n', &lines[..at]).count() as u64;
        assert_eq!(item.line, ends + 1, "{item:?}");
    }
    for column in parsed.events.columns() {
        column.to_data().validate_full().expect("a sound column");
    }
    assert!(parsed.events.column_by_name(SEQ).is_none());
    if events > 0 {
        let times = &parsed.events[TIME];
        assert_eq!(times.null_count(), 0);
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let latest = RECEIVED_US + MAX_FUTURE_US;
        assert!(times.values().iter().all(|time| *time <= latest));
    }
}

/// Returns what stays the same of a quarantined line, however its source is cut.
fn place(item: &Quarantined) -> (&str, &str, u64, u64, u64, &[u8]) {
    let Quarantined { reason, detail, .. } = item;
    (reason, detail, item.index, item.line, item.byte, &item.raw)
}

fn assert_same_columns(whole: &RecordBatch, pieces: [&RecordBatch; 2]) {
    for (field, column) in whole.schema().fields().iter().zip(whole.columns()) {
        let pieces = pieces.map(|piece| {
            let found = piece.column_by_name(field.name()).cloned();
            found.unwrap_or_else(|| new_null_array(field.data_type(), piece.num_rows()))
        });
        let pieces = pieces.each_ref().map(|piece| &**piece);
        let joined: ArrayRef = concat(&pieces).expect("columns of one type");
        assert_eq!(&joined, column, "{}", field.name());
    }
}
