//! Messages of Fluent's forward protocol ("Forward Protocol Specification v1" of Fluentd's wiki).
//!
//! ```text
//! [tag, time, record, option]                     Message
//! [tag, [[time, record], …], option]              Forward
//! [tag, bytes of [time, record] …, option]        PackedForward
//! [tag, gzip of these bytes, option]              CompressedPackedForward: "compressed": "gzip"
//! ```
//!
//! The option is a map and may be absent. Its `chunk` asks for an acknowledgement,
//! `{"ack": chunk}`. A time is a number of seconds or an `EventTime`, the extension 0: seconds and
//! nanoseconds of 32 bits each.
//!
//! # Invariants
//! * Each entry becomes one record: a line of JSON, or its own bytes if it is no pair of a time and
//!   a map. Those are quarantined when they are parsed.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod json;

use super::msgpack::{MsgToken, Tokens, Unreadable};

/// Maximum bytes of an acknowledged chunk's name: 16 bytes in base64, as clients make it, and some.
const CHUNK_BYTES_MAX: usize = 200;
const TAG_BYTES_MAX: usize = 1024;

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) tag: &'a str,
    pub(crate) entries: Entries<'a>,
    /// The name by which the client wants it acknowledged.
    pub(crate) chunk: Option<&'a str>,
}

/// The entries of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entries<'a> {
    /// Arrays of a time and a record, one behind the other.
    Packed(&'a [u8]),
    /// The same in gzip.
    Compressed(&'a [u8]),
    /// A time and a record.
    Single(&'a [u8]),
}

/// Reads a whole message; `None` for nil, which some clients send as a sign of life.
///
/// # Errors
/// If it is none: the client speaks something else.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<Message<'_>>, Unreadable> {
    let mut tokens = Tokens::new(bytes);
    let length = match tokens.next()? {
        MsgToken::Nil => return Ok(None),
        MsgToken::Array(length @ 2..=4) => length,
        _ => return Err(Unreadable::Malformed),
    };
    let tag = match tokens.next()? {
        MsgToken::Text(tag) if tag.len() <= TAG_BYTES_MAX => std::str::from_utf8(tag),
        _ => return Err(Unreadable::Malformed),
    };
    let tag = tag.map_err(|_| Unreadable::Malformed)?;
    let mut behind = tokens;
    let (mut entries, option_at) = match behind.next()? {
        MsgToken::Array(count) => {
            let mut all = 0;
            let begin = behind;
            for _ in 0..count {
                all += behind.skip()?.len();
            }
            tokens = behind;
            (Entries::Packed(begin.first(all)), 2)
        }
        MsgToken::Bytes(packed) | MsgToken::Text(packed) => {
            tokens = behind;
            (Entries::Packed(packed), 2)
        }
        _ => {
            let begin = tokens;
            let all = tokens.skip()?.len() + tokens.skip()?.len();
            (Entries::Single(begin.first(all)), 3)
        }
    };
    let mut chunk = None;
    if length > option_at {
        let option = MessageOptions::read(&mut tokens)?;
        chunk = option.chunk;
        if let (true, Entries::Packed(packed)) = (option.is_compressed, &entries) {
            entries = Entries::Compressed(packed);
        }
    }
    match length <= option_at + 1 && tokens.is_empty() {
        true => Ok(Some(Message {
            tag,
            entries,
            chunk,
        })),
        false => Err(Unreadable::Malformed),
    }
}

#[derive(Debug, Default)]
struct MessageOptions<'a> {
    chunk: Option<&'a str>,
    is_compressed: bool,
}

impl<'a> MessageOptions<'a> {
    fn read(tokens: &mut Tokens<'a>) -> Result<Self, Unreadable> {
        let mut options = Self::default();
        let pairs = match tokens.next()? {
            MsgToken::Nil => 0,
            MsgToken::Map(pairs) => pairs,
            _ => return Err(Unreadable::Malformed),
        };
        for _ in 0..pairs {
            let name = Tokens::new(tokens.skip()?).next()?;
            let value = Tokens::new(tokens.skip()?).next()?;
            match (name, value) {
                (MsgToken::Text(b"chunk"), MsgToken::Text(chunk) | MsgToken::Bytes(chunk)) => {
                    let chunk = std::str::from_utf8(chunk).ok();
                    let chunk = chunk.filter(|c| c.len() <= CHUNK_BYTES_MAX);
                    options.chunk = Some(chunk.ok_or(Unreadable::Malformed)?);
                }
                (MsgToken::Text(b"compressed"), MsgToken::Text(b"gzip")) => {
                    options.is_compressed = true
                }
                // Others say what the entries show: `size`, `fluent_signal`.
                _ => {}
            }
        }
        Ok(options)
    }
}

/// Hands over the records of entries that lie one behind the other, until `push` returns false. A
/// rest that is no value is one record.
pub(crate) fn push_packed(tag: &str, entries: &[u8], push: &mut impl FnMut(&[u8]) -> bool) {
    let mut tokens = Tokens::new(entries);
    let mut line = String::new();
    while !tokens.is_empty() {
        let rest = tokens;
        let goes_on = match tokens.skip() {
            Ok(entry) => {
                let mut inside = Tokens::new(entry);
                let is_pair = matches!(inside.next(), Ok(MsgToken::Array(2)));
                push_pair(tag, is_pair.then_some(inside), entry, &mut line, push)
            }
            Err(_) => {
                push(rest.first(usize::MAX));
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Hands over the record of a time and a map.
pub(crate) fn push_single(tag: &str, pair: &[u8], push: &mut impl FnMut(&[u8]) -> bool) {
    let mut line = String::new();
    push_pair(tag, Some(Tokens::new(pair)), pair, &mut line, push);
}

fn push_pair(
    tag: &str,
    pair: Option<Tokens<'_>>,
    bytes: &[u8],
    line: &mut String,
    push: &mut impl FnMut(&[u8]) -> bool,
) -> bool {
    line.clear();
    match pair.map(|pair| json::put_event(line, tag, pair)) {
        Some(Ok(())) => push(line.as_bytes()),
        Some(Err(_)) | None => push(bytes),
    }
}

#[cfg(test)]
mod tests;
