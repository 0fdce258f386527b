//! Tests of messages, byte by byte as MongoDB's documentation has them.

use bson::{Document, doc};
use bytes::{BufMut, Bytes, BytesMut};

use super::*;
use crate::fuzzing::tests::replay::replay;
use crate::mongo::command::MongoCommand;
use crate::mongo::error::code;

#[test]
fn messages_are_refused_or_cut_into_sections() {
    replay("mongo_message", fuzzing::mongo_message);
}

/// A message of OP_MSG with these sections.
fn msg(flags: u32, sections: &[u8], has_checksum: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = HEADER_BYTES + 4 + sections.len() + if has_checksum { 4 } else { 0 };
    for number in [i32::try_from(length).expect("short"), 7, 0, OP_MSG] {
        bytes.put_i32_le(number);
    }
    bytes.put_u32_le(flags);
    bytes.extend(sections);
    if has_checksum {
        bytes.put_u32_le(crc32c::crc32c(&bytes));
    }
    bytes
}

fn command(document: &Document) -> Vec<u8> {
    let mut section = vec![0];
    section.extend(document.to_vec().expect("BSON"));
    section
}

fn sequence(name: &str, documents: &[Document]) -> Vec<u8> {
    let mut inside = name.as_bytes().to_vec();
    inside.push(0);
    for document in documents {
        inside.extend(document.to_vec().expect("BSON"));
    }
    let mut section = vec![1];
    section.put_i32_le(i32::try_from(inside.len() + 4).expect("short"));
    section.extend(inside);
    section
}

fn read(bytes: &[u8]) -> Result<MongoMessage, MalformedMessage> {
    let header = Header::read(&bytes[..HEADER_BYTES])?;
    assert_eq!(header.length, bytes.len());
    MongoMessage::read(header, Bytes::copy_from_slice(bytes))
}

#[test]
fn a_command_has_its_sequences_before_or_behind_it() {
    let insert = doc! { "insert": "events", "$db": "logs" };
    let documents = [doc! { "a": 1 }, doc! {}, doc! { "b": "x" }];
    let orders = [
        [command(&insert), sequence("documents", &documents)].concat(),
        [sequence("documents", &documents), command(&insert)].concat(),
    ];
    for sections in orders {
        for has_checksum in [false, true] {
            let flags = u32::from(has_checksum);
            let message = read(&msg(flags, &sections, has_checksum)).expect("a message");
            assert_eq!(message.command().as_bytes(), insert.to_vec().expect("BSON"));
            let found = message.sequence("documents").expect("a sequence");
            let found: Vec<Vec<u8>> = found.map(<[u8]>::to_vec).collect();
            let sent: Vec<Vec<u8>> = documents
                .iter()
                .map(|d| d.to_vec().expect("BSON"))
                .collect();
            assert_eq!(found, sent);
            assert!(message.sequence("updates").is_none());
            assert_eq!(
                (message.request_id, message.form),
                (7, MessageForm::Answered)
            );
        }
    }
    let unanswered = read(&msg(MORE_TO_COME, &command(&insert), false)).expect("a message");
    assert_eq!(unanswered.form, MessageForm::Unanswered);
    // Flags from the 16th on may be ignored.
    assert!(read(&msg(1 << 16, &command(&insert), false)).is_ok());
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let insert = command(&doc! { "insert": "events" });
    let mut wrong_checksum = msg(CHECKSUM_PRESENT, &insert, true);
    *wrong_checksum.last_mut().expect("bytes") ^= 1;
    let mut long_document = insert.clone();
    long_document[1] += 1;
    let mut long_sequence = sequence("documents", &[doc! { "a": 1 }]);
    long_sequence[1] += 1;
    let mut compressed = msg(0, &insert, false);
    compressed[12..16].copy_from_slice(&OP_COMPRESSED.to_le_bytes());
    let cases: [(Vec<u8>, &str); 10] = [
        (msg(1 << 2, &insert, false), "an unknown flag is set"),
        (wrong_checksum, "the checksum is not that of the message"),
        (
            msg(CHECKSUM_PRESENT, &[], false),
            "a message ends within its checksum",
        ),
        (msg(0, &[], false), "a message has no command"),
        (
            msg(0, &[insert.clone(), insert.clone()].concat(), false),
            "a message has two commands",
        ),
        (msg(0, &[2], false), "a section has an unknown kind"),
        (
            msg(0, &long_document, false),
            "a message ends within a section",
        ),
        (
            msg(0, &[insert.clone(), long_sequence].concat(), false),
            "a sequence has no such length",
        ),
        (compressed, "no compressor was agreed on"),
        (
            msg(
                0,
                &[insert.clone(), sequence("x", &[]).repeat(9)].concat(),
                false,
            ),
            "a message has too many sequences",
        ),
    ];
    for (bytes, why) in cases {
        assert_eq!(read(&bytes).err(), Some(MalformedMessage(why)));
    }
    // A sequence that would end within its own length.
    for length in 0..4_u8 {
        let sequence = [&[1, length, 0, 0, 0][..], b"documents\0"].concat();
        let bytes = msg(0, &[insert.clone(), sequence].concat(), false);
        let why = "a sequence has no such length";
        assert_eq!(read(&bytes).err(), Some(MalformedMessage(why)));
    }
    for length in [-1, 0, 15] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&i32::to_le_bytes(length));
        assert!(Header::read(&bytes).is_err(), "{length}");
    }
}

