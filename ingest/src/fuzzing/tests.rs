//! Replays the corpora of this crate's targets.

#[path = "../../../tests/fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn lines_are_events_or_quarantined_wherever_blocks_end() {
    replay("line_formats", super::line_formats);
}

#[test]
fn objects_are_read_as_another_parser_reads_them() {
    replay("json", super::json);
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
