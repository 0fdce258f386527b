use proptest::prelude::*;

use super::*;
use crate::fuzzing::tests::replay::replay;

fn read(kind: u8, body: &[u8]) -> Parsed<Message> {
    Message::read(kind, Bytes::copy_from_slice(body))
}

#[test]
fn messages_are_refused_or_written_again() {
    replay("postgres_message", fuzzing::postgres_message);
}

#[test]
fn messages_are_read_as_they_are_documented() {
    let query = Ok(Message::Query("SELECT 1".to_owned()));
    assert_eq!(read(b'Q', b"SELECT 1\0"), query);
    let parse = Message::Parse {
        statement: "s".to_owned(),
        sql: "SELECT $1".to_owned(),
        oids: vec![23],
    };
    assert_eq!(read(b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"), Ok(parse));
    let bind = read(
        b'B',
        b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0",
    );
    let Ok(Message::Bind(bind)) = bind else {
        panic!("{bind:?}");
    };
    assert_eq!(bind.values, [Some(Bytes::from_static(b"x")), None]);
    assert_eq!(
        bind.formats().expect("one for all").each(),
        [Format::Binary; 2]
    );
    assert_eq!(bind.results(3).expect("none").each(), [Format::Text; 3]);
    assert_eq!(
        read(b'D', b"Ss\0"),
        Ok(Message::Describe(Subject::Statement("s".to_owned())))
    );
    let all = Message::Execute {
        portal: String::new(),
        rows: None,
    };
    assert_eq!(read(b'E', b"\0\0\0\0\0"), Ok(all));
    assert_eq!(read(b'S', b""), Ok(Message::Sync));
}

#[test]
fn a_message_that_is_cut_off_or_too_long_is_malformed() {
    let whole: [(u8, &[u8]); 5] = [
        (b'Q', b"SELECT 1\0"),
        (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
        (b'B', b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x01x\0\x01\0\x01"),
        (b'E', b"p\0\0\0\0\x01"),
        (b'C', b"Pp\0"),
    ];
    for (kind, body) in whole {
        assert!(read(kind, body).is_ok());
        for end in 0..body.len() {
            assert!(read(kind, &body[..end]).is_err(), "{kind} {end}");
        }
        assert!(read(kind, &[body, b"\0"].concat()).is_err());
    }
    assert!(
        read(b'B', b"\0\0\0\x02\0\0\0\0\0\0\0\0").is_ok_and(|message| {
            matches!(message, Message::Bind(bind) if bind.formats().is_err())
        })
    );
}

#[test]
fn a_nul_does_not_end_a_text_early() {
    let mut out = BytesMut::new();
    put(&mut out, b'X', |out| put_text(out, "a\0b"));
    assert_eq!(&out[..], b"X\0\0\0\x08a b\0");
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(kind: u8, body: Vec<u8>) {
        let _ignored = read(kind, &body);
    }
}
