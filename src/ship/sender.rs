//! A shipper, and its step that sends the next batch of a plain file.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use storage::Identity;

use super::ShipOptions;
use super::follow::{FileStamp, FileState, FollowedFiles, FoundFile, ShipPosition, Tracked, paths};
use super::identify::Identifier;
use super::send::{
    BatchOutcome, Ended, FileEnd, Link, NextCut, NextLines, RangeBatch, ShipCounts, Trouble, cut,
};
use crate::failure::{FAILED, Failure};

/// Bytes of a batch at most, but for a longer line.
const BATCH_BYTES: usize = 1 << 20;
/// A batch is not made smaller than this: a server that refuses so little takes nothing.
const BATCH_BYTES_MIN: usize = 1 << 10;
/// A file that had nothing more to send waits so long, so that a batch holds more than one line.
const LINGER: Duration = Duration::from_millis(300);
/// Names of very long paths in messages and in the quarantine are cut to their end, in bytes.
const SOURCE_BYTES_MAX: usize = 1024;

/// The state that all threads share.
pub(super) struct Shipper<'a> {
    pub(super) options: &'a ShipOptions,
    pub(super) link: Link<'a>,
    pub(super) files: Mutex<FollowedFiles>,
    pub(super) counts: Mutex<ShipCounts>,
    pub(super) identifier: Mutex<Identifier>,
    /// There may be work for a thread.
    pub(super) work: Condvar,
    batch_bytes: AtomicUsize,
}

/// A file that a sender has taken.
struct SendJob {
    id: u64,
    file: Arc<File>,
    source: String,
    seen: FileStamp,
    end: FileEnd,
    position: ShipPosition,
}

/// The end of a step.
enum SendOutcome {
    /// A batch was taken; the position is behind it.
    Sent,
    /// There are no more whole lines.
    Drained,
    /// The last record is taken once the file rests.
    OpenRecord,
    /// The file holds other content than before, or the server's position is another.
    Other,
}

impl<'a> Shipper<'a> {
    pub(super) fn new(options: &'a ShipOptions, link: Link<'a>) -> Self {
        Self {
            options,
            link,
            files: Mutex::default(),
            counts: Mutex::default(),
            identifier: Mutex::default(),
            work: Condvar::new(),
            batch_bytes: AtomicUsize::new(BATCH_BYTES),
        }
    }

    /// Sets the size of a batch, in bytes.
    #[cfg(test)]
    pub(super) fn with_batches(self, bytes: usize) -> Self {
        self.batch_bytes.store(bytes, Ordering::Relaxed);
        self
    }

    /// Looks at all files; `finds` reads the paths that the arguments stand for, too.
    pub(super) fn look(&self, now: Instant, finds: bool) {
        let found = finds.then(|| {
            let (found, unreadable) = paths(&self.options.targets);
            (FoundFile::at(found), unreadable)
        });
        let mut files = self.files.lock();
        if let Some((found, unreadable)) = found {
            for (folder, error) in unreadable {
                let trouble = format!("cannot be read: {error}; it is tried again");
                files.report(&folder, &trouble);
            }
            files.place(&found, now);
        }
        files.look(now);
        drop(files);
        self.work.notify_all();
    }

    /// Sends the next batch of a plain file. Returns whether there was one to look at.
    pub(super) fn send_next(&self, now: Instant) -> Result<bool, Ended> {
        let Some(mut job) = self.take(now) else {
            return Ok(false);
        };
        let outcome = self.advance(&mut job);
        let mut files = self.files.lock();
        let Some(file) = files.get(job.id) else {
            return Ok(true);
        };
        file.is_busy = false;
        match outcome {
            Err(Trouble::Ended) => return Err(Ended),
            Err(Trouble::File(error)) => {
                let end = (job.seen, job.end.is_complete);
                let end = self.options.once.then_some(end);
                files.fail(job.id, &error, end, now);
            }
            Ok(SendOutcome::Sent) => {
                // The next batch may be there already, and then does not wait.
                file.next = Instant::now() + LINGER;
                file.state = FileState::Following(Box::new(job.position));
                file.has_open_record = false;
            }
            Ok(SendOutcome::Drained) => {
                file.looked = Some(job.seen);
                file.is_finished = job.end.is_complete;
                file.has_open_record = false;
            }
            Ok(SendOutcome::OpenRecord) => {
                file.looked = Some(job.seen);
                file.has_open_record = true;
            }
            Ok(SendOutcome::Other) => {
                file.forget();
                self.counts.lock().restarts += 1;
            }
        }
        Ok(true)
    }

