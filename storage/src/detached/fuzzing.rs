//! Cards of detached partitions, which come from another store than the one that reads them.

use std::path::Path;
use std::sync::Arc;

use super::{Card, DetachedFolder, FORMAT, encode};
use crate::fuzzing::{DATA, allow_caught_panics, choice, disk, put};

/// A part of two events, of which the cards of the corpus tell.
const PART: &[u8] = include_bytes!(
    "../../fixtures/1/lived/detached/events/date=1970-01-04/00000002-000000000000000a.parquet"
);

/// Reads `partition.json`: `!` and a file of any bytes, or else text as a partition under the right
/// checksum. A card that is accepted is written as it was read. Its folder is opened too: each file
/// that it names is a part of two events, under the length and the checksum of that part.
pub fn detached_card(bytes: &[u8]) {
    allow_caught_panics();
    let (how, rest) = choice(bytes);
    let file = match (how, std::str::from_utf8(bytes)) {
        (b'!', _) | (_, Err(_)) => rest.to_vec(),
        (_, Ok(body)) => encode(FORMAT, body).into_bytes(),
    };
    let Ok(card) = Card::decode(Path::new("card"), &file) else {
        return;
    };
    let again = Card::decode(Path::new("card"), &card.encode()).expect("a written card is read");
    assert_eq!(again, card);
    open(card);
}

fn open(mut card: Card) {
    for part in &mut card.parts {
        (part.file.len, part.file.crc) = (PART.len() as u64, crc32c::crc32c(PART));
    }
    let fs = disk(&[(super::FILE, &card.encode())]);
    for part in &card.parts {
        let name = part.file.path.as_str();
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        if is_plain && name != super::FILE {
            put(&fs, name, PART);
        }
    }
    let Ok(folder) = DetachedFolder::open(Arc::new(fs), Path::new(DATA)) else {
        return;
    };
    assert_eq!(folder.parts().len(), card.parts.len());
    assert!(folder.identity().starts_with(folder.store_id()));
    for (nth, (rows, _)) in folder.parts().enumerate() {
        let events = folder
            .events(nth)
            .expect("the file was compared with the card");
        assert_eq!(events.num_rows() as u64, rows);
    }
}
