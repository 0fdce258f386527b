//! The table of followed files, under one lock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guard::Guard;
use super::tracked::{FileStamp, FileState, Tracked};
use crate::failure::Failure;
use crate::source_id::OtherProducers;

/// Files beyond which one that is read to its end is not kept open for programs that write on.
const HELD_MAX: usize = 2000;

/// Pause after a failed read of a file.
const TROUBLE_PAUSE: Duration = Duration::from_secs(5);

/// Files that are followed, by a number that is never used twice.
#[derive(Default)]
pub(crate) struct FollowedFiles {
    files: BTreeMap<u64, Tracked>,
    by_inode: HashMap<(u64, u64), u64>,
    next: u64,
    /// The sender goes on behind this file, so that all have their turn.
    last_sent: u64,
    /// Paths whose troubles were reported.
    reported: HashSet<PathBuf>,
    /// The paths were read at least once.
    has_found: bool,
}

/// The part of a file that the server has.
struct SentFile {
    epoch: u64,
    bytes: u64,
    is_all: bool,
}

/// A path with the inode that was there.
pub(crate) struct FoundFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl FoundFile {
    /// Returns the regular files at paths.
    pub(crate) fn at(paths: BTreeSet<PathBuf>) -> Vec<Self> {
        let found = paths.into_iter().filter_map(|path| {
            let metadata = std::fs::metadata(&path).ok()?;
            let inode = (metadata.dev(), metadata.ino());
            metadata.is_file().then_some(Self { path, inode })
        });
        found.collect()
    }
}

impl FollowedFiles {
    pub(crate) fn get(&mut self, id: u64) -> Option<&mut Tracked> {
        self.files.get_mut(&id)
    }

    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Tracked> {
        self.files.values()
    }

    /// Takes note of the files that the arguments stand for now.
    pub(crate) fn place(&mut self, found: &[FoundFile], now: Instant) {
        let mut places: BTreeMap<u64, &Path> = BTreeMap::new();
        for FoundFile { path, inode } in found {
            let id = self.by_inode.get(inode).copied();
            match id.or_else(|| self.open(path, now)) {
                // The name by which a file is known wins over other links to it.
                Some(id) => {
                    let is_known = self.files.get(&id).is_some_and(|f| f.path == *path);
                    let place = places.entry(id).or_insert(path);
                    if is_known {
                        *place = path;
                    }
                }
                None => continue,
            }
        }
        for (id, file) in &mut self.files {
            file.place(places.get(id).copied());
        }
        self.has_found = true;
    }

