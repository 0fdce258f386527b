//! One followed file.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ingest::{Compression, Format};
use xxhash_rust::xxh3::Xxh3Default;

use super::guard::Guard;
use super::targets::is_rotation;
use crate::source_id::KnownSource;

/// A rotated or deleted file that did not change for this long is at its end: a last piece without
/// a line end is a line. Programs that have a file open across its rotation write on for a while.
const SETTLE: Duration = Duration::from_secs(10);
/// A record that ends with the last line of a file is whole when no line came for this long.
const RECORD_REST: Duration = Duration::from_secs(5);
/// The same as [`SETTLE`] for a file that was not seen to be moved: its name alone says that it was
/// rotated. Some programs write to files with a date in their names.
const SETTLE_BY_NAME: Duration = Duration::from_secs(120);
/// A compressed file that did not change for this long is not being written any more.
const AT_REST: Duration = Duration::from_secs(2);
/// A file that no argument stands for any more is released after so long without a change, when it
/// was read to its end: programs that have it open may go on. The disk gets the space of a deleted
/// file back with it.
const MOVED_FOR: Duration = Duration::from_secs(3600);
const DELETED_FOR: Duration = Duration::from_secs(60);
/// File systems stamp changes less finely than this.
const STAMP_TICK: Duration = Duration::from_secs(2);
/// Pending bytes that are sent without waiting for more.
const PENDING_BYTES: u64 = 256 << 10;

/// Length and time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) len: u64,
    pub(crate) modified: Option<SystemTime>,
}

impl FileStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

/// The place up to which the server has taken a file.
#[derive(Clone)]
pub(crate) struct ShipPosition {
    pub(crate) producer: String,
    /// Bytes taken.
    pub(crate) at: u64,
    /// Lines taken.
    pub(crate) lines: u64,
    /// The last of them had no line end.
    pub(crate) mid_line: bool,
    /// The hash of the bytes taken.
    pub(crate) hasher: Xxh3Default,
    /// The format of the next line; `auto` while it is not known.
    pub(crate) format: Format,
    /// Remembers the content, up to the end of the batch under way.
    pub(crate) guard: Guard,
    /// The server does not know the producer yet.
    pub(crate) is_unsent: bool,
    /// The number of the server's last disturbance when it confirmed the position.
    pub(crate) confirmed: u64,
}

impl ShipPosition {
    /// Makes the position of a source that was recognised.
    pub(crate) fn of(known: &KnownSource, guard: Guard, confirmed: u64) -> Self {
        Self {
            producer: known.producer.clone().unwrap_or_default(),
            at: known.from,
            lines: known.line_ends,
            mid_line: known.mid_line,
            hasher: known.hasher.clone(),
            format: known.format.clone(),
            guard,
            is_unsent: known.is_older || known.from == 0,
            confirmed,
        }
    }
}

/// The state of a file.
pub(crate) enum FileState {
    /// Its content is to be compared with what the server has taken.
    Unknown,
    /// It is sent from its position on.
    Following(Box<ShipPosition>),
    /// All of it is the beginning of another file, in the state of that number.
    Copy { of: u64, epoch: u64 },
    /// All of a compressed file was taken.
    Done,
}

/// A file with its state.
pub(crate) struct Tracked {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    pub(crate) compression: Compression,
    pub(crate) state: FileState,
    /// Number of its content: it rises when the file turns out to hold other content.
    pub(crate) epoch: u64,
    /// It was moved or deleted.
    is_moved: bool,
    /// Its name says that it was rotated.
    is_rotation: bool,
    /// No argument stands for it any more.
    pub(crate) is_gone: bool,
    /// Its length when the shipper started, if it was there.
    pub(crate) first_bytes: Option<u64>,
    pub(crate) seen: FileStamp,
    /// The state of the file at which nothing was left to do.
    pub(crate) looked: Option<FileStamp>,
    /// It was rotated, has settled, and was read to its end with its last piece.
    pub(crate) is_finished: bool,
    /// Its last lines are a record to which more lines may come.
    pub(crate) has_open_record: bool,
    /// A thread works with it.
    pub(crate) is_busy: bool,
    changed: Instant,
    /// No name of it is left.
    is_deleted: bool,
    /// Nothing is done with it before, but with a large or last batch.
    pub(crate) next: Instant,
    /// Nothing at all is done with it before: it could not be read.
    trouble_until: Option<Instant>,
}

impl Tracked {
    pub(crate) fn new(path: &Path, file: File, metadata: &Metadata, now: Instant) -> Self {
        let seen = FileStamp::of(metadata);
        let age = seen.modified.and_then(|at| at.elapsed().ok());
        Self {
            path: path.to_owned(),
            file: Arc::new(file),
            compression: Compression::of(path),
            state: FileState::Unknown,
            epoch: 0,
            is_moved: false,
            is_rotation: path.file_name().is_some_and(is_rotation),
            is_gone: false,
            first_bytes: None,
            seen,
            looked: None,
            is_finished: false,
            has_open_record: false,
            is_busy: false,
            changed: age.and_then(|age| now.checked_sub(age)).unwrap_or(now),
            is_deleted: false,
            next: now,
            trouble_until: None,
        }
    }

