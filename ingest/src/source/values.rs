//! JSON values that are not one to a line: an array of objects, an object over several lines,
//! objects one after the other.
//!
//! At the top level white space, commas and brackets separate values, so that the next value is
//! found from any place between two of them, and the objects of an array are items like any others.
//! An item begins with `{` and ends with the brace that closes it; strings are passed over.
//! Anything else, up to a comma, a bracket, a brace or the end of its line, is an item that is no
//! object.

use serde::de::IgnoredAny;

/// The mark that some editors put at the beginning of a text in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the text without the mark at its beginning.
pub(crate) fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(BOM).unwrap_or(text)
}

/// Returns whether a source that begins so holds JSON values that are not one to a line.
pub fn holds_values(head: &[u8]) -> bool {
    let text = without_bom(head).trim_ascii_start();
    match text.first() {
        // Access logs may begin with the bracket of an IPv6 address, other logs with one of a
        // stamp.
        Some(b'[') => {
            let inside = text[1..].trim_ascii_start();
            match inside.first() {
                Some(b'{') => true,
                Some(b']') => inside[1..].trim_ascii_start().is_empty(),
                Some(_) => false,
                None => text.len() > 1,
            }
        }
        Some(b'{') => holds_objects(text),
        _ => false,
    }
}

/// Does the work of [`holds_values`] for a text that begins with an object: the object does not end
/// with its line, or another begins behind it.
fn holds_objects(text: &[u8]) -> bool {
    let line_end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let end = Nesting::default().end_in(text);
    match end {
        Some(end) if end <= line_end => text[end..line_end].trim_ascii_start().starts_with(b"{"),
        Some(end) => serde_json::from_slice::<IgnoredAny>(&text[..end]).is_ok(),
        // The object is longer than what is there, or its line is broken.
        None if line_end == text.len() => false,
        None => {
            let error = serde_json::from_slice::<IgnoredAny>(text).err();
            error.is_some_and(|e| e.is_eof())
        }
    }
}

/// Search for the end of an object, over any number of pieces of it.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Returns the byte behind the brace that closes the object, if that is in this piece.
    pub(crate) fn end_in(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < piece.len() {
            if self.in_string {
                if std::mem::take(&mut self.escaped) {
                    at += 1;
                    continue;
                }
                at += memchr::memchr2(b'"', b'\\', &piece[at..])?;
                match piece[at] {
                    b'"' => self.in_string = false,
                    _ => self.escaped = true,
                }
                at += 1;
                continue;
            }
            at += memchr::memchr3(b'"', b'{', b'}', &piece[at..])?;
            match piece[at] {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                _ => self.depth = self.depth.saturating_sub(1),
            }
            at += 1;
            if self.depth == 0 && !self.in_string {
                return Some(at);
            }
        }
        None
    }
}

/// The items of a text, each with the byte at which it begins.
#[derive(Debug)]
pub(crate) struct JsonValues<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> JsonValues<'a> {
    /// Returns the items of a text that begins at this byte of its source. Only at byte 0 the mark
    /// of UTF-8 is one; anywhere else its bytes are an item, wherever blocks end.
    pub(crate) fn new(text: &'a [u8], first_byte: u64) -> Self {
        let mark_bytes = text.len() - without_bom(text).len();
        let at = if first_byte == 0 { mark_bytes } else { 0 };
        Self { text, at }
    }

    /// Returns the end of the last item that is surely whole, or of the last of `items_max`; `None`
    /// without one. The separators behind it are left: an array that grows has another one there.
    pub(crate) fn whole(text: &'a [u8], first_byte: u64, items_max: usize) -> Option<usize> {
        let mut values = Self::new(text, first_byte);
        let mut end = None;
        for _ in 0..items_max {
            match values.step() {
                Some((_, _, true)) => end = Some(values.at),
                _ => break,
            }
        }
        end
    }

    fn pass_separators(&mut self) {
        let rest = &self.text[self.at..];
        let separator = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b'[' | b']');
        let next = rest.iter().position(|b| !separator(b));
        self.at = next.map_or(self.text.len(), |next| self.at + next);
    }

    /// Returns the next item, and whether it ended before the text did.
    fn step(&mut self) -> Option<(usize, &'a [u8], bool)> {
        self.pass_separators();
        let begin = self.at;
        let rest = &self.text[begin..];
        let end = match rest.first()? {
            b'{' => Nesting::default().end_in(rest),
            _ => rest
                .iter()
                .position(|b| matches!(b, b',' | b'[' | b']' | b'{' | b'\n')),
        };
        self.at = end.map_or(self.text.len(), |end| begin + end.max(1));
        Some((begin, &self.text[begin..self.at], end.is_some()))
    }
}

impl<'a> Iterator for JsonValues<'a> {
    /// The byte at which the item begins in the text, and the item.
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (begin, item, _) = self.step()?;
        Some((begin, item.trim_ascii_end()))
    }
}

#[cfg(test)]
mod tests;