#[test]
fn every_beginning_of_a_message_is_refused() {
    let sections = [
        command(&doc! { "insert": "events" }),
        sequence("documents", &[doc! { "a": { "b": [1, 2] } }]),
    ];
    let whole = msg(CHECKSUM_PRESENT, &sections.concat(), true);
    for end in HEADER_BYTES..whole.len() {
        let mut cut = whole[..end].to_vec();
        let length = i32::try_from(end).expect("short");
        cut[..4].copy_from_slice(&length.to_le_bytes());
        assert!(read(&cut).is_err(), "{end} bytes");
    }
}

#[test]
fn the_old_handshake_is_answered_in_its_own_form() {
    let hello = doc! { "isMaster": 1 };
    let mut bytes = Vec::new();
    for number in [0, 9, 0, OP_QUERY, 4] {
        bytes.put_i32_le(number);
    }
    bytes.extend(b"admin.$cmd\0");
    bytes.put_i32_le(0);
    bytes.put_i32_le(-1);
    bytes.extend(hello.to_vec().expect("BSON"));
    let length = i32::try_from(bytes.len()).expect("short");
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    let message = read(&bytes).expect("a message");
    assert_eq!((message.request_id, message.form), (9, MessageForm::Legacy));
    let mut out = BytesMut::new();
    let answer = bson::RawDocumentBuf::try_from(doc! { "ok": 1.0 }).expect("BSON");
    put_answer(&mut out, (message.form, 9), 3, &answer);
    let header = [out.len() as i32, 3, 9, OP_REPLY, AWAIT_CAPABLE, 0, 0, 0, 1];
    let header: Vec<u8> = header.iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(out[..36], header);
    assert_eq!(&out[36..], answer.as_bytes());
    // Other collections are not asked by it.
    let at = bytes.windows(5).position(|w| w == b".$cmd").expect("there");
    bytes[at..at + 5].copy_from_slice(b".logs");
    assert!(read(&bytes).is_err());
}

#[test]
fn commands_have_a_length() {
    let long = "x".repeat(100);
    let documents = vec![doc! { "text": &long }; 10];
    for (brought, other, is_taken) in [
        ("documents", "x", true),
        ("documents", &long[..], false),
        ("pipeline", "x", false),
    ] {
        let insert = doc! { "insert": "events", brought: &documents, "comment": other };
        let message = read(&msg(0, &command(&insert), false)).expect("a message");
        let taken = MongoCommand::of(&message, 80);
        assert_eq!(taken.is_ok(), is_taken, "{brought} {other}: {taken:?}");
        if let Err(error) = taken {
            assert_eq!(error.code, code::BSON_OBJECT_TOO_LARGE);
            assert!(error.message.contains("the limit is 80"), "{error:?}");
        }
        assert!(MongoCommand::of(&message, 2000).is_ok());
    }
}
