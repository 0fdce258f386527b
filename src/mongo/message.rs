//! Messages of MongoDB's wire protocol ("MongoDB Wire Protocol" and "OP_MSG" in its documentation).
//!
//! ```text
//! length i32, request id i32, response to i32, opcode i32         header, little-endian
//! flags u32, sections, [CRC-32C u32]                              OP_MSG
//!   0, document                                                   its command
//!   1, length i32, name cstring, documents                        a sequence of documents
//! flags i32, collection cstring, skip i32, count i32, document    OP_QUERY, for the handshake
//! ```
//!
//! # Invariants
//! * No bytes make a reader panic, recurse or take memory beyond the message itself.
//! * Each document of a message lies within it, and has the length that it announces.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use std::ops::Range;

use bson::RawDocument;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 16;
/// Maximum bytes of a message, as MongoDB has it.
pub(super) const BYTES_MAX: usize = 48_000_000;
/// Maximum bytes of a document, as MongoDB has it.
pub(super) const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of a message beside those of the documents that it brings.
pub(super) const COMMAND_BYTES_MAX: usize = 16 << 10;
/// Maximum sequences of a message: no command has more than two.
const SEQUENCES_MAX: usize = 8;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
/// Flags that a server must know; it may ignore the others.
const REQUIRED: u32 = 0xffff;
/// The server knows `awaitData`, of every answer to OP_QUERY.
const AWAIT_CAPABLE: i32 = 8;

/// Bytes that are no message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedMessage(pub(super) &'static str);

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the message with its header.
    pub(super) length: usize,
    pub(super) request_id: i32,
    opcode: i32,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// If the length is less than the header's own.
    pub(super) fn read(mut bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let length = usize::try_from(bytes.get_i32_le()).unwrap_or_default();
        let request_id = bytes.get_i32_le();
        let _response_to = bytes.get_i32_le();
        let opcode = bytes.get_i32_le();
        match length >= HEADER_BYTES {
            true => Ok(Self {
                length,
                request_id,
                opcode,
            }),
            false => Err(MalformedMessage("a message has at least its header")),
        }
    }
}

/// A message that is one command.
#[derive(Debug, Clone)]
pub(super) struct MongoMessage {
    bytes: Bytes,
    command: Range<usize>,
    sequences: Vec<Sequence>,
    pub(super) request_id: i32,
    pub(super) form: MessageForm,
}

/// The form of a message, and of the answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageForm {
    /// OP_MSG.
    Answered,
    /// OP_MSG whose client does not read an answer.
    Unanswered,
    /// OP_QUERY.
    Legacy,
}

/// Documents that lie behind the command.
#[derive(Debug, Clone)]
struct Sequence {
    name: Range<usize>,
    documents: Vec<Range<usize>>,
}

impl MongoMessage {
    /// Reads a whole message with its header.
    ///
    /// # Errors
    /// If it is none of a client, or its checksum is wrong.
    pub(super) fn read(header: Header, bytes: Bytes) -> Result<Self, MalformedMessage> {
        match header.opcode {
            OP_MSG => Self::read_msg(header, bytes),
            OP_QUERY => Self::read_query(header, bytes),
            OP_COMPRESSED => Err(MalformedMessage("no compressor was agreed on")),
            _ => Err(MalformedMessage(
                "the opcode is neither OP_MSG nor OP_QUERY",
            )),
        }
    }

