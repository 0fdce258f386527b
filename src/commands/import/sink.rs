//! Where an import's blocks go: into a store of this process, or to a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ingest::{BLOCK_BYTES, Block, Format, ParseOptions, Parser};
use storage::{
    Ack, Batch, Clock, Identity, Name, SourcePosition, Store, SystemClock, WriteConcern,
};

use super::Summary;
use crate::client::{Client, IngestRequest};
use crate::failure::{FAILED, Failure, Result};

/// The pieces for a server: each goes into the journal as one, and senders of now wait for its write.
const PIECE_BYTES: usize = 256 << 10;
/// Batches handed over and not yet acknowledged.
const UNDER_WAY_MAX: usize = 8;

/// Some lines of a source with their identity.
pub(super) struct Piece<'a> {
    pub(super) source: &'a str,
    pub(super) block: Block,
    pub(super) identity: Option<Identity>,
}

pub(super) trait Sink {
    /// How many bytes a piece has, about.
    fn piece_bytes(&self) -> usize;
    /// The producers whose names begin with `prefix`.
    fn source_names(&self, prefix: &str) -> Result<Vec<String>>;
    /// The remembered states of a producer, the newest last.
    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>>;
    /// Takes a piece; the format in use, `Auto` while there is none.
    fn take(&mut self, piece: Piece<'_>, summary: &mut Summary) -> Result<Format>;
    /// Waits until everything taken is acknowledged, and is ready for another source.
    fn drain(&mut self, summary: &mut Summary) -> Result<()>;
}

/// Refuses a duplicate that the store cannot compare any more. An import hands over what follows
/// the state that it has read; a copy that came before belongs to another import, of this source or
/// of one that begins alike.
fn check_first(ack: &Ack, items: u64) -> Result<()> {
    if ack.duplicate && ack.first_seq.is_none() && items > 0 {
        return Err(Failure::new(
            FAILED,
            "another import takes it, or a file that begins alike, at this moment; let that end and run this again",
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
    parser: Option<Parser>,
    answers: (Sender<Answered>, Receiver<Answered>),
    under_way: usize,
}

/// What became of a batch, with what its parse had counted.
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
            options,
            concern,
            parser: None,
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

    fn columns(&self) -> Vec<storage::Column> {
        self.store
            .snapshot()
            .streams()
            .get(self.stream.as_str())
            .map(storage::StreamMeta::schema)
            .unwrap_or_default()
    }
}

impl Sink for Local {
    fn piece_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.store.source_names(prefix))
    }

    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        Ok(self.store.source_states(producer))
    }

    fn take(&mut self, piece: Piece<'_>, summary: &mut Summary) -> Result<Format> {
        let received_us = SystemClock.now_us();
        if self.parser.is_none() {
            let schema = self.columns();
            self.parser = Some(Parser::new(ParseOptions {
                schema,
                ..self.options.clone()
            }));
        }
        let parser = self.parser.as_mut().expect("BUG: made above");
        parser.set_received(received_us);
        let parsed = parser.parse_block(&piece.block)?;
        let format = parsed.format;
        let reasons = parsed.reasons();
        let (lines, empty) = (parsed.lines, parsed.empty);
        let bytes = piece.block.end_byte - piece.block.first_byte;
        let batch = Batch {
            stream: self.stream.clone(),
            kind: parsed.kind,
            received_us,
            source: piece.source.into(),
            events: parsed.events,
            quarantine: parsed.quarantine,
            identity: piece.identity,
        };
        let answers = self.answers.0.clone();
        self.store.submit(batch, self.concern, move |outcome| {
            // When the import has given up nobody waits for this any more.
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

/// A server: it parses; the byte range travels with each request, so a repeated one is known.
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
        let format = options.format;
        Self {
            client,
            stream,
            options,
            concern,
            format,
        }
    }
}

impl Sink for Remote {
    fn piece_bytes(&self) -> usize {
        PIECE_BYTES
    }

    fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        self.client.source_names(prefix)
    }

    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        self.client.source_states(producer)
    }

    fn take(&mut self, piece: Piece<'_>, summary: &mut Summary) -> Result<Format> {
        if self.format == Format::Auto && piece.block.values {
            self.format = Format::Json;
        } else if self.format == Format::Auto
            && let Some(format) = ingest::detect(&piece.block.bytes).format
        {
            // The first block decides for the file, as it does for a parser in this process; `auto`
            // goes on being what the server is asked for, since it also takes what follows a record.
            self.format = format;
        }
        let answer = self.client.ingest(&IngestRequest {
            stream: self.stream.as_str(),
            format: if self.format == Format::VhostCombined {
                self.format
            } else {
                self.options.format
            },
            strict: self.options.strict,
            site: self.options.site.as_deref(),
            tz: self.options.tz.as_ref().and_then(|tz| tz.iana_name()),
            concern: self.concern,
            source: piece.source,
            line: piece.block.first_line,
            identity: piece.identity.as_ref(),
            values: piece.block.values,
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
        };
        let is_empty = |line: &[u8]| line.is_empty() || line == b"\r";
        let has_items = !piece.block.bytes.split(|b| *b == b'\n').all(is_empty);
        check_first(&ack, u64::from(has_items))?;
        let reasons = &answer.quarantined_by_reason;
        let reasons = reasons
            .iter()
            .map(|(reason, count)| (reason.as_str(), *count));
        summary.add(&ack, lines, answer.empty, bytes, reasons);
        Ok(if answer.accepted > 0 && self.format == Format::Auto {
            Format::Combined
        } else {
            self.format
        })
    }

    fn drain(&mut self, _: &mut Summary) -> Result<()> {
        self.format = self.options.format;
        Ok(())
    }
}
