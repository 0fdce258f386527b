//! Target of the fuzzer: the bytes of a connection of syslog.
//!
//! `tests/fuzz` includes this file and the decoder, which needs nothing else. The tests of the
//! program replay the corpus.

use super::{Decoder, KEPT_BYTES_MAX, Malformed};

/// Reads a connection whole, and cut into pieces: the first byte gives the length of the pieces.
/// Both give the same messages and the same end. In the framing by lines, the messages are the
/// lines.
pub(crate) fn syslog_framing(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else {
        return;
    };
    let whole = messages(bytes.chunks(bytes.len().max(1)));
    let cut = messages(bytes.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole, cut);
    let (messages, outcome) = whole;
    assert!(
        messages
            .iter()
            .all(|m| (1..=KEPT_BYTES_MAX).contains(&m.len()))
    );
    if outcome.is_ok() && !matches!(bytes.first(), Some(b'1'..=b'9')) {
        let lines = bytes.split(|b| *b == b'\n').map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            &line[..line.len().min(KEPT_BYTES_MAX)]
        });
        let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
        let is_request = |line: &&[u8]| line.windows(8).any(|w| w == b" HTTP/1.");
        // The last line may be a request that did not end.
        if !lines.first().is_some_and(is_request) && bytes.len() < KEPT_BYTES_MAX {
            assert_eq!(messages, lines);
        }
    }
}

type Messages = (Vec<Vec<u8>>, Result<(), Malformed>);

fn messages<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Messages {
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    let mut push = |message: &[u8]| messages.push(message.to_vec());
    for piece in pieces {
        if let Err(why) = decoder.take(piece, &mut push) {
            return (messages, Err(why));
        }
    }
    decoder.finish(&mut push);
    (messages, Ok(()))
}
