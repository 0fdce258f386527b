//! Changed conversations: whatever a client sends, its connection ends and the server goes on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::served;
use crate::support::{Home, knob, seed};

/// Longest answer of the server that the test waits for.
const WAIT: Duration = Duration::from_secs(30);

/// Returns a message with its length.
fn message(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("small").to_be_bytes();
    [kind, &length, body].concat()
}

/// Returns whole conversations, each from the start message on.
fn conversations() -> Vec<Vec<u8>> {
    let start = message(
        b"",
        b"\0\x03\0\0user\0ann\0database\0logmill\0options\0-c a.b=1\0\0",
    );
    let query = |sql: &str| message(b"Q", format!("{sql}\0").as_bytes());
    let sync = message(b"S", b"");
    let extended = [
        message(
            b"P",
            b"s\0SELECT status, $1::text FROM access LIMIT $2\0\0\x02\0\0\0\x19\0\0\0\x14",
        ),
        message(b"D", b"Ss\0"),
        message(
            b"B",
            b"p\0s\0\0\x02\0\0\0\x01\0\x02\0\0\0\x02hi\0\0\0\x08\0\0\0\0\0\0\0\x05\0\x01\0\x01",
        ),
        message(b"E", b"p\0\0\0\0\x02"),
        message(b"E", b"p\0\0\0\0\0"),
        message(b"C", b"Pp\0"),
        sync.clone(),
    ];
    let sessions = [
        query("SET TIME ZONE 'Europe/Berlin'; SHOW timezone; SELECT 'a;b' -- c"),
        query("BEGIN; DECLARE c CURSOR FOR SELECT host FROM access; FETCH 3 FROM c; COMMIT"),
        query("COPY (SELECT host, status FROM access LIMIT 5) TO STDOUT (FORMAT binary)"),
        query("PREPARE p AS SELECT $1::int + 1"),
        query("EXECUTE p (7)"),
    ];
    let ends = message(b"X", b"");
    vec![
        [start.clone(), extended.concat(), ends.clone()].concat(),
        [start, sessions.concat(), sync, ends].concat(),
        message(
            b"",
            &[&80_877_102_u32.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 2]].concat(),
        ),
        message(b"", &80_877_103_u32.to_be_bytes()),
    ]
}

/// Changes some bytes of a conversation, or their number.
fn changed(mut bytes: Vec<u8>, random: &mut SmallRng) -> Vec<u8> {
    for _ in 0..random.random_range(1..5) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        let to = (at + random.random_range(1..24)).min(bytes.len());
        match random.random_range(0..6) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
            3 => drop(bytes.drain(at..to)),
            4 => {
                let again = bytes[at..to].to_vec();
                bytes.splice(at..at, again);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn a_changed_conversation_ends_and_harms_nothing() {
    let home = Home::new();
    let server = served(&home);
    let seed = seed();
    let mut random = SmallRng::seed_from_u64(seed);
    let conversations = conversations();
    let mut answered = 0;
    for nth in 0..knob("LOGMILL_CONVERSATIONS", 300) {
        let whole = conversations[random.random_range(0..conversations.len())].clone();
        let sent = changed(whole, &mut random);
        let mut socket = TcpStream::connect(&server.postgres).expect("the listener");
        socket.set_read_timeout(Some(WAIT)).expect("a time limit");
        // The server may have closed the connection for an earlier message.
        let _ignored = socket.write_all(&sent);
        let _ignored = socket.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        if let Err(error) = socket.read_to_end(&mut answer) {
            let is_reset = error.kind() == std::io::ErrorKind::ConnectionReset;
            assert!(
                is_reset,
                "LOGMILL_SEED={seed} {nth}: {error}: {}",
                sent.escape_ascii()
            );
        }
        answered += usize::from(!answer.is_empty());
    }
    assert!(answered > 0, "no conversation had an answer");
    let log = server.log();
    assert!(!log.contains("panicked"), "LOGMILL_SEED={seed}: {log}");
    assert_eq!(server.number("SELECT count(*) FROM access"), super::EVENTS);
}