    fn read_msg(header: Header, bytes: Bytes) -> Result<Self, MalformedMessage> {
        let mut reader = MessageReader {
            bytes: &bytes,
            at: HEADER_BYTES,
            end: bytes.len(),
        };
        let flags = reader.u32()?;
        if flags & REQUIRED & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
            return Err(MalformedMessage("an unknown flag is set"));
        }
        if flags & CHECKSUM_PRESENT != 0 {
            let end = reader.end.checked_sub(4).filter(|end| *end >= reader.at);
            let end = end.ok_or(MalformedMessage("a message ends within its checksum"))?;
            let mut checksum = &bytes[end..];
            if checksum.get_u32_le() != crc32c::crc32c(&bytes[..end]) {
                return Err(MalformedMessage("the checksum is not that of the message"));
            }
            reader.end = end;
        }
        let (mut command, mut sequences) = (None, Vec::new());
        while reader.at < reader.end {
            match reader.u8()? {
                0 if command.is_none() => command = Some(reader.document()?),
                0 => return Err(MalformedMessage("a message has two commands")),
                1 if sequences.len() < SEQUENCES_MAX => sequences.push(reader.sequence()?),
                1 => return Err(MalformedMessage("a message has too many sequences")),
                _ => return Err(MalformedMessage("a section has an unknown kind")),
            }
        }
        Ok(Self {
            command: command.ok_or(MalformedMessage("a message has no command"))?,
            bytes,
            sequences,
            request_id: header.request_id,
            form: match flags & MORE_TO_COME {
                0 => MessageForm::Answered,
                _ => MessageForm::Unanswered,
            },
        })
    }

    fn read_query(header: Header, bytes: Bytes) -> Result<Self, MalformedMessage> {
        let mut reader = MessageReader {
            bytes: &bytes,
            at: HEADER_BYTES,
            end: bytes.len(),
        };
        let _flags = reader.u32()?;
        let collection = reader.name()?;
        if !bytes[collection].ends_with(b".$cmd") {
            return Err(MalformedMessage("OP_QUERY is taken for the handshake only"));
        }
        let _skip_and_count = (reader.u32()?, reader.u32()?);
        let command = reader.document()?;
        Ok(Self {
            command,
            bytes,
            sequences: Vec::new(),
            request_id: header.request_id,
            form: MessageForm::Legacy,
        })
    }

    /// Returns the command.
    pub(super) fn command(&self) -> &RawDocument {
        raw(&self.bytes[self.command.clone()])
    }

    /// Returns the name of the command; `None` if that cannot be read.
    pub(super) fn name(&self) -> Option<&str> {
        let first = self.command().into_iter().next()?;
        first.ok().map(|(name, _)| name.as_str())
    }

    /// Returns whether the client may send the command again under the same identity.
    pub(super) fn has_identity(&self) -> bool {
        matches!(self.command().get("txnNumber"), Ok(Some(_)))
    }

    /// Returns the documents of a sequence; `None` if the message has none of that name.
    pub(super) fn sequence(&self, name: &str) -> Option<impl Iterator<Item = &[u8]>> {
        let mut all = self.sequences.iter();
        let found = all.find(|sequence| self.bytes[sequence.name.clone()] == *name.as_bytes())?;
        let documents = found.documents.iter();
        Some(documents.map(|place| &self.bytes[place.clone()]))
    }

    /// Returns the bytes of the message.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }
}

fn raw(bytes: &[u8]) -> &RawDocument {
    RawDocument::from_bytes(bytes).expect("BUG: its length and its end were checked")
}

/// A place in a message.
struct MessageReader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl MessageReader<'_> {
    fn take(&mut self, length: usize) -> Result<Range<usize>, MalformedMessage> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.end);
        let end = end.ok_or(MalformedMessage("a message ends within a section"))?;
        Ok(std::mem::replace(&mut self.at, end)..end)
    }

    fn u8(&mut self) -> Result<u8, MalformedMessage> {
        let place = self.take(1)?;
        Ok(self.bytes[place.start])
    }

    fn u32(&mut self) -> Result<u32, MalformedMessage> {
        let place = self.take(4)?;
        Ok((&self.bytes[place]).get_u32_le())
    }

    /// Reads a text that ends at a zero, without it.
    fn name(&mut self) -> Result<Range<usize>, MalformedMessage> {
        let length = memchr::memchr(0, &self.bytes[self.at..self.end]);
        let length = length.ok_or(MalformedMessage("a name has no end"))?;
        let place = self.take(length)?;
        self.take(1)?;
        Ok(place)
    }

    fn document(&mut self) -> Result<Range<usize>, MalformedMessage> {
        let begin = self.at;
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        self.at = begin;
        let place = self.take(length)?;
        match RawDocument::from_bytes(&self.bytes[place.clone()]) {
            Ok(_) => Ok(place),
            Err(_) => Err(MalformedMessage("a document has no end")),
        }
    }

    fn sequence(&mut self) -> Result<Sequence, MalformedMessage> {
        let begin = self.at;
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        // The length counts its own bytes.
        let end = begin.checked_add(length);
        let end = end.filter(|end| (self.at..=self.end).contains(end));
        let end = end.ok_or(MalformedMessage("a sequence has no such length"))?;
        let mut inside = MessageReader {
            bytes: self.bytes,
            at: self.at,
            end,
        };
        let name = inside.name()?;
        let mut documents = Vec::new();
        while inside.at < inside.end {
            documents.push(inside.document()?);
        }
        self.at = end;
        Ok(Sequence { name, documents })
    }
}

/// Appends the answer to a message.
pub(super) fn put_answer(
    out: &mut BytesMut,
    (form, request_id): (MessageForm, i32),
    answer_id: i32,
    answer: &RawDocument,
) {
    let begin = out.len();
    let opcode = match form {
        MessageForm::Legacy => OP_REPLY,
        MessageForm::Answered | MessageForm::Unanswered => OP_MSG,
    };
    out.put_i32_le(0);
    out.put_i32_le(answer_id);
    out.put_i32_le(request_id);
    out.put_i32_le(opcode);
    match form {
        MessageForm::Legacy => {
            out.put_i32_le(AWAIT_CAPABLE);
            // No cursor, from the first of one document.
            out.put_i64_le(0);
            out.put_i32_le(0);
            out.put_i32_le(1);
        }
        MessageForm::Answered | MessageForm::Unanswered => {
            out.put_u32_le(0);
            out.put_u8(0);
        }
    }
    out.extend_from_slice(answer.as_bytes());
    let length = i32::try_from(out.len() - begin).expect("BUG: answers have a bound");
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests;
