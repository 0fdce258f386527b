//! The framings of syslog over TCP (RFC 6587, section 3.4): octet counting, and LF behind each
//! message.
//!
//! ```text
//! 29 <13>Nov  3 09:23:38 web1 a: b      MSG-LEN SP SYSLOG-MSG, and the next one at once
//! <13>Nov  3 09:23:38 web1 a: b LF
//! ```
//!
//! # Invariants
//! * The first byte of a connection decides for one of them: octet counting begins with a digit
//!   from 1 to 9, and no message does.
//! * A message without its end takes at most [`KEPT_BYTES_MAX`] bytes of memory.
//! * The same bytes give the same messages, however they are cut into pieces.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use std::fmt;

/// Bytes that are kept of a message: one more than a message may have, so that a longer one is
/// recognised and quarantined.
pub(crate) const KEPT_BYTES_MAX: usize = (64 << 10) + 1;
/// Digits of the length of a message.
const DIGITS_MAX: usize = 9;

/// Bytes that are no syslog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// A length that is no number from 1 to 999,999,999 and a space.
    Length,
    /// A request of HTTP.
    Http,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => {
                "it begins with octet counting, and a length of 1 to 9 digits and a space does not follow (RFC 6587, section 3.4.1)"
            }
            Self::Http => "it carries a request of HTTP",
        })
    }
}

/// Cuts the bytes of a connection into messages.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    state: FramingState,
    /// The beginning of a message whose end has not come.
    part: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum FramingState {
    /// Nothing has come.
    #[default]
    Begin,
    /// LF behind each message; the first one is checked.
    Lines { is_first: bool },
    /// The length of a message, so far.
    Length { value: usize, digits: usize },
    /// A message of which so many bytes are still to come.
    Counted { left: usize },
}

impl FramingState {
    /// The state between two messages in octet counting.
    const NEXT: Self = Self::Length {
        value: 0,
        digits: 0,
    };
}

impl Decoder {
    /// Takes the next bytes of a connection, and hands over each message that ends in them. The
    /// messages before an error are handed over too.
    ///
    /// # Errors
    /// If the bytes are no syslog: the connection cannot be read further.
    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        push: &mut impl FnMut(&[u8]),
    ) -> Result<(), Malformed> {
        while let Some(&first) = bytes.first() {
            match &mut self.state {
                FramingState::Begin => {
                    self.state = match first {
                        b'1'..=b'9' => FramingState::NEXT,
                        _ => FramingState::Lines { is_first: true },
                    };
                }
                FramingState::Lines { is_first } => {
                    let Some(end) = memchr::memchr(b'\n', bytes) else {
                        keep(&mut self.part, bytes);
                        return Ok(());
                    };
                    let is_first = std::mem::take(is_first);
                    let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
                    bytes = rest;
                    match self.part.is_empty() {
                        true => push_line(line, is_first, push)?,
                        false => {
                            keep(&mut self.part, line);
                            let outcome = push_line(&self.part, is_first, push);
                            self.part.clear();
                            outcome?;
                        }
                    }
                }
                FramingState::Length { value, digits } => {
                    bytes = &bytes[1..];
                    match first {
                        b'0'..=b'9' if *digits < DIGITS_MAX && (first, *digits) != (b'0', 0) => {
                            *value = *value * 10 + usize::from(first - b'0');
                            *digits += 1;
                        }
                        b' ' if *digits > 0 => self.state = FramingState::Counted { left: *value },
                        // Some senders end counted messages by LF, too.
                        b'\n' if *digits == 0 => {}
                        _ => return Err(Malformed::Length),
                    }
                }
                FramingState::Counted { left } => {
                    let (piece, rest) = bytes.split_at(bytes.len().min(*left));
                    bytes = rest;
                    *left -= piece.len();
                    let is_whole = *left == 0;
                    keep(&mut self.part, piece);
                    if is_whole {
                        self.state = FramingState::NEXT;
                        push_counted(&self.part, push);
                        self.part.clear();
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether a message has begun and not ended.
    pub(crate) fn is_within_a_message(&self) -> bool {
        match self.state {
            FramingState::Begin => false,
            FramingState::Lines { .. } => !self.part.is_empty(),
            FramingState::Length { digits, .. } => digits > 0,
            FramingState::Counted { .. } => true,
        }
    }

    /// Ends the connection: hands over the beginning of a message whose end will not come.
    pub(crate) fn finish(&mut self, push: &mut impl FnMut(&[u8])) {
        let part = std::mem::take(&mut self.part);
        match self.state {
            // A first line that is a request of HTTP was none of ours.
            FramingState::Lines { is_first } => {
                let _refused = push_line(&part, is_first, push);
            }
            _ => push_counted(&part, push),
        }
    }
}

/// Keeps the bytes of a message, as many of them as a message has.
fn keep(part: &mut Vec<u8>, bytes: &[u8]) {
    let room = KEPT_BYTES_MAX.saturating_sub(part.len());
    part.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// Hands over a line without its CR, unless it is empty.
fn push_line(line: &[u8], is_first: bool, push: &mut impl FnMut(&[u8])) -> Result<(), Malformed> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if is_first && is_request(line) {
        return Err(Malformed::Http);
    }
    push_counted(line, push);
    Ok(())
}

/// Hands over a message without the LF that some senders count in, unless it is empty.
fn push_counted(message: &[u8], push: &mut impl FnMut(&[u8])) {
    let message = message.strip_suffix(b"\n").unwrap_or(message);
    if !message.is_empty() {
        push(&message[..message.len().min(KEPT_BYTES_MAX)]);
    }
}

/// Returns whether a line is a request line of HTTP/1 (RFC 9112, section 3), or may be one of which
/// the end was not kept.
fn is_request(line: &[u8]) -> bool {
    let is_upper = |b: &&u8| b.is_ascii_uppercase();
    let method = line.iter().take_while(is_upper).count();
    let version = line.len().checked_sub(" HTTP/1.1".len());
    let has_version = version.is_some_and(|at| line[at..].starts_with(b" HTTP/1."));
    // A CR may have been the last byte that was kept.
    let is_cut = line.len() + 1 >= KEPT_BYTES_MAX;
    method > 0 && line.get(method) == Some(&b' ') && (has_version || is_cut)
}

#[cfg(test)]
mod tests;
