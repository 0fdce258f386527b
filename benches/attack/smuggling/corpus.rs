//! The corpus: lengths, transfer encodings, chunks, heads, request lines and names of hosts.

mod heads;

use super::{STREAM, storing};

/// Eight bytes, a length that each reader would find by its own rule.
pub(super) const EVENT: &str = "{\"a\":1}\n";
const MIB: usize = 1 << 20;

/// The stream of requests that [`Must::Agree`] is about.
const AGREED: &str = "agreed";

pub(super) struct Case {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) must: Must,
}

/// The duty of the server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Must {
    /// The request is against RFC 9112, or under a foreign name.
    Refuse,
    /// A server may go by the transfer encoding alone if it closes the connection behind its
    /// answer (RFC 9112, section 6.1).
    CloseBehind,
    /// A server may take LF for the end of a line of a head (RFC 9112, section 2.2), and many take
    /// spaces behind the size of a chunk. Readers differ in whether they take such a request, not
    /// in where it ends: refused, or it and the next one are answered.
    Agree,
    /// Nothing is wrong, but its body looks like a request, or goes on for ever.
    AnswerOnce,
}

/// Makes requests to one server with one token.
struct Maker {
    host: String,
    token: String,
    /// The request behind each faulty one.
    next: String,
    cases: Vec<Case>,
}

pub(super) fn corpus(host: &str, token: &str) -> Vec<Case> {
    let next = String::from_utf8(storing(host, token)).expect("BUG: made of texts");
    let mut maker = Maker {
        host: host.to_owned(),
        token: token.to_owned(),
        next,
        cases: Vec::new(),
    };
    maker.lengths();
    maker.encodings();
    maker.chunks();
    maker.heads();
    maker.lines();
    maker.hosts();
    maker.unread();
    maker.cases
}

impl Maker {
    fn push(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>, must: Must) {
        let (name, bytes) = (name.into(), bytes.into());
        self.cases.push(Case { name, bytes, must });
    }

    /// Returns the head of a request up to its own headers.
    fn begun(&self) -> String {
        format!(
            "POST /api/v1/ingest/{STREAM} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n",
            self.host, self.token
        )
    }

    /// Adds a faulty request with these headers and this body, and the next one behind it.
    fn faulty(&mut self, name: impl Into<String>, headers: &str, body: &str) {
        let bytes = format!("{}{headers}\r\n{body}{}", self.begun(), self.next);
        self.push(name, bytes, Must::Refuse);
    }

    /// Adds a request like a faulty one that a server may take.
    fn lenient(&mut self, name: impl Into<String>, bytes: &str) {
        let bytes = bytes.replace(STREAM, AGREED);
        self.push(name, bytes, Must::Agree);
    }

    fn lengths(&mut self) {
        let body = EVENT;
        let whole = EVENT.len() + self.next.len();
        for (name, first, second) in [
            ("a short and a long Content-Length", EVENT.len(), whole),
            ("a long and a short Content-Length", whole, EVENT.len()),
        ] {
            let headers = format!("Content-Length: {first}\r\nContent-Length: {second}\r\n");
            self.faulty(name, &headers, body);
        }
        for value in [
            "8, 9",
            "8,",
            "+8",
            "-8",
            "0x8",
            "8 8",
            "8;",
            "",
            "1e1",
            "8.0",
            "\u{b}8",
            "８",
            "18446744073709551624",
            "340282366920938463463374607431768211464",
        ] {
            let headers = format!("Content-Length: {value}\r\n");
            self.faulty(format!("Content-Length {value:?}"), &headers, body);
        }
    }

    fn encodings(&mut self) {
        let ends_at_once = "0\r\n\r\n";
        let length = format!(
            "Content-Length: {}\r\n",
            ends_at_once.len() + self.next.len()
        );
        let chunked = "Transfer-Encoding: chunked\r\n";
        for (name, headers) in [
            ("a length, then chunked", format!("{length}{chunked}")),
            ("chunked, then a length", format!("{chunked}{length}")),
            (
                "chunked and a length of 0",
                format!("{chunked}Content-Length: 0\r\n"),
            ),
        ] {
            let bytes = format!("{}{headers}\r\n{ends_at_once}{}", self.begun(), self.next);
            self.push(name, bytes, Must::CloseBehind);
        }
        let body = format!("8\r\n{EVENT}\r\n0\r\n\r\n");
        for value in [
            "chunked, identity",
            "gzip, chunked",
            "identity",
            "xchunked",
            "chunked;q=1",
            "\"chunked\"",
            "chunk",
            "chunked chunked",
            "chunked, chunked",
            "\u{b}chunked",
            "chunked\u{b}",
            "",
        ] {
            let headers = format!("Transfer-Encoding: {value}\r\n");
            self.faulty(format!("Transfer-Encoding {value:?}"), &headers, &body);
            let headers = format!("{headers}Content-Length: {}\r\n", body.len());
            self.faulty(
                format!("Transfer-Encoding {value:?} and a length"),
                &headers,
                &body,
            );
        }
        let twice = format!("{chunked}Transfer-Encoding: identity\r\n");
        self.faulty("chunked, then identity", &twice, &body);
        let head = self.begun().replace("HTTP/1.1", "HTTP/1.0");
        let old = format!(
            "{head}{chunked}Connection: keep-alive\r\n\r\n{body}{}",
            self.next
        );
        self.push("chunked in HTTP/1.0", old, Must::Refuse);
    }

