//! `COPY … TO STDOUT`: its options, and rows in its three formats (PostgreSQL's documentation of
//! COPY, "File Formats").

use bytes::{BufMut, BytesMut};
use chrono_tz::Tz;

use super::cells::Cells;
use super::cells::binary::put_value;
use super::error::{Result, SqlError, state};
use super::message::{put, put_count};

/// The first bytes of the binary format: its signature, no flags, no extension.
const BINARY_HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CopyForm {
    #[default]
    Text,
    Csv,
    Binary,
}

impl CopyForm {
    /// Returns the form of a name.
    ///
    /// # Errors
    /// If there is none of that name.
    pub(super) fn named(name: &str) -> Result<Self> {
        match name {
            "text" => Ok(Self::Text),
            "csv" => Ok(Self::Csv),
            "binary" => Ok(Self::Binary),
            other => {
                let message = format!("COPY format \"{other}\" not recognized");
                Err(SqlError::new(state::BAD_PARAMETER, message).hint("write text, csv or binary"))
            }
        }
    }
}

/// The options of a COPY; `None` for PostgreSQL's default of the form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CopyOptions {
    pub(super) form: CopyForm,
    pub(super) has_header: bool,
    pub(super) delimiter: Option<String>,
    pub(super) null: Option<String>,
    pub(super) quote: Option<String>,
    pub(super) escape: Option<String>,
    pub(super) quotes_all: bool,
}

impl CopyOptions {
    /// Checks that each option fits the form and is a single byte where it must be.
    ///
    /// # Errors
    /// If one is not.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |message: &str| Err(SqlError::new(state::BAD_PARAMETER, message));
        let is_single = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() == 1);
        if !is_single(&self.delimiter) || !is_single(&self.quote) || !is_single(&self.escape) {
            return wrong("COPY delimiter, quote and escape must be a single one-byte character");
        }
        let of_csv = self.quote.is_some() || self.escape.is_some() || self.quotes_all;
        if of_csv && self.form != CopyForm::Csv {
            return wrong("COPY quote, escape and force_quote are for the format csv");
        }
        let of_text = self.delimiter.is_some() || self.null.is_some() || self.has_header;
        if of_text && self.form == CopyForm::Binary {
            return wrong("COPY delimiter, null and header are not for the format binary");
        }
        let null = self.null.as_deref().unwrap_or_default();
        if null.contains(['\r', '\n']) || null.contains(char::from(self.delimiter_byte())) {
            return wrong("COPY null must not contain a line break or the delimiter");
        }
        let delimiter = self.delimiter_byte();
        let is_letter = delimiter.is_ascii_alphanumeric() || b"\\.\r\n".contains(&delimiter);
        if (self.form == CopyForm::Text && is_letter) || delimiter == self.quote_byte() {
            return wrong("COPY delimiter must not be a letter, a line break, or the quote");
        }
        Ok(())
    }

    fn delimiter_byte(&self) -> u8 {
        let default = if self.form == CopyForm::Csv {
            b','
        } else {
            b'\t'
        };
        single(&self.delimiter, default)
    }

    fn quote_byte(&self) -> u8 {
        single(&self.quote, b'"')
    }

    fn null_text(&self) -> &[u8] {
        match (&self.null, self.form) {
            (Some(null), _) => null.as_bytes(),
            (None, CopyForm::Csv) => b"",
            (None, _) => b"\\N",
        }
    }
}

fn single(text: &Option<String>, default: u8) -> u8 {
    let first = text.as_ref().and_then(|text| text.bytes().next());
    first.unwrap_or(default)
}

/// The data of a COPY that is being written.
#[derive(Debug)]
pub(super) struct CopyOut {
    options: CopyOptions,
    /// The header of the binary format was written. It begins the first message of data, where
    /// clients look for it.
    has_begun: bool,
}

impl CopyOut {
    /// Appends the message that begins the data of so many columns, and the line of their names.
    pub(super) fn begin(out: &mut BytesMut, options: &CopyOptions, names: &[&str]) -> Self {
        let code = i8::from(options.form == CopyForm::Binary);
        put(out, b'H', |out| {
            out.put_i8(code);
            put_count(out, names.len());
            for _ in names {
                out.put_i16(code.into());
            }
        });
        if options.has_header {
            put(out, b'd', |out| {
                for (n, name) in names.iter().enumerate() {
                    if n > 0 {
                        out.put_u8(options.delimiter_byte());
                    }
                    put_text(out, options, name.as_bytes());
                }
                out.put_u8(b'\n');
            });
        }
        Self {
            options: options.clone(),
            has_begun: options.form != CopyForm::Binary,
        }
    }

    fn put_header(&mut self, out: &mut BytesMut) {
        if !self.has_begun {
            out.put_slice(BINARY_HEADER);
            self.has_begun = true;
        }
    }

    /// Appends the messages that end the data.
    pub(super) fn end(mut self, out: &mut BytesMut) {
        if self.options.form == CopyForm::Binary {
            put(out, b'd', |out| {
                self.put_header(out);
                out.put_i16(-1);
            });
        }
        put(out, b'c', |_| {});
    }

    /// Appends a row.
    pub(super) fn put_row(&mut self, out: &mut BytesMut, columns: &[Cells], row: usize, zone: Tz) {
        put(out, b'd', |out| match self.options.form {
            CopyForm::Binary => {
                self.put_header(out);
                put_count(out, columns.len());
                for cells in columns {
                    match cells.is_null(row) {
                        true => out.put_i32(-1),
                        false => put_value(out, |out| cells.binary(row, out)),
                    }
                }
            }
            _ => put_line(out, &self.options, columns, row, zone),
        });
    }
}

/// Appends a row as a line.
fn put_line(out: &mut BytesMut, options: &CopyOptions, columns: &[Cells], row: usize, zone: Tz) {
    let mut text = BytesMut::new();
    for (n, cells) in columns.iter().enumerate() {
        if n > 0 {
            out.put_u8(options.delimiter_byte());
        }
        if cells.is_null(row) {
            out.put_slice(options.null_text());
            continue;
        }
        text.clear();
        cells.text(row, zone, &mut text);
        // `\.` alone on a line would end the data for older clients.
        if columns.len() == 1 && options.form == CopyForm::Csv && &text[..] == b"\\." {
            put_quoted(out, options, &text);
            continue;
        }
        put_text(out, options, &text);
    }
    out.put_u8(b'\n');
}

/// Appends a text in the form of the options.
fn put_text(out: &mut BytesMut, options: &CopyOptions, text: &[u8]) {
    let delimiter = options.delimiter_byte();
    if options.form == CopyForm::Csv {
        let quote = options.quote_byte();
        let is_special = |b: &u8| *b == delimiter || *b == quote || matches!(b, b'\n' | b'\r');
        let needs =
            options.quotes_all || text == options.null_text() || text.iter().any(is_special);
        match needs {
            true => put_quoted(out, options, text),
            false => out.put_slice(text),
        }
        return;
    }
    for byte in text {
        let letter = match byte {
            b'\\' => b'\\',
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            byte if *byte == delimiter => *byte,
            byte => {
                out.put_u8(*byte);
                continue;
            }
        };
        out.put_slice(&[b'\\', letter]);
    }
}

fn put_quoted(out: &mut BytesMut, options: &CopyOptions, text: &[u8]) {
    let quote = options.quote_byte();
    let escape = single(&options.escape, quote);
    out.put_u8(quote);
    for byte in text {
        if *byte == quote || *byte == escape {
            out.put_u8(escape);
        }
        out.put_u8(*byte);
    }
    out.put_u8(quote);
}

#[cfg(test)]
mod tests;