    fn take(&self, now: Instant) -> Option<SendJob> {
        let mut files = self.files.lock();
        let id = files.next_to_send(now, self.options.once)?;
        let file = files.get(id)?;
        // The length is read before the content: bytes that come later are a change.
        file.look(now);
        let FileState::Following(position) = &file.state else {
            return None;
        };
        let job = SendJob {
            id,
            file: Arc::clone(&file.file),
            source: source_of(file),
            seen: file.seen,
            end: FileEnd {
                is_complete: file.is_complete(now),
                rests: self.options.once || file.rests(now),
                len: file.seen.len,
            },
            position: (**position).clone(),
        };
        file.is_busy = true;
        Some(job)
    }

    fn advance(&self, job: &mut SendJob) -> Result<SendOutcome, Trouble> {
        if !job.position.guard.fits(&job.file) {
            return Ok(SendOutcome::Other);
        }
        loop {
            let limit = self.batch_bytes.load(Ordering::Relaxed);
            let rule = self.options.multiline.as_ref();
            let next = match cut(&job.file, &job.position, limit, rule, job.end)? {
                NextCut::Lines(next) => next,
                NextCut::OpenRecord => return Ok(SendOutcome::OpenRecord),
                NextCut::Nothing => return Ok(SendOutcome::Drained),
            };
            self.claim(job.id, &next);
            if !next.after.guard.fits(&job.file) {
                return Ok(SendOutcome::Other);
            }
            match self.deliver(&job.source, &mut job.position, &next)? {
                BatchOutcome::Stored(_) => {
                    let confirmed = job.position.confirmed;
                    job.position = ShipPosition {
                        confirmed,
                        ..next.after
                    };
                    return Ok(SendOutcome::Sent);
                }
                BatchOutcome::Conflict => return Ok(SendOutcome::Other),
                BatchOutcome::TooLarge => {}
            }
        }
    }

    /// Notes the end of the batch under way, before the file is checked once more: a comparison
    /// with the file finds out then whether the file still holds the content of the batch.
    fn claim(&self, id: u64, next: &NextLines) {
        if let Some(file) = self.files.lock().get(id)
            && let FileState::Following(position) = &mut file.state
        {
            position.guard = next.after.guard.clone();
        }
    }

    /// Delivers lines, and makes later batches smaller if they are too large.
    pub(super) fn deliver(
        &self,
        source: &str,
        position: &mut ShipPosition,
        next: &NextLines,
    ) -> Result<BatchOutcome, Ended> {
        let batch = RangeBatch {
            source,
            line: position.lines + 1,
            format: position.format.clone(),
            identity: Identity::Range {
                producer: position.producer.clone(),
                from: position.at,
                to: next.block.end_byte,
                content: next.block.content,
            },
            body: next.body(),
        };
        let bytes = next.block.end_byte - position.at;
        let taken = self.link.deliver(&batch, position)?;
        match &taken {
            BatchOutcome::Stored(answer) => self.counts.lock().add(answer, bytes),
            BatchOutcome::Conflict => {}
            BatchOutcome::TooLarge => {
                let is_one = next.is_one(self.options.multiline.as_ref());
                self.halve(&batch, is_one)?;
            }
        }
        Ok(taken)
    }

    /// Makes later batches half as long as one that was refused. A refused line, or record, ends
    /// the shipper: to leave it out, or to cut it, would lose of it.
    fn halve(&self, batch: &RangeBatch<'_>, is_one: bool) -> Result<(), Ended> {
        let bytes = batch.body.len();
        let half = bytes / 2;
        if is_one || half < BATCH_BYTES_MIN {
            let why = format!(
                "{}: line {}: {bytes} bytes are refused as too large; raise {}",
                batch.source,
                batch.line,
                self.link.limit()
            );
            return Err(self.link.end(Some(Failure::new(FAILED, why))));
        }
        self.batch_bytes.fetch_min(half, Ordering::Relaxed);
        tracing::info!("the server takes no batches of {bytes} bytes; sending {half} at once");
        Ok(())
    }

    pub(super) fn batch_bytes(&self) -> usize {
        self.batch_bytes.load(Ordering::Relaxed)
    }
}

/// Returns the name of a file for messages and the quarantine; of a very long path the end.
pub(super) fn source_of(file: &Tracked) -> String {
    let name = file.path.display().to_string();
    let mut from = name.len().saturating_sub(SOURCE_BYTES_MAX);
    while !name.is_char_boundary(from) {
        from += 1;
    }
    name[from..].to_owned()
}