    fn chunks(&mut self) {
        let long = format!("8;{}", "a".repeat(MIB));
        for size in [
            "+8",
            "-8",
            " 8",
            "0x8",
            "8 8",
            "8_",
            "8h",
            "",
            "8\u{b}",
            "8\0",
            "10000000000000008",
            "8;a=\n",
            "8\r",
            &long,
        ] {
            let shown: String = size.chars().take(20).collect();
            let body = format!("{size}\r\n{EVENT}\r\n0\r\n\r\n");
            self.chunk(format!("a chunk of size {shown:?}"), &body);
        }
        for size in ["8 ", "8\t"] {
            let body = format!("{size}\r\n{EVENT}\r\n0\r\n\r\n");
            let head = format!("{}Transfer-Encoding: chunked\r\n\r\n", self.begun());
            let bytes = format!("{head}{body}{}", self.next);
            self.lenient(format!("a chunk of size {size:?}"), &bytes);
        }
        let trailer = format!("8\r\n{EVENT}\r\n0\r\nX: {}\r\n\r\n", "a".repeat(MIB));
        let trailers = format!("8\r\n{EVENT}\r\n0\r\n{}\r\n", "X: a\r\n".repeat(10_000));
        for (name, body) in [
            (
                "a chunk longer than its size",
                format!("4\r\n{EVENT}\r\n0\r\n\r\n"),
            ),
            ("a chunk without its end", format!("8\r\n{EVENT}0\r\n\r\n")),
            (
                "a size that ends with LF",
                format!("8\n{EVENT}\r\n0\r\n\r\n"),
            ),
            (
                "a chunk that ends with LF",
                format!("8\r\n{EVENT}\n0\r\n\r\n"),
            ),
            (
                "a last chunk that ends with LF",
                format!("8\r\n{EVENT}\r\n0\n\n"),
            ),
            ("a trailer of 1 MiB", trailer),
            ("10,000 trailers", trailers),
            (
                "a trailer without a colon",
                format!("8\r\n{EVENT}\r\n0\r\nX\r\n\r\n"),
            ),
        ] {
            self.chunk(name, &body);
        }
    }

    fn chunk(&mut self, name: impl Into<String>, body: &str) {
        self.faulty(name, "Transfer-Encoding: chunked\r\n", body);
    }

    /// Adds requests without a fault whose bodies nobody reads: each body is a request.
    fn unread(&mut self) {
        let (host, next) = (self.host.clone(), self.next.clone());
        let length = format!("Content-Length: {}\r\n", next.len());
        let chunked = format!("{:x}\r\n{next}\r\n0\r\n\r\n", next.len());
        let encoding = "Transfer-Encoding: chunked\r\n";
        let expect = "Expect: 100-continue\r\n";
        let wrong = "Authorization: Bearer wrong\r\n";
        let right = format!("Authorization: Bearer {}\r\n", self.token);
        let store = format!("POST /api/v1/ingest/{STREAM}");
        let endless = format!("ffffffffffffffff\r\n{next}");
        for (name, line, headers, body) in [
            ("a body behind GET", "GET /health", length.clone(), &next),
            (
                "chunks behind GET",
                "GET /health",
                encoding.to_owned(),
                &chunked,
            ),
            (
                "a body behind DELETE",
                "DELETE /health",
                length.clone(),
                &next,
            ),
            (
                "a body to a path that takes none",
                "POST /health",
                length.clone(),
                &next,
            ),
            (
                "chunks to no path",
                "POST /nothing",
                encoding.to_owned(),
                &chunked,
            ),
            (
                "a body without a login",
                "POST /api/v1/sql",
                length.clone(),
                &next,
            ),
            (
                "a body with a wrong login",
                "POST /api/v1/sql",
                format!("{wrong}{length}"),
                &next,
            ),
            (
                "chunks with a wrong login",
                "POST /api/v1/sql",
                format!("{wrong}{encoding}"),
                &chunked,
            ),
            (
                "a body that was to wait",
                "POST /api/v1/sql",
                format!("{expect}{length}"),
                &next,
            ),
            (
                "a chunk of nearly 2^64 bytes",
                &store,
                format!("{right}{encoding}"),
                &endless,
            ),
            (
                "an upgrade",
                "GET /health",
                format!("Connection: upgrade\r\nUpgrade: h2c\r\n{length}"),
                &next,
            ),
        ] {
            let bytes = format!("{line} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n{body}");
            self.push(name, bytes, Must::AnswerOnce);
        }
    }
}
