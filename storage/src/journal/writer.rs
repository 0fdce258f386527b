//! Appends groups: one writer places and writes them, while a syncer makes them durable.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::mark;
use super::{
    BLOCK, DIR, GROUP_HEAD, GROUP_MAGIC, HEADER_LEN, Previous, RECORD_BATCH, RECORD_HEAD,
    SEGMENT_BYTES_MAX, SegmentHeader, segment_path,
};
use crate::env::{Fs, FsFile, IoContext};
use crate::error::{Error, Kind, Result, is_full, is_out_of_descriptors};
use crate::file::write_durably;
use crate::seeded::{self, Bug};

/// Bytes of the buffer of groups that are kept for the next group.
const BUFFER_BYTES: usize = 16 << 20;
/// Interval at which a thread that waits for a sync checks that one can still come.
const SYNC_CHECK: Duration = Duration::from_millis(100);

/// Appends groups. Only the log thread owns it.
#[derive(Debug)]
pub(crate) struct Journal {
    fs: Arc<dyn Fs>,
    data: PathBuf,
    store_id: String,
    writer_epoch: u64,
    segment: u64,
    end: u64,
    crc: u32,
    buffer: Vec<u8>,
    syncer: Arc<Syncer>,
}

/// The ends of the data that the log thread has written and of the data known to be on disk.
///
/// # Invariants
/// `durable_seq <= written_seq`. `barrier` is the end of the data for which a sync has begun, in
/// the segment being written. Placing a group and beginning a sync exclude one another.
#[derive(Debug)]
pub(crate) struct Syncer {
    state: Mutex<SyncState>,
    changed: Condvar,
    /// The next two fields are outside of `state`, so that their many readers never wait for the
    /// write of a group.
    poisoned: OnceLock<String>,
    durable_seq: AtomicU64,
}

#[derive(Debug)]
struct SyncState {
    file: Arc<dyn FsFile>,
    path: PathBuf,
    end: u64,
    barrier: u64,
    /// The end of the data that is known to be on disk, in the segment being written.
    durable_end: u64,
    written_seq: u64,
    durable_seq: u64,
    /// Number of groups written and synced. Sequence numbers do not suffice, since a group
    /// without items has to be synced like any other.
    written_groups: u64,
    durable_groups: u64,
    syncing: bool,
}

impl Journal {
    /// Begins a new segment after `previous`; earlier segments are never appended to again.
    pub(crate) fn begin(
        fs: Arc<dyn Fs>,
        data: &Path,
        store_id: &str,
        writer_epoch: u64,
        previous: Previous,
        next_seq: u64,
    ) -> Result<Self> {
        let header = SegmentHeader {
            segment: previous.segment + 1,
            first_seq: next_seq,
            writer_epoch,
            previous,
            store_id: store_id.to_owned(),
        };
        let (file, path, crc) = create_segment(&*fs, data, &header)?;
        mark::write(&*fs, data, store_id, header.segment);
        let syncer = Syncer::of(file, path, next_seq);
        Ok(Self {
            fs,
            data: data.into(),
            store_id: store_id.to_owned(),
            writer_epoch,
            segment: header.segment,
            end: HEADER_LEN,
            crc,
            buffer: Vec::new(),
            syncer,
        })
    }

    pub(crate) fn syncer(&self) -> &Arc<Syncer> {
        &self.syncer
    }

    /// Returns the segment being written.
    pub(crate) fn segment(&self) -> u64 {
        self.segment
    }

    /// Checks whether a new segment should be begun before the next group.
    pub(crate) fn is_full(&self) -> bool {
        self.end >= SEGMENT_BYTES_MAX
    }

