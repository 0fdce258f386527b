//! Target of the fuzzer: a message of a client, and the answer to it.
//!
//! `tests/fuzz` includes this file and the reader of messages, which needs nothing else. The tests
//! of the program replay the corpus.

use bson::RawDocument;
use bson::raw::{RawDocumentBuf, cstr};
use bytes::{Bytes, BytesMut};

use super::{CHECKSUM_PRESENT, HEADER_BYTES, Header, MongoMessage, OP_MSG, put_answer};

/// Reads a message. Its sections lie side by side from its flags to its end, and each document is
/// one for another reader. An answer to it is a message, too.
pub(crate) fn mongo_message(bytes: &[u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    // The listener cuts a message by its length.
    let mut whole = bytes.to_vec();
    whole[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    let header = Header::read(&whole).expect("the length is that of the bytes");
    assert_eq!(header.length, whole.len());
    let Ok(message) = MongoMessage::read(header, Bytes::from(whole)) else {
        return;
    };
    assert_eq!(message.length(), bytes.len());
    if header.opcode == OP_MSG {
        check_sections(&message);
    }
    check_documents(&message);
    check_answer(&message);
}

fn check_sections(message: &MongoMessage) {
    let flags = message.bytes[HEADER_BYTES];
    let has_checksum = u32::from(flags) & CHECKSUM_PRESENT != 0;
    let end = message.length() - if has_checksum { 4 } else { 0 };
    // Its kind lies before the command.
    let mut places = Vec::new();
    places.push(message.command.start - 1..message.command.end);
    for sequence in &message.sequences {
        // Its kind and its length lie before the name, and a zero behind it.
        let mut at = sequence.name.end + 1;
        for document in &sequence.documents {
            assert_eq!(document.start, at);
            at = document.end;
        }
        places.push(sequence.name.start - 5..at);
    }
    places.sort_by_key(|place| place.start);
    let mut at = HEADER_BYTES + 4;
    for place in places {
        assert_eq!(place.start, at);
        at = place.end;
    }
    assert_eq!(at, end);
}

fn check_documents(message: &MongoMessage) {
    check_document(message.command().as_bytes());
    for sequence in &message.sequences {
        let name = &message.bytes[sequence.name.clone()];
        assert!(!name.contains(&0));
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let documents = message
            .sequence(name)
            .expect("the message has the sequence");
        documents.for_each(check_document);
    }
}

fn check_document(bytes: &[u8]) {
    let announced = bytes
        .first_chunk()
        .map(|length| i32::from_le_bytes(*length));
    assert_eq!(announced.map(|length| length as usize), Some(bytes.len()));
    assert!(RawDocument::from_bytes(bytes).is_ok());
}

fn check_answer(message: &MongoMessage) {
    let mut out = BytesMut::from(&b"before"[..]);
    let mut answer = RawDocumentBuf::new();
    answer.append(cstr!("ok"), 1.0);
    put_answer(&mut out, (message.form, message.request_id), 7, &answer);
    let out = out.freeze().slice(6..);
    let header = Header::read(&out).expect("an answer has a header");
    assert_eq!((header.length, header.request_id), (out.len(), 7));
    if header.opcode == OP_MSG {
        let again = MongoMessage::read(header, out).expect("an answer is a message");
        assert_eq!(again.command().as_bytes(), answer.as_bytes());
    }
}
