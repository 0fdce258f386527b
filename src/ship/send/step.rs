//! Cuts the next batch of a file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ingest::{LINE_BYTES_MAX, LineBlocks, Multiline, SourceBlock};
use xxhash_rust::xxh3::Xxh3Default;

use crate::failure::Result;
use crate::ship::follow::{Guard, ShipPosition};
use crate::ship::seeded::{self, ShipBug};
use crate::source_id::ReadAt;

/// Some lines behind a position.
pub(crate) struct NextLines {
    pub(crate) block: SourceBlock,
    /// The block without the end of a line that was taken before.
    pub(crate) from: usize,
    /// The position behind it, once it is taken.
    pub(crate) after: ShipPosition,
}

impl NextLines {
    pub(crate) fn body(&self) -> &[u8] {
        &self.block.bytes[self.from..]
    }

    /// Returns whether it is one line, or one record, which cannot be sent in pieces.
    pub(crate) fn is_one(&self, rule: Option<&Multiline>) -> bool {
        match rule {
            Some(rule) => rule.is_one(self.body()),
            None => {
                memchr::memchr(b'\n', self.body()).is_none_or(|end| end + 1 == self.body().len())
            }
        }
    }
}

/// The outcome of a cut.
pub(crate) enum NextCut {
    Lines(Box<NextLines>),
    /// Lines of one record, of which more may come.
    OpenRecord,
    /// There is no whole line.
    Nothing,
}

/// The state of the end of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileEnd {
    /// Nothing will be appended.
    pub(crate) is_complete: bool,
    /// Nothing was appended for some time: its last record is taken for whole.
    pub(crate) rests: bool,
    /// The length of which that is known.
    pub(crate) len: u64,
}

/// Reads whole lines, or records by a rule, of about `limit` bytes; the last piece of a file that
/// is complete counts as one.
///
/// # Errors
/// Errors of reading the file.
pub(crate) fn cut(
    file: &Arc<File>,
    position: &ShipPosition,
    limit: usize,
    rule: Option<&Multiline>,
    end: FileEnd,
) -> Result<NextCut> {
    let content = ReadAt::new(Arc::clone(file), position.at);
    let mut blocks = LineBlocks::new(content)
        .with_limits(limit, LINE_BYTES_MAX)
        .starting_at(position.lines + 1, position.at)
        .of_records(rule.cloned())
        .hashing(position.hasher.clone());
    let Some(mut block) = blocks.next_block()?.filter(|block| !block.is_blank()) else {
        return Ok(NextCut::Nothing);
    };
    // By a rule, the end of a line that was taken before may be a block of its own.
    if position.mid_line
        && line_end(&block.bytes) == block.bytes.len()
        && let Some(next) = blocks.next_block()?
    {
        block = SourceBlock {
            bytes: [&*block.bytes, &*next.bytes].concat(),
            first_line: block.first_line,
            first_byte: block.first_byte,
            ..next
        };
    }
    // The rest of a very long line may not be written yet.
    let is_line = match block.too_long {
        true => has_line_end(file, block.end_byte)?,
        false => block.is_whole(),
    };
    if !is_line && !end.is_complete && !seeded::is(ShipBug::PieceIsLine) {
        return Ok(NextCut::Nothing);
    }
    let rests = end.rests && block.end_byte <= end.len;
    if block.may_go_on && !rests && !end.is_complete {
        return Ok(NextCut::OpenRecord);
    }
    let from = match position.mid_line {
        true => line_end(&block.bytes),
        false => 0,
    };
    if from == block.bytes.len() {
        return Ok(NextCut::Nothing);
    }
    let mut hasher = position.hasher.clone();
    match block.too_long {
        true => {
            let content = ReadAt::new(Arc::clone(file), position.at);
            hash_into(&mut hasher, content.take(block.end_byte - position.at))?;
        }
        false => hasher.update(&block.bytes),
    }
    let lines = memchr::memchr_iter(b'\n', &block.bytes).count() as u64;
    let guard: Guard = position.guard.after(file, &block)?;
    let after = ShipPosition {
        at: block.end_byte,
        format: position.format.behind(&block),
        lines: position.lines + if block.too_long { 1 } else { lines },
        mid_line: !is_line,
        hasher,
        guard,
        is_unsent: false,
        ..position.clone()
    };
    Ok(NextCut::Lines(Box::new(NextLines { block, from, after })))
}

/// Returns the length of the line end at the beginning.
pub(crate) fn line_end(bytes: &[u8]) -> usize {
    match bytes {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => 0,
    }
}

fn has_line_end(file: &File, end: u64) -> Result<bool> {
    let mut last = [0];
    file.read_exact_at(&mut last, end - 1)?;
    Ok(last == *b"\n")
}

/// Adds a content to a hash.
pub(crate) fn hash_into(hasher: &mut Xxh3Default, mut content: impl Read) -> std::io::Result<()> {
    let mut buffer = vec![0; 128 << 10];
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok(()),
            read => hasher.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use ingest::Format;

    use super::*;

    /// Returns the cut of a file of which the first byte, a line without its end, was taken.
    fn behind_a_piece(content: &str, limit: usize, end: FileEnd) -> NextCut {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        std::fs::write(&path, content).expect("a file");
        let file = Arc::new(File::open(&path).expect("a file"));
        let mut hasher = Xxh3Default::new();
        hasher.update(&content.as_bytes()[..1]);
        let position = ShipPosition {
            producer: String::new(),
            at: 1,
            lines: 1,
            mid_line: true,
            hasher,
            format: Format::Auto,
            guard: Guard::read(&file, b"A", 1).expect("a guard"),
            is_unsent: false,
            confirmed: 0,
        };
        let rule: Multiline = "start:^[AB]".parse().expect("a rule");
        cut(&file, &position, limit, Some(&rule), end).expect("a cut")
    }

    #[test]
    fn a_record_behind_the_end_of_a_known_piece_is_sent() {
        let content = "A\nB\n b\n";
        let mut end = FileEnd {
            is_complete: false,
            rests: false,
            len: content.len() as u64,
        };
        assert!(matches!(
            behind_a_piece(content, 100, end),
            NextCut::OpenRecord
        ));
        end.rests = true;
        for limit in [1, 3, 100] {
            let NextCut::Lines(next) = behind_a_piece(content, limit, end) else {
                panic!("no lines at {limit}");
            };
            assert_eq!(next.body(), b"B\n b\n");
            assert_eq!((next.after.at, next.after.lines), (7, 4));
            assert_eq!(
                next.after.hasher.digest(),
                xxhash_rust::xxh3::xxh3_64(content.as_bytes())
            );
            assert_eq!(next.block.content, next.after.hasher.digest());
        }
        // A record that came after the file was seen to rest may go on.
        end.len = 5;
        assert!(matches!(
            behind_a_piece(content, 100, end),
            NextCut::OpenRecord
        ));
        assert!(matches!(behind_a_piece("A\n", 100, end), NextCut::Nothing));
    }
}
