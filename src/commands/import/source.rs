//! One source of an import: its content that is not imported yet, block by block, into the sink.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use ingest::{Compression, Format, LINE_BYTES_MAX, LineBlocks, SAMPLE_LINES, SourceBlock};
use storage::Identity;

use super::sink::{Sink, SourcePiece};
use super::summary::Summary;
use crate::failure::{FAILED, Failure, Result};
use crate::interrupt::{Interrupt, LOOK_EVERY};
use crate::source_id::KnownSource;

/// Blocks read ahead of the parser.
const READ_AHEAD: usize = 3;
const BUFFER_BYTES: usize = 256 << 10;
/// The longest `--site` and name of a source, in bytes: each row of a batch may repeat them.
pub(super) const TEXT_BYTES_MAX: usize = 1024;

type Blocks = ingest::Result<Option<SourceBlock>>;

/// A source that is open behind the content that was imported before.
pub(super) struct OpenSource {
    /// Its name in messages and in quarantine.
    pub(super) shown: String,
    pub(super) known: KnownSource,
    /// Nothing will be appended to it.
    pub(super) is_complete: bool,
    /// The format by the options.
    pub(super) format: Format,
}

/// Lines and bytes handed over so far.
struct Progress {
    producer: Option<String>,
    /// The end of the bytes that were imported before or handed over now.
    to: u64,
    /// The number of the first line that was not imported before.
    first_line: u64,
    /// The format in use, `Auto` while there is none.
    format: Format,
    /// The last line.
    before: Option<Vec<u8>>,
    is_mid_line: bool,
}

/// Returns the name of a file for messages and the quarantine; of a very long path the end.
pub(super) fn shown(file: &Path) -> String {
    let name = file.display().to_string();
    let mut from = name.len().saturating_sub(TEXT_BYTES_MAX);
    while !name.is_char_boundary(from) {
        from += 1;
    }
    name[from..].to_owned()
}

/// Returns standard input, decompressed where its first bytes are those of a compression.
pub(crate) fn input() -> Result<Box<dyn Read + Send>> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, std::io::stdin());
    let compression = Compression::of_bytes(input.fill_buf()?);
    Ok(ingest::decompress(input, compression)?)
}

impl OpenSource {
    /// Imports the source. Returns whether a format was found, if there were lines.
    pub(super) fn import(
        self,
        sink: &mut dyn Sink,
        interrupt: &Interrupt,
        summary: &mut Summary,
    ) -> Result<bool> {
        let known = self.known;
        if known.from > 0 {
            summary.skip(known.line_ends + u64::from(known.mid_line), known.from);
        }
        let cutter = LineBlocks::new(known.source)
            .with_limits(sink.piece_bytes(), LINE_BYTES_MAX)
            .starting_at(known.line_ends + 1, known.from)
            .of_values(known.values)
            .of_records(sink.multiline())
            .hashing(known.hasher);
        sink.begin(&known.format);
        let mut progress = Progress {
            producer: known.producer,
            to: known.from,
            first_line: known.line_ends + 1,
            format: Format::Auto,
            before: None,
            is_mid_line: known.mid_line && !known.values,
        };
        let blocks = read_ahead(cutter)?;
        let outcome = loop {
            if interrupt.is_set() {
                break Ok(());
            }
            let block = match blocks.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) | Ok(Ok(None)) => break Ok(()),
                Ok(Err(error)) => break Err(Failure::from(error).about(&self.shown)),
                Ok(Ok(Some(block))) => block,
            };
            if block.is_blank() {
                continue;
            }
            let is_line = block.is_whole() || self.is_complete;
            if !is_line && !progress.is_line(&block, &self.format) {
                summary.leave(&self.shown, block.bytes.len() as u64);
                break Ok(());
            }
            if let Err(error) = progress.hand_over(block, &self.shown, sink, summary) {
                break Err(error.about(&self.shown));
            }
        };
        // The import waits for the batches handed over even when the file broke off.
        let drained = sink.drain(summary);
        outcome?;
        drained?;
        summary.found(&progress.format);
        Ok(progress.format != Format::Auto
            || summary.file_lines() == summary.file_empty_and_skipped())
    }
}

impl Progress {
    /// Returns whether a piece without its line end can be taken for a line: see `last_piece.rs`.
    fn is_line(&self, piece: &SourceBlock, asked: &Format) -> bool {
        let format = match &self.format {
            Format::Auto => asked,
            found => found,
        };
        // `auto` has given up: the piece goes to quarantine as it is, like the lines before it.
        let lines = piece.first_line - self.first_line;
        let nothing_fits = *format == Format::Auto && lines >= SAMPLE_LINES;
        nothing_fits || ingest::is_closed(&piece.bytes, self.before.as_deref(), format)
    }

    fn hand_over(
        &mut self,
        mut block: SourceBlock,
        shown: &str,
        sink: &mut dyn Sink,
        summary: &mut Summary,
    ) -> Result<()> {
        if std::mem::take(&mut self.is_mid_line) {
            end_known_line(&mut block);
            if block.bytes.is_empty() {
                self.is_mid_line = true;
                return Ok(());
            }
        }
        let identity = self.producer.as_ref().map(|producer| Identity::Range {
            producer: producer.clone(),
            from: self.to,
            to: block.end_byte,
            content: block.content,
        });
        self.to = block.end_byte;
        self.before = last_line(&block.bytes).map(<[u8]>::to_vec);
        let piece = SourcePiece {
            source: shown,
            block,
            identity,
        };
        self.format = sink.take(piece, summary)?;
        Ok(())
    }
}

/// Removes the end of a line that an earlier import took without it: it is no line of its own.
fn end_known_line(block: &mut SourceBlock) {
    let end = match block.bytes.as_slice() {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => return,
    };
    block.bytes.drain(..end);
    block.first_byte += end as u64;
    block.first_line += 1;
}

/// Returns the last line, without its end.
fn last_line(bytes: &[u8]) -> Option<&[u8]> {
    bytes.strip_suffix(b"\n")?.rsplit(|b| *b == b'\n').next()
}

/// Reads on a thread of its own. The thread may wait for a terminal or a pipe for ever, so it is
/// not joined: it ends when its channel is closed, or with the process.
fn read_ahead(mut cutter: LineBlocks<Box<dyn Read + Send>>) -> Result<Receiver<Blocks>> {
    let (blocks, read): (SyncSender<Blocks>, _) = sync_channel(READ_AHEAD);
    std::thread::Builder::new()
        .name("logmill-read".into())
        .spawn(move || {
            loop {
                let block = cutter.next_block();
                let is_last = !matches!(block, Ok(Some(_)));
                if blocks.send(block).is_err() || is_last {
                    return;
                }
            }
        })
        .map_err(|e| Failure::new(FAILED, format!("cannot start a thread: {e}")))?;
    Ok(read)
}
