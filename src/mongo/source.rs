//! The documents of an answer, one after the other, whatever makes them.

use std::time::Instant;

use query::QueryStats;
use query::mongo::{GroupResults, KeptBytes, PipelineRun, StageFlow};

use super::document::{AnswerDocument, WaitingDocuments};
use super::error::Result;
use super::reading::{DocumentReading, TURN};
use super::tail::TailReading;

/// Bytes of documents that are read ahead, so that a query of few documents ends at once and does
/// not wait for the next batch of its client.
const AHEAD_BYTES: usize = 4 << 20;

/// Documents of a collection: a short answer in the order of arrival, a longer one in any order.
pub(super) struct ArrivalReading {
    first: WaitingDocuments,
    reading: DocumentReading,
    /// There are no documents behind the first.
    has_ended: bool,
}

impl ArrivalReading {
    /// Reads the beginning: all of a short answer, or so many documents at most.
    ///
    /// # Errors
    /// The errors of reading.
    pub(super) async fn begin(mut reading: DocumentReading, most: u64) -> Result<Self> {
        let (mut read, mut bytes) = (Vec::new(), 0);
        let mut has_ended = most == 0;
        while bytes < AHEAD_BYTES && !has_ended {
            match reading.next().await? {
                Some((seq, document)) => {
                    bytes += document.bytes();
                    read.push((seq, document));
                    has_ended = read.len() as u64 >= most;
                }
                None => has_ended = true,
            }
        }
        if has_ended {
            reading.end();
            read.sort_by_key(|(seq, _)| *seq);
        }
        let mut first = WaitingDocuments::default();
        for (_, document) in read {
            first.push(document);
        }
        Ok(Self {
            first,
            reading,
            has_ended,
        })
    }

    /// Returns the next document.
    ///
    /// # Errors
    /// The errors of reading; there is no next document then.
    pub(super) async fn next(&mut self) -> Result<Option<AnswerDocument>> {
        if let Some(document) = self.first.pop() {
            return Ok(Some(document));
        }
        if self.has_ended {
            return Ok(None);
        }
        let next = self.reading.next().await?;
        self.has_ended = next.is_none();
        Ok(next.map(|(_, document)| document))
    }

    /// Returns the figures of its query. They are complete when all documents have been read.
    pub(super) fn figures(&self) -> QueryStats {
        self.reading.figures()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.first.bytes()
    }

    /// Packs what was read ahead.
    ///
    /// # Errors
    /// As [`WaitingDocuments::pack`].
    pub(super) fn pack(&mut self) -> Result<()> {
        self.first.pack()
    }

    /// Returns whether it is known that there is no next document.
    pub(super) fn has_ended(&self) -> bool {
        self.first.is_empty() && self.has_ended
    }
}

/// The input of a pipeline.
enum PipelineInput {
    Documents(Box<ArrivalReading>),
    /// Groups that were made of columns, for the stages behind, and the time when others of its
    /// thread last could go on.
    Groups(GroupResults, Instant),
}

impl PipelineInput {
    async fn next(&mut self) -> Result<Option<AnswerDocument>> {
        match self {
            Self::Documents(reading) => reading.next().await,
            Self::Groups(groups, turn) => {
                if turn.elapsed() > TURN {
                    tokio::task::yield_now().await;
                    *turn = Instant::now();
                }
                let next = groups.next_encoded().transpose()?;
                Ok(next.map(AnswerDocument::of_encoded))
            }
        }
    }

    fn figures(&self) -> QueryStats {
        match self {
            Self::Documents(reading) => reading.figures(),
            Self::Groups(..) => QueryStats::default(),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Self::Documents(reading) => reading.held_bytes(),
            // They are kept bytes of the pipeline.
            Self::Groups(..) => 0,
        }
    }

    fn pack(&mut self) -> Result<()> {
        match self {
            Self::Documents(reading) => reading.pack(),
            Self::Groups(..) => Ok(()),
        }
    }
}

/// The results of a pipeline.
pub(super) struct PipelineReading {
    /// The input that is left; `None` once the pipeline takes no more.
    input: Option<PipelineInput>,
    /// The stages; `None` if the input is the results.
    run: Option<PipelineRun>,
    kept: KeptBytes,
    results: WaitingDocuments,
    /// The figures of the queries that have ended.
    figures: QueryStats,
}

