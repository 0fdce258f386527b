//! The first message of a handshake, written byte by byte: it offers what no library offers any
//! more, such as SSL 3.0, and cipher suites without encryption.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::PATIENCE;

/// Numbers of the versions (RFC 8446, section 4.2.1).
pub(super) const SSL_3_0: u16 = 0x0300;
pub(super) const TLS_1_0: u16 = 0x0301;
pub(super) const TLS_1_1: u16 = 0x0302;
pub(super) const TLS_1_2: u16 = 0x0303;
pub(super) const TLS_1_3: u16 = 0x0304;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const SUPPORTED_VERSIONS: u16 = 43;

/// An offer of a client.
#[derive(Debug, Clone)]
pub(super) struct Hello {
    pub(super) version: u16,
    pub(super) suites: Vec<u16>,
    pub(super) compressions: Vec<u8>,
}

/// The first message of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The server goes on, with these choices.
    Hello {
        version: u16,
        suite: u16,
        compression: u8,
    },
    /// The server refuses, with the description of an alert.
    Alert(u8),
    /// The connection ends without an alert.
    Closed,
}

impl Hello {
    /// Returns an offer of one version and one cipher suite.
    pub(super) fn of(version: u16, suite: u16) -> Self {
        Self {
            version,
            suites: vec![suite],
            compressions: vec![0],
        }
    }

    /// Sends the offer on a new connection. Returns the server's first message.
    pub(super) fn send(&self, address: &str) -> Reply {
        let mut socket = TcpStream::connect(address).expect("the server listens");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket that can wait");
        socket.write_all(&self.record()).expect("sent");
        reply(&mut socket)
    }

    fn record(&self) -> Vec<u8> {
        // A TLS 1.3 hello says 1.2 here (RFC 8446, section 4.1.2).
        let mut body = self.version.min(TLS_1_2).to_be_bytes().to_vec();
        body.extend([7; 32]);
        // No session.
        body.push(0);
        let suites: Vec<u8> = self.suites.iter().flat_map(|n| n.to_be_bytes()).collect();
        body.extend(sized(&suites));
        body.push(self.compressions.len() as u8);
        body.extend(&self.compressions);
        // SSL 3.0 has no extensions.
        if self.version > SSL_3_0 {
            body.extend(sized(&self.extensions()));
        }
        let mut message = vec![CLIENT_HELLO, 0];
        message.extend(sized(&body));
        let mut record = vec![HANDSHAKE];
        record.extend(self.version.min(TLS_1_0).to_be_bytes());
        record.extend(sized(&message));
        record
    }

    fn extensions(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut add = |kind: u16, content: &[u8]| {
            all.extend(kind.to_be_bytes());
            all.extend(sized(content));
        };
        let words = |words: &[u16]| {
            sized(
                &words
                    .iter()
                    .flat_map(|n| n.to_be_bytes())
                    .collect::<Vec<_>>(),
            )
        };
        // X25519, P-256, P-384, P-521, and the group of finite fields with 2,048 bits.
        add(10, &words(&[29, 23, 24, 25, 256]));
        // Points as they are.
        add(11, &[1, 0]);
        add(
            13,
            &words(&[
                0x0403, 0x0503, 0x0603, 0x0807, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601,
                0x0203, 0x0201, 0x0202,
            ]),
        );
        // Extended master secret; secure renegotiation.
        add(23, &[]);
        add(0xff01, &[0]);
        if self.version >= TLS_1_3 {
            let version = self.version.to_be_bytes();
            add(SUPPORTED_VERSIONS, &[2, version[0], version[1]]);
            // No share of a key: the server asks for one, in a message of the same kind.
            add(51, &[0, 0]);
        }
        all
    }
}

/// Returns bytes behind their length of 16 bits.
fn sized(bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("a short message");
    [&len.to_be_bytes()[..], bytes].concat()
}

fn reply(socket: &mut TcpStream) -> Reply {
    let mut head = [0; 5];
    if socket.read_exact(&mut head).is_err() {
        return Reply::Closed;
    }
    let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    if socket.read_exact(&mut body).is_err() {
        return Reply::Closed;
    }
    match (head[0], &*body) {
        (ALERT, [_, description, ..]) => Reply::Alert(*description),
        (HANDSHAKE, [SERVER_HELLO, _, _, _, hello @ ..]) => server_hello(hello),
        _ => panic!("no message of TLS: {head:?} {body:?}"),
    }
}

fn server_hello(hello: &[u8]) -> Reply {
    let word = |at: usize| u16::from_be_bytes([hello[at], hello[at + 1]]);
    let session = usize::from(hello[34]);
    let suite = 35 + session;
    let mut version = word(0);
    let mut at = suite + 5;
    while at + 4 <= hello.len() {
        let len = usize::from(word(at + 2));
        if word(at) == SUPPORTED_VERSIONS {
            version = word(at + 4);
        }
        at += 4 + len;
    }
    Reply::Hello {
        version,
        suite: word(suite),
        compression: hello[suite + 2],
    }
}
