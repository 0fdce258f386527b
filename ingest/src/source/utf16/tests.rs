use proptest::prelude::*;

use super::*;

/// A reader that hands over few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let most = into.len().min(self.1);
        self.0.read(&mut into[..most])
    }
}

fn read(bytes: &[u8], at_once: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut reader = Utf8Reader::new(Slow(bytes, at_once));
    reader.read_to_end(&mut text).unwrap();
    text
}

fn utf_16(text: &str, is_big: bool) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    let bytes = units.map(|unit| {
        if is_big {
            unit.to_be_bytes()
        } else {
            unit.to_le_bytes()
        }
    });
    bytes.flatten().collect()
}

proptest! {
    #[test]
    fn text_is_what_it_was(text in "(\\PC|\n|😀){0,60}", is_big: bool, at_once in 1usize..9) {
        prop_assert_eq!(read(&utf_16(&text, is_big), at_once), text.as_bytes());
    }

    #[test]
    fn other_bytes_stay_as_they_are(bytes: Vec<u8>, at_once in 1usize..9) {
        let is_marked = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        match is_marked {
            false => prop_assert_eq!(read(&bytes, at_once), bytes),
            true => prop_assert!(std::str::from_utf8(&read(&bytes, at_once)).is_ok()),
        }
    }
}

#[test]
fn characters_lie_across_chunks() {
    for odd in 0..4 {
        let text = "x".repeat(odd) + &"😀é".repeat(CHUNK_BYTES);
        assert_eq!(read(&utf_16(&text, false), usize::MAX), text.as_bytes());
    }
}

#[test]
fn halves_of_characters_are_told() {
    let mut bytes = utf_16("a", false);
    bytes.extend([0x00, 0xd8, b'b', 0, 0x00, 0xdc, b'c', 0, 0x00, 0xd8]);
    assert_eq!(read(&bytes, 3), "a\u{fffd}b\u{fffd}c\u{fffd}".as_bytes());
    bytes.truncate(bytes.len() - 1);
    assert_eq!(read(&bytes, 3), "a\u{fffd}b\u{fffd}c\u{fffd}".as_bytes());
}
