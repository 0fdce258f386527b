//! Recognises the content of files: a copy of a followed file, the continuation of a content that
//! the server has, or a new one. Compressed files are sent here, too, one after the other.
//!
//! A file is compared with those that are followed, byte by byte, before the server is asked: a
//! copy that is being made of a long file has a length that the server knows no hash of.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::{Compression, Format, LINE_BYTES_MAX, LineBlocks, SourceBlock};
use xxhash_rust::xxh3::Xxh3Default;

use super::follow::{FileStamp, FileState, Guard, Relation, ShipPosition, compare};
use super::seeded::{self, ShipBug};
use super::send::{
    BatchOutcome, Ended, FileEnd, NextCut, NextLines, Trouble, cut, hash_into, line_end,
};
use super::sender::{Shipper, source_of};
use crate::failure::Result;
use crate::source_id::{KnownSource, Origin, Producers, has_beginning, opened};

/// Bytes that decide which files are compared as a whole.
const HEAD_BYTES: u64 = 1024;
/// The server's list of producers is read again for new files, at most this often.
const NAMES_FOR: Duration = Duration::from_secs(1);
/// Pause before a file that is being changed, or cannot be read, is looked at again.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause before a copy that has grown is compared again from its beginning.
const COPY_PAUSE: Duration = Duration::from_secs(1);

/// The memory of the thread that recognises files.
#[derive(Default)]
pub(super) struct Identifier {
    producers: Option<(Instant, Producers)>,
    /// Files that were there at the start begin at their ends; none until it is decided.
    skips: Option<bool>,
}

/// A file to recognise.
struct UnknownFile {
    id: u64,
    file: Arc<File>,
    compression: Compression,
    source: String,
    seen: FileStamp,
    is_complete: bool,
    /// Its length when the shipper started, if it was there.
    first_bytes: Option<u64>,
}

/// The content of a file.
enum FileContent {
    /// Nothing to send yet: no whole line, or the first part of a known content.
    Waits,
    /// A followed file has to be recognised first.
    Undecided,
    Copy {
        of: u64,
        epoch: u64,
    },
    Follow(Box<ShipPosition>),
    /// A compressed file whose content was taken.
    Done,
}

