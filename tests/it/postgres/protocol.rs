//! The protocol byte by byte: the states that psql does not show, and bytes that are no messages.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Home, Server};

const VERSION_3: u32 = 196_608;
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;

/// A client that knows messages and nothing else.
struct Client(TcpStream);

/// A message of the server: its kind and its body.
type Message = (u8, Vec<u8>);

impl Client {
    fn connect(server: &Server) -> Self {
        let socket = TcpStream::connect(&server.postgres).expect("the listener");
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a time limit");
        Self(socket)
    }

    /// Sends a message without a kind.
    fn first(&mut self, code: u32, body: &[u8]) {
        let length = u32::try_from(body.len() + 8).expect("small");
        let message = [&length.to_be_bytes(), &code.to_be_bytes(), body].concat();
        self.0.write_all(&message).expect("sent");
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let length = u32::try_from(body.len() + 4).expect("small");
        let message = [&[kind], &length.to_be_bytes()[..], body].concat();
        // The server may have closed the connection for the message before it.
        let _ignored = self.0.write_all(&message);
    }

    /// Reads a message; `None` at the end of the connection.
    fn read(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        match self.0.read_exact(&mut head) {
            Ok(()) => {}
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                return None;
            }
            Err(e) => panic!("no message in time: {e}"),
        }
        let length = u32::from_be_bytes(head[1..].try_into().expect("four"));
        let mut body = vec![0; length as usize - 4];
        self.0.read_exact(&mut body).expect("the whole message");
        Some((head[0], body))
    }

    /// Reads up to a message of a kind, and returns the kinds.
    fn until(&mut self, kind: u8) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.read() {
            let is_last = message.0 == kind;
            messages.push(message);
            if is_last {
                break;
            }
        }
        messages
    }

    fn log_in(server: &Server, database: &str) -> (Self, Vec<Message>) {
        let mut client = Self::connect(server);
        client.first(
            VERSION_3,
            format!("user\0ann\0database\0{database}\0\0").as_bytes(),
        );
        let messages = client.until(b'Z');
        (client, messages)
    }

    /// Runs a query; returns the kinds of the answers.
    fn query(&mut self, sql: &str) -> String {
        self.send(b'Q', format!("{sql}\0").as_bytes());
        kinds(&self.until(b'Z'))
    }
}

fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// Returns the SQLSTATE of the last error.
fn state(messages: &[Message]) -> String {
    let error = messages
        .iter()
        .rfind(|(kind, _)| *kind == b'E')
        .expect("an error");
    let fields = error.1.split(|byte| *byte == 0);
    let code = fields
        .into_iter()
        .find_map(|field| field.strip_prefix(b"C"));
    String::from_utf8_lossy(code.expect("a code")).into_owned()
}

#[test]
fn a_start_that_is_none_is_refused_with_its_state() {
    let home = Home::new();
    let server = Server::start_postgres(&home.data, &[]);
    let (_, messages) = Client::log_in(&server, "logmill");
    assert!(kinds(&messages).starts_with("RSSS") && kinds(&messages).ends_with("KZ"));
    let (_, messages) = Client::log_in(&server, "other");
    assert_eq!(state(&messages), "3D000");
    for (code, body, expected) in [
        (VERSION_3, &b"database\0logmill\0\0"[..], "28000"),
        (
            VERSION_3,
            b"user\0ann\0database\0logmill\0TimeZone\0Mars\0\0",
            "22023",
        ),
        (VERSION_3, b"user\0ann", "08P01"),
        (131_072, b"user\0ann\0\0", "0A000"),
        (u32::MAX, b"", "0A000"),
    ] {
        let mut client = Client::connect(&server);
        client.first(code, body);
        assert_eq!(state(&client.until(b'E')), expected, "{code} {body:?}");
        assert_eq!(client.read(), None);
    }
    // A newer protocol and unknown options are negotiated.
    let mut client = Client::connect(&server);
    client.first(
        VERSION_3 + 2,
        b"user\0ann\0database\0logmill\0_pq_.new\x001\0\0",
    );
    assert_eq!(
        client.until(b'Z')[0],
        (b'v', b"\0\0\0\0\0\0\0\x01_pq_.new\0".to_vec())
    );
    // Without a certificate, encryption is declined, and the client may go on.
    let mut client = Client::connect(&server);
    client.first(TLS, b"");
    let mut answer = [0];
    client.0.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, *b"N");
    client.first(VERSION_3, b"user\0ann\0database\0logmill\0\0");
    assert!(kinds(&client.until(b'Z')).ends_with('Z'));
}

