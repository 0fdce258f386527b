//! A client of WebSockets (RFC 6455), as small as its tests allow.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::support::{PATIENCE, Server};

/// The key and the accepted key of RFC 6455, 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPTED: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A connected WebSocket.
pub(crate) struct Socket(TcpStream);

/// A frame of the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Text(String),
    Ping,
    /// The code and the reason.
    Close(u16, String),
    /// The connection has ended.
    End,
}

impl Socket {
    /// Asks for a WebSocket; returns the answer of a server that refuses.
    pub(crate) fn connect(
        server: &Server,
        path: &str,
        headers: &[&str],
    ) -> Result<Self, (u16, String)> {
        let mut socket = TcpStream::connect(&server.address).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let more: String = headers
            .iter()
            .map(|header| format!("{header}\r\n"))
            .collect();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{more}\r\n",
            server.address
        );
        socket.write_all(request.as_bytes()).expect("sent");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("ASCII");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        if status == Some(101) {
            assert!(head.contains(ACCEPTED), "{head}");
            return Ok(Self(socket));
        }
        let length = head.to_lowercase();
        let length = length.split("content-length: ").nth(1).expect("a length");
        let length = length.split("\r\n").next().and_then(|n| n.parse().ok());
        let mut body = vec![0; length.expect("a number")];
        socket.read_exact(&mut body).expect("a body");
        Err((
            status.expect("a status"),
            String::from_utf8_lossy(&body).into_owned(),
        ))
    }

    /// Reads a frame; the server masks none and cuts none into pieces.
    pub(crate) fn frame(&mut self) -> Frame {
        let mut head = [0; 2];
        if self.0.read_exact(&mut head).is_err() {
            return Frame::End;
        }
        assert_eq!(
            (head[0] & 0xf0, head[1] & 0x80),
            (0x80, 0),
            "one unmasked frame"
        );
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.0.read_exact(&mut length).expect("a length");
                usize::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.0.read_exact(&mut length).expect("a length");
                usize::try_from(u64::from_be_bytes(length)).expect("a length")
            }
            length => usize::from(length),
        };
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).expect("a payload");
        match head[0] & 0xf {
            1 => Frame::Text(String::from_utf8(payload).expect("UTF-8")),
            8 => {
                let reason = String::from_utf8_lossy(&payload[2..]).into_owned();
                Frame::Close(u16::from_be_bytes([payload[0], payload[1]]), reason)
            }
            9 => Frame::Ping,
            other => panic!("a frame of kind {other}"),
        }
    }

    /// Reads the next message.
    pub(crate) fn message(&mut self) -> Value {
        loop {
            match self.frame() {
                Frame::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Frame::Ping => {}
                other => panic!("{other:?} instead of a message"),
            }
        }
    }

    /// Sends a masked frame of up to 125 bytes.
    pub(crate) fn send(&mut self, kind: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).expect("a short payload");
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x80 | kind, 0x80 | length];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
        self.0.write_all(&frame).expect("sent");
    }

    /// Returns whether the server sends nothing for some time.
    pub(crate) fn is_silent(&mut self, time: Duration) -> bool {
        self.0.set_read_timeout(Some(time)).expect("a socket");
        let silent = self.0.peek(&mut [0]).is_err();
        self.0.set_read_timeout(Some(PATIENCE)).expect("a socket");
        silent
    }
}