impl PipelineReading {
    /// Goes on with a run over documents, after queries with these figures. Its stages count their
    /// bytes in `kept`.
    pub(super) fn new(
        reading: ArrivalReading,
        (run, kept): (PipelineRun, KeptBytes),
        figures: QueryStats,
    ) -> Self {
        let input = Some(PipelineInput::Documents(Box::new(reading)));
        Self {
            figures,
            input,
            run: Some(run),
            kept,
            results: WaitingDocuments::default(),
        }
    }

    /// Goes on with groups, and the stages behind them if there are any, after queries with these
    /// figures.
    pub(super) fn of_groups(
        (groups, run): (GroupResults, Option<PipelineRun>),
        kept: KeptBytes,
        figures: QueryStats,
    ) -> Self {
        Self {
            figures,
            input: Some(PipelineInput::Groups(groups, Instant::now())),
            run,
            kept,
            results: WaitingDocuments::default(),
        }
    }

    /// Returns the next result.
    ///
    /// # Errors
    /// The errors of reading and of the stages; there is no next result then.
    pub(super) async fn next(&mut self) -> Result<Option<AnswerDocument>> {
        loop {
            if let Some(result) = self.results.pop() {
                return Ok(Some(result));
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            let next = input.next().await?;
            let Some(run) = &mut self.run else {
                if next.is_none() {
                    self.input = None;
                }
                return Ok(next);
            };
            let mut made = Vec::new();
            let flow = match next {
                Some(document) => run.push(document.into_document(), &mut made)?,
                None => StageFlow::Done,
            };
            if flow == StageFlow::Done {
                self.figures.add_read(&input.figures());
                self.input = None;
                run.finish(&mut made)?;
            }
            for result in made {
                self.results.push(AnswerDocument::new(result));
            }
        }
    }

    /// Returns the figures of its queries. They are complete when it has ended.
    pub(super) fn figures(&self) -> &QueryStats {
        &self.figures
    }

    fn held_bytes(&self) -> usize {
        let ahead = self.input.as_ref().map(PipelineInput::held_bytes);
        self.results.bytes() + self.kept.kept() + ahead.unwrap_or(0)
    }

    fn has_ended(&self) -> bool {
        let is_done = match (&self.input, &self.run) {
            (None, _) => true,
            (Some(PipelineInput::Groups(groups, _)), None) => groups.is_empty(),
            (Some(_), _) => false,
        };
        is_done && self.results.is_empty()
    }

    fn pack(&mut self) -> Result<()> {
        self.results.pack()?;
        self.input.as_mut().map_or(Ok(()), PipelineInput::pack)
    }
}

/// The source of an answer.
pub(super) enum DocumentSource {
    Reading(Box<ArrivalReading>),
    Pipeline(Box<PipelineReading>),
    Tail(Box<TailReading>),
    /// Documents that are all there.
    Ready(WaitingDocuments),
}

impl DocumentSource {
    /// Returns the next document.
    ///
    /// # Errors
    /// The errors of reading; there is no next document then.
    pub(super) async fn next(&mut self) -> Result<Option<AnswerDocument>> {
        match self {
            Self::Reading(reading) => reading.next().await,
            Self::Pipeline(results) => results.next().await,
            Self::Tail(tail) => tail.next().await,
            Self::Ready(documents) => Ok(documents.pop()),
        }
    }

    /// Packs the documents that it holds.
    ///
    /// # Errors
    /// As [`WaitingDocuments::pack`].
    pub(super) fn pack(&mut self) -> Result<()> {
        match self {
            Self::Reading(reading) => reading.pack(),
            Self::Tail(tail) => tail.pack(),
            Self::Pipeline(results) => results.pack(),
            Self::Ready(documents) => documents.pack(),
        }
    }

    /// Returns the bytes of the documents that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Reading(reading) => reading.held_bytes(),
            Self::Tail(tail) => tail.held_bytes(),
            Self::Pipeline(results) => results.held_bytes(),
            Self::Ready(documents) => documents.bytes(),
        }
    }

    /// Returns whether it is known that there is no next document.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Reading(reading) => reading.has_ended(),
            Self::Pipeline(results) => results.has_ended(),
            Self::Tail(tail) => tail.has_ended(),
            Self::Ready(documents) => documents.is_empty(),
        }
    }
}
