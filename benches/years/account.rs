//! Bytes written, by kind of file and by cause.

use crate::counted::{CountedFs, Counts, Kind};

/// Cause of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Seal,
    /// Compaction of tiles while the store is filled.
    Tiles,
    /// Compaction of parts while the store is filled.
    Parts,
    /// Compaction of quiet tiles and parts.
    Quiet,
}

const CAUSES: [(Cause, &str); 4] = [
    (Cause::Seal, "seals"),
    (Cause::Tiles, "of tiles"),
    (Cause::Parts, "of parts"),
    (Cause::Quiet, "of quiet ones"),
];
const KINDS: [(Kind, &str); 5] = [
    (Kind::Journal, "journal"),
    (Kind::Part, "parts"),
    (Kind::Tile, "tiles"),
    (Kind::Manifest, "manifest"),
    (Kind::Identity, "identities"),
];

type Written = [Counts; KINDS.len()];

/// Bytes and files written, each by one cause.
pub(crate) struct Account {
    pub(crate) fs: CountedFs,
    /// All writes up to this point have their cause.
    charged: Written,
    by_cause: [Written; CAUSES.len()],
}

impl Account {
    pub(crate) fn new() -> Self {
        Self {
            fs: CountedFs::default(),
            charged: Written::default(),
            by_cause: Default::default(),
        }
    }

    fn now(&self) -> Written {
        KINDS.map(|(kind, _)| self.fs.counts(kind))
    }

    /// Leaves the writes since the last call without a cause: a start, a close.
    pub(crate) fn skip(&mut self) {
        self.charged = self.now();
    }

    /// Charges the writes since the last call to `cause`.
    pub(crate) fn charge(&mut self, cause: Cause) {
        let now = self.now();
        let before = std::mem::replace(&mut self.charged, now);
        let all = &mut self.by_cause[cause as usize];
        for (nth, counts) in all.iter_mut().enumerate() {
            *counts += now[nth] - before[nth];
        }
    }

    fn of(&self, cause: Cause, kind: Kind) -> Counts {
        let nth = KINDS.iter().position(|(k, _)| *k == kind);
        self.by_cause[cause as usize][nth.expect("BUG: of a kind that is counted")]
    }

    fn sum(&self, kind: Kind) -> Counts {
        let mut sum = Counts::default();
        for (cause, _) in CAUSES {
            sum += self.of(cause, kind);
        }
        sum
    }

    /// Returns the number of edits of the manifest, and their bytes.
    pub(crate) fn edits(&self) -> (u64, u64) {
        let sum = self.sum(Kind::Manifest);
        (sum.files, sum.written)
    }

    /// Prints one row for each kind, and the whole. Bytes written are compared with the bytes
    /// that remain: of the parts, and of parts and tiles.
    pub(crate) fn print(&self, parts: u64, tiles: u64) {
        let journal = self.sum(Kind::Journal).written;
        let lines = |bytes: u64| {
            let of = |all: u64| bytes as f64 / all as f64;
            format!(
                "{:>9.3} {:>9.3} {:>9.3}",
                of(parts),
                of(parts + tiles),
                of(journal)
            )
        };
        println!(
            "  left are {parts} bytes of parts and {tiles} of tiles; the journal had {journal}"
        );
        print!("  MB written by");
        CAUSES.iter().for_each(|(_, name)| print!(" {name:>13}"));
        println!("       all : parts  : both   : journal");
        let mut together = 0;
        for (kind, name) in KINDS {
            print!("  {name:<13}");
            for (cause, _) in CAUSES {
                print!(" {:>13.1}", self.of(cause, kind).written as f64 / 1e6);
            }
            let all = self.sum(kind).written;
            together += all;
            println!(" {:>9.1} {}", all as f64 / 1e6, lines(all));
        }
        let but_journal = together - journal;
        println!(
            "  together {:>70.1} {}",
            together as f64 / 1e6,
            lines(together)
        );
        println!(
            "  but the journal {:>63.1} {}",
            but_journal as f64 / 1e6,
            lines(but_journal)
        );
        print!("  edits        ");
        for (cause, _) in CAUSES {
            print!(" {:>13}", self.of(cause, Kind::Manifest).files);
        }
        let (edits, bytes) = self.edits();
        println!(
            " {edits:>9}; {:.1} kB of manifest each",
            bytes as f64 / 1e3 / edits as f64
        );
    }
}
