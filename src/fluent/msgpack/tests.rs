use proptest::prelude::*;

use super::*;
use crate::fuzzing::tests::replay::replay;

#[test]
fn values_end_where_a_nested_reader_ends() {
    replay("msgpack", fuzzing::msgpack);
}

/// The values of the specification's table, each as its bytes.
#[test]
fn tokens_are_those_of_the_specification() {
    let text = |prefix: &[u8], length: usize| [prefix, &vec![b'x'; length]].concat();
    let long = vec![b'x'; 70_000];
    for (bytes, expected) in [
        (vec![0x00], MsgToken::Unsigned(0)),
        (vec![0x7f], MsgToken::Unsigned(127)),
        (vec![0xff], MsgToken::Int(-1)),
        (vec![0xe0], MsgToken::Int(-32)),
        (vec![0xc0], MsgToken::Nil),
        (vec![0xc2], MsgToken::Bool(false)),
        (vec![0xc3], MsgToken::Bool(true)),
        (vec![0xcc, 0xff], MsgToken::Unsigned(255)),
        (vec![0xcd, 1, 0], MsgToken::Unsigned(256)),
        (
            vec![0xce, 0xff, 0xff, 0xff, 0xff],
            MsgToken::Unsigned(u32::MAX.into()),
        ),
        (
            text(&[0xcf], 0).into_iter().chain([0xff; 8]).collect(),
            MsgToken::Unsigned(u64::MAX),
        ),
        (vec![0xd0, 0x80], MsgToken::Int(-128)),
        (vec![0xd1, 0x80, 0], MsgToken::Int(-32768)),
        (vec![0xd2, 0x80, 0, 0, 0], MsgToken::Int(i32::MIN.into())),
        (
            vec![0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0],
            MsgToken::Int(i64::MIN),
        ),
        (vec![0xd3, 0, 0, 0, 0, 0, 0, 0, 5], MsgToken::Int(5)),
        (vec![0xca, 0x3f, 0xc0, 0, 0], MsgToken::Single(1.5)),
        (
            vec![0xcb, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0],
            MsgToken::Double(-1.5),
        ),
        (vec![0xa0], MsgToken::Text(b"")),
        (text(&[0xbf], 31), MsgToken::Text(&long[..31])),
        (text(&[0xd9, 40], 40), MsgToken::Text(&long[..40])),
        (text(&[0xda, 1, 0], 256), MsgToken::Text(&long[..256])),
        (
            text(&[0xdb, 0, 1, 0x11, 0x70], 70_000),
            MsgToken::Text(&long),
        ),
        (text(&[0xc4, 3], 3), MsgToken::Bytes(b"xxx")),
        (text(&[0xc5, 0, 3], 3), MsgToken::Bytes(b"xxx")),
        (text(&[0xc6, 0, 0, 0, 3], 3), MsgToken::Bytes(b"xxx")),
        (text(&[0xd4, 9], 1), MsgToken::Extension(9, b"x")),
        (text(&[0xd5, 9], 2), MsgToken::Extension(9, b"xx")),
        (text(&[0xd6, 9], 4), MsgToken::Extension(9, b"xxxx")),
        (text(&[0xd7, 0], 8), MsgToken::Extension(0, b"xxxxxxxx")),
        (text(&[0xd8, 9], 16), MsgToken::Extension(9, &long[..16])),
        (text(&[0xc7, 3, 9], 3), MsgToken::Extension(9, b"xxx")),
        (text(&[0xc8, 0, 3, 9], 3), MsgToken::Extension(9, b"xxx")),
        (
            text(&[0xc9, 0, 0, 0, 3, 9], 3),
            MsgToken::Extension(9, b"xxx"),
        ),
        (vec![0x90], MsgToken::Array(0)),
        (vec![0x80], MsgToken::Map(0)),
    ] {
        let mut tokens = Tokens::new(&bytes);
        assert_eq!(
            tokens.next(),
            Ok(expected),
            "{:x?}",
            &bytes[..bytes.len().min(9)]
        );
        assert!(tokens.is_empty());
        for short in 0..bytes.len().min(20) {
            let cut = &bytes[..short];
            assert_eq!(Scanner::within(1 << 20).end(cut), Ok(None), "{cut:x?}");
            assert_eq!(
                Tokens::new(cut).next(),
                Err(Unreadable::Malformed),
                "{cut:x?}"
            );
        }
        assert_eq!(Scanner::within(1 << 20).end(&bytes), Ok(Some(bytes.len())));
    }
    for (bytes, expected) in [
        (&[0x93, 1, 2, 3][..], MsgToken::Array(3)),
        (&[0xdc, 0, 3, 1, 2, 3], MsgToken::Array(3)),
        (&[0xdd, 0, 0, 0, 1, 1], MsgToken::Array(1)),
        (&[0x81, 1, 2], MsgToken::Map(1)),
        (&[0xde, 0, 1, 1, 2], MsgToken::Map(1)),
        (&[0xdf, 0, 0, 0, 1, 1, 2], MsgToken::Map(1)),
    ] {
        assert_eq!(Tokens::new(bytes).next(), Ok(expected));
        assert_eq!(Scanner::within(100).end(bytes), Ok(Some(bytes.len())));
    }
    assert_eq!(
        Scanner::within(100).end(&[0xc1]),
        Err(Unreadable::Malformed)
    );
}

#[test]
fn a_value_that_cannot_fit_is_refused_before_its_elements_come() {
    for bytes in [
        &[0xdd, 0xff, 0xff, 0xff, 0xff][..],
        &[0xdf, 0xff, 0xff, 0xff, 0xff],
        &[0xdb, 0xff, 0xff, 0xff, 0xff],
        &[0x92, 0xc6, 0, 0, 4, 0],
    ] {
        assert_eq!(
            Scanner::within(1000).end(bytes),
            Err(Unreadable::TooLong),
            "{bytes:x?}"
        );
    }
    // Deep nesting takes neither stack nor memory.
    let deep = vec![0x91; 1 << 20];
    assert_eq!(Scanner::within(1 << 30).end(&deep), Ok(None));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzzing::msgpack(&bytes);
    }
}
