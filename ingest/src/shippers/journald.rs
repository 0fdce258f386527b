//! Entries of systemd's journal in its export format, which `systemd-journal-upload` sends
//! (systemd.io/JOURNAL_EXPORT_FORMATS).
//!
//! ```text
//! MESSAGE=text LF                      a field
//! MESSAGE LF, length as u64 LE, value LF   a field of any bytes
//! LF                                   the end of an entry
//! ```
//!
//! An entry becomes the object that `journalctl --output=json --all` prints: fields keep their
//! names, a value that is no UTF-8 is an array of its bytes, and a name that comes several times
//! has an array of its values.
//!
//! # Invariants
//! * The same bytes give the same entries, however they are cut into pieces.
//! * An entry without its end takes at most [`JOURNAL_ENTRY_BYTES_MAX`] bytes of memory, and one.

use std::fmt;

use serde_json::{Map, Value};

use super::object::write;

/// Bytes that are kept of an entry. A longer one is quarantined, with its first bytes.
pub const JOURNAL_ENTRY_BYTES_MAX: usize = 16 << 20;
/// The field by which a journal knows an entry.
const CURSOR: &str = "__CURSOR";

/// Bytes that are no export of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidExport {
    /// A field of any bytes does not end where its length says.
    Length,
    /// The bytes end within an entry.
    Unfinished,
}

impl fmt::Display for InvalidExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "a binary field does not end where its length says",
            Self::Unfinished => "it ends within an entry",
        })
    }
}

/// An entry as an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// The object as JSON, or the beginning of an entry that is too long.
    pub json: Vec<u8>,
    /// The journal's own name of the entry, if it has one.
    pub cursor: Option<String>,
}

/// Cuts the bytes of an export into entries.
#[derive(Debug, Default)]
pub struct ExportDecoder {
    state: ExportState,
    /// The beginning of the entry so far: all of it, if it is not too long.
    entry: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExportState {
    /// In a line with so many bytes so far.
    Line { len: u64, has_value: bool },
    /// In the length of a value.
    Size { bytes: [u8; 8], read: usize },
    /// In a value with so many bytes to come, and its LF behind them.
    Value { left: u64 },
}

impl ExportState {
    const LINE: Self = Self::Line {
        len: 0,
        has_value: false,
    };
}

impl Default for ExportState {
    fn default() -> Self {
        Self::LINE
    }
}

impl ExportDecoder {
    /// Takes the next bytes, and hands over each entry that ends in them.
    ///
    /// # Errors
    /// [`InvalidExport::Length`]; the bytes cannot be read further.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        push: &mut impl FnMut(JournalEntry),
    ) -> Result<(), InvalidExport> {
        while let Some(&first) = bytes.first() {
            let read = match &mut self.state {
                ExportState::Line { len, has_value } => {
                    let end = memchr::memchr(b'\n', bytes);
                    let part = &bytes[..end.unwrap_or(bytes.len())];
                    *len += part.len() as u64;
                    *has_value |= memchr::memchr(b'=', part).is_some();
                    let read = part.len() + usize::from(end.is_some());
                    match (end, *len, *has_value) {
                        (None, ..) => {}
                        (Some(_), 0, _) => {
                            bytes = &bytes[read..];
                            self.end_entry(push);
                            continue;
                        }
                        (Some(_), _, true) => self.state = ExportState::LINE,
                        (Some(_), _, false) => {
                            self.state = ExportState::Size {
                                bytes: [0; 8],
                                read: 0,
                            };
                        }
                    }
                    read
                }
                ExportState::Size { bytes: size, read } => {
                    size[*read] = first;
                    *read += 1;
                    if *read == size.len() {
                        let left = u64::from_le_bytes(*size);
                        self.state = ExportState::Value { left };
                    }
                    1
                }
                ExportState::Value { left: 0 } if first != b'\n' => {
                    return Err(InvalidExport::Length);
                }
                ExportState::Value { left: 0 } => {
                    self.state = ExportState::LINE;
                    1
                }
                ExportState::Value { left } => {
                    let read =
                        usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    *left -= read as u64;
                    read
                }
            };
            let room = (JOURNAL_ENTRY_BYTES_MAX + 1).saturating_sub(self.entry.len());
            self.entry.extend_from_slice(&bytes[..read.min(room)]);
            bytes = &bytes[read..];
        }
        Ok(())
    }

    /// Returns the bytes that are held of an entry whose end has not come.
    pub fn held(&self) -> usize {
        self.entry.len()
    }

    /// Ends the export.
    ///
    /// # Errors
    /// [`InvalidExport::Unfinished`]: the last entry is not whole.
    pub fn finish(mut self, push: &mut impl FnMut(JournalEntry)) -> Result<(), InvalidExport> {
        // A file of exported entries may lack its last empty line.
        match self.state {
            ExportState::LINE => self.end_entry(push),
            _ => return Err(InvalidExport::Unfinished),
        }
        Ok(())
    }

    fn end_entry(&mut self, push: &mut impl FnMut(JournalEntry)) {
        let entry = std::mem::take(&mut self.entry);
        if entry.is_empty() {
            return;
        }
        push(match entry.len() > JOURNAL_ENTRY_BYTES_MAX {
            true => JournalEntry {
                json: entry,
                cursor: None,
            },
            false => object_of(&entry),
        });
    }
}

/// Returns a whole entry as an object.
fn object_of(mut entry: &[u8]) -> JournalEntry {
    let mut fields = Map::new();
    while let Some((name, value, rest)) = next_field(entry) {
        entry = rest;
        add(&mut fields, &String::from_utf8_lossy(name), value_of(value));
    }
    let cursor = fields.get(CURSOR).and_then(Value::as_str);
    let cursor = cursor.map(str::to_owned);
    let mut json = Vec::new();
    write(&mut json, &fields);
    JournalEntry { json, cursor }
}

/// Returns the name and the value of the first field, and the bytes behind it.
fn next_field(entry: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let end = memchr::memchr(b'\n', entry)?;
    let (line, rest) = (&entry[..end], &entry[end + 1..]);
    if let Some(equals) = memchr::memchr(b'=', line) {
        return Some((&line[..equals], &line[equals + 1..], rest));
    }
    let (size, rest) = rest.split_first_chunk()?;
    let size = usize::try_from(u64::from_le_bytes(*size)).ok()?;
    let value = rest.get(..size)?;
    Some((line, value, rest.get(size + 1..)?))
}

fn value_of(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.to_vec().into(),
    }
}

fn add(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let Some(present) = fields.get_mut(name) else {
        fields.insert(name.to_owned(), value);
        return;
    };
    match present {
        // A value of bytes is an array of numbers, one of several values never is.
        Value::Array(values) if !values.iter().all(Value::is_number) => values.push(value),
        single => {
            let first = std::mem::take(single);
            *single = Value::Array(vec![first, value]);
        }
    }
}

#[cfg(test)]
mod tests;
