//! Bit rot: each byte of the journal, of the manifest and of an identity checkpoint is damaged in
//! turn, and the store is opened for reading and for writing.
//!
//! The expected result follows from the position of the byte in the documented layout, not from
//! the reader's own judgement: no effect when the byte is padding; a shorter journal when nothing
//! after the damage proves that the lost part had been synced; otherwise a refusal that names
//! file and offset.
//! `LOGMILL_FULL=1` damages every byte instead of every 37th.

pub(crate) mod life;

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::concat_batches;

use crate::concern::WriteConcern;
use crate::env::Fs;
use crate::error::Error;
use crate::manifest::PartMeta;
use crate::memtable::column;
use crate::model::{Ack, Identity, Name, SEQ};
use crate::read_only_store::ReadOnlyStore;
use crate::snapshot::Snapshot;
use crate::store::Store;
use life::{DATA, Files, Life, STORE, Sent, options};

const HEADER_LEN: usize = 4096;
const GROUP_HEAD: usize = 48;
const GROUP_MAGIC: u32 = 0x4752_4D4C;

/// One group, located by the documented layout.
pub(crate) struct Group {
    pub(crate) bytes: Range<usize>,
    pub(crate) first_seq: u64,
    items: u64,
    records: usize,
    durable_seq: u64,
}

/// Returns the groups of an undamaged segment.
pub(crate) fn groups(bytes: &[u8]) -> Vec<Group> {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let mut groups = Vec::new();
    let mut at = HEADER_LEN;
    while at + GROUP_HEAD <= bytes.len() {
        if u32_at(at) != GROUP_MAGIC {
            at += 8;
            continue;
        }
        let end = at + GROUP_HEAD + u32_at(at + 8) as usize;
        groups.push(Group {
            bytes: at..end,
            first_seq: u64_at(at + 16),
            items: u64::from(u32_at(at + 24)),
            records: u32_at(at + 28) as usize,
            durable_seq: u64_at(at + 32),
        });
        at = end;
    }
    groups
}

/// Expected result of a damage.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// No effect.
    Unharmed,
    /// A refusal that names the file and one of these offsets in it.
    Refused(Vec<u64>),
    /// A refusal because the format is newer than this program.
    TooNew,
    /// Only this many batches remain, with events below this number; the journal ends at this
    /// byte.
    Shorter {
        batches: usize,
        seq: u64,
        end: usize,
    },
}

/// Returns the expected result of a damage at byte `at` of a segment after `before` batches.
fn verdict(segment: &[u8], is_last: bool, before: usize, at: usize) -> Verdict {
    if at < HEADER_LEN {
        return Verdict::Refused(vec![0]);
    }
    let groups = groups(segment);
    let Some(hit) = groups.iter().position(|g| g.bytes.contains(&at)) else {
        assert_eq!(segment[at], 0, "what no group holds is padding");
        return Verdict::Unharmed;
    };
    let end = hit
        .checked_sub(1)
        .map_or(HEADER_LEN, |i| groups[i].bytes.end);
    // The chain breaks at the damage: everything from there on would be lost.
    let lost = &groups[hit..];
    let synced = lost.iter().enumerate().any(|(i, group)| {
        let says = |later: &Group| later.durable_seq >= group.first_seq + group.items;
        group.items > 0 && lost[i + 1..].iter().any(says)
    });
    if synced || !is_last {
        return Verdict::Refused(vec![end as u64]);
    }
    Verdict::Shorter {
        batches: before + groups[..hit].iter().map(|g| g.records).sum::<usize>(),
        seq: groups[hit].first_seq,
        end,
    }
}

/// Visible content of a store.
#[derive(Debug, PartialEq)]
struct Seen {
    rows: BTreeMap<Name, RecordBatch>,
    positions: Vec<(String, u64)>,
    parts: Vec<PartMeta>,
}

fn seen(snapshot: &Snapshot, positions: Vec<(String, crate::SourcePosition)>) -> Seen {
    let rows = snapshot.chunks.iter().map(|(name, chunks)| {
        let schema = chunks[0].events.schema();
        let rows = concat_batches(&schema, chunks.iter().map(|c| &c.events));
        (name.clone(), rows.expect("one schema"))
    });
    Seen {
        rows: rows.collect(),
        positions: positions.into_iter().map(|(p, at)| (p, at.to)).collect(),
        parts: snapshot.manifest().parts.clone(),
    }
}