    /// Opens a file that is not followed. Returns its number, if it is to be followed.
    fn open(&mut self, path: &Path, now: Instant) -> Option<u64> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = match opened {
            Ok(opened) => opened,
            // It was moved since.
            Err(e) if e.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                self.report(
                    path,
                    &format!("cannot be opened: {error}; it is tried again"),
                );
                return None;
            }
        };
        // Another file may have come under the name since.
        let inode = (metadata.dev(), metadata.ino());
        if let Some(id) = self.by_inode.get(&inode) {
            return Some(*id);
        }
        if !metadata.is_file() {
            return None;
        }
        if is_utf_16(&file) {
            self.report(path, "is UTF-16 and is left out; `logmill import` reads it");
            return None;
        }
        self.reported.remove(path);
        let id = self.next;
        self.next += 1;
        let mut tracked = Tracked::new(path, file, &metadata, now);
        tracked.first_bytes = Some(metadata.len()).filter(|_| !self.has_found);
        self.files.insert(id, tracked);
        self.by_inode.insert(inode, id);
        Some(id)
    }

    /// Logs a trouble with a path, once.
    pub(crate) fn report(&mut self, path: &Path, trouble: &str) {
        if self.reported.insert(path.to_owned()) {
            tracing::warn!("{} {trouble}", path.display());
        }
    }

    /// Leaves a file alone for some time, since it could not be read. At `end`, its state and
    /// whether that is complete, nothing is left to do until it changes.
    pub(crate) fn fail(
        &mut self,
        id: u64,
        error: &Failure,
        end: Option<(FileStamp, bool)>,
        now: Instant,
    ) {
        let Some(file) = self.files.get_mut(&id) else {
            return;
        };
        file.pause(now + TROUBLE_PAUSE);
        if let Some((seen, is_complete)) = end {
            file.looked = Some(seen);
            file.is_finished = is_complete;
        }
        let path = file.path.clone();
        self.report(
            &path,
            &format!("cannot be read: {error}; it is tried again"),
        );
    }

    /// Reads the present lengths, releases files that are gone and read to their end, and finds out
    /// which copies have lost their original.
    pub(crate) fn look(&mut self, now: Instant) {
        for file in self.files.values_mut() {
            file.look(now);
        }
        let sent = self.sent();
        let is_crowded = self.files.len() > HELD_MAX;
        let is_over = |file: &Tracked| {
            let is_at_end = match &file.state {
                FileState::Unknown if file.seen.len == 0 => file.is_complete(now),
                FileState::Unknown | FileState::Following(_) => {
                    file.is_finished && !file.has_changed()
                }
                // The last bytes of its original may be left in it alone.
                FileState::Copy { of, epoch } => {
                    let sent = sent.get(of).filter(|sent| sent.epoch == *epoch);
                    sent.is_some_and(|sent| match file.is_plain() {
                        true => sent.bytes >= file.seen.len,
                        false => sent.is_all,
                    })
                }
                FileState::Done => true,
            };
            let is_left = is_crowded || file.is_left(now) || !file.is_plain();
            file.is_gone && !file.is_busy && is_at_end && is_left
        };
        self.files.retain(|_, file| !is_over(file));
        self.by_inode.retain(|_, id| self.files.contains_key(id));
        self.release_copies();
    }

    /// Returns how far the server has each followed file.
    fn sent(&self) -> HashMap<u64, SentFile> {
        let known = self.files.iter().filter_map(|(id, file)| {
            let FileState::Following(position) = &file.state else {
                return None;
            };
            let sent = SentFile {
                epoch: file.epoch,
                bytes: if file.is_busy { 0 } else { position.at },
                is_all: !file.is_busy && !file.has_changed(),
            };
            Some((*id, sent))
        });
        known.collect()
    }

    /// Copies are compared again once they have changed, or their original has.
    fn release_copies(&mut self) {
        let originals: HashMap<u64, u64> =
            self.files.iter().map(|(id, f)| (*id, f.epoch)).collect();
        for file in self.files.values_mut() {
            if let FileState::Copy { of, epoch } = file.state
                && !file.is_busy
                && (file.has_changed() || originals.get(&of) != Some(&epoch))
            {
                file.state = FileState::Unknown;
                file.looked = None;
            }
        }
    }

    /// Returns the next file that a sender is to read.
    pub(crate) fn next_to_send(&mut self, now: Instant, hurries: bool) -> Option<u64> {
        let behind = self.files.range(self.last_sent + 1..);
        let before = self.files.range(..=self.last_sent);
        let mut turns = behind.chain(before);
        let (id, _) = turns.find(|(_, file)| file.is_to_send(now, hurries))?;
        self.last_sent = *id;
        Some(*id)
    }

    /// Returns the next file whose content is to be compared: the longest, so that the original
    /// comes before a copy that is being made of it.
    pub(crate) fn next_to_identify(&self, now: Instant) -> Option<u64> {
        let due = self.files.iter();
        let due = due.filter(|(_, file)| file.is_to_identify(now));
        // Compressed files are shorter than their content, and are never half a copy.
        let (id, _) = due.max_by_key(|(id, f)| (f.is_plain(), f.seen.len, u64::MAX - **id))?;
        Some(*id)
    }

    /// Returns the followed plain files, other than `id`, whose content may begin with `head`.
    pub(crate) fn like(&self, id: u64, head: &[u8]) -> Vec<(u64, u64, Arc<File>)> {
        let others = self.files.iter().filter(|(other, file)| {
            **other != id
                && file.is_plain()
                && matches!(&file.state, FileState::Following(p) if p.guard.may_begin(head))
        });
        let likes = others.map(|(id, file)| (*id, file.epoch, Arc::clone(&file.file)));
        likes.collect()
    }

    /// Returns the other plain files of which one may be the original of a file of this length, and
    /// is not known to be: those that may hold other content than that of their guard, and longer
    /// ones that are not recognised yet.
    pub(crate) fn unsettled(&self, id: u64, length: u64) -> Vec<(Option<Guard>, Arc<File>)> {
        let others = self.files.iter();
        let others = others.filter(|(other, file)| **other != id && file.is_plain());
        let unsettled = others.filter_map(|(_, file)| match &file.state {
            FileState::Following(position) if !file.is_as_looked() => {
                Some((Some(position.guard.clone()), Arc::clone(&file.file)))
            }
            FileState::Unknown if file.seen.len > length => Some((None, Arc::clone(&file.file))),
            _ => None,
        });
        unsettled.collect()
    }

    /// Returns the producers of all followed files but one.
    pub(crate) fn producers(&self, besides: u64) -> OtherProducers {
        let mut producers = OtherProducers::default();
        for (_, file) in self.files.iter().filter(|(id, _)| **id != besides) {
            if let FileState::Following(position) = &file.state {
                let names = match position.is_unsent {
                    true => &mut producers.claimed,
                    false => &mut producers.sent,
                };
                names.insert(position.producer.clone());
            }
        }
        producers
    }

    /// Returns the number of paths that had a trouble.
    pub(crate) fn troubled(&self) -> usize {
        self.reported.len()
    }

    /// Returns whether every file was sent as far as it goes.
    pub(crate) fn is_drained(&self, now: Instant) -> bool {
        self.has_found && !self.files.values().any(|file| file.is_pending(now))
    }

    /// Returns the bytes of all files that the server has not taken; of compressed files, their
    /// compressed length.
    pub(crate) fn lag_bytes(&self) -> u64 {
        self.files.values().map(Tracked::lag_bytes).sum()
    }
}

