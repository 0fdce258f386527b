//! Lines of a block: they end at LF, one CR before it is dropped, a last piece without LF is a
//! line. The CR of a last piece without LF is dropped too, so that a line reads the same whether or
//! not its LF was sent.

/// The lines of a block with the byte at which each begins.
pub(crate) struct Lines<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(block: &'a [u8]) -> Self {
        Self { block, at: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    /// The byte at which the line begins in the block, and the line without its end.
    type Item = (usize, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.block[self.at..];
        if rest.is_empty() {
            return None;
        }
        let begin = self.at;
        let line = match memchr::memchr(b'\n', rest) {
            Some(end) => {
                self.at += end + 1;
                &rest[..end]
            }
            None => {
                self.at = self.block.len();
                rest
            }
        };
        Some((begin, line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

impl Lines<'_> {
    /// Returns the byte of the block after the last line that was returned.
    pub(crate) fn position(&self) -> usize {
        self.at
    }
}

#[cfg(test)]
mod tests;
