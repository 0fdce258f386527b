//! Cards round-trip, and a card with any changed byte is refused.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::file::FileRef;
use crate::model::ColumnType;

fn card() -> Card {
    let stream = Name::new("access").expect("a name");
    Card {
        store_id: "0123456789abcdef0123456789abcdef".into(),
        created_s: 1_000_000,
        stream: stream.clone(),
        kind: StreamKind::Access,
        width: PartitionWidth::Day,
        columns: vec![Column::new("time", ColumnType::Time)],
        partition_us: -86_400_000_000,
        parts: vec![PartMeta {
            id: 7,
            stream,
            partition_us: -86_400_000_000,
            file: FileRef {
                path: "0000000000000007.parquet".into(),
                len: 10,
                crc: 7,
                blocks: Vec::new(),
                block_bytes: 256 * 1024,
            },
            rows: 3,
            seq: (1, 3),
            time: (-5, -1),
            text_range: BTreeMap::from([("host".into(), ("a".into(), "é\"}\n".into()))]),
        }],
    }
}

fn decode(bytes: &[u8]) -> Result<Card> {
    Card::decode(Path::new("c"), bytes)
}

#[test]
fn a_card_comes_back_as_it_was_and_is_json() {
    let bytes = card().encode();
    assert_eq!(decode(&bytes).expect("decodes"), card());
    let value: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(value["format"], 1);
    assert_eq!(value["partition"]["stream"], "access");
}

#[test]
fn any_flipped_byte_of_a_card_is_refused() {
    let bytes = card().encode();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x02, 0x10, 0x20, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            assert!(decode(&damaged).is_err(), "byte {at} ^ {flip:#x}");
        }
        assert!(decode(&bytes[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn a_newer_card_is_named() {
    let text = String::from_utf8(card().encode()).expect("text");
    let newer = text.replacen("\"format\": 1", "\"format\": 2", 1);
    assert!(matches!(
        decode(newer.as_bytes()),
        Err(Error::FormatTooNew { found: 2, .. })
    ));
}
