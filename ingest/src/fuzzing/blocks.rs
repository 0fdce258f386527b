//! Cuts of a source into blocks of lines, of records, or of JSON values.

use std::io::{self, Read};

use xxhash_rust::xxh3::xxh3_64;

use super::choices;
use crate::source::{BlockRecords, JsonValues, LineBlocks, Multiline, SourceBlock};

/// Cuts a source: the first four bytes are the kind, the size of a block, and the longest line. The
/// blocks lie side by side and say where, they hold the source, and no item is cut.
pub fn blocks(bytes: &[u8]) {
    let ([kind, block_bytes, line_low, line_high], source) = choices(bytes);
    let (values, breaks) = (kind & 1 != 0, kind & 2 != 0);
    let rule: Option<Multiline> = (kind & 4 != 0).then(|| "indent".parse().expect("a rule"));
    let line_max = usize::from(u16::from_le_bytes([line_low, line_high])).max(1);
    let reader = Pieces {
        rest: source,
        piece: 1 + usize::from(kind >> 3),
        breaks,
    };
    let cut = LineBlocks::new(reader).with_limits(usize::from(block_bytes), line_max);
    let (mut found, mut failed) = (Vec::new(), false);
    for block in cut.of_values(values).of_records(rule.clone()) {
        assert!(!failed, "nothing follows an error");
        match block {
            Ok(block) => found.push(block),
            Err(_) => failed = true,
        }
    }
    assert!(!failed || breaks);
    check(source, &found, line_max);
    let end = found.last().map_or(0, |block| block.end_byte);
    assert!(failed || end == source.len() as u64);
    if let Some(rule) = rule.filter(|_| !values && !failed) {
        check_records(source, &found, &rule, line_max);
    }
    if values && !failed && !found.iter().any(|block| block.too_long) {
        let of_blocks = found
            .iter()
            .flat_map(|block| JsonValues::new(&block.bytes, block.first_byte));
        let of_source = JsonValues::new(source, 0).map(|(_, item)| item);
        assert!(
            of_blocks.map(|(_, item)| item).eq(of_source),
            "an item is cut"
        );
    }
}

/// Checks that the records of blocks are those of the source, where none is too long.
fn check_records(source: &[u8], found: &[SourceBlock], rule: &Multiline, line_max: usize) {
    let records = |bytes| BlockRecords::new(bytes, Some(rule)).map(|(_, record)| record);
    // The line ends behind a record have a part in its length.
    let begins = BlockRecords::new(source, Some(rule)).map(|(begin, _)| begin);
    let ends = begins.skip(1).chain([source.len()]);
    let is_short = BlockRecords::new(source, Some(rule))
        .zip(ends)
        .all(|((begin, _), end)| end - begin <= line_max);
    if is_short {
        let of_blocks = found.iter().flat_map(|block| records(&block.bytes));
        assert!(of_blocks.eq(records(source)), "a record is cut");
    }
}

fn check(source: &[u8], found: &[SourceBlock], line_max: usize) {
    let mut at = 0;
    for (nth, block) in found.iter().enumerate() {
        assert_eq!(block.first_byte, at);
        let from = usize::try_from(at).expect("a place in memory");
        let to = usize::try_from(block.end_byte).expect("a place in memory");
        let of_source = &source[from..to];
        let ends = memchr::memchr_iter(b'\n', &source[..from]).count() as u64;
        assert_eq!(block.first_line, ends + 1);
        assert_eq!(block.content, xxh3_64(&source[..to]));
        match block.too_long {
            true => assert_eq!(block.bytes, of_source[..line_max]),
            false => assert_eq!(block.bytes, of_source),
        }
        assert!(block.bytes.len() <= line_max + 1);
        let is_last = nth + 1 == found.len();
        assert!(is_last || block.is_whole(), "a block ends within an item");
        at = block.end_byte;
    }
}

/// A reader of small pieces, which may break off at the end.
struct Pieces<'a> {
    rest: &'a [u8],
    piece: usize,
    breaks: bool,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.breaks {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let len = self.piece.min(into.len()).min(self.rest.len());
        let (now, later) = self.rest.split_at(len);
        into[..len].copy_from_slice(now);
        self.rest = later;
        Ok(len)
    }
}