fn is_utf_16(file: &File) -> bool {
    let mut mark = [0; 2];
    file.read_exact_at(&mut mark, 0).is_ok() && matches!(mark, [0xff, 0xfe] | [0xfe, 0xff])
}

#[cfg(test)]
mod tests {
    use ingest::Format;

    use super::*;
    use crate::ship::follow::ShipPosition;
    use crate::source_id::KnownSource;

    #[test]
    fn a_moved_file_stays_open_for_programs_that_write_on() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for is_deleted in [false, true] {
            let path = dir.path().join("a.log");
            std::fs::write(&path, "a line\n").expect("a file");
            let now = Instant::now();
            let mut files = FollowedFiles::default();
            files.place(&FoundFile::at(BTreeSet::from([path.clone()])), now);
            let known = KnownSource::nothing(Box::new(std::io::empty()), &Format::Auto);
            let position = ShipPosition::of(&known, Guard::default(), 1);
            let file = files.get(0).expect("a file");
            file.state = FileState::Following(Box::new(position));
            (file.looked, file.is_finished) = (Some(file.seen), true);
            match is_deleted {
                true => std::fs::remove_file(&path).expect("a file"),
                false => std::fs::rename(&path, dir.path().join("old")).expect("a rename"),
            }
            files.place(&[], now);
            let held = |files: &mut FollowedFiles, seconds| {
                files.look(now + Duration::from_secs(seconds));
                files.count()
            };
            assert_eq!(held(&mut files, 30), 1);
            assert_eq!(held(&mut files, 90), usize::from(!is_deleted));
            assert_eq!(held(&mut files, 4000), 0);
        }
    }
}
