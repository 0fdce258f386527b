//! Tests of the journal's files, byte by byte.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::env::{Fs, RealFs};
use crate::error::{Error, Result};
use crate::testing::{FaultFs, Op};

const STORE: &str = "0123456789abcdef0123456789abcdef";

/// A group, as written and as read back: first sequence number, items, payloads.
type GroupContent = (u64, u32, Vec<Vec<u8>>);

/// A journal, with everything that was appended to it.
struct Log {
    dir: tempfile::TempDir,
    journal: Journal,
    next_seq: u64,
    groups: Vec<GroupContent>,
}

impl Log {
    fn new() -> Self {
        Self::on(Arc::new(RealFs))
    }

    fn on(fs: Arc<dyn Fs>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join(DIR)).expect("a directory");
        let journal = begin(fs, dir.path(), Previous::default(), 0);
        Self {
            dir,
            journal,
            next_seq: 0,
            groups: Vec::new(),
        }
    }

    fn data(&self) -> &Path {
        self.dir.path()
    }

    fn path(&self, segment: u64) -> PathBuf {
        segment_path(self.data(), segment)
    }

    /// Writes a group of records of these lengths, of two items each.
    fn append(&mut self, lens: &[usize]) {
        self.try_append(lens).expect("appends");
    }

    fn try_append(&mut self, lens: &[usize]) -> Result<()> {
        let fill = self.groups.len() as u8 + 1;
        let payloads: Vec<Vec<u8>> = lens.iter().map(|len| vec![fill; *len]).collect();
        let items = 2 * lens.len() as u64;
        self.journal.append(self.next_seq, items, &payloads)?;
        self.groups.push((self.next_seq, items as u32, payloads));
        self.next_seq += items;
        Ok(())
    }

    fn sync(&self) {
        let durable = self.journal.syncer().sync_written().expect("syncs");
        assert_eq!(durable, self.next_seq);
    }

    fn len(&self, segment: u64) -> u64 {
        std::fs::metadata(self.path(segment))
            .expect("a segment")
            .len()
    }
}

fn begin(fs: Arc<dyn Fs>, data: &Path, previous: Previous, next_seq: u64) -> Journal {
    Journal::begin(fs, data, STORE, 1, previous, next_seq).expect("begins")
}

fn read_from(data: &Path, floor: u64) -> Result<(Vec<GroupContent>, Replay)> {
    let mut groups = Vec::new();
    let replay = replay(&RealFs, data, STORE, floor, |group| {
        let records = group.records.iter().map(|r| r.to_vec()).collect();
        groups.push((group.first_seq, group.items, records));
        Ok(())
    })?;
    Ok((groups, replay))
}

fn read(data: &Path) -> Result<(Vec<GroupContent>, Replay)> {
    read_from(data, 0)
}

fn refused(data: &Path, floor: u64) -> (PathBuf, u64, String) {
    match read_from(data, floor) {
        Err(Error::Corrupt { path, offset, what }) => (path, offset, what),
        other => panic!("not refused: {other:?}"),
    }
}

/// Returns the offset at which the group after `end` begins.
fn start_after(bytes: &[u8], end: u64) -> u64 {
    let found = bytes[end as usize..].iter().position(|b| *b != 0);
    end + found.expect("a group") as u64
}

#[test]
fn groups_come_back_as_they_were_written() {
    let mut log = Log::new();
    for round in 0..40_usize {
        log.append(&[round * 97, 0, round % 9][..1 + round % 3]);
        if round % 5 == 4 {
            log.sync();
        }
        if round % 16 == 15 {
            log.journal.rotate(log.next_seq).expect("rotates");
        }
        // A reader sees everything that was appended so far.
        let (groups, replay) = read(log.data()).expect("whole");
        assert_eq!(groups, log.groups);
        assert_eq!((replay.next_seq, replay.torn_bytes), (log.next_seq, 0));
    }
    assert_eq!(log.journal.segment(), 3);
}

#[test]
fn what_lies_below_the_floor_is_not_read() {
    let mut log = Log::new();
    log.append(&[10]);
    log.journal.rotate(log.next_seq).expect("rotates");
    log.append(&[20]);
    std::fs::remove_file(log.path(1)).expect("removed");
    let (groups, replay) = read_from(log.data(), 2).expect("whole");
    assert_eq!(groups, log.groups[1..]);
    assert_eq!(replay.last.segment, 2);
}

