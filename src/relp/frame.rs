//! Frames of RELP.
//!
//! ```text
//! TXNR SP COMMAND SP DATALEN [SP DATA] LF
//! 2 syslog 29 <13>Nov  3 09:23:38 web1 a: b LF
//! ```
//!
//! `TXNR` and `DATALEN` have 1 to 9 digits, `COMMAND` 1 to 32 letters. `DATA` and the space before
//! it are absent when there is none.
//!
//! # Invariants
//! * A frame without its end takes at most [`KEPT_BYTES_MAX`] bytes of memory.
//! * The same bytes give the same frames, however they are cut into pieces.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use std::fmt::Write as _;

/// Bytes that are kept of the data of a frame: one more than a message may have, so that a longer
/// one is recognised and quarantined.
pub(crate) const KEPT_BYTES_MAX: usize = (64 << 10) + 1;
const DIGITS_MAX: usize = 9;
const COMMAND_BYTES_MAX: usize = 32;

/// A frame of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The number of the frame, by which it is answered.
    pub(crate) number: u32,
    pub(crate) command: &'a str,
    /// The data, or their beginning.
    pub(crate) data: &'a [u8],
}

/// The bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoFrame;

/// Cuts the bytes of a connection into frames.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    state: FrameState,
    number: u32,
    command: String,
    data: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameState {
    Number { digits: usize },
    Command,
    Length { value: usize, digits: usize },
    Data { left: usize },
    End,
}

impl Default for FrameState {
    fn default() -> Self {
        Self::Number { digits: 0 }
    }
}

impl Decoder {
    /// Takes the next bytes of a connection, and hands over each frame that ends in them.
    ///
    /// # Errors
    /// If the bytes are no frame: the connection cannot be read further.
    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        push: &mut impl FnMut(&Frame<'_>),
    ) -> Result<(), NoFrame> {
        while let Some(&byte) = bytes.first() {
            if let FrameState::Data { left } = self.state {
                let (piece, rest) = bytes.split_at(bytes.len().min(left));
                bytes = rest;
                let room = KEPT_BYTES_MAX - self.data.len();
                self.data.extend_from_slice(&piece[..piece.len().min(room)]);
                self.state = match left - piece.len() {
                    0 => FrameState::End,
                    left => FrameState::Data { left },
                };
                continue;
            }
            bytes = &bytes[1..];
            self.state = self.next(byte)?;
            if self.state == FrameState::default() {
                push(&Frame {
                    number: self.number,
                    command: &self.command,
                    data: &self.data,
                });
                self.number = 0;
                self.command.clear();
                self.data.clear();
            }
        }
        Ok(())
    }

    /// Returns the state behind a byte that is none of the data.
    fn next(&mut self, byte: u8) -> Result<FrameState, NoFrame> {
        Ok(match (self.state, byte) {
            (FrameState::Number { digits }, b'0'..=b'9') if digits < DIGITS_MAX => {
                self.number = self.number * 10 + u32::from(byte - b'0');
                FrameState::Number { digits: digits + 1 }
            }
            (FrameState::Number { digits: 1.. }, b' ') => FrameState::Command,
            (FrameState::Command, b'a'..=b'z' | b'A'..=b'Z')
                if self.command.len() < COMMAND_BYTES_MAX =>
            {
                self.command.push(char::from(byte));
                FrameState::Command
            }
            (FrameState::Command, b' ') if !self.command.is_empty() => FrameState::Length {
                value: 0,
                digits: 0,
            },
            (FrameState::Length { value, digits }, b'0'..=b'9') if digits < DIGITS_MAX => {
                FrameState::Length {
                    value: value * 10 + usize::from(byte - b'0'),
                    digits: digits + 1,
                }
            }
            (
                FrameState::Length {
                    value: 0,
                    digits: 1..,
                }
                | FrameState::End,
                b'\n',
            ) => FrameState::default(),
            (
                FrameState::Length {
                    value: left @ 1..,
                    digits: 1..,
                },
                b' ',
            ) => FrameState::Data { left },
            _ => return Err(NoFrame),
        })
    }

    /// Returns whether a frame has begun and not ended.
    pub(crate) fn is_within_a_frame(&self) -> bool {
        self.state != FrameState::default()
    }
}

/// Appends a frame without limits on its data: an answer, or the server's own.
pub(crate) fn put(out: &mut String, number: u32, command: &str, data: &str) {
    // Writing to a string does not fail.
    let _ignored = match data {
        "" => writeln!(out, "{number} {command} 0"),
        data => writeln!(out, "{number} {command} {} {data}", data.len()),
    };
}

#[cfg(test)]
mod tests;
