//! Bodies of shippers' protocols.

use super::choices;
use crate::shippers::hec::HecDefaults;
use crate::shippers::journald::ExportDecoder;
use crate::shippers::{StreamRecords, elastic, hec, loki, otlp, stream_name};
use crate::source::Records;
use crate::{Format, ParseOptions, Parser};

/// Decodes a body: the first byte is its protocol. Streams have names that a store takes, records
/// add up to what the format of documents reads of them, and the same body gives the same records.
pub fn shippers(bytes: &[u8]) {
    let ([protocol], body) = choices(bytes);
    let streams = decode(protocol, body);
    assert_eq!(streams, decode(protocol, body));
    for StreamRecords { stream, records } in &streams {
        assert!(storage::Name::new(stream).is_ok(), "{stream}");
        assert_eq!(stream_name(stream).as_ref(), Some(stream));
        let options = ParseOptions {
            format: Format::Json,
            received_us: i64::MAX / 2,
            ..ParseOptions::default()
        };
        let parsed = Parser::new(options).parse_items(records.items(0));
        let parsed = parsed.expect("no limit is set");
        let events = parsed.events.num_rows();
        assert_eq!(events + parsed.quarantine.len(), records.len());
    }
}

fn decode(protocol: u8, body: &[u8]) -> Vec<StreamRecords> {
    let defaults = HecDefaults {
        host: Some("h"),
        ..HecDefaults::default()
    };
    let decoded = match protocol % 8 {
        0 => {
            return elastic::decode(body, None, Some("of_path")).map_or_else(
                |malformed| {
                    let lines = 1 + body.iter().filter(|byte| **byte == b'\n').count() as u64;
                    assert!((1..=lines).contains(&malformed.line));
                    Vec::new()
                },
                |bulk| bulk.streams,
            );
        }
        1 => loki::decode_protobuf(body, None).ok(),
        2 => loki::decode_json(body, None).ok(),
        3 => otlp::decode_protobuf(body, None).ok(),
        4 => otlp::decode_json(body, None).ok(),
        5 => hec::decode_events(body, defaults).ok(),
        6 => hec::decode_lines(body, defaults)
            .ok()
            .map(|lines| vec![lines]),
        _ => Some(vec![entries(body)]),
    };
    decoded.unwrap_or_default()
}

/// Decodes an export of a journal: in pieces it is the same.
fn entries(body: &[u8]) -> StreamRecords {
    let decode = |piece_bytes: usize| {
        let (mut decoder, mut records) = (ExportDecoder::default(), Records::default());
        for piece in body.chunks(piece_bytes) {
            if decoder
                .take(piece, &mut |entry| records.push(&entry.json))
                .is_err()
            {
                break;
            }
        }
        records
    };
    let records = decode(body.len().max(1));
    assert_eq!(records, decode(7));
    StreamRecords {
        stream: "journald".to_owned(),
        records,
    }
}
