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
//! * An entry without its end takes at most [`JOURNAL_ENTRY_BYTES_MAX`] bytes of memory, and one;
//!   its object takes no more.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;

/// Bytes that are kept of an entry. A longer one is quarantined, with its first bytes.
pub const JOURNAL_ENTRY_BYTES_MAX: usize = 16 << 20;
/// Maximum fields of an entry, four times as many as a journal takes. One with more is quarantined.
const FIELDS_MAX: usize = 4096;
/// The field by which a journal knows an entry.
const CURSOR: &[u8] = b"__CURSOR";

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
    /// The object as JSON, or an entry that is too long as it came, or its beginning.
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
            false => object_of(entry),
        });
    }
}

/// Returns a whole entry as an object, or as it is if it is too long for one.
fn object_of(entry: Vec<u8>) -> JournalEntry {
    match fields_of(&entry).and_then(|fields| write_object(&fields)) {
        Some(object) => object,
        None => JournalEntry {
            json: entry,
            cursor: None,
        },
    }
}

/// The values of each field, in the order in which the fields first come.
type EntryFields<'a> = Vec<(&'a [u8], Vec<&'a [u8]>)>;

/// Returns the fields of an entry; `None` if it has too many.
fn fields_of(mut entry: &[u8]) -> Option<EntryFields<'_>> {
    let mut fields: EntryFields<'_> = Vec::new();
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    let mut count = 0;
    while let Some((name, value, rest)) = next_field(entry) {
        entry = rest;
        count += 1;
        if count > FIELDS_MAX {
            return None;
        }
        let place = *places.entry(name).or_insert(fields.len());
        match fields.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => fields.push((name, vec![value])),
        }
    }
    Some(fields)
}

/// Returns the object of fields; `None` if it is too long. Nothing longer than that is written.
fn write_object(fields: &EntryFields<'_>) -> Option<JournalEntry> {
    let mut out = Bounded(Vec::new());
    let mut cursor = None;
    for (nth, (name, values)) in fields.iter().enumerate() {
        out.write_all(if nth == 0 { b"{" } else { b"," }).ok()?;
        serde_json::to_writer(&mut out, &*String::from_utf8_lossy(name)).ok()?;
        out.write_all(b":").ok()?;
        match values.as_slice() {
            [value] => write_value(&mut out, value)?,
            several => {
                for (nth, value) in several.iter().enumerate() {
                    out.write_all(if nth == 0 { b"[" } else { b"," }).ok()?;
                    write_value(&mut out, value)?;
                }
                out.write_all(b"]").ok()?;
            }
        }
        if let ([value], CURSOR) = (values.as_slice(), *name) {
            cursor = std::str::from_utf8(value).ok().map(str::to_owned);
        }
    }
    out.write_all(if fields.is_empty() { b"{}" } else { b"}" })
        .ok()?;
    Some(JournalEntry {
        json: out.0,
        cursor,
    })
}

fn write_value(out: &mut Bounded, value: &[u8]) -> Option<()> {
    match std::str::from_utf8(value) {
        Ok(text) => serde_json::to_writer(out, text).ok(),
        Err(_) => {
            for (nth, byte) in value.iter().enumerate() {
                let before = if nth == 0 { '[' } else { ',' };
                write!(out, "{before}{byte}").ok()?;
            }
            out.write_all(b"]").ok()
        }
    }
}

/// Text of at most [`JOURNAL_ENTRY_BYTES_MAX`] bytes.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > JOURNAL_ENTRY_BYTES_MAX {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
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

#[cfg(test)]
mod tests;