/// An undamaged store that no process has open, with its content.
struct Sound {
    files: Files,
    sent: Vec<Sent>,
    seen: Seen,
    next_seq: u64,
}

impl Sound {
    /// Creates the store in two processes, both killed: a sealed segment, one that a later
    /// segment follows, and the last one.
    fn new() -> Self {
        let mut life = Life::of(STORE);
        life.live("sealed", 1);
        life.store().seal().expect("seals");
        life.live("first", 2);
        life.killed();
        life.open();
        life.live("second", 5);
        let files = life.killed();
        let reader = ReadOnlyStore::open(Arc::new(files.disk()), Path::new(DATA)).expect("opens");
        let snapshot = reader.snapshot();
        Self {
            seen: seen(&snapshot, reader.positions()),
            next_seq: snapshot.next_seq(),
            files,
            sent: life.sent,
        }
    }

    /// Returns the content that must remain with the first `batches` and the events below `seq`.
    fn cut(&self, batches: usize, seq: u64) -> Seen {
        let mut rows = BTreeMap::new();
        for (name, all) in &self.seen.rows {
            let seqs: &UInt64Array = column(all, SEQ);
            let kept = seqs.values().iter().filter(|s| **s < seq).count();
            if kept > 0 {
                rows.insert(name.clone(), all.slice(0, kept));
            }
        }
        let mut positions = BTreeMap::new();
        for sent in &self.sent[..batches] {
            if let Some(Identity::Range { producer, to, .. }) = &sent.batch.identity {
                positions.insert(producer.clone(), *to);
            }
        }
        Seen {
            rows,
            positions: positions.into_iter().collect(),
            parts: self.seen.parts.clone(),
        }
    }

    /// Damages a byte, opens the store both ways and compares the results with the verdict.
    fn damage(&self, path: &Path, at: usize, flip: u8, verdict: &Verdict) {
        let fs = self.files.disk();
        let full = Path::new(DATA).join(path);
        let mut damaged = self.files.0[path].clone();
        damaged[at] ^= flip;
        let file = fs.open(&full).expect("opens");
        file.write_all_at(&damaged, 0).expect("written");
        let read = ReadOnlyStore::open(Arc::new(fs.clone()), Path::new(DATA))
            .map(|reader| seen(&reader.snapshot(), reader.positions()));
        let opened = Store::open(Path::new(DATA), options(&fs));
        let (batches, seq, torn) = match verdict {
            Verdict::Unharmed => (self.sent.len(), u64::MAX, 0),
            Verdict::Shorter { batches, seq, end } => {
                let last = damaged.iter().rposition(|b| *b != 0).expect("bytes");
                (*batches, *seq, last + 1 - end)
            }
            refused => {
                check_refusal(read.err(), &full, refused);
                check_refusal(opened.err(), &full, refused);
                return;
            }
        };
        let expected = self.cut(batches, seq);
        assert_eq!(read.expect("opens for reading"), expected);
        let store = opened.expect("opens for writing");
        let snapshot = store.snapshot();
        assert_eq!(seen(&snapshot, store.positions()), expected);
        assert!(snapshot.next_seq() >= self.next_seq, "numbers come again");
        assert_eq!(store.status().torn_bytes, torn as u64);
        self.send_again(&store, batches);
    }

    /// Checks that a remaining batch is recognised and gets its first answer, and that a lost one
    /// is accepted.
    fn send_again(&self, store: &Store, batches: usize) {
        let keyed = |s: &&Sent| matches!(s.batch.identity, Some(Identity::Key { .. }));
        let (kept, lost) = self.sent.split_at(batches);
        if let Some(sent) = kept.iter().rfind(keyed) {
            let again = store.write(sent.batch.clone(), WriteConcern::ACKNOWLEDGED);
            let duplicate = Ack {
                duplicate: true,
                ..sent.ack.clone()
            };
            assert_eq!(again.expect("answered"), duplicate);
        }
        if let Some(sent) = lost.iter().find(keyed) {
            let again = store.write(sent.batch.clone(), WriteConcern::ACKNOWLEDGED);
            assert!(!again.expect("taken").duplicate);
        }
    }

