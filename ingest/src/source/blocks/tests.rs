use std::io::{self, Cursor};

use proptest::prelude::*;

use super::*;

fn blocks(source: &[u8], block_bytes: usize, line_max: usize) -> Vec<SourceBlock> {
    LineBlocks::new(source)
        .with_limits(block_bytes, line_max)
        .map(|b| b.unwrap())
        .collect()
}

/// Gives its bytes, then fails.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("gone")),
            n => Ok(n),
        }
    }
}

#[test]
fn blocks_are_cut_at_line_ends_and_know_their_place() {
    let blocks = blocks(b"one\ntwo\nthree\nend", 9, 100);
    let places: Vec<_> = blocks
        .iter()
        .map(|b| (&b.bytes[..], b.first_line, b.first_byte, b.end_byte))
        .collect();
    assert_eq!(
        places,
        [
            (&b"one\ntwo\n"[..], 1, 0, 8),
            (&b"three\n"[..], 3, 8, 14),
            (&b"end"[..], 4, 14, 17)
        ]
    );
}

#[test]
fn an_empty_source_has_no_blocks() {
    assert!(blocks(b"", 10, 100).is_empty());
}

#[test]
fn a_value_that_is_no_object_ends_at_its_comma() {
    let values: Vec<SourceBlock> = LineBlocks::new(&b"[{\"a\":1}, 17, {\"a\":2}, 18"[..])
        .with_limits(13, 100)
        .of_values(true)
        .map(|b| b.unwrap())
        .collect();
    let found: Vec<_> = values
        .iter()
        .map(|b| (&b.bytes[..], b.is_whole()))
        .collect();
    assert_eq!(
        found,
        [
            (&b"[{\"a\":1}, 17"[..], true),
            (&b", {\"a\":2}"[..], true),
            (&b", 18"[..], false)
        ]
    );
}

#[test]
fn only_the_first_block_of_values_begins_with_a_mark() {
    // Two files with marks, one after the other.
    let source = "\u{feff}{\"a\":1}\u{feff}{\"a\":2}".as_bytes();
    let cut = LineBlocks::new(source).with_limits(11, 100).of_values(true);
    let found: Vec<SourceBlock> = cut.map(|b| b.unwrap()).collect();
    assert_eq!(found.len(), 2);
    let items = found
        .iter()
        .flat_map(|b| JsonValues::new(&b.bytes, b.first_byte));
    let items: Vec<&[u8]> = items.map(|(_, item)| item).collect();
    let wanted = ["{\"a\":1}", "\u{feff}", "{\"a\":2}"].map(str::as_bytes);
    assert_eq!(items, wanted);
}

#[test]
fn a_source_can_begin_anywhere() {
    let block = LineBlocks::new(&b"a\n"[..])
        .starting_at(7, 99)
        .next_block()
        .unwrap()
        .unwrap();
    assert_eq!(
        (block.first_line, block.first_byte, block.end_byte),
        (7, 99, 101)
    );
}

#[test]
fn a_long_line_makes_its_block_grow() {
    let source = format!("a\n{}\nb\n", "x".repeat(1000));
    let blocks = blocks(source.as_bytes(), 10, 1000);
    assert!(blocks.iter().all(|b| !b.too_long));
    assert!(blocks.iter().any(|b| b.bytes.len() >= 1001));
    assert_eq!(
        blocks
            .iter()
            .flat_map(|b| b.bytes.clone())
            .collect::<Vec<u8>>(),
        source.as_bytes()
    );
}

#[test]
fn of_a_line_over_the_limit_the_beginning_is_kept() {
    for (end, after) in [("\n", "b\n"), ("", "")] {
        let source = format!("a\n{}{end}{after}", "x".repeat(51));
        let blocks = blocks(source.as_bytes(), 10, 50);
        let long = blocks.iter().find(|b| b.too_long).unwrap();
        assert_eq!(
            (long.first_line, long.first_byte, long.bytes.len()),
            (2, 2, 50)
        );
        assert_eq!(long.end_byte, 2 + 51 + end.len() as u64);
        assert_eq!(blocks.iter().filter(|b| b.too_long).count(), 1);
        if let Some(last) = blocks.last().filter(|b| !b.too_long) {
            assert_eq!((&last.bytes[..], last.first_line), (&b"b\n"[..], 3));
        }
    }
    assert!(
        blocks(&[b"x".repeat(50), b"\n".to_vec()].concat(), 10, 50)
            .iter()
            .all(|b| !b.too_long)
    );
}

