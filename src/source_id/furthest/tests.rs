use std::io::Cursor;

use ingest::Format;
use xxhash_rust::xxh3::xxh3_64;

use super::*;

fn state(producer: &str, content: &[u8], newest: bool) -> KnownState {
    KnownState {
        producer: producer.to_owned(),
        position: SourcePosition {
            to: content.len() as u64,
            content: xxh3_64(content),
        },
        newest,
    }
}

/// The producer and end of the best state for a content.
fn best_of(content: &[u8], states: &[KnownState]) -> Option<(String, u64)> {
    let search = HeaderSearch::new(&Format::Auto);
    let found = best(Box::new(Cursor::new(content.to_vec())), states, search);
    found.map(|(state, _)| (state.producer.clone(), state.position.to))
}

#[test]
fn a_state_counts_only_with_all_of_its_content() {
    let content = b"first\nsecond\nthird\n";
    let states = [
        state("a", &content[..6], false),
        state("a", &content[..13], true),
        state("b", b"first\nsecond\nother\n", true),
    ];
    assert_eq!(best_of(content, &states), Some(("a".into(), 13)));
    assert_eq!(best_of(&content[..13], &states), Some(("a".into(), 13)));
    // An older state: the whole of a copy that was made then, and no beginning of something else.
    assert_eq!(best_of(&content[..6], &states), Some(("a".into(), 6)));
    assert_eq!(best_of(b"first\nelse\n", &states), None);
    assert_eq!(best_of(b"", &states), None);
}

#[test]
fn an_older_state_of_some_length_is_gone_on_from() {
    let common = "0123456\n".repeat(TRUSTED_BYTES as usize / 8);
    let (one, other) = (format!("{common}one\n"), format!("{common}other\n"));
    let states = [
        state("a", common.as_bytes(), false),
        state("a", one.as_bytes(), true),
    ];
    assert_eq!(
        best_of(other.as_bytes(), &states),
        Some(("a".into(), TRUSTED_BYTES))
    );
}

#[test]
fn what_is_known_says_where_it_ends() {
    let content = b"a\nb\nhalf of a li";
    let states = [state("a", content, true)];
    let search = HeaderSearch::new(&Format::Csv);
    let source = Box::new(Cursor::new(content.to_vec()));
    let (_, reached) = best(source, &states, search).expect("a match");
    assert_eq!((reached.line_ends, reached.mid_line), (2, true));
    assert_eq!(reached.search.format().to_string(), "csv:a");
}
