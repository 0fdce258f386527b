//! Compares ranges with the bytes that were written, and damages every block once.

use std::slice::from_ref;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::env::RealFs;
use crate::file::BLOCK_BYTES;
use crate::manifest::Manifest;

const PATH: &str = "file";

/// A folder with one file, and the file.
struct Fixture {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    file: FileRef,
}

impl Fixture {
    fn of(len: usize) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let file = FileRef::write_new(&RealFs, dir.path(), PATH.into(), &bytes).expect("written");
        Self { dir, bytes, file }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(PATH)
    }

    fn flip(&self, at: usize) {
        let mut bytes = self.bytes.clone();
        bytes[at] ^= 1;
        std::fs::write(self.path(), bytes).expect("damaged");
    }

    fn open(&self) -> CheckedFile {
        let snapshot = Snapshot {
            depot: None,
            data: self.dir.path().into(),
            fs: Arc::new(RealFs),
            manifest: Arc::new(Manifest::new(String::new(), 0)),
            streams: Arc::default(),
            chunks: Default::default(),
            next_seq: 0,
            settled: Arc::default(),
            derived: Arc::default(),
            pin: Arc::new(()),
        };
        snapshot.open(&self.file)
    }

    fn range(&self, from: usize, len: usize) -> Range<u64> {
        let end = self.bytes.len().min(from + len);
        from.min(end) as u64..end as u64
    }

    /// Reads one range. The error is the offset of the damage.
    fn read(&self, from: usize, len: usize) -> Result<(), u64> {
        match self.open().read_ranges(&[self.range(from, len)]) {
            Ok(found) => {
                assert_eq!(found[0], self.bytes[from..from + len]);
                Ok(())
            }
            Err(Error::Corrupt { path, offset, .. }) => {
                assert_eq!(path, self.path());
                Err(offset)
            }
            Err(other) => panic!("{other}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_are_what_was_written(
        len in 0..6 * BLOCK_BYTES,
        calls in prop::collection::vec(
            prop::collection::vec((0..6 * BLOCK_BYTES, 0..3 * BLOCK_BYTES), 0..4), 1..5),
    ) {
        let fixture = Fixture::of(len);
        let mut file = fixture.open();
        for call in calls {
            let ranges: Vec<Range<u64>> =
                call.into_iter().map(|(from, len)| fixture.range(from, len)).collect();
            let found = file.read_ranges(&ranges).expect("a sound file");
            prop_assert_eq!(found.len(), ranges.len());
            for (range, found) in ranges.iter().zip(found) {
                let expected = &fixture.bytes[range.start as usize..range.end as usize];
                prop_assert!(found == expected, "{:?} of {}", range, len);
            }
        }
    }
}

#[test]
fn a_damaged_block_is_found_by_whoever_reads_of_it_and_by_nobody_else() {
    let fixture = Fixture::of(3 * BLOCK_BYTES + 1_000);
    assert_eq!(fixture.file.blocks.len(), 4);
    for block in 0..4 {
        let start = block * BLOCK_BYTES;
        let len = BLOCK_BYTES.min(fixture.bytes.len() - start);
        for at in [start, start + len / 2, start + len - 1] {
            fixture.flip(at);
            for other in 0..4 {
                let expected = if other == block {
                    Err(start as u64)
                } else {
                    Ok(())
                };
                assert_eq!(fixture.read(other * BLOCK_BYTES + 10, 5), expected);
            }
            if block > 0 {
                assert_eq!(fixture.read(start - 1, 2), Err(start as u64));
            }
        }
    }
}

#[test]
fn a_file_of_another_length_or_none_is_refused() {
    let fixture = Fixture::of(2 * BLOCK_BYTES);
    for len in [0, 1, BLOCK_BYTES, 2 * BLOCK_BYTES - 1, 2 * BLOCK_BYTES + 1] {
        let mut bytes = fixture.bytes.clone();
        bytes.resize(len, 0);
        std::fs::write(fixture.path(), bytes).expect("damaged");
        let offset = len.min(fixture.bytes.len()) as u64;
        assert_eq!(fixture.read(0, 1), Err(offset));
    }
    std::fs::remove_file(fixture.path()).expect("removed");
    let error = fixture
        .open()
        .read_ranges(from_ref(&(0..1)))
        .expect_err("it is gone");
    assert!(error.to_string().contains(PATH), "{error}");
}

#[test]
fn bytes_beyond_the_end_are_refused() {
    let fixture = Fixture::of(BLOCK_BYTES + 1);
    let end = fixture.file.len;
    let error = fixture.open().read_ranges(from_ref(&(end - 1..end + 1)));
    assert!(matches!(error, Err(Error::Corrupt { offset, .. }) if offset == end));
}

#[test]
fn a_block_is_read_once_by_one_reader_and_again_by_the_next() {
    let fixture = Fixture::of(3 * BLOCK_BYTES);
    let block = BLOCK_BYTES as u64;
    let mut file = fixture.open();
    for range in [0..1, 5..9, block - 1..block, block - 1..block + 1] {
        file.read_ranges(&[range]).expect("a sound file");
    }
    assert_eq!(file.bytes_read(), 2 * block);
    fixture.flip(0);
    file.read_ranges(from_ref(&(0..1)))
        .expect("compared before");
    assert_eq!(fixture.read(0, 1), Err(0), "another query's reader");
}

#[test]
fn a_file_from_before_there_were_blocks_is_compared_as_a_whole() {
    let mut fixture = Fixture::of(3 * BLOCK_BYTES);
    fixture.file.blocks.clear();
    assert_eq!(fixture.read(BLOCK_BYTES, 7), Ok(()));
    fixture.flip(3 * BLOCK_BYTES - 1);
    assert_eq!(fixture.read(BLOCK_BYTES, 7), Err(0));
}

#[test]
fn a_file_of_one_block_is_written_into_the_manifest_as_before() {
    let small = Fixture::of(BLOCK_BYTES);
    let json = serde_json::to_value(&small.file).expect("plain data");
    assert!(json.get("blocks").is_none(), "{json}");
    let large = Fixture::of(BLOCK_BYTES + 1);
    let json = serde_json::to_string(&large.file).expect("plain data");
    let back: FileRef = serde_json::from_str(&json).expect("as it was written");
    assert_eq!((back.blocks.len(), &back), (2, &large.file));
}

#[test]
fn a_large_file_has_longer_blocks_and_each_is_compared() {
    for (len, block_bytes) in [
        (512 * BLOCK_BYTES, BLOCK_BYTES),
        (512 * BLOCK_BYTES + 1, 2 * BLOCK_BYTES),
        (513 * BLOCK_BYTES + 7, 2 * BLOCK_BYTES),
        (1024 * BLOCK_BYTES + 7, 4 * BLOCK_BYTES),
        (2048 * BLOCK_BYTES + 7, 4 * BLOCK_BYTES),
    ] {
        let fixture = Fixture::of(len);
        assert_eq!(fixture.file.block_bytes, block_bytes as u64, "{len}");
        assert!(fixture.file.blocks_fit());
        assert_eq!(fixture.read(0, len), Ok(()), "{len}");
        fixture.flip(len - 1);
        let last = (len - 1) / block_bytes * block_bytes;
        assert_eq!(fixture.read(len - 1, 1), Err(last as u64));
        assert_eq!(fixture.read(last - 1, 1), Ok(()));
    }
}

#[test]
fn blocks_of_a_manifest_that_does_not_say_how_long_they_are_have_256_kib() {
    let mut file = Fixture::of(12 * BLOCK_BYTES + 5).file;
    file.blocks = file.blocks.chunks(4).map(|four| four[0]).collect();
    let mut json = serde_json::to_value(&file).expect("plain data");
    json.as_object_mut().expect("a file").remove("block_bytes");
    let old: FileRef = serde_json::from_value(json).expect("as they were");
    assert_eq!(old.block_len(), 4 * BLOCK_BYTES as u64);
    assert!(old.blocks_fit());
}