    /// Checks whether the segment has no group yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.end == HEADER_LEN
    }

    /// Writes one group. On return it is in the file and survives `kill -9`; it is durable only
    /// after a sync.
    ///
    /// # Errors
    /// After an error the journal is poisoned and refuses all groups, except when the disk was
    /// full and the written piece of the group could be cut off.
    pub(crate) fn append(
        &mut self,
        first_seq: u64,
        items: u64,
        payloads: &[Vec<u8>],
    ) -> Result<()> {
        self.fill_buffer(first_seq, items, payloads);
        let mut state = self.syncer.state.lock();
        self.syncer.check()?;
        let mut at = self.end.next_multiple_of(8);
        if state.barrier > at - at % BLOCK && !seeded::is(Bug::UnalignedGroup) {
            at = at
                .next_multiple_of(BLOCK)
                .max(state.barrier.next_multiple_of(BLOCK));
        }
        self.buffer[32..40].copy_from_slice(&state.durable_seq.to_le_bytes());
        let crc = crc32c::crc32c(&self.buffer[8..]);
        self.buffer[4..8].copy_from_slice(&crc.to_le_bytes());
        if let Err(source) = state.file.write_all_at(&self.buffer, at) {
            // The file is cut where the group was to begin, not at the end before it. A cut
            // writes the sector of the new end, and the sector of the old end may hold synced
            // data.
            if is_full(&source) && state.file.set_len(at).is_ok() {
                return Err(Error::DiskFull {
                    path: state.path.clone(),
                });
            }
            let error = Error::Io {
                op: "write",
                path: state.path.clone(),
                source,
            };
            self.syncer.set_poison(&error.to_string());
            return Err(error);
        }
        self.end = at + self.buffer.len() as u64;
        self.crc = crc;
        state.end = self.end;
        state.written_seq = first_seq + items;
        state.written_groups += 1;
        self.syncer.changed.notify_all();
        drop(state);
        self.buffer.shrink_to(BUFFER_BYTES);
        Ok(())
    }

    fn fill_buffer(&mut self, first_seq: u64, items: u64, payloads: &[Vec<u8>]) {
        let buffer = &mut self.buffer;
        buffer.clear();
        buffer.reserve(
            GROUP_HEAD
                + payloads
                    .iter()
                    .map(|p| p.len() + RECORD_HEAD)
                    .sum::<usize>(),
        );
        buffer.resize(GROUP_HEAD, 0);
        for payload in payloads {
            let len = u32::try_from(payload.len()).expect("BUG: a record is smaller than 4 GiB");
            buffer.extend_from_slice(&len.to_le_bytes());
            buffer.extend_from_slice(&[RECORD_BATCH, 0, 0, 0]);
            buffer.extend_from_slice(payload);
            buffer.resize(buffer.len().next_multiple_of(RECORD_HEAD), 0);
        }
        let len =
            u32::try_from(buffer.len() - GROUP_HEAD).expect("BUG: a group is smaller than 4 GiB");
        let items = u32::try_from(items).expect("BUG: a group has fewer than 2^32 items");
        let records =
            u32::try_from(payloads.len()).expect("BUG: a group has fewer than 2^32 records");
        buffer[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
        buffer[8..12].copy_from_slice(&len.to_le_bytes());
        buffer[12..16].copy_from_slice(&self.crc.to_le_bytes());
        buffer[16..24].copy_from_slice(&first_seq.to_le_bytes());
        buffer[24..28].copy_from_slice(&items.to_le_bytes());
        buffer[28..32].copy_from_slice(&records.to_le_bytes());
        buffer[40..48].copy_from_slice(&self.writer_epoch.to_le_bytes());
    }

    /// Syncs the segment and begins the next, whose first group will be at `next_seq` or later.
    ///
    /// # Errors
    /// [`Error::DiskFull`] or [`Error::Overloaded`] when there was no disk space or no descriptor
    /// for the next segment: this one is still the last. After any other error it is not known
    /// which segment is the last, and the caller must poison the journal.
    pub(crate) fn rotate(&mut self, next_seq: u64) -> Result<()> {
        self.syncer.sync_written()?;
        let header = SegmentHeader {
            segment: self.segment + 1,
            first_seq: next_seq,
            writer_epoch: self.writer_epoch,
            previous: Previous {
                segment: self.segment,
                end: self.end,
                crc: self.crc,
            },
            store_id: self.store_id.clone(),
        };
        let (file, path, crc) = create_segment(&*self.fs, &self.data, &header)?;
        mark::write(&*self.fs, &self.data, &self.store_id, header.segment);
        let mut state = self.syncer.state.lock();
        while state.syncing {
            self.syncer.changed.wait(&mut state);
        }
        state.file = file;
        state.path = path;
        state.end = HEADER_LEN;
        state.barrier = HEADER_LEN;
        state.durable_end = HEADER_LEN;
        self.segment = header.segment;
        self.end = HEADER_LEN;
        self.crc = crc;
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a segment stays open for writing; synced before it gets its name"
)]
fn create_segment(
    fs: &dyn Fs,
    data: &Path,
    header: &SegmentHeader,
) -> Result<(Arc<dyn FsFile>, PathBuf, u32)> {
    let path = segment_path(data, header.segment);
    let (bytes, crc) = header.encode();
    // The name is temporary until the header is synced, so that no reader finds a segment without
    // a valid header.
    let temporary = path.with_extension(format!("{:x}.log.tmp", header.writer_epoch));
    if fs.exists(&temporary) {
        fs.remove(&temporary).at("remove", &temporary)?;
    }
    let create = || -> io::Result<Box<dyn FsFile>> {
        let file = fs.create_log(&temporary)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_data()?;
        // A segment that another writer has begun is not replaced.
        fs.rename_new(&temporary, &path)?;
        Ok(file)
    };
    let file = match create() {
        // Nothing has changed yet: the current segment can still be appended to.
        Err(e) if is_full(&e) => return Err(Error::DiskFull { path: temporary }),
        Err(e) if is_out_of_descriptors(&e) => {
            return Err(Error::Overloaded {
                what: "no file descriptor is left for a new segment of the journal".into(),
            });
        }
        other => other.at("create", &temporary)?,
    };
    let dir = path.parent().expect("BUG: a segment lies in a directory");
    fs.sync_dir(dir).at("sync", dir)?;
    Ok((file.into(), path, crc))
}

