//! Target of the fuzzer: the text of hints as a stranger may write it.
//!
//! `tests/fuzz` includes this file and the parser of the text, which needs nothing of DataFusion.
//! The tests of this crate replay the corpus.

use super::text::{Hint, parse};

/// Reads a comment. Hints that are accepted are read again from their names and columns.
pub(crate) fn sql_hints(bytes: &[u8]) {
    let Ok(comment) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(hints) = parse(comment) else {
        return;
    };
    let mut written = Vec::new();
    for hint in &hints {
        written.push(match hint {
            Hint::NoRollup => "NO_ROLLUP".to_owned(),
            Hint::NoIndex => "no_index".to_owned(),
            Hint::TopK(true) => "top_k".to_owned(),
            Hint::TopK(false) => "no_top_k".to_owned(),
            Hint::Index(columns) => format!("index(\"{}\")", columns.join("\", \"")),
            Hint::Order(columns) => format!("order(\"{}\")", columns.join("\", \"")),
        });
        if let Hint::Index(columns) | Hint::Order(columns) = hint {
            assert!(
                columns.iter().all(|column| !column.is_empty()),
                "{comment:?}"
            );
        }
    }
    let again = parse(&written.join(" ")).expect("written hints are read");
    assert_eq!(again, hints, "{comment:?}");
}
