//! Replays the corpora of this crate's targets.

#[path = "../../../tests/fuzz/src/replay.rs"]
mod replay;

use replay::replay;

use crate::Format;

#[test]
fn lines_are_events_or_quarantined_wherever_blocks_end() {
    replay("line_formats", super::line_formats);
}

#[test]
fn objects_are_read_as_another_parser_reads_them() {
    replay("json", super::json);
}

#[test]
fn documents_are_events_or_quarantined() {
    replay("bson", super::bson);
}

#[test]
fn blocks_lie_side_by_side() {
    replay("blocks", super::blocks);
}

#[test]
fn records_of_shippers_are_events_or_quarantined() {
    replay("shippers", super::shippers);
}

#[test]
fn bodies_stay_within_their_limit() {
    replay("bodies", super::bodies);
}

/// All short sources of the pieces that decide about a header, cut at each place.
#[test]
fn every_short_source_with_marks_and_headers_has_one_meaning() {
    const PIECES: [&str; 7] = ["\u{feff}", "\n", "\r\n", "a", "a,b", "#Fields: a b", "\""];
    const LENGTH: u32 = 3;
    let byte_of = |format: Format| {
        let mut bytes = 0..=u8::MAX;
        let byte = bytes.find(|byte| *super::line_formats::format_of(*byte) == format);
        byte.expect("a byte of the format")
    };
    for format in [Format::Csv, Format::W3c].map(byte_of) {
        for nth in 0..PIECES.len().pow(LENGTH) {
            let mut pieces = nth;
            let mut lines = String::new();
            for _ in 0..LENGTH {
                lines += PIECES[pieces % PIECES.len()];
                pieces /= PIECES.len();
            }
            for cut in 0..u8::try_from(lines.len()).expect("a short source") {
                // The options keep values of JSON out, as an input of the fuzzer does.
                let input = [&[format, 1 << 4, cut, 0], lines.as_bytes()].concat();
                super::line_formats(&input);
            }
        }
    }
}
