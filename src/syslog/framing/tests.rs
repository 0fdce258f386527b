use proptest::prelude::*;

use super::*;
use crate::fuzzing::tests::replay::replay;

#[test]
fn connections_are_the_same_messages_however_they_are_cut() {
    replay("syslog_framing", fuzzing::syslog_framing);
}

/// Takes the pieces of a connection. Returns its messages as text, and its error.
fn taken(pieces: &[&str]) -> (Vec<String>, Option<Malformed>) {
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    let mut push = |m: &[u8]| messages.push(String::from_utf8_lossy(m).into_owned());
    for piece in pieces {
        if let Err(why) = decoder.take(piece.as_bytes(), &mut push) {
            return (messages, Some(why));
        }
    }
    decoder.finish(&mut push);
    (messages, None)
}

#[test]
fn the_first_byte_decides_for_a_framing() {
    for (pieces, expected) in [
        (&["<1>a\n<2>b\r\n\n<3>c"][..], &["<1>a", "<2>b", "<3>c"][..]),
        (&["<1", ">a\n9 <2>b\n"], &["<1>a", "9 <2>b"]),
        (&["4 <1>a5 <2>\nb"], &["<1>a", "<2>\nb"]),
        (&["4", " <1", ">a\n", "\n5 <2>b\n"], &["<1>a", "<2>b"]),
        (&["9 <1>b"], &["<1>b"]),
        (&["0 <1>a\n"], &["0 <1>a"]),
        (&["2 \n\n3 <1>"], &["\n", "<1>"]),
    ] {
        let (messages, error) = taken(pieces);
        assert_eq!(messages, expected, "{pieces:?}");
        assert_eq!(error, None, "{pieces:?}");
    }
}

#[test]
fn a_wrong_length_ends_the_connection_behind_the_messages_before_it() {
    for rest in ["x", "0 <1>a", "1234567890 ", " <1>a", "5<1>a"] {
        let (messages, error) = taken(&["4 <1>a", rest]);
        assert_eq!(
            (messages, error),
            (vec!["<1>a".to_owned()], Some(Malformed::Length)),
            "{rest}"
        );
    }
}

#[test]
fn a_request_of_http_stores_nothing() {
    let post =
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:5514\r\n\r\n<34>Nov  3 09:23:38 web1 forged: x\n";
    assert_eq!(taken(&[post]), (vec![], Some(Malformed::Http)));
    assert_eq!(
        taken(&[&post[..9], &post[9..]]),
        (vec![], Some(Malformed::Http))
    );
    assert_eq!(taken(&["GET / HTTP/1.0"]), (vec![], None));
    // Nor does one whose first line is too long to be kept.
    let path = "x".repeat(KEPT_BYTES_MAX);
    let long = format!("POST /{path} HTTP/1.1\r\nHost: x\r\n\r\n<34>forged\n");
    for pieces in [&[&*long][..], &[&long[..100], &long[100..]]] {
        assert_eq!(taken(pieces), (vec![], Some(Malformed::Http)));
    }
    // The text of a message may be one, also in the first line.
    let line = "<13>web1 nginx: \"GET / HTTP/1.1\"";
    assert_eq!(
        taken(&[line, "\n", "GET / HTTP/1.1\n"]).0,
        [line, "GET / HTTP/1.1"]
    );
}

#[test]
fn a_long_message_keeps_its_beginning_and_the_next_one_is_whole() {
    let long = "x".repeat(3 * KEPT_BYTES_MAX);
    for connection in [
        format!("<{long}\n<2>b\n"),
        format!("{} <{long}4 <2>b", long.len() + 1),
    ] {
        let (messages, error) = taken(&[&connection]);
        let lengths: Vec<usize> = messages.iter().map(String::len).collect();
        assert_eq!((lengths, error), (vec![KEPT_BYTES_MAX, 4], None));
    }
}

#[test]
fn a_long_message_takes_bounded_memory_while_it_comes() {
    let mut decoder = Decoder::default();
    decoder.take(b"999999999 ", &mut |_| {}).unwrap();
    for _ in 0..100 {
        decoder
            .take(&[b'x'; 4096], &mut |_| panic!("it has not ended"))
            .unwrap();
        assert!(decoder.is_within_a_message() && decoder.part.capacity() <= 2 * KEPT_BYTES_MAX);
    }
}

proptest! {
    /// Messages that a sender counts come back, whatever bytes they hold.
    #[test]
    fn counted_messages_come_back(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 1..20),
        piece in 1..50_usize,
    ) {
        let mut sent = Vec::new();
        for message in &messages {
            sent.extend_from_slice(format!("{} ", message.len()).as_bytes());
            sent.extend_from_slice(message);
        }
        let mut decoder = Decoder::default();
        let mut read: Vec<Vec<u8>> = Vec::new();
        for piece in sent.chunks(piece) {
            decoder.take(piece, &mut |m| read.push(m.to_vec())).unwrap();
        }
        prop_assert!(!decoder.is_within_a_message());
        // One LF at the end is none of the text.
        let text = |m: &Vec<u8>| m.strip_suffix(b"\n").unwrap_or(m).to_vec();
        let expected: Vec<Vec<u8>> = messages.iter().map(text).filter(|m| !m.is_empty()).collect();
        prop_assert_eq!(read, expected);
    }
}
