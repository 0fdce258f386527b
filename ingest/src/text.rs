//! The text of a line, and columns of such text.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder};

/// The bytes of a field in its line: the first, and the one behind the last.
pub(crate) type ByteSpan = (usize, usize);

/// The text of one line. Spans begin and end at ASCII bytes, so cutting valid UTF-8 at them keeps
/// it valid; of other lines each field is converted for itself, U+FFFD for each maximal subpart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineText<'a> {
    /// UTF-8, checked for the whole line or its whole block.
    Valid(&'a str),
    /// Not UTF-8.
    Bytes(&'a [u8]),
}

impl<'a> LineText<'a> {
    /// Checks the bytes of one line.
    pub(crate) fn of(line: &'a [u8]) -> Self {
        std::str::from_utf8(line).map_or(Self::Bytes(line), Self::Valid)
    }

    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Valid(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns a part of the line as text.
    #[inline]
    pub(crate) fn part(self, (from, to): ByteSpan) -> Cow<'a, str> {
        match self {
            Self::Valid(text) => text[from..to].into(),
            Self::Bytes(bytes) => String::from_utf8_lossy(&bytes[from..to]),
        }
    }

    /// Returns the whole line as text.
    #[inline]
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Valid(text) => text.into(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }
    }
}

/// A text column that counts nulls until a value comes: most lines have no user, site or extra.
#[derive(Debug)]
pub(crate) struct TextColumn {
    builder: StringBuilder,
    nulls: usize,
}

impl TextColumn {
    pub(crate) fn new() -> Self {
        Self {
            builder: StringBuilder::with_capacity(0, 0),
            nulls: 0,
        }
    }

    #[inline]
    pub(crate) fn null(&mut self) {
        self.nulls += 1;
    }

    #[inline]
    pub(crate) fn value(&mut self, value: &str) {
        self.append_nulls();
        self.builder.append_value(value);
    }

    #[inline]
    pub(crate) fn span(&mut self, line: LineText<'_>, span: ByteSpan) {
        self.value(&line.part(span));
    }

    #[inline]
    pub(crate) fn optional(&mut self, line: LineText<'_>, span: Option<ByteSpan>) {
        match span {
            Some(span) => self.span(line, span),
            None => self.null(),
        }
    }

    /// Appends a field in which `-` stands for nothing.
    #[inline]
    pub(crate) fn dashed(&mut self, line: LineText<'_>, span: ByteSpan) {
        if span.1 - span.0 == 1 && line.bytes()[span.0] == b'-' {
            self.null();
        } else {
            self.span(line, span);
        }
    }

    #[inline]
    fn append_nulls(&mut self) {
        if self.nulls > 0 {
            self.builder.append_nulls(self.nulls);
            self.nulls = 0;
        }
    }

    /// Returns the column so far. The next one begins with capacity for as much again.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        self.append_nulls();
        let bytes = self.builder.values_slice().len();
        let rows = self.builder.offsets_slice().len();
        let array = self.builder.finish();
        self.builder = if bytes == 0 {
            StringBuilder::with_capacity(0, 0)
        } else {
            StringBuilder::with_capacity(rows, bytes + bytes / 8)
        };
        Arc::new(array)
    }
}
