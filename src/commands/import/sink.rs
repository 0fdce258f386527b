//! The destinations of an import's blocks: a store of this process, or a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ingest::{BLOCK_BYTES, BatchOrigin, Format, Multiline, ParseOptions, Parser, SourceBlock};
use storage::{
    Ack, Clock, Identity, Name, SourcePosition, Store, StreamKind, SystemClock, WriteConcern,
};

use super::Summary;
use crate::client::{Client, IngestRequest};
use crate::failure::{FAILED, Failure, Result};
use crate::intake;
use crate::source_id::SourceMemory;

/// Bytes of a piece for a server: each goes into the journal as one, and live clients wait for its
/// write.
const PIECE_BYTES: usize = 256 << 10;
/// Batches handed over and not yet acknowledged.
const UNDER_WAY_MAX: usize = 8;

/// Some lines of a source with their identity.
pub(super) struct SourcePiece<'a> {
    pub(super) source: &'a str,
    pub(super) block: SourceBlock,
    pub(super) identity: Option<Identity>,
}

pub(super) trait Sink: SourceMemory {
    /// Returns the size of a piece in bytes, about.
    fn piece_bytes(&self) -> usize;
    /// Returns the rule by which lines are records.
    fn multiline(&self) -> Option<Multiline>;
    /// Begins a source, of which the next line is in this format.
    fn begin(&mut self, format: &Format);
    /// Takes a piece. Returns the format in use, `Auto` while there is none.
    fn take(&mut self, piece: SourcePiece<'_>, summary: &mut Summary) -> Result<Format>;
    /// Waits until every piece is acknowledged; another source may follow.
    fn drain(&mut self, summary: &mut Summary) -> Result<()>;
}

/// Refuses a duplicate that the store cannot compare any more. An import hands over what follows
/// the state that it has read; a copy that came before belongs to another import, of this source or
/// of one that begins alike.
fn check_first(ack: &Ack, items: u64) -> Result<()> {
    let is_uncounted = ack.accepted + ack.quarantined == 0;
    if ack.duplicate && ack.first_seq.is_none() && is_uncounted && items > 0 {
        return Err(Failure::new(
            FAILED,
            "another import is storing this file, or one with the same beginning; wait for it to end and run this import again",
        ));
    }
    Ok(())
}

/// A store of this process.
pub(super) struct Local {
    store: Arc<Store>,
    stream: Name,
    options: ParseOptions,
    concern: WriteConcern,
    /// The format in which the source under way begins.
    format: Format,
    /// The parser of the source under way.
    parser: Option<Parser>,
    /// Kind of the stream, if it existed before the source.
    kind: Option<StreamKind>,
    answers: (Sender<Answered>, Receiver<Answered>),
    under_way: usize,
}

/// Outcome of a batch, with the counts of its parse.
struct Answered {
    outcome: storage::Result<Ack>,
    lines: u64,
    empty: u64,
    bytes: u64,
    reasons: BTreeMap<&'static str, u64>,
}

impl Local {
    pub(super) fn new(
        store: Arc<Store>,
        stream: Name,
        options: ParseOptions,
        concern: WriteConcern,
    ) -> Self {
        Self {
            store,
            stream,
            format: options.format.clone(),
            options,
            concern,
            parser: None,
            kind: None,
            answers: channel(),
            under_way: 0,
        }
    }

    pub(super) fn close(self) -> Result<()> {
        match Arc::into_inner(self.store) {
            Some(store) => Ok(store.close()?),
            None => Err(Failure::new(FAILED, "BUG: the store is still in use")),
        }
    }

    fn gather(&mut self, summary: &mut Summary) -> Result<()> {
        let answered = self.answers.1.recv().map_err(|_| storage::Error::Closed)?;
        self.under_way -= 1;
        let ack = answered.outcome?;
        check_first(&ack, answered.lines - answered.empty)?;
        summary.add(
            &ack,
            answered.lines,
            answered.empty,
            answered.bytes,
            answered.reasons,
        );
        Ok(())
    }

    /// Makes the parser of the source under way.
    fn parser(&mut self) -> Parser {
        let snapshot = self.store.snapshot();
        self.kind = intake::stream_kind(&snapshot, &self.stream);
        Parser::new(ParseOptions {
            format: self.format.clone(),
            schema: intake::stream_schema(&snapshot, &self.stream),
            ..self.options.clone()
        })
    }
}

impl SourceMemory for Local {
    fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.store.source_names(prefix))
    }

    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        Ok(self.store.source_states(producer))
    }
}

impl Sink for Local {
    fn piece_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn multiline(&self) -> Option<Multiline> {
        self.options.multiline.clone()
    }

    fn begin(&mut self, format: &Format) {
        self.format = format.clone();
    }