/// Makes the valid data of the last segment durable, and cuts off the rest if there is disk space
/// for that.
///
/// Data that a killed process wrote may be in memory only, and after a failed sync the kernel
/// takes pages for written that are not: a sync of the old file would prove nothing. So the valid
/// data is written again, to a file that replaces the old one. The next segment will name its
/// end, so the segment must not become shorter any more.
#[expect(
    clippy::disallowed_methods,
    reason = "without room for a copy the old file is synced in place"
)]
pub(crate) fn settle_tail(fs: &dyn Fs, data: &Path, last: &Previous) -> Result<()> {
    let path = segment_path(data, last.segment);
    let mut bytes = fs.read(&path).at("read", &path)?;
    bytes.truncate(usize::try_from(last.end).expect("BUG: a segment fits into memory"));
    match write_durably(fs, &path, &bytes) {
        Ok(_) => {}
        // Without disk space for a copy the old file is synced as it is. Its torn tail stays: a
        // cut would write the sector before it, which may hold synced data.
        Err(error) if error.kind() == Kind::DiskFull => {
            let file = fs.open(&path).at("open", &path)?;
            file.sync_data().at("sync", &path)?;
        }
        Err(error) => return Err(error),
    }
    let dir = data.join(DIR);
    fs.sync_dir(&dir).at("sync", &dir)
}

/// The file of a read-only store's journal. It refuses every write.
#[derive(Debug)]
struct NoFile;

impl FsFile for NoFile {
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }
}

impl Syncer {
    /// Returns the syncer of a read-only store.
    pub(crate) fn idle(data: &Path, next_seq: u64) -> Arc<Self> {
        Self::of(Arc::new(NoFile), data.join(DIR), next_seq)
    }

