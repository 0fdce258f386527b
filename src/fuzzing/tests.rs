//! Replays the corpora of the program's targets.

#[path = "../../tests/fuzz/src/replay.rs"]
pub(crate) mod replay;

use replay::replay;

#[test]
fn heads_of_requests_are_refused_or_mean_one_thing() {
    replay("http_head", super::http_head);
}

#[test]
fn secrets_in_text_are_refused_or_written_again() {
    replay("secrets", super::secrets);
}