#[test]
fn after_a_sync_the_next_group_begins_in_another_block() {
    for len in (0..4200).step_by(61).chain([3984, 3992, 4000, 8080, 8088]) {
        let mut log = Log::new();
        log.append(&[len]);
        let first_end = log.len(1);
        log.append(&[30]);
        let second_end = log.len(1);
        log.sync();
        log.append(&[40]);
        let third_end = log.len(1);
        log.append(&[50]);
        let bytes = std::fs::read(log.path(1)).expect("read");
        let unsynced = start_after(&bytes, first_end);
        assert_eq!(unsynced, first_end.next_multiple_of(8), "length {len}");
        let synced = start_after(&bytes, second_end);
        assert_eq!(synced, second_end.next_multiple_of(BLOCK), "length {len}");
        let next = start_after(&bytes, third_end);
        assert_eq!(next, third_end.next_multiple_of(8), "length {len}");
        assert_eq!(read(log.data()).expect("whole").0, log.groups);
    }
}

/// Returns the files of a journal with one group of five items and no record.
fn one_group(first_seq: u64) -> crate::sim::SimFs {
    let mut group = [0; GROUP_HEAD];
    group[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
    group[16..24].copy_from_slice(&first_seq.to_le_bytes());
    group[24..28].copy_from_slice(&5_u32.to_le_bytes());
    let segment = fuzzing::segment(0, &group, (true, true));
    crate::fuzzing::disk(&[(&relative_path(1), &segment)])
}

#[test]
fn a_group_beyond_the_last_sequence_number_is_refused_and_not_salvaged() {
    use crate::fuzzing::{DATA, STORE};
    let last = crate::model::SEQ_END_MAX - 5;
    for (first_seq, fits) in [(last, true), (last + 1, false), (u64::MAX - 2, false)] {
        let fs = one_group(first_seq);
        let replayed = replay(&fs, Path::new(DATA), STORE, 0, |_| Ok(()));
        assert_eq!(replayed.is_ok(), fits, "{first_seq}");
        let salvaged = salvage(&fs, Path::new(DATA), STORE, 0, 0).expect("a sound disk");
        assert_eq!(salvaged.groups.len(), usize::from(fits), "{first_seq}");
        assert_eq!(salvaged.end_seq, if fits { last + 5 } else { 0 });
    }
}

#[test]
fn a_sync_that_has_only_begun_keeps_its_blocks_too() {
    let fs = FaultFs::default();
    let mut log = Log::on(Arc::new(fs.clone()));
    log.append(&[100]);
    let end = log.len(1);
    fs.hold_syncs(".log");
    let syncer = Arc::clone(log.journal.syncer());
    let syncing = std::thread::spawn(move || syncer.sync_written());
    fs.wait_for_held();
    log.append(&[100]);
    assert_eq!(
        log.journal.syncer().durable_seq(),
        0,
        "the sync is under way"
    );
    fs.release();
    let durable = syncing.join().expect("no panic").expect("syncs");
    assert_eq!(durable, 2, "what came after the sync began is not durable");
    let bytes = std::fs::read(log.path(1)).expect("read");
    assert_eq!(start_after(&bytes, end), end.next_multiple_of(BLOCK));
    assert_eq!(read(log.data()).expect("whole").0, log.groups);
}

#[test]
fn a_group_without_items_is_synced_like_any_other() {
    let fs = FaultFs::default();
    let log = &mut Log::on(Arc::new(fs.clone()));
    log.append(&[8]);
    log.sync();
    let (seq, payload) = (log.next_seq, vec![vec![7; 9]]);
    log.journal.append(seq, 0, &payload).expect("appends");
    fs.calls();
    log.sync();
    assert_eq!(
        fs.calls(),
        [(
            Op::Sync,
            segment_path(log.data(), 1).with_extension("1.log.tmp")
        )]
    );
}

#[test]
fn a_torn_tail_leaves_a_prefix() {
    let mut log = Log::new();
    log.append(&[100, 50]);
    log.sync();
    let durable_end = log.len(1);
    let mut ends = vec![durable_end];
    for len in [60, 0, 200, 90] {
        log.append(&[len]);
        ends.push(log.len(1));
    }
    let whole = std::fs::read(log.path(1)).expect("read");
    for cut in durable_end as usize..whole.len() {
        let kept = ends.iter().filter(|end| **end <= cut as u64).count();
        let garbled = |from: u8| {
            let mut bytes = whole.clone();
            let mut noise = from;
            for byte in &mut bytes[cut..] {
                noise = noise.wrapping_mul(181).wrapping_add(101);
                *byte ^= noise | 1;
            }
            bytes
        };
        let mut zeroed = whole.clone();
        zeroed[cut..].fill(0);
        let mut longer = zeroed.clone();
        longer.resize(whole.len() + 8192, 0);
        let cut_off = whole[..cut].to_vec();
        for (way, bytes) in [
            ("cut", cut_off),
            ("zeros", zeroed),
            ("longer", longer),
            ("noise", garbled(cut as u8)),
        ] {
            let cut_is_seen = bytes.get(cut) != Some(&whole[cut]);
            std::fs::write(log.path(1), &bytes).expect("written");
            let (groups, replay) = read(log.data()).expect("a torn tail is no error");
            assert!(
                groups.len() >= kept,
                "{way} at {cut}: {} groups",
                groups.len()
            );
            assert_eq!(groups, log.groups[..groups.len()], "{way} at {cut}");
            if cut_is_seen {
                assert_eq!(groups.len(), kept, "{way} at {cut}");
            }
            assert_eq!(replay.last.end, ends[groups.len() - 1], "{way} at {cut}");
        }
    }
}

#[test]
fn a_writer_goes_on_after_a_torn_tail() {
    let mut log = Log::new();
    log.append(&[100]);
    log.append(&[200]);
    let bytes = std::fs::read(log.path(1)).expect("read");
    std::fs::write(log.path(1), &bytes[..bytes.len() - 1]).expect("cut");
    log.groups.pop();
    let (_, torn) = read(log.data()).expect("a torn tail");
    assert!(torn.torn_bytes > 0);
    // The torn tail may stay: the next segment names the end of the valid data.
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    log.next_seq = 100;
    log.journal = begin(fs, log.dir.path(), torn.last, 100);
    log.append(&[300]);
    let (groups, replay) = read(log.data()).expect("whole");
    assert_eq!(groups, log.groups);
    assert_eq!((replay.torn_bytes, replay.next_seq), (0, 102));
}

#[test]
fn damage_to_what_a_later_group_calls_synced_is_refused() {
    let mut log = Log::new();
    log.append(&[100]);
    let first_end = log.len(1);
    log.append(&[120]);
    let durable_end = log.len(1);
    log.sync();
    log.append(&[140]);
    let whole = std::fs::read(log.path(1)).expect("read");
    let second = start_after(&whole, first_end);
    for at in (HEADER_LEN..first_end).chain(second..durable_end) {
        let mut bytes = whole.clone();
        bytes[at as usize] ^= 0x10;
        std::fs::write(log.path(1), &bytes).expect("written");
        let (path, offset, _) = refused(log.data(), 0);
        assert_eq!(path, log.path(1));
        assert_eq!(
            offset,
            if at < first_end {
                HEADER_LEN
            } else {
                first_end
            }
        );
    }
    // No group records that the last one was synced, so damage to it is a torn tail.
    let mut bytes = whole.clone();
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(log.path(1), &bytes).expect("written");
    assert_eq!(read(log.data()).expect("a torn tail").0, log.groups[..2]);
}

#[test]
fn any_flipped_byte_is_refused_or_costs_nothing_durable() {
    let mut log = Log::new();
    log.append(&[50, 1]);
    log.sync();
    log.append(&[33]);
    log.journal.rotate(log.next_seq).expect("rotates");
    log.append(&[70]);
    log.append(&[20]);
    log.sync();
    let durable = log.groups.len();
    log.append(&[64]);
    log.append(&[5]);
    let (mut refusals, mut prefixes, mut unharmed) = (0, 0, 0);
    for segment in [1, 2] {
        let path = log.path(segment);
        let whole = std::fs::read(&path).expect("read");
        // Bytes are changed in place: some file systems flush a file that is truncated and
        // written anew.
        let file = RealFs.open(&path).expect("opens");
        for at in 0..whole.len() {
            for flip in [0x01, 0xff] {
                file.write_all_at(&[whole[at] ^ flip], at as u64)
                    .expect("written");
                match read(log.data()) {
                    Ok((groups, _)) => {
                        assert!(
                            groups.len() >= durable,
                            "segment {segment}, byte {at}: lost"
                        );
                        assert_eq!(groups, log.groups[..groups.len()], "byte {at}");
                        let all = groups.len() == log.groups.len();
                        *(if all { &mut unharmed } else { &mut prefixes }) += 1;
                    }
                    Err(Error::Corrupt { .. }) => refusals += 1,
                    Err(other) => panic!("segment {segment}, byte {at}: {other}"),
                }
            }
            file.write_all_at(&whole[at..=at], at as u64)
                .expect("restored");
        }
    }
    // A changed byte of a header is refused, one of the last two groups makes a torn tail, and
    // one of the zeros between groups has no effect.
    assert!(refusals >= 2 * 2 * HEADER_LEN, "{refusals} refused");
    assert!(prefixes >= 2 * 2 * GROUP_HEAD, "{prefixes} prefixes");
    assert!(unharmed > 0);
}

#[test]
fn a_missing_segment_is_refused() {
    // Segment 4 is the last one: nothing in the journal records it, only the mark does.
    for (gone, floor) in [
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
        (2, 2),
        (4, 0),
        (4, 1),
        (4, 4),
    ] {
        let mut log = Log::new();
        for _ in 0..3 {
            log.append(&[10]);
            log.journal.rotate(log.next_seq).expect("rotates");
        }
        assert!(read_from(log.data(), floor).is_ok());
        std::fs::remove_file(log.path(gone)).expect("removed");
        let (path, _, _) = refused(log.data(), floor);
        assert_eq!(path, log.path(gone), "floor {floor}");
    }
}

#[test]
fn a_mark_that_is_missing_damaged_or_of_another_store_says_nothing() {
    let mut log = Log::new();
    log.append(&[10]);
    log.journal.rotate(log.next_seq).expect("rotates");
    std::fs::remove_file(log.path(2)).expect("removed");
    assert_eq!(refused(log.data(), 0).0, log.path(2));
    let mark = log.data().join(mark::FILE);
    let whole = std::fs::read_to_string(&mark).expect("read");
    let foreign = whole.replace(STORE, &"f".repeat(32));
    let later = whole.replace(" 2 ", " 3 ");
    for text in [String::new(), "logmill journal".to_owned(), later, foreign] {
        std::fs::write(&mark, &text).expect("written");
        assert!(read(log.data()).is_ok(), "{text:?}");
    }
    std::fs::remove_file(&mark).expect("removed");
    assert!(read(log.data()).is_ok());
}

#[test]
fn a_segment_of_another_store_is_refused() {
    let (mut log, mut other) = (Log::new(), Log::new());
    log.append(&[10]);
    other.append(&[10]);
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let foreign = "f".repeat(32);
    let data = other.data();
    std::fs::remove_file(other.path(1)).expect("removed");
    Journal::begin(fs, data, &foreign, 1, Previous::default(), 0).expect("begins");
    std::fs::copy(other.path(1), log.path(1)).expect("copied");
    assert!(refused(log.data(), 0).2.contains(&foreign));
}

#[test]
fn a_segment_that_does_not_follow_its_predecessor_is_refused() {
    let mut log = Log::new();
    log.append(&[10]);
    let first_end = log.len(1);
    log.append(&[20]);
    log.journal.rotate(log.next_seq).expect("rotates");
    log.append(&[30]);
    let whole = std::fs::read(log.path(1)).expect("read");
    // A predecessor that was cut at the end of a group looks whole.
    std::fs::write(log.path(1), &whole[..first_end as usize]).expect("cut");
    assert_eq!(refused(log.data(), 0).0, log.path(1));
    std::fs::write(log.path(1), &whole).expect("restored");
    // A copy under another number is refused too.
    std::fs::copy(log.path(2), log.path(3)).expect("copied");
    assert_eq!(refused(log.data(), 0).0, log.path(2));
    std::fs::remove_file(log.path(3)).expect("removed");
    assert_eq!(read(log.data()).expect("whole").0, log.groups);
}

#[test]
fn other_files_in_the_directory_are_nobodys() {
    let mut log = Log::new();
    log.append(&[10]);
    for name in [
        "10.log",
        "0000000000000002.1.log.tmp",
        "notes",
        "000000000000000G.log",
    ] {
        std::fs::write(log.data().join(DIR).join(name), b"x").expect("written");
    }
    assert_eq!(read(log.data()).expect("whole").0, log.groups);
    log.journal
        .rotate(log.next_seq)
        .expect("rotates over what a killed writer left");
}

#[test]
fn a_forged_group_in_a_torn_record_is_not_believed() {
    let mut log = Log::new();
    log.append(&[10]);
    // A client puts a group into its line: as synced, and of another writer.
    let mut forged = vec![0; GROUP_HEAD];
    forged[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
    forged[16..24].copy_from_slice(&1000_u64.to_le_bytes());
    forged[32..40].copy_from_slice(&1000_u64.to_le_bytes());
    forged[40..48].copy_from_slice(&77_u64.to_le_bytes());
    let crc = crc32c::crc32c(&forged[8..]);
    forged[4..8].copy_from_slice(&crc.to_le_bytes());
    log.journal
        .append(log.next_seq, 2, &[forged])
        .expect("appends");
    let mut bytes = std::fs::read(log.path(1)).expect("read");
    let last = start_after(&bytes, HEADER_LEN) as usize;
    let torn = bytes.len() - GROUP_HEAD - 9;
    assert!(torn > last);
    bytes[torn] ^= 0xff;
    std::fs::write(log.path(1), &bytes).expect("written");
    assert_eq!(read(log.data()).expect("a torn tail").0, log.groups);
}

#[test]
fn a_full_disk_refuses_a_group_and_takes_the_next() {
    let fs = FaultFs::default();
    let mut log = Log::on(Arc::new(fs.clone()));
    log.append(&[100]);
    for op in [Op::Write, Op::Create] {
        fs.fail(op, "journal", ErrorKind::StorageFull, 1);
        let full = match op {
            Op::Write => log.try_append(&[5000]),
            _ => log.journal.rotate(log.next_seq),
        };
        assert!(
            matches!(full, Err(Error::DiskFull { .. })),
            "{op:?}: {full:?}"
        );
        assert_eq!(read(log.data()).expect("whole").0, log.groups, "{op:?}");
        log.append(&[200]);
        log.sync();
        log.append(&[300]);
        assert_eq!(read(log.data()).expect("whole").0, log.groups, "{op:?}");
    }
    log.journal
        .rotate(log.next_seq)
        .expect("rotates once there is room");
    log.append(&[1]);
    assert_eq!(read(log.data()).expect("whole").0, log.groups);
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let fs = FaultFs::default();
    let mut log = Log::on(Arc::new(fs.clone()));
    log.append(&[10]);
    log.sync();
    log.append(&[10]);
    fs.fail(Op::Sync, ".log", ErrorKind::Other, 1);
    let syncer = Arc::clone(log.journal.syncer());
    assert!(matches!(
        syncer.sync_written(),
        Err(Error::Io { op: "sync", .. })
    ));
    fs.calls();
    assert!(matches!(syncer.sync_written(), Err(Error::Unknown { .. })));
    assert!(matches!(log.try_append(&[10]), Err(Error::Unknown { .. })));
    assert!(matches!(log.journal.rotate(4), Err(Error::Unknown { .. })));
    assert_eq!(fs.calls(), [], "the disk is left alone");
    assert_eq!(syncer.durable_seq(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_header_comes_back_as_it_was(
        segment in any::<u64>(), first_seq in any::<u64>(), writer_epoch in any::<u64>(),
        previous in any::<(u64, u64, u32)>(),
    ) {
        let previous = Previous { segment: previous.0, end: previous.1, crc: previous.2 };
        let store_id = STORE.to_owned();
        let header = SegmentHeader { segment, first_seq, writer_epoch, previous, store_id };
        let (bytes, crc) = header.encode();
        prop_assert_eq!(SegmentHeader::decode(&bytes), Ok((header, crc)));
    }

    #[test]
    fn noise_after_a_header_is_a_torn_tail(
        noise in proptest::collection::vec(any::<u8>(), 0..600), magic in any::<bool>(),
    ) {
        let mut log = Log::new();
        log.append(&[10]);
        let mut bytes = std::fs::read(log.path(1)).expect("read");
        if magic {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes.extend_from_slice(&GROUP_MAGIC.to_le_bytes());
        }
        bytes.extend_from_slice(&noise);
        std::fs::write(log.path(1), &bytes).expect("written");
        let (groups, _) = read(log.data()).expect("a torn tail");
        prop_assert_eq!(groups, log.groups);
    }
}