    fn take(&mut self, piece: SourcePiece<'_>, summary: &mut Summary) -> Result<Format> {
        let received_us = SystemClock.now_us();
        let mut parser = match self.parser.take() {
            Some(parser) => parser,
            None => self.parser(),
        };
        parser.set_received(received_us);
        let parsed = parser.parse_block(&piece.block)?;
        if let Some(detection) = parser.take_detection() {
            summary.detected(&detection);
        }
        self.parser = Some(parser);
        let format = parsed.format.clone();
        let reasons = parsed.reasons();
        let (lines, empty) = (parsed.lines, parsed.empty);
        let bytes = piece.block.end_byte - piece.block.first_byte;
        let origin = BatchOrigin {
            stream: self.stream.clone(),
            source: piece.source.into(),
            received_us,
            identity: piece.identity,
            kind: self.kind,
        };
        let batch = origin.batch(parsed);
        let answers = self.answers.0.clone();
        self.store.submit(batch, self.concern, move |outcome| {
            // An import that has given up does not receive this any more.
            let _ignored = answers.send(Answered {
                outcome,
                lines,
                empty,
                bytes,
                reasons,
            });
        })?;
        self.under_way += 1;
        while self.under_way >= UNDER_WAY_MAX {
            self.gather(summary)?;
        }
        Ok(format)
    }

    fn drain(&mut self, summary: &mut Summary) -> Result<()> {
        self.parser = None;
        while self.under_way > 0 {
            self.gather(summary)?;
        }
        Ok(())
    }
}

/// A server, which parses the lines. The byte range travels with each request, so that the server
/// recognises a repeated one.
pub(super) struct Remote {
    client: Client,
    stream: Name,
    options: ParseOptions,
    concern: WriteConcern,
    format: Format,
}

impl Remote {
    pub(super) fn new(
        client: Client,
        stream: Name,
        options: ParseOptions,
        concern: WriteConcern,
    ) -> Self {
        let format = options.format.clone();
        Self {
            client,
            stream,
            options,
            concern,
            format,
        }
    }
}

impl SourceMemory for Remote {
    fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        self.client.source_names(prefix)
    }

    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        self.client.source_states(producer)
    }
}

impl Sink for Remote {
    fn piece_bytes(&self) -> usize {
        PIECE_BYTES
    }

    fn multiline(&self) -> Option<Multiline> {
        self.options.multiline.clone()
    }

    fn begin(&mut self, format: &Format) {
        self.format = format.clone();
    }

    fn take(&mut self, piece: SourcePiece<'_>, summary: &mut Summary) -> Result<Format> {
        if self.format == Format::Auto && piece.block.values {
            self.format = Format::Json;
        } else if self.format == Format::Auto
            && let detection = ingest::detect(&piece.block.bytes, self.options.multiline.as_ref())
            && let Some(format) = detection.format.clone()
        {
            summary.detected(&detection);
            // The first block decides for the file, as it does for a parser in this process. The
            // request of an access log still says `auto`, which also takes the text behind a
            // record.
            self.format = format;
        }
        let answer = self.client.ingest(&IngestRequest {
            stream: self.stream.as_str(),
            format: Some(match self.format.kind() {
                StreamKind::Access if self.format != Format::VhostCombined => &self.options.format,
                _ => &self.format,
            }),
            multiline: self.options.multiline.as_ref(),
            strict: self.options.strict,
            site: self.options.site.as_deref(),
            tz: self.options.tz.as_ref().and_then(|tz| tz.iana_name()),
            year: self.options.year,
            concern: self.concern,
            source: piece.source,
            line: piece.block.first_line,
            identity: piece.identity.as_ref(),
            values: piece.block.values,
            bulk: true,
            body: &piece.block.bytes,
        })?;
        let bytes = piece.block.end_byte - piece.block.first_byte;
        let lines = answer.accepted + answer.quarantined + answer.empty;
        let ack = Ack {
            accepted: answer.accepted,
            quarantined: answer.quarantined,
            first_seq: answer.first_seq,
            last_seq: answer.last_seq,
            duplicate: answer.duplicate,
            shard: None,
        };
        let has_items = self.format.has_items(&piece.block.bytes);
        check_first(&ack, u64::from(has_items))?;
        // The next piece is read by the header in this one.
        self.format = self.format.behind(&piece.block);
        let reasons = &answer.quarantined_by_reason;
        let reasons = reasons
            .iter()
            .map(|(reason, count)| (reason.as_str(), *count));
        summary.add(&ack, lines, answer.empty, bytes, reasons);
        Ok(if answer.accepted > 0 && self.format == Format::Auto {
            Format::Combined
        } else {
            self.format.clone()
        })
    }

    fn drain(&mut self, _: &mut Summary) -> Result<()> {
        Ok(())
    }
}