    /// Leaves the file alone for some time.
    pub(crate) fn pause(&mut self, until: Instant) {
        self.next = until;
        self.trouble_until = Some(until);
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.trouble_until.is_some_and(|until| now < until)
    }

    /// Returns whether no program will write into it any more, as far as its age tells: it has no
    /// argument, and was quiet for long. A program may write on for a while.
    pub(crate) fn is_left(&self, now: Instant) -> bool {
        let quiet = now.saturating_duration_since(self.changed);
        self.is_gone
            && quiet
                >= match self.is_deleted {
                    true => DELETED_FOR,
                    false => MOVED_FOR,
                }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.compression == Compression::None
    }

    /// Reads the present length.
    pub(crate) fn look(&mut self, now: Instant) {
        let Ok(metadata) = self.file.metadata() else {
            return;
        };
        self.is_deleted = metadata.nlink() == 0;
        let seen = FileStamp::of(&metadata);
        if seen != self.seen {
            self.seen = seen;
            self.changed = now;
            self.is_finished = false;
            self.has_open_record = false;
        }
    }

    /// Takes note of the path at which the file is now; `None` if no argument stands for it.
    pub(crate) fn place(&mut self, path: Option<&Path>) {
        self.is_gone = path.is_none();
        match path {
            None => self.is_moved = true,
            Some(path) if path != self.path => {
                self.is_moved = true;
                self.path = path.to_owned();
            }
            Some(_) => {}
        }
    }

    /// Returns whether the file is as it was when nothing was left to do: it holds the content of
    /// its position. A stamp tells nothing about a change within the clock tick of the one before.
    pub(crate) fn is_as_looked(&self) -> bool {
        let stamp = self.file.metadata().ok().map(|m| FileStamp::of(&m));
        let age = stamp.and_then(|stamp| stamp.modified?.elapsed().ok());
        age.is_some_and(|age| age > STAMP_TICK) && self.looked == stamp
    }

    /// Forgets the position: the file holds other content than that of its position.
    pub(crate) fn forget(&mut self) {
        self.state = FileState::Unknown;
        // Its present content was not there when the shipper started.
        self.first_bytes = None;
        self.epoch += 1;
        self.looked = None;
        self.is_finished = false;
        self.has_open_record = false;
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.looked != Some(self.seen)
    }

    /// Returns whether nothing will be appended to it.
    pub(crate) fn is_complete(&self, now: Instant) -> bool {
        let quiet = now.saturating_duration_since(self.changed);
        self.is_moved && quiet >= SETTLE || self.is_rotation && quiet >= SETTLE_BY_NAME
    }

    /// Returns whether its last record is taken for whole.
    pub(crate) fn rests(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.changed) >= RECORD_REST
    }

    /// Returns whether its end is still to be looked at.
    pub(crate) fn is_to_finish(&self, now: Instant) -> bool {
        let is_left_open = self.has_open_record && self.rests(now);
        is_left_open || !self.is_finished && self.is_complete(now)
    }

    /// Returns the bytes that the server has not taken.
    pub(crate) fn lag_bytes(&self) -> u64 {
        match &self.state {
            FileState::Following(position) => self.seen.len.saturating_sub(position.at),
            FileState::Unknown => self.seen.len,
            FileState::Copy { .. } | FileState::Done => 0,
        }
    }

    /// Returns whether a sender is to read it now; `hurries` does not wait for larger batches.
    pub(crate) fn is_to_send(&self, now: Instant, hurries: bool) -> bool {
        let FileState::Following(_) = &self.state else {
            return false;
        };
        let is_due = hurries || now >= self.next || self.lag_bytes() >= PENDING_BYTES;
        !self.is_busy
            && !self.is_paused(now)
            && (self.has_changed() && is_due || self.is_to_finish(now))
    }

    /// Returns whether its content is to be compared now.
    pub(crate) fn is_to_identify(&self, now: Instant) -> bool {
        let quiet = now.saturating_duration_since(self.changed);
        let is_worth = self.is_plain() || quiet >= AT_REST;
        let is_new = self.has_changed() && is_worth || self.is_to_finish(now);
        matches!(self.state, FileState::Unknown)
            && !self.is_busy
            && self.seen.len > 0
            && now >= self.next
            && is_new
    }

    /// Returns whether there may be work now or as soon as it rests, without a further change.
    pub(crate) fn is_pending(&self, now: Instant) -> bool {
        let is_empty = self.seen.len == 0 && matches!(self.state, FileState::Unknown);
        let is_quiet = matches!(self.state, FileState::Done | FileState::Copy { .. });
        let changed = self.has_changed() || self.is_to_finish(now);
        self.is_busy || changed && !is_empty && !is_quiet
    }
}
