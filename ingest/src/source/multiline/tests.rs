use proptest::prelude::*;

use super::{BlockRecords, Multiline, joined};
use crate::source::{LineBlocks, SourceBlock};

fn rule(text: &str) -> Multiline {
    text.parse().expect("a rule")
}

/// Returns the records of a source that is cut into small blocks, and the blocks.
fn records(source: &[u8], rule: &Multiline, block_bytes: usize) -> (Vec<String>, Vec<SourceBlock>) {
    let blocks = LineBlocks::new(source)
        .with_limits(block_bytes, 1 << 20)
        .of_records(Some(rule.clone()));
    let blocks: Vec<SourceBlock> = blocks.map(|block| block.expect("a block")).collect();
    let records = blocks.iter().flat_map(|block| {
        let records = BlockRecords::new(&block.bytes, Some(rule));
        records.map(|(_, record)| String::from_utf8_lossy(&joined(record, b'\n')).into_owned())
    });
    (records.collect(), blocks)
}

/// Groups lines in the simplest way.
fn expected(source: &str, begins: impl Fn(&str) -> bool) -> Vec<String> {
    let mut records: Vec<String> = Vec::new();
    for line in source.split_terminator('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        match records.last_mut() {
            Some(record) if line.is_empty() || !begins(line) => {
                record.push('\n');
                record.push_str(line);
            }
            _ => records.push(line.to_owned()),
        }
    }
    let ends = records.iter().map(|record| {
        // The beginning of a record is kept, though it may be an empty line.
        let text = record.trim_end_matches('\n');
        text.to_owned()
    });
    ends.collect()
}

#[test]
fn a_stack_trace_belongs_to_its_line() {
    let source = "12:00 ERROR failed\n\
                  java.lang.IllegalStateException: no\n\
                  \tat a.B.c(B.java:12)\n\
                  \n\
                  Caused by: java.io.IOException: gone\n\
                  \t... 3 more\n\
                  12:01 INFO fine\n";
    let (found, blocks) = records(source.as_bytes(), &rule("start:^\\d\\d:\\d\\d "), 4096);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].lines().count(), 6);
    assert_eq!(found[1], "12:01 INFO fine");
    assert_eq!(blocks.len(), 2);
    assert!(!blocks[0].may_go_on && blocks[0].ended);
    assert!(blocks[1].may_go_on && blocks[1].ended);
    let (found, _) = records(source.as_bytes(), &rule("indent"), 4096);
    assert_eq!(found.len(), 3);
    assert!(found[1].ends_with("gone\n\t... 3 more"));
}

#[test]
fn one_carriage_return_belongs_to_the_end_of_a_line() {
    let (found, _) = records(b"\n\r\r\n", &rule("start:^a"), 1);
    assert_eq!(found, ["\n\r"]);
}

#[test]
fn rules_that_cannot_be_used_say_why() {
    for (text, why) in [
        ("indented", "it is indent or start:EXPRESSION"),
        ("start:", "it matches in every line"),
        ("start:a*", "it matches in every line"),
        ("start:(", "unclosed group"),
        ("end:^a", "it is indent or start:EXPRESSION"),
    ] {
        let error = text.parse::<Multiline>().expect_err(text).to_string();
        assert!(error.contains(why) && error.contains(text), "{error}");
    }
}

#[test]
fn a_record_beyond_the_limit_becomes_several() {
    let source = format!("a\n{}", " b\n".repeat(1000));
    let blocks = LineBlocks::new(source.as_bytes())
        .with_limits(64, 100)
        .of_records(Some(rule("indent")));
    let blocks: Vec<SourceBlock> = blocks.map(|block| block.expect("a block")).collect();
    assert!(blocks.len() > 10);
    let bytes: Vec<u8> = blocks
        .iter()
        .flat_map(|block| block.bytes.clone())
        .collect();
    assert_eq!(bytes, source.as_bytes());
    assert!(blocks.iter().all(|block| block.bytes.ends_with(b"\n")));
}

#[test]
fn blocks_of_many_lines_end_between_records() {
    let source = "a\n b\n c\n".repeat(30_000);
    let (found, blocks) = records(source.as_bytes(), &rule("indent"), 1 << 20);
    assert_eq!(found.len(), 30_000);
    assert!(found.iter().all(|record| record == "a\n b\n c"));
    assert!(blocks.len() > 1);
}

proptest! {
    /// However a source is cut into blocks, its records are those of its lines in order.
    #[test]
    fn records_do_not_depend_on_blocks(
        source in "((a|b| c|\t|Caused by: x|xa|ü|\r)?(\n|\r\n)){0,40}(a| b)?",
        block_bytes in 1_usize..60,
        by_start: bool,
    ) {
        let (text, begins): (_, fn(&str) -> bool) = match by_start {
            true => ("start:^(a|x)", |line| line.starts_with(['a', 'x'])),
            false => ("indent", |line| {
                !line.starts_with([' ', '\t']) && !line.starts_with("Caused by:")
            }),
        };
        let rule = rule(text);
        let (found, blocks) = records(source.as_bytes(), &rule, block_bytes);
        prop_assert_eq!(&found, &expected(&source, begins));
        let (mut line, mut byte) = (1, 0);
        for (nth, block) in blocks.iter().enumerate() {
            prop_assert_eq!((block.first_line, block.first_byte), (line, byte));
            line += memchr::memchr_iter(b'\n', &block.bytes).count() as u64;
            byte = block.end_byte;
            prop_assert_eq!(block.may_go_on, nth + 1 == blocks.len());
            prop_assert!(block.ended || nth + 1 == blocks.len());
            let mut records = BlockRecords::new(&block.bytes, Some(&rule));
            let mut before = 0;
            while let Some((begin, record)) = records.next() {
                let lines = memchr::memchr_iter(b'\n', &block.bytes[..begin]).count() as u64;
                prop_assert_eq!(records.lines_before(), lines);
                prop_assert!(begin >= before);
                before = begin + record.len();
            }
            prop_assert_eq!(records.position().1, block.bytes.len());
        }
        prop_assert_eq!(byte, source.len() as u64);
    }
}