#[test]
fn after_an_error_messages_are_skipped_up_to_the_next_sync() {
    let home = Home::new();
    let server = Server::start_postgres(&home.data, &[]);
    let (mut client, _) = Client::log_in(&server, "logmill");
    assert_eq!(client.query("SELECT 1; SELECT 2"), "TDCTDCZ");
    assert_eq!(client.query(" -- ping"), "IZ");
    assert_eq!(client.query("SELECT 1; SELECT 1 / 0; SELECT 2"), "TDCTEZ");
    client.send(b'P', b"\0SELECT nothing\0\0\0");
    client.send(b'B', b"\0\0\0\0\0\0\0\0");
    client.send(b'H', b"");
    client.send(b'S', b"");
    let messages = client.until(b'Z');
    assert_eq!(
        (kinds(&messages), state(&messages)),
        ("EZ".to_owned(), "42703".to_owned())
    );
    // A portal in parts, with the end known at its last row.
    client.send(b'P', b"s\0SELECT unnest([1, 2, 3])\0\0\0");
    client.send(b'B', b"p\0s\0\0\0\0\0\0\x01\0\x01");
    client.send(b'D', b"Pp\0");
    for _ in 0..2 {
        client.send(b'E', b"p\0\0\0\0\x02");
    }
    client.send(b'S', b"");
    let messages = client.until(b'Z');
    assert_eq!(kinds(&messages), "12TDDsDCZ");
    assert_eq!(messages[3].1, b"\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x01");
    client.send(b'P', b"s\0SELECT 1\0\0\0");
    client.send(b'S', b"");
    assert_eq!(state(&client.until(b'Z')), "42P05");
    client.send(b'E', b"p\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(state(&client.until(b'Z')), "34000");
}

#[test]
fn a_request_to_cancel_needs_the_secret_and_ends_the_statement() {
    let home = Home::new();
    let server = Server::start_postgres(&home.data, &[]);
    let (mut client, messages) = Client::log_in(&server, "logmill");
    let key = messages
        .iter()
        .find(|(kind, _)| *kind == b'K')
        .expect("a key")
        .1
        .clone();
    let long = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a.value * b.value % 7 = 3\0";
    client.send(b'Q', long.as_bytes());
    let mut wrong = key.clone();
    wrong[7] ^= 1;
    let runs = || {
        let queries = server.get("/api/v1/queries").text();
        queries.contains("generate_series")
    };
    for key in [&wrong, &key] {
        std::thread::sleep(Duration::from_millis(300));
        // The request before, if any, had the wrong secret.
        assert!(runs(), "the statement has ended");
        let mut second = Client::connect(&server);
        second.first(CANCEL, key);
        assert_eq!(second.read(), None);
    }
    let messages = client.until(b'Z');
    assert_eq!(state(&messages), "57014");
    assert_eq!(client.query("SELECT 1"), "TDCZ");
    // A client that goes away ends its statement too.
    client.send(b'Q', long.as_bytes());
    std::thread::sleep(Duration::from_millis(300));
    drop(client);
    let began = std::time::Instant::now();
    while runs() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the query goes on"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn bytes_that_are_no_messages_end_their_connection_only() {
    let home = Home::new();
    let server = Server::start_postgres(&home.data, &[]);
    for (kind, body) in [
        (b'?', &b""[..]),
        (b'P', b"\0"),
        (b'P', b"\0SELECT 1\0\xff\xff"),
        (b'B', b"\0\0\0\x01\0\x09"),
        (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
        (b'Q', b"no end"),
        (b'Q', b"\xff\xfe\0"),
        (b'D', b"?\0"),
        (b'E', b"\0\0"),
    ] {
        let (mut client, _) = Client::log_in(&server, "logmill");
        client.send(kind, body);
        assert_eq!(state(&client.until(b'E')), "08P01", "{kind} {body:?}");
        assert_eq!(client.read(), None);
    }
    // A length that no message has: no memory is taken for it.
    for length in [0_u32, 3, 1 << 30, u32::MAX] {
        let (mut client, _) = Client::log_in(&server, "logmill");
        client
            .0
            .write_all(&[&b"Q"[..], &length.to_be_bytes()].concat())
            .expect("sent");
        assert_eq!(state(&client.until(b'E')), "08P01", "{length}");
    }
    let mut early = Client::connect(&server);
    early.0.write_all(&[0x3f, 0xff, 0xff, 0xff]).expect("sent");
    assert_eq!(state(&early.until(b'E')), "08P01");
    let (mut client, _) = Client::log_in(&server, "logmill");
    assert_eq!(client.query("SELECT 1"), "TDCZ");
}
