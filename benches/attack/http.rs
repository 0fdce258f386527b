//! HTTP/1.1 as a client speaks it: requests as bytes, and answers read whole.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::door::Connection;

/// The longest answer that a client here reads.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 16 << 10;

/// Returns the bytes of a request. `headers` are whole lines, each with its end.
pub(crate) fn request(line: &str, host: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = match line.starts_with("GET") {
        true => String::new(),
        false => format!("Content-Length: {}\r\n", body.len()),
    };
    let mut bytes =
        format!("{line} HTTP/1.1\r\nHost: {host}\r\n{headers}{length}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the header of a token.
pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The server closes the connection behind this answer.
    pub(crate) closes: bool,
}

/// Reads the answers of one connection, one after the other.
pub(crate) struct Answers {
    held: Vec<u8>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self { held: Vec::new() }
    }

    /// Reads the next final answer; `None` if the connection ended before its first byte.
    pub(crate) async fn next<R>(&mut self, from: &mut R) -> io::Result<Option<Answer>>
    where
        R: tokio::io::AsyncRead + Unpin,
    {
        loop {
            let Some(end) = self.head_end(from).await? else {
                return Ok(None);
            };
            let head = String::from_utf8_lossy(&self.held[..end]).to_ascii_lowercase();
            self.held.drain(..end + 4);
            let status = head.strip_prefix("http/1.").and_then(|h| h.get(2..5));
            let status: u16 = status.and_then(|s| s.parse().ok()).ok_or_else(invalid)?;
            if status < 200 {
                continue;
            }
            let header = |name: &str| {
                let mut lines = head.split("\r\n").skip(1).filter_map(|l| l.split_once(':'));
                lines.find_map(|(n, v)| (n == name).then(|| v.trim().to_owned()))
            };
            let mut closes = header("connection").is_some_and(|v| v == "close");
            let body = if header("transfer-encoding").is_some() {
                self.chunked(from).await?
            } else if let Some(length) = header("content-length") {
                let length = length.parse().map_err(|_| invalid())?;
                self.exactly(from, length).await?
            } else {
                closes = true;
                while self.more(from).await? > 0 {}
                std::mem::take(&mut self.held)
            };
            return Ok(Some(Answer {
                status,
                body,
                closes,
            }));
        }
    }

    async fn head_end<R>(&mut self, from: &mut R) -> io::Result<Option<usize>>
    where
        R: tokio::io::AsyncRead + Unpin,
    {
        loop {
            if let Some(end) = self.held.windows(4).position(|w| w == b"\r\n\r\n") {
                return Ok(Some(end));
            }
            if self.more(from).await? == 0 {
                return match self.held.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    async fn more<R>(&mut self, from: &mut R) -> io::Result<usize>
    where
        R: tokio::io::AsyncRead + Unpin,
    {
        if self.held.len() > ANSWER_BYTES_MAX {
            return Err(invalid());
        }
        self.held.reserve(READ_BYTES);
        from.read_buf(&mut self.held).await
    }

    async fn exactly<R>(&mut self, from: &mut R, length: usize) -> io::Result<Vec<u8>>
    where
        R: tokio::io::AsyncRead + Unpin,
    {
        while self.held.len() < length {
            if self.more(from).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.held.split_off(length);
        Ok(std::mem::replace(&mut self.held, rest))
    }

    async fn chunked<R>(&mut self, from: &mut R) -> io::Result<Vec<u8>>
    where
        R: tokio::io::AsyncRead + Unpin,
    {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = self.held.windows(2).position(|w| w == b"\r\n") {
                    break end;
                }
                if self.more(from).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            };
            let size = String::from_utf8_lossy(&self.held[..end]).into_owned();
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| invalid())?;
            self.held.drain(..end + 2);
            let mut chunk = self.exactly(from, size + 2).await?;
            chunk.truncate(size);
            if size == 0 {
                return Ok(body);
            }
            body.append(&mut chunk);
        }
    }
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an answer of HTTP/1.1")
}

/// Sends a request and reads its answer. The server may answer before it has read everything, so
/// that both happen at once; an answer counts although the rest of the request cannot be sent.
pub(crate) async fn exchange(
    connection: Connection,
    request: &[u8],
) -> io::Result<(Option<Answer>, Connection)> {
    let (mut from, mut into) = tokio::io::split(connection);
    let mut answers = Answers::new();
    let send = async {
        let sent = into.write_all(request).await;
        if sent.is_ok() {
            let _ignored = into.flush().await;
        }
        sent
    };
    let (sent, answer) = {
        let mut answer = std::pin::pin!(answers.next(&mut from));
        let mut send = std::pin::pin!(send);
        tokio::select! {
            answer = answer.as_mut() => (Ok(()), answer),
            sent = send.as_mut() => (sent, answer.await),
        }
    };
    let connection = from.unsplit(into);
    match (answer, sent) {
        (Ok(answer), _) => Ok((answer, connection)),
        (Err(error), _) => Err(error),
    }
}
