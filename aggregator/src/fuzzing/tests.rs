//! Replays the corpora of this crate's targets.

#[path = "../../../tests/fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn tiles_are_refused_or_merged_to_one_encoding() {
    replay("tile", super::tile);
}

#[test]
fn expressions_are_refused_or_printed_and_read_again() {
    replay("expression", super::expression);
}

#[test]
fn rollups_are_refused_or_stored_and_read_again() {
    replay("rollup", super::rollup);
}
