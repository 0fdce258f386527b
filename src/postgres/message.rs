//! Messages of the PostgreSQL protocol, version 3 (PostgreSQL's documentation, "Message Formats").
//!
//! Reading is total: any bytes are a message or [`Malformed`]. The crates that read these messages
//! panic on short ones, or take what follows a message for its end.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

type Parsed<T> = Result<T, Malformed>;

/// A message of a client after its login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Query(String),
    Parse {
        statement: String,
        sql: String,
        /// The types of the first parameters; 0 for one that is not declared.
        oids: Vec<u32>,
    },
    Bind(Bind),
    Describe(Subject),
    Execute {
        portal: String,
        /// Rows to return at most; `None` for all.
        rows: Option<usize>,
    },
    Close(Subject),
    Flush,
    Sync,
    Terminate,
    /// Data for a COPY that has ended or failed.
    Copy,
}

/// Values for the parameters of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    formats: Vec<Format>,
    pub(super) values: Vec<Option<Bytes>>,
    results: Vec<Format>,
}

/// A statement or a portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Statement(String),
    Portal(String),
}

/// The format of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Binary,
}

impl Format {
    /// Returns the number of the format.
    pub(super) fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// Formats of so many values: none for text, one for all, or one for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Formats(Vec<Format>);

impl Formats {
    /// Returns the formats of all values.
    ///
    /// # Errors
    /// If there is neither one for all nor one for each of them.
    fn of(formats: &[Format], values: usize) -> Parsed<Self> {
        Ok(Self(match formats {
            [] => vec![Format::Text; values],
            [one] => vec![*one; values],
            each if each.len() == values => each.to_vec(),
            _ => return Err(Malformed("the number of formats is not that of the values")),
        }))
    }

    /// Returns the format of every value.
    pub(super) fn each(&self) -> &[Format] {
        &self.0
    }
}

impl Bind {
    /// Returns the format of each value.
    ///
    /// # Errors
    /// If their number is wrong.
    pub(super) fn formats(&self) -> Parsed<Formats> {
        Formats::of(&self.formats, self.values.len())
    }

    /// Returns the format of each of so many columns.
    ///
    /// # Errors
    /// If their number is wrong.
    pub(super) fn results(&self, columns: usize) -> Parsed<Formats> {
        Formats::of(&self.results, columns)
    }
}

impl Message {
    /// Reads a message of a kind: its first byte.
    ///
    /// # Errors
    /// If the kind is unknown, or the body is not one of its kind.
    pub(super) fn read(kind: u8, body: Bytes) -> Parsed<Self> {
        let mut body = Body(body);
        let message = match kind {
            b'Q' => Self::Query(body.text()?),
            b'P' => Self::Parse {
                statement: body.text()?,
                sql: body.text()?,
                oids: body.list(Body::u32)?,
            },
            b'B' => Self::Bind(Bind {
                portal: body.text()?,
                statement: body.text()?,
                formats: body.list(Body::format)?,
                values: body.list(Body::value)?,
                results: body.list(Body::format)?,
            }),
            b'D' => Self::Describe(body.named()?),
            b'E' => Self::Execute {
                portal: body.text()?,
                rows: usize::try_from(body.i32()?).ok().filter(|rows| *rows > 0),
            },
            b'C' => Self::Close(body.named()?),
            b'H' => Self::Flush,
            b'S' => Self::Sync,
            b'X' => Self::Terminate,
            b'd' | b'c' | b'f' => return Ok(Self::Copy),
            _ => return Err(Malformed("the kind of the message is unknown")),
        };
        body.end()?;
        Ok(message)
    }
}

/// The unread rest of a message.
#[derive(Debug)]
pub(super) struct Body(pub(super) Bytes);

impl Body {
    /// Takes bytes.
    pub(super) fn take(&mut self, count: usize) -> Parsed<Bytes> {
        match count <= self.0.len() {
            true => Ok(self.0.split_to(count)),
            false => Err(Malformed("the message is too short")),
        }
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes.as_ref().try_into().expect("BUG: so many were taken"))
    }

    fn i16(&mut self) -> Parsed<i16> {
        self.array().map(i16::from_be_bytes)
    }

    /// Reads a signed number.
    pub(super) fn i32(&mut self) -> Parsed<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a number.
    pub(super) fn u32(&mut self) -> Parsed<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a number.
    pub(super) fn i64(&mut self) -> Parsed<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn format(&mut self) -> Parsed<Format> {
        match self.i16()? {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(Malformed("the format is neither text nor binary")),
        }
    }

    /// Reads text up to its NUL.
    pub(super) fn text(&mut self) -> Parsed<String> {
        let end = memchr::memchr(0, &self.0).ok_or(Malformed("a text has no end"))?;
        let text = self.take(end)?;
        self.take(1)?;
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Malformed("a text is not UTF-8")),
        }
    }

    fn value(&mut self) -> Parsed<Option<Bytes>> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed("a negative length"))?;
                self.take(length).map(Some)
            }
        }
    }

    fn named(&mut self) -> Parsed<Subject> {
        match self.array::<1>()? {
            [b'S'] => Ok(Subject::Statement(self.text()?)),
            [b'P'] => Ok(Subject::Portal(self.text()?)),
            _ => Err(Malformed("neither a statement nor a portal is named")),
        }
    }

    /// Reads a count and so many items. The list takes no more memory than the message.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let count = u16::from_be_bytes(self.array()?);
        let mut items = Vec::with_capacity(usize::from(count).min(self.0.len() / 2));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Checks that nothing follows.
    pub(super) fn end(&self) -> Parsed<()> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed("the message is too long")),
        }
    }
}

/// Appends a message whose body is written by `body`.
pub(super) fn put(out: &mut BytesMut, kind: u8, body: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    let at = out.len();
    out.put_i32(0);
    body(out);
    let length = i32::try_from(out.len() - at).expect("BUG: a message has less than 2 GiB");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends text and its NUL. A NUL in the text would end it: it becomes a space.
pub(super) fn put_text(out: &mut BytesMut, text: &str) {
    let from = out.len();
    out.put_slice(text.as_bytes());
    for byte in &mut out[from..] {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    out.put_u8(0);
}

/// Appends a length as a signed number of 16 bits.
///
/// # Panics
/// Beyond 32,767: a caller has checked the number of columns.
pub(super) fn put_count(out: &mut BytesMut, count: usize) {
    out.put_i16(i16::try_from(count).expect("BUG: an answer has at most 32,767 columns"));
}

#[cfg(test)]
mod tests;
