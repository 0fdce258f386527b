//! Replays the corpora of this crate's targets.

#[path = "../../../tests/fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn journal_records_are_refused_or_encoded_again() {
    replay("journal_record", super::journal_record);
}

#[test]
fn journal_segments_are_refused_or_recovered() {
    replay("journal_segment", super::journal_segment);
}

#[test]
fn manifests_are_refused_or_sound() {
    replay("manifest", super::manifest);
}

#[test]
fn checkpoints_of_identities_are_refused_or_written_again() {
    replay("identities", super::identities);
}

#[test]
fn cards_of_detached_partitions_are_refused_or_written_again() {
    replay("detached_card", super::detached_card);
}

#[test]
fn parts_are_refused_or_read() {
    replay("part", super::part);
}

#[test]
fn index_files_are_refused_or_name_rows_of_their_part() {
    replay("index_file", super::index_file);
}

#[test]
fn small_files_are_refused_or_written_again() {
    replay("small_files", super::small_files);
}

#[test]
fn stores_are_refused_or_backed_up() {
    replay("backup", super::backup);
}
