//! Sources in UTF-16, as programs of Windows write logs: read as UTF-8.

use std::io::{Cursor, Read, Result};

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A source, as UTF-8 if it begins with the mark of UTF-16. Places in the source are places in its
/// UTF-8. A surrogate without its other half, and a last odd byte, become U+FFFD.
pub(super) struct Utf8Reader<R> {
    source: R,
    encoding: Encoding,
    /// Bytes read and not decoded: a part of the mark or of a character.
    raw: Vec<u8>,
    /// Text decoded and not handed over.
    text: Cursor<Vec<u8>>,
    is_over: bool,
}

/// The encoding of a source; of UTF-16 by the byte of a unit that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Unknown,
    Utf8,
    LowFirst,
    HighFirst,
}

/// Returns the encoding of a source by its first two bytes.
fn encoding(head: &[u8]) -> Encoding {
    match head {
        [0xff, 0xfe] => Encoding::LowFirst,
        [0xfe, 0xff] => Encoding::HighFirst,
        _ => Encoding::Utf8,
    }
}

/// Returns whether the first two bytes of a source are the mark of UTF-16.
pub(super) fn is_marked(head: &[u8]) -> bool {
    encoding(head) != Encoding::Utf8
}

impl<R: Read> Utf8Reader<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            encoding: Encoding::Unknown,
            raw: Vec::new(),
            text: Cursor::new(Vec::new()),
            is_over: false,
        }
    }

    /// Reads the mark, or the bytes in its place.
    fn begin(&mut self) -> Result<()> {
        let missing = 2 - self.raw.len() as u64;
        self.source
            .by_ref()
            .take(missing)
            .read_to_end(&mut self.raw)?;
        self.encoding = encoding(&self.raw);
        let head = std::mem::take(&mut self.raw);
        if self.encoding == Encoding::Utf8 {
            self.text = Cursor::new(head);
        }
        Ok(())
    }

    /// Reads a chunk and decodes its whole characters.
    fn fill(&mut self) -> Result<()> {
        let read = self
            .source
            .by_ref()
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut self.raw)?;
        self.is_over = read == 0;
        let unit = |pair: &[u8]| match self.encoding {
            Encoding::HighFirst => u16::from_be_bytes([pair[0], pair[1]]),
            _ => u16::from_le_bytes([pair[0], pair[1]]),
        };
        let mut units: Vec<u16> = self.raw.chunks_exact(2).map(unit).collect();
        let is_first_half = |unit: &u16| (0xd800..0xdc00).contains(unit);
        if !self.is_over && units.last().is_some_and(is_first_half) {
            units.pop();
        }
        let decoded = char::decode_utf16(units.iter().copied());
        let decoded = decoded.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        let mut text: String = decoded.collect();
        self.raw.drain(..2 * units.len());
        if self.is_over && !self.raw.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            self.raw.clear();
        }
        self.text = Cursor::new(text.into_bytes());
        Ok(())
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            let read = self.text.read(into)?;
            if read > 0 || into.is_empty() || self.is_over {
                return Ok(read);
            }
            match self.encoding {
                Encoding::Unknown => self.begin()?,
                Encoding::Utf8 => return self.source.read(into),
                Encoding::LowFirst | Encoding::HighFirst => self.fill()?,
            }
        }
    }
}

#[cfg(test)]
mod tests;