#[test]
fn whole_lines_before_a_failure_are_given_out_first() {
    let mut blocks = LineBlocks::new(Broken(b"one\ntwo\nhalf"));
    assert_eq!(blocks.next_block().unwrap().unwrap().bytes, b"one\ntwo\n");
    match blocks.next_block().unwrap_err() {
        Error::Read {
            byte: 12,
            line: 3,
            source,
        } => assert_eq!(source.to_string(), "gone"),
        other => panic!("{other}"),
    }
    assert!(blocks.next_block().unwrap().is_none());
}

#[test]
fn a_failure_inside_a_line_over_the_limit_is_reported() {
    let mut blocks = LineBlocks::new(Broken(&[b'x'; 200])).with_limits(10, 50);
    assert!(matches!(
        blocks.next_block(),
        Err(Error::Read {
            byte: 200,
            line: 1,
            ..
        })
    ));
    assert!(blocks.next_block().unwrap().is_none());
}

#[test]
fn a_failure_behind_a_line_over_the_limit_comes_after_that_line() {
    let mut cut = LineBlocks::new(Broken(b"aaaaaaa\nb")).with_limits(4, 4);
    let line = cut.next_block().unwrap().unwrap();
    assert_eq!(
        (&line.bytes[..], line.too_long, line.end_byte),
        (&b"aaaa"[..], true, 8)
    );
    match cut.next_block() {
        Err(Error::Read { byte, line, .. }) => assert_eq!((byte, line), (9, 2)),
        other => panic!("{other:?}"),
    }
    assert!(cut.next_block().unwrap().is_none());
}

#[test]
fn a_block_of_very_short_lines_has_a_bound_too() {
    let source = b"x\n".repeat(LINES_MAX + 10);
    let blocks = blocks(&source, 1 << 20, 1 << 20);
    let places: Vec<_> = blocks.iter().map(|b| (b.first_line, b.end_byte)).collect();
    let (most, all) = (LINES_MAX as u64, source.len() as u64);
    assert_eq!(places, [(1, 2 * most), (most + 1, all)]);
}

proptest! {
    #[test]
    fn blocks_lie_side_by_side_and_hold_every_byte_that_fits(
        lines in prop::collection::vec("[a-z\r]{0,40}", 0..20),
        last in any::<bool>(),
        block_bytes in 1_usize..60,
        line_max in 1_usize..60,
    ) {
        let mut source = lines.join("\n");
        if last { source.push('\n'); }
        let (mut line, mut byte) = (1, 0);
        for block in LineBlocks::new(Cursor::new(&source)).with_limits(block_bytes, line_max) {
            let block = block.unwrap();
            prop_assert_eq!((block.first_line, block.first_byte), (line, byte));
            let place = &source.as_bytes()[block.first_byte as usize..block.end_byte as usize];
            prop_assert!(place.starts_with(&block.bytes));
            // Of what was passed over too, so that a source with a line over the limit is known
            // again.
            let before = &source.as_bytes()[..block.end_byte as usize];
            prop_assert_eq!(block.content, xxhash_rust::xxh3::xxh3_64(before));
            let too_long = place.split(|&b| b == b'\n').any(|l| l.len() > line_max);
            prop_assert_eq!(block.too_long, too_long);
            if block.too_long {
                prop_assert_eq!(block.bytes.len(), line_max);
                line += 1;
            } else {
                prop_assert_eq!(&block.bytes[..], place);
                prop_assert!(block.bytes.len() <= line_max + 1);
                line += place.iter().filter(|&&b| b == b'\n').count() as u64;
            }
            byte = block.end_byte;
        }
        prop_assert_eq!(byte, source.len() as u64);
    }
}