    /// Damages bytes of a file by two patterns each. Returns the number of verdicts of each kind.
    fn rot(&self, path: &Path, verdict: impl Fn(usize, u8) -> Verdict + Sync) -> [usize; 3] {
        let every = if std::env::var("LOGMILL_FULL").is_ok_and(|v| v == "1") {
            1
        } else {
            37
        };
        let count = |worker: usize| {
            let mut counts = [0; 3];
            let places = (worker * every..self.files.0[path].len()).step_by(2 * every);
            for (at, flip) in places.flat_map(|at| [(at, 1 << (at % 8)), (at, 0xff)]) {
                let verdict = verdict(at, flip);
                let run = AssertUnwindSafe(|| self.damage(path, at, flip, &verdict));
                if let Err(panic) = catch_unwind(run) {
                    eprintln!("{} byte {at} ^ {flip:#x}: {verdict:?}", path.display());
                    std::panic::resume_unwind(panic);
                }
                counts[match verdict {
                    Verdict::Unharmed => 0,
                    Verdict::Refused(_) | Verdict::TooNew => 1,
                    Verdict::Shorter { .. } => 2,
                }] += 1;
            }
            counts
        };
        let [a, b] = std::thread::scope(|scope| {
            let workers = [0, 1].map(|worker| scope.spawn(move || count(worker)));
            workers.map(|w| w.join().expect("no damage comes to more than it may"))
        });
        println!(
            "{}: {a:?} + {b:?} [unharmed, refused, shorter]",
            path.display()
        );
        [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
    }
}

fn check_refusal(error: Option<Error>, file: &Path, verdict: &Verdict) {
    match (error.expect("refused"), verdict) {
        (Error::Corrupt { path, offset, .. }, Verdict::Refused(places)) => {
            assert_eq!(path, file);
            assert!(places.contains(&offset), "byte {offset} is blamed");
        }
        (Error::FormatTooNew { path, .. }, Verdict::TooNew) => assert_eq!(path, file),
        (error, _) => panic!("{error}"),
    }
}

#[test]
fn each_byte_of_a_journal_is_padding_or_missed() {
    let sound = Sound::new();
    let segments = sound.files.below("journal");
    let bytes: usize = segments.iter().map(|path| sound.files.0[path].len()).sum();
    assert!(
        segments.len() == 3 && bytes >= 64 << 10,
        "{bytes} bytes in {segments:?}"
    );
    let mut before = 0;
    let mut counts = [0; 3];
    for path in &segments {
        let segment = &sound.files.0[path];
        let is_last = Some(path) == segments.last();
        let found = sound.rot(path, |at, _| verdict(segment, is_last, before, at));
        counts = std::array::from_fn(|i| counts[i] + found[i]);
        before += groups(segment).iter().map(|g| g.records).sum::<usize>();
    }
    assert_eq!(before, sound.sent.len(), "every batch is in the journal");
    assert!(counts.iter().all(|n| *n > 50), "{counts:?}");
}

/// One copy is enough: the other one is read.
#[test]
fn each_byte_of_either_place_of_the_manifest_is_mended_from_the_other() {
    let sound = Sound::new();
    let places = ["manifest", "manifest-copy"].map(|place| sound.files.below(place));
    for path in places.iter().flatten() {
        let [_, refused, _] = sound.rot(path, |_, _| Verdict::Unharmed);
        assert_eq!(refused, 0);
    }
    assert_eq!(places.map(|paths| paths.len()), [1, 1]);
}

#[test]
fn each_byte_of_a_manifest_is_missed() {
    let mut sound = Sound::new();
    // Remove the copy, as a program leaves the store that knows only one folder.
    sound
        .files
        .0
        .retain(|path, _| !path.starts_with("manifest-copy"));
    let [path] = &sound.files.below("manifest")[..] else {
        panic!("one manifest");
    };
    let text = &sound.files.0[path];
    let body = 1 + text.iter().position(|b| *b == b'\n').expect("a head line") as u64;
    let format = "logmill store ".len();
    let known = text[format];
    sound.rot(path, |at, flip| {
        let newer = at == format && (known + 1..=b'9').contains(&(known ^ flip));
        if newer {
            Verdict::TooNew
        } else if (at as u64) < body {
            // Head line and body disagree, and either of them may be the damaged one.
            Verdict::Refused(vec![0, body])
        } else {
            Verdict::Refused(vec![body])
        }
    });
}

#[test]
fn each_byte_of_an_identity_checkpoint_is_missed() {
    let sound = Sound::new();
    let [path] = &sound.files.below("identities")[..] else {
        panic!("one checkpoint");
    };
    sound.rot(path, |_, _| Verdict::Refused(vec![0]));
}
