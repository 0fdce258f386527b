//! One statement over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Limit of one statement: an answer that takes longer has no end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a statement and reads the whole answer; returns its status and, of an error, the setting
/// or the code that it names.
pub(crate) fn ask(address: &str, sql: &str) -> String {
    match answer(address, sql) {
        Ok(answer) => told(&answer),
        Err(error) => format!("no answer: {error}"),
    }
}

fn answer(address: &str, sql: &str) -> std::io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "POST /api/v1/sql HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        sql.len()
    );
    socket.write_all(head.as_bytes())?;
    // A text that is too long is answered before it was read to its end.
    let sent = socket.write_all(sql.as_bytes());
    let mut answer = Vec::new();
    let read = socket.read_to_end(&mut answer);
    if answer.is_empty() {
        sent?;
        read?;
    }
    Ok(answer)
}

fn told(answer: &[u8]) -> String {
    let head = String::from_utf8_lossy(&answer[..answer.len().min(2000)]);
    let Some(status) = head.split(' ').nth(1) else {
        return "no answer: cut off".to_owned();
    };
    let name = |start: &str| {
        let (_, rest) = head.split_once(start)?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        Some(rest[..end.unwrap_or(rest.len())].to_owned())
    };
    let why = match status {
        "200" => Some("answered".to_owned()),
        _ => name("(query.").or_else(|| name("\"code\":\"")),
    };
    format!("{status} {}", why.unwrap_or_default())
}
