//! Target of the fuzzer: a message of a client after its login.
//!
//! `tests/fuzz` includes this file and the reader of messages, which needs nothing else. The tests
//! of the program replay the corpus.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Bind, Format, Message, Subject, put_text};

/// Reads a message: its kind, then its body. One that is read is written again as the same bytes,
/// and every value has a format.
pub(crate) fn postgres_message(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else {
        return;
    };
    let Ok(message) = Message::read(*kind, Bytes::copy_from_slice(body)) else {
        return;
    };
    if let Message::Bind(bind) = &message {
        check_formats(bind);
    }
    if let Some(again) = written(&message) {
        assert_eq!(again[..], *body, "{message:?}");
    }
}

fn check_formats(bind: &Bind) {
    if let Ok(formats) = bind.formats() {
        assert_eq!(formats.each().len(), bind.values.len());
    }
    for columns in [0, 1, 7] {
        if let Ok(formats) = bind.results(columns) {
            assert_eq!(formats.each().len(), columns);
        }
    }
}

/// Writes the body of a message; `None` if several bodies mean the same.
fn written(message: &Message) -> Option<BytesMut> {
    let mut out = BytesMut::new();
    match message {
        Message::Query(sql) => put_text(&mut out, sql),
        Message::Parse {
            statement,
            sql,
            oids,
        } => {
            put_text(&mut out, statement);
            put_text(&mut out, sql);
            put_list(&mut out, oids, |out, oid| out.put_u32(*oid));
        }
        Message::Bind(bind) => {
            put_text(&mut out, &bind.portal);
            put_text(&mut out, &bind.statement);
            let put_format = |out: &mut BytesMut, format: &Format| out.put_i16(format.code());
            put_list(&mut out, &bind.formats, put_format);
            put_list(&mut out, &bind.values, |out, value| match value {
                None => out.put_i32(-1),
                Some(value) => {
                    out.put_u32(value.len() as u32);
                    out.put_slice(value);
                }
            });
            put_list(&mut out, &bind.results, put_format);
        }
        Message::Describe(named) | Message::Close(named) => match named {
            Subject::Statement(name) => {
                out.put_u8(b'S');
                put_text(&mut out, name);
            }
            Subject::Portal(name) => {
                out.put_u8(b'P');
                put_text(&mut out, name);
            }
        },
        Message::Execute { portal, rows } => {
            put_text(&mut out, portal);
            // No limit has several spellings.
            out.put_u32(u32::try_from((*rows)?).expect("it was read from 32 bits"));
        }
        Message::Flush | Message::Sync | Message::Terminate => {}
        Message::Copy => return None,
    }
    Some(out)
}

fn put_list<T>(out: &mut BytesMut, items: &[T], put_item: impl Fn(&mut BytesMut, &T)) {
    out.put_u16(u16::try_from(items.len()).expect("their count was read from 16 bits"));
    for item in items {
        put_item(out, item);
    }
}
