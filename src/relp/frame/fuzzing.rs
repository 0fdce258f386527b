//! Target of the fuzzer: the bytes of a connection of RELP.
//!
//! `tests/fuzz` includes this file and the decoder, which needs nothing else. The tests of the
//! program replay the corpus.

use super::{Decoder, KEPT_BYTES_MAX, put};

/// Reads a connection whole, and cut into pieces: the first byte gives the length of the pieces.
/// Both give the same frames and the same end. A frame of text is read again as it is written.
pub(crate) fn relp_frames(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else {
        return;
    };
    let whole = frames(bytes.chunks(bytes.len().max(1)));
    let cut = frames(bytes.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole, cut);
    for (number, command, data) in &whole.0 {
        assert!(data.len() <= KEPT_BYTES_MAX && *number <= 999_999_999);
        let Ok(text) = std::str::from_utf8(data) else {
            continue;
        };
        let mut again = String::new();
        put(&mut again, *number, command, text);
        let (read, is_whole) = frames(std::iter::once(again.as_bytes()));
        assert!(is_whole);
        assert_eq!(read, [(*number, command.clone(), data.clone())]);
    }
}

type Owned = (u32, String, Vec<u8>);

/// Returns the frames of a connection, and whether all of its bytes were read.
fn frames<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Owned>, bool) {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for piece in pieces {
        let taken = decoder.take(piece, &mut |frame| {
            frames.push((frame.number, frame.command.to_owned(), frame.data.to_vec()));
        });
        if taken.is_err() {
            return (frames, false);
        }
    }
    (frames, true)
}
