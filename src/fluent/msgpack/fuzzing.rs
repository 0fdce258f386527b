//! Target of the fuzzer: MessagePack as a stranger may send it.
//!
//! `tests/fuzz` includes this file and the reader, which needs nothing else of the program. The
//! tests of the program replay the corpus.

use super::{MsgToken, Scanner, Tokens, Unreadable};

/// Levels that the slow reader goes down.
const DEPTH_MAX: usize = 200;

/// Finds the end of a value in bytes that come in pieces, whose length the first byte gives. It is
/// the same for every cut, and the one that a reader of nested values finds.
pub(crate) fn msgpack(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else {
        return;
    };
    let max = bytes.len() as u64;
    let whole = Scanner::within(max).end(bytes);
    let mut scanner = Scanner::within(max);
    let mut found = Ok(None);
    let mut come = 0;
    while found == Ok(None) && come < bytes.len() {
        come = (come + usize::from(*cut).max(1)).min(bytes.len());
        found = scanner.end(&bytes[..come]);
    }
    assert_eq!(whole, found);
    let mut tokens = Tokens::new(bytes);
    match nested(&mut tokens, 0) {
        Some(true) => assert!(matches!(whole, Ok(Some(_))), "{whole:?}"),
        Some(false) => assert!(!matches!(whole, Ok(Some(_))), "{whole:?}"),
        None => return,
    }
    if let Ok(Some(end)) = whole {
        let mut skipped = Tokens::new(bytes);
        assert_eq!(skipped.skip().map(<[u8]>::len), Ok(end));
        assert_eq!(skipped.first(usize::MAX), tokens.first(usize::MAX));
    }
}

/// Reads a value with its elements. Returns whether there is one; `None` if it is too deep.
fn nested(tokens: &mut Tokens<'_>, depth: usize) -> Option<bool> {
    if depth > DEPTH_MAX {
        return None;
    }
    let elements = match tokens.next() {
        Ok(MsgToken::Array(elements)) => elements,
        Ok(MsgToken::Map(pairs)) => 2 * pairs,
        Ok(_) => 0,
        Err(Unreadable::Malformed | Unreadable::TooLong) => return Some(false),
    };
    for _ in 0..elements {
        match nested(tokens, depth + 1) {
            Some(true) => {}
            other => return other,
        }
    }
    Some(true)
}