    fn of(file: Arc<dyn FsFile>, path: PathBuf, next_seq: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(SyncState {
                file,
                path,
                end: HEADER_LEN,
                barrier: HEADER_LEN,
                durable_end: HEADER_LEN,
                written_seq: next_seq,
                durable_seq: next_seq,
                written_groups: 0,
                durable_groups: 0,
                syncing: false,
            }),
            changed: Condvar::new(),
            poisoned: OnceLock::new(),
            durable_seq: AtomicU64::new(next_seq),
        })
    }

    /// Returns the exclusive end of the sequence numbers known to be on disk.
    pub(crate) fn durable_seq(&self) -> u64 {
        self.durable_seq.load(Ordering::Acquire)
    }

    /// Notes that all sequence numbers below this are durable elsewhere, in a shared journal.
    pub(crate) fn is_durable_to(&self, next_seq: u64) {
        self.state.lock().durable_seq = next_seq;
        self.durable_seq.store(next_seq, Ordering::Release);
    }

    /// Checks whether a sync is running.
    pub(crate) fn is_syncing(&self) -> bool {
        self.state.lock().syncing
    }

    /// Returns why groups are refused; `None` until a disk error occurs.
    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poisoned.get().map(String::as_str)
    }

    /// Checks that groups can still be appended.
    ///
    /// # Errors
    /// [`Error::Unknown`] after a disk error.
    pub(crate) fn check(&self) -> Result<()> {
        match self.poisoned() {
            None => Ok(()),
            Some(why) => Err(Error::Unknown { what: why.into() }),
        }
    }

    /// Poisons the journal for a loss outside of it: all further groups are refused.
    pub(crate) fn poison(&self, why: &str) {
        self.set_poison(why);
        // Taking the lock waits for threads that have passed the check, so that these are notified
        // too.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// As [`Syncer::poison`], for a caller that holds the lock of `state`.
    fn set_poison(&self, why: &str) {
        // The first reason is kept.
        let _ignored = self.poisoned.set(why.to_owned());
        self.changed.notify_all();
    }

    /// Returns the written bytes of this segment that are not known to be on disk.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.end - state.durable_end
    }

    /// Waits until everything written so far is durable, by the syncs of others, or no sync will
    /// come.
    pub(crate) fn wait_for_sync(&self) {
        let mut state = self.state.lock();
        let wanted = state.written_groups;
        while state.durable_groups < wanted && self.poisoned().is_none() {
            self.changed.wait_for(&mut state, SYNC_CHECK);
        }
    }

    /// Makes everything written so far durable and returns its end.
    ///
    /// # Errors
    /// A failed sync is never tried again: the kernel may have dropped the pages and would report
    /// success. The journal is poisoned, and every waiting caller gets [`Error::Unknown`].
    pub(crate) fn sync_written(&self) -> Result<u64> {
        let mut state = self.state.lock();
        let wanted = state.written_groups;
        loop {
            self.check()?;
            if state.durable_groups >= wanted {
                return Ok(state.durable_seq);
            }
            if !state.syncing {
                break;
            }
            self.changed.wait(&mut state);
        }
        state.syncing = true;
        state.barrier = state.end;
        let (file, path) = (Arc::clone(&state.file), state.path.clone());
        let (end, target, groups) = (state.end, state.written_seq, state.written_groups);
        drop(state);
        let outcome = file.sync_data();
        let mut state = self.state.lock();
        state.syncing = false;
        let result = match outcome {
            Ok(()) => {
                // A new segment waits for the sync.
                state.durable_end = end;
                state.durable_seq = state.durable_seq.max(target);
                state.durable_groups = state.durable_groups.max(groups);
                self.durable_seq.store(state.durable_seq, Ordering::Release);
                Ok(state.durable_seq)
            }
            Err(source) => {
                let error = Error::Io {
                    op: "sync",
                    path,
                    source,
                };
                self.set_poison(&error.to_string());
                Err(error)
            }
        };
        self.changed.notify_all();
        result
    }
}
