//! The search of a source's header in its bytes, cut anywhere.

use crate::formats::{Format, HEADER_LINE_BYTES_MAX, Header};
use crate::source::{LINE_BYTES_MAX, Lines, SourceBlock};

/// Bytes of a line that are kept: one more shows that it is too long for a header.
const KEPT_BYTES: usize = HEADER_LINE_BYTES_MAX + 1;

/// Finds the format in which a source goes on behind content that was read before.
#[derive(Debug, Clone)]
pub struct HeaderSearch {
    /// `None` for a format without a header.
    header: Option<Header>,
    format: Format,
    /// The beginning of the unfinished line.
    line: Vec<u8>,
    /// The bytes of the unfinished line.
    length: usize,
}

impl HeaderSearch {
    /// Makes a search at the beginning of a source, or where it is in this format.
    pub fn new(format: &Format) -> Self {
        Self {
            header: Header::of_format(format),
            format: format.clone(),
            line: Vec::new(),
            length: 0,
        }
    }

    /// Takes the next bytes of the source.
    pub fn take(&mut self, bytes: &[u8]) {
        let mut begin = 0;
        let mut ends = memchr::memchr_iter(b'\n', bytes);
        while let Some(header) = &mut self.header
            && !header.is_final()
        {
            let end = ends.next();
            let piece = &bytes[begin..end.unwrap_or(bytes.len())];
            if let Some(end) = end
                && self.length == 0
            {
                take_line(header, piece, piece.len());
                begin = end + 1;
                continue;
            }
            let kept = piece.len().min(KEPT_BYTES - self.line.len());
            self.line.extend_from_slice(&piece[..kept]);
            self.length += piece.len();
            let Some(end) = end else { return };
            take_line(header, &self.line, self.length);
            (self.length, begin) = (0, end + 1);
            self.line.clear();
        }
    }

    /// Returns the format of the next line; an unfinished one counts as a line.
    pub fn format(&self) -> Format {
        let Some(mut header) = self.header.clone() else {
            return self.format.clone();
        };
        if !header.is_final() {
            take_line(&mut header, &self.line, self.length);
        }
        header.format()
    }
}

/// Takes a line without its LF, of which the beginning is there.
fn take_line(header: &mut Header, line: &[u8], length: usize) {
    // Only a line that is there to its end ends with a CR.
    let line = match line.len() == length {
        true => line.strip_suffix(b"\r").unwrap_or(line),
        false => line,
    };
    // A parser does not see lines that are longer, and passes over empty ones.
    if !line.is_empty() && length <= LINE_BYTES_MAX {
        // The reader quarantines a header that cannot be used.
        let _ignored = header.take(line);
    }
}

impl Format {
    /// Returns the format of what follows some whole lines of a source in this format: of a format
    /// whose header stands in them, the one with its fields.
    #[must_use]
    pub fn after(&self, lines: &[u8]) -> Self {
        let mut search = HeaderSearch::new(self);
        search.take(lines);
        search.format()
    }

    /// Returns the format of what follows a block, as [`Self::after`] does. A line that is too long
    /// is no header.
    #[must_use]
    pub fn behind(&self, block: &SourceBlock) -> Self {
        match block.too_long {
            true => self.clone(),
            false => self.after(&block.bytes),
        }
    }

    /// Returns whether some lines of this format have one that is stored: neither empty nor a
    /// header.
    pub fn has_items(&self, lines: &[u8]) -> bool {
        let mut header = Header::of_format(self);
        let is_stored = |line: &[u8]| match &mut header {
            Some(header) => !matches!(header.take(line), Some(Ok(()))),
            None => true,
        };
        let lines = Lines::new(lines).map(|(_, line)| line);
        lines.filter(|line| !line.is_empty()).any(is_stored)
    }
}