impl Shipper<'_> {
    /// Recognises the next file. Returns whether there was one.
    pub(super) fn identify_next(&self, now: Instant) -> Result<bool, Ended> {
        let Some(job) = self.take_unknown(now) else {
            return Ok(false);
        };
        let outcome = self.identify(&job, now);
        let mut files = self.files.lock();
        let Some(file) = files.get(job.id) else {
            return Ok(true);
        };
        file.is_busy = false;
        let content = match outcome {
            Err(Trouble::Ended) => return Err(Ended),
            Err(Trouble::File(_)) if self.link.has_ended() => return Err(Ended),
            Err(Trouble::File(error)) => {
                // Damaged content stays damaged until the file changes.
                let settles = !file.is_plain() || self.options.once;
                let end = settles.then_some((job.seen, job.is_complete));
                files.fail(job.id, &error, end, now);
                return Ok(true);
            }
            Ok(content) => content,
        };
        file.looked = Some(job.seen);
        match content {
            FileContent::Waits => file.is_finished = job.is_complete,
            FileContent::Undecided => {
                file.looked = None;
                // A compressed file is decompressed for each comparison.
                file.next = now + if file.is_plain() { PAUSE } else { COPY_PAUSE };
            }
            FileContent::Copy { of, epoch } => {
                file.next = now + COPY_PAUSE;
                file.state = FileState::Copy { of, epoch };
            }
            FileContent::Follow(position) => {
                file.looked = None;
                file.next = now;
                file.state = FileState::Following(position);
                self.work.notify_all();
            }
            FileContent::Done => file.state = FileState::Done,
        }
        Ok(true)
    }

    fn take_unknown(&self, now: Instant) -> Option<UnknownFile> {
        let mut files = self.files.lock();
        let id = files.next_to_identify(now)?;
        let file = files.get(id)?;
        file.look(now);
        file.is_busy = true;
        Some(UnknownFile {
            id,
            file: Arc::clone(&file.file),
            compression: file.compression,
            source: source_of(file),
            seen: file.seen,
            is_complete: file.is_complete(now),
            first_bytes: file.first_bytes,
        })
    }

    fn identify(&self, job: &UnknownFile, now: Instant) -> Result<FileContent, Trouble> {
        let is_plain = job.compression == Compression::None;
        match is_plain {
            true if !has_lines(job)? => return Ok(FileContent::Waits),
            true => {}
            // A compressed file that is not whole may be being written.
            false => {
                std::io::copy(&mut job.content()?, &mut std::io::sink())?;
            }
        }
        let head = job.head()?;
        // It may have been cut off since, and then begins with no line that could name it.
        if !job.is_complete && !has_beginning(&head) {
            return Ok(FileContent::Undecided);
        }
        let mut likes = self.files.lock().like(job.id, &head);
        if seeded::is(ShipBug::CopyIsNew) {
            likes.clear();
        }
        for (id, epoch, file) in likes {
            if compare(job.content()?, &file)? == Relation::Copy {
                return Ok(FileContent::Copy { of: id, epoch });
            }
        }
        // Only a file that still holds its content can be told to be another.
        if self.may_have_original(job)? {
            return Ok(FileContent::Undecided);
        }
        let disturbance = self.link.disturbance();
        let known = self.recognise(job, &head, now)?;
        if known.from == 0 && self.identifier.lock().skips == Some(true) {
            let position = ShipPosition::of(&known, Guard::default(), disturbance);
            if let Some(content) = self.skip(job, &head, position)? {
                return Ok(content);
            }
        }
        if !is_plain {
            return self.send_compressed(job, known, disturbance);
        }
        // It may have been cut off since.
        let guard = match Guard::read(&job.file, &head, known.from) {
            Ok(guard) if job.head()?.starts_with(&head) => guard,
            _ => return Ok(FileContent::Undecided),
        };
        let position = ShipPosition::of(&known, guard, disturbance);
        // The first part of a known content may go on as that does; as long as nothing follows, it
        // is not known whether it does.
        let end = FileEnd {
            is_complete: job.is_complete,
            rests: true,
            len: u64::MAX,
        };
        if known.is_older
            && let NextCut::Nothing = cut(&job.file, &position, LINE_BYTES_MAX, None, end)?
        {
            return Ok(FileContent::Waits);
        }
        Ok(FileContent::Follow(Box::new(position)))
    }

    /// Returns whether another file may be the original of this one once it is recognised: it would
    /// be sent as another content, and this one too.
    fn may_have_original(&self, job: &UnknownFile) -> Result<bool, Trouble> {
        let unsettled = self.files.lock().unsettled(job.id, job.seen.len);
        for (guard, file) in unsettled {
            let is_other = match guard {
                Some(guard) => guard.fits(&file),
                None => compare(job.content()?, &file)? == Relation::Other,
            };
            if !is_other {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares the file with the contents that the server has.
    fn recognise(&self, job: &UnknownFile, head: &[u8], now: Instant) -> Result<KnownSource> {
        let mut identifier = self.identifier.lock();
        let is_fresh = |(at, _): &(Instant, Producers)| now.duration_since(*at) < NAMES_FOR;
        if !identifier.producers.as_ref().is_some_and(is_fresh) {
            let site = self.options.site.as_deref().unwrap_or("");
            let producers = Producers::of_files(&self.link, &self.options.stream, site)?;
            identifier.producers = Some((now, producers.of_growing()));
        }
        let Identifier { producers, skips } = &mut *identifier;
        let (_, producers) = producers.as_mut().expect("BUG: the producers were read");
        if skips.is_none() {
            *skips = Some(self.options.from_end && !self.knows_some(producers));
        }
        let others = self.files.lock().producers(job.id);
        let origin = Origin::Open(Arc::clone(&job.file), job.compression);
        let named = self.options.format.as_ref().unwrap_or(&Format::Auto);
        let format = ingest::search_header(named, head).format();
        producers.find_besides(&self.link, (origin, &format), false, &others)
    }

    /// Returns whether the server may have taken lines of a file that was there at the start: then
    /// this is not the first start, and files that came meanwhile are sent from their beginnings.
    fn knows_some(&self, producers: &Producers) -> bool {
        let first: Vec<_> = {
            let files = self.files.lock();
            let first = files.all().filter(|file| file.first_bytes.is_some());
            first
                .map(|f| (Arc::clone(&f.file), f.compression))
                .collect()
        };
        first.iter().any(|(file, compression)| {
            let content = opened(file, *compression);
            content.is_ok_and(|content| producers.may_know(content))
        })
    }

    /// Passes over the whole lines that a file had at the start, if it had any: the server
    /// remembers a range without lines.
    fn skip(
        &self,
        job: &UnknownFile,
        head: &[u8],
        mut position: ShipPosition,
    ) -> Result<Option<FileContent>, Trouble> {
        let Some(first_bytes) = job.first_bytes else {
            return Ok(None);
        };
        let bytes = match job.compression {
            Compression::None => first_bytes,
            _ => u64::MAX,
        };
        let mut next: Option<NextLines> = None;
        let blocks = LineBlocks::new(job.content()?.take(bytes));
        for block in blocks {
            let block = block?;
            if !block.is_whole() && !job.is_complete {
                break;
            }
            next = Some(NextLines {
                from: block.bytes.len(),
                after: behind(&position, &block),
                block,
            });
        }
        let Some(mut next) = next else {
            return Ok(None);
        };
        let mut hasher = Xxh3Default::new();
        hash_into(&mut hasher, job.content()?.take(next.after.at))?;
        next.after.hasher = hasher;
        if !job.head()?.starts_with(head) {
            return Ok(Some(FileContent::Undecided));
        }
        if !self.delivered(job, &mut position, &mut next)? {
            return Ok(Some(FileContent::Undecided));
        }
        tracing::info!("{}: begins at its end, byte {}", job.source, next.after.at);
        if job.compression != Compression::None {
            return Ok(Some(FileContent::Done));
        }
        let guard = Guard::read(&job.file, head, next.after.at)?;
        let position = ShipPosition {
            guard,
            ..next.after
        };
        Ok(Some(FileContent::Follow(Box::new(position))))
    }

    /// Sends the rest of a compressed file.
    fn send_compressed(
        &self,
        job: &UnknownFile,
        known: KnownSource,
        disturbance: u64,
    ) -> Result<FileContent, Trouble> {
        let mut position = ShipPosition::of(&known, Guard::default(), disturbance);
        let mut blocks = LineBlocks::new(known.source)
            .with_limits(self.batch_bytes(), LINE_BYTES_MAX)
            .starting_at(known.line_ends + 1, known.from)
            .of_records(self.options.multiline.clone())
            .hashing(known.hasher);
        while let Some(block) = blocks.next_block()? {
            let from = match position.mid_line {
                true => line_end(&block.bytes),
                false => 0,
            };
            let mut next = NextLines {
                after: behind(&position, &block),
                from,
                block,
            };
            if !self.delivered(job, &mut position, &mut next)? {
                return Ok(FileContent::Undecided);
            }
            position = next.after;
        }
        Ok(FileContent::Done)
    }

    /// Delivers lines that are in memory. Returns whether the server has them now; otherwise the
    /// file is recognised anew, and goes on behind the server's position with smaller batches.
    fn delivered(
        &self,
        job: &UnknownFile,
        position: &mut ShipPosition,
        next: &mut NextLines,
    ) -> Result<bool, Trouble> {
        let taken = self.deliver(&job.source, position, next)?;
        next.after.confirmed = position.confirmed;
        Ok(matches!(taken, BatchOutcome::Stored(_)))
    }
}

/// Returns the position behind a block of a content that is read once.
fn behind(position: &ShipPosition, block: &SourceBlock) -> ShipPosition {
    let line_ends = memchr::memchr_iter(b'\n', &block.bytes).count() as u64;
    ShipPosition {
        at: block.end_byte,
        format: position.format.behind(block),
        lines: block.first_line - 1 + line_ends,
        mid_line: false,
        is_unsent: false,
        ..position.clone()
    }
}

impl UnknownFile {
    /// Returns the content from its beginning.
    fn content(&self) -> Result<Box<dyn Read + Send>> {
        opened(&self.file, self.compression)
    }

    fn head(&self) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        self.content()?.take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(head)
    }
}

/// Returns whether there is a line to send, and one by which a new file is named.
fn has_lines(job: &UnknownFile) -> Result<bool> {
    let mut blocks = LineBlocks::new(job.content()?).with_limits(64 << 10, LINE_BYTES_MAX);
    let Some(block) = blocks.next_block()?.filter(|block| !block.is_blank()) else {
        return Ok(false);
    };
    let is_named = || has_beginning(&block.bytes);
    Ok(job.is_complete || block.is_whole() && is_named())
}
