//! CSV and TSV: fields between commas or tabs, by the names in the first line.
//!
//! CSV is that of RFC 4180 but for one rule: a record is a line, as everywhere in this crate, so a
//! value with a line end in it is quarantined (`open_quote`). TSV has no quotes, as its media
//! type of IANA. A value is a number, a truth value or a text by the rules of
//! logfmt; an empty one is null.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::super::logfmt::typed;
use super::{distinct, field_count, no_header};
use crate::bad::Bad;
use crate::documents::{DocumentRow, Value};
use crate::text::LineText;

const COMMA: u8 = b',';

/// The names of the fields, in their order.
#[derive(Debug)]
pub(super) struct HeaderNames {
    names: Vec<String>,
}

impl HeaderNames {
    /// Reads a header; an empty one has no columns.
    pub(super) fn of_header(text: &str, delimiter: u8) -> Result<Self, String> {
        let mut cutter = Cutter::new(delimiter);
        let names = match text {
            "" => Vec::new(),
            _ => {
                let values = cutter.cut(text).map_err(|bad| bad.expected.into_owned())?;
                values.enumerate().map(name).collect()
            }
        };
        match names.iter().any(|name| name.contains('\0')) {
            true => Err("a field name holds a NUL character".to_owned()),
            false => Ok(Self {
                names: distinct(names.into_iter()),
            }),
        }
    }

    pub(super) fn read(
        &self,
        line: LineText<'_>,
        row: &mut DocumentRow,
        cutter: &mut Cutter,
    ) -> Result<(), Bad> {
        if self.names.is_empty() {
            return Err(no_header());
        }
        // Bytes that are no UTF-8 are the characters that the columns have for them.
        let line = line.text();
        let values = cutter.cut(&line)?;
        if values.len() != self.names.len() {
            return Err(field_count(values.len(), self.names.len()));
        }
        for (name, value) in self.names.iter().zip(values) {
            let value = match value {
                "" => continue,
                text => typed(text).unwrap_or_else(|| Value::Text(row.store(text))),
            };
            let mark = row.mark();
            row.enter(name, false)?;
            row.push(value)?;
            row.return_to(mark);
        }
        Ok(())
    }
}

/// Returns the name of a field; one without a name is called by its place.
fn name((place, text): (usize, &str)) -> String {
    match text.trim() {
        "" => format!("column_{}", place + 1),
        name => name.to_owned(),
    }
}

/// Cuts lines into values, in buffers that serve line after line.
#[derive(Debug)]
pub(super) struct Cutter {
    delimiter: u8,
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Cutter {
    pub(super) fn new(delimiter: u8) -> Self {
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .quoting(delimiter == COMMA)
            // A CR within a line is part of a value.
            .terminator(Terminator::Any(b'\n'))
            .build();
        Self {
            delimiter,
            reader,
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn cut(&mut self, line: &str) -> Result<impl ExactSizeIterator<Item = &str>, Bad> {
        let fields = 1 + memchr::memchr_iter(self.delimiter, line.as_bytes()).count();
        // No output is longer than its input, and every field behind the first has a delimiter; the
        // reader stops where it has no space left.
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(fields + 1, 0);
        self.reader.reset();
        let (first, read, bytes, begun) =
            self.reader
                .read_record(line.as_bytes(), &mut self.text, &mut self.ends);
        let is_one = first == ReadRecordResult::InputEmpty && read == line.len();
        let (last, _, more, ended) =
            self.reader
                .read_record(b"\n", &mut self.text[bytes..], &mut self.ends[begun..]);
        if !is_one || last != ReadRecordResult::Record {
            let message = "a quote is open at the end of the line; a record is one line here";
            return Err(Bad::because("open_quote", line.len(), message));
        }
        let text = std::str::from_utf8(&self.text[..bytes + more]);
        let text = text.expect("BUG: quotes and delimiters are ASCII");
        let mut begin = 0;
        Ok(self.ends[..begun + ended].iter().map(move |end| {
            let value = &text[begin..*end];
            begin = *end;
            value
        }))
    }
}

#[cfg(test)]
mod tests;
