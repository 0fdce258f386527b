//! The documents of an answer, one after the other, whatever makes them.

use std::collections::VecDeque;

use bson::Document;
use query::mongo::{KeptBytes, PipelineRun, StageFlow, encoded_bytes};

use super::counted::CountedReading;
use super::error::Result;
use super::reading::DocumentReading;

/// Bytes of documents that are read ahead, so that a query of few documents ends at once and does
/// not wait for the next batch of its client.
const AHEAD_BYTES: usize = 4 << 20;

/// Documents that wait, with the bytes that they have.
#[derive(Debug, Default)]
pub(super) struct WaitingDocuments {
    documents: VecDeque<(Document, usize)>,
    bytes: usize,
}

impl WaitingDocuments {
    pub(super) fn push(&mut self, document: Document) {
        let bytes = encoded_bytes(&document);
        self.bytes += bytes;
        self.documents.push_back((document, bytes));
    }

    /// Returns the bytes of the next document.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        self.documents.front().map(|(_, bytes)| *bytes)
    }

    pub(super) fn pop(&mut self) -> Option<Document> {
        let (document, bytes) = self.documents.pop_front()?;
        self.bytes -= bytes;
        Some(document)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }
}

/// Documents of a collection: a short answer in the order of arrival, a longer one in any order.
pub(super) struct ArrivalReading {
    first: WaitingDocuments,
    rest: Option<DocumentReading>,
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
                    bytes += encoded_bytes(&document);
                    read.push((seq, document));
                    has_ended = read.len() as u64 >= most;
                }
                None => has_ended = true,
            }
        }
        if has_ended {
            read.sort_by_key(|(seq, _)| *seq);
        }
        let mut first = WaitingDocuments::default();
        for (_, document) in read {
            first.push(document);
        }
        let rest = (!has_ended).then_some(reading);
        Ok(Self { first, rest })
    }

    /// Returns the next document.
    ///
    /// # Errors
    /// The errors of reading; there is no next document then.
    pub(super) async fn next(&mut self) -> Result<Option<Document>> {
        if let Some(document) = self.first.pop() {
            return Ok(Some(document));
        }
        let Some(rest) = &mut self.rest else {
            return Ok(None);
        };
        let next = rest.next().await?;
        if next.is_none() {
            self.rest = None;
        }
        Ok(next.map(|(_, document)| document))
    }

    fn has_ended(&self) -> bool {
        self.first.is_empty() && self.rest.is_none()
    }
}

/// The results of a pipeline.
pub(super) struct PipelineReading {
    /// Documents that count several times, and come first.
    counted: Option<CountedReading>,
    /// The documents that the pipeline has not taken; `None` once it takes no more.
    reading: Option<ArrivalReading>,
    run: PipelineRun,
    kept: KeptBytes,
    results: WaitingDocuments,
}

impl PipelineReading {
    /// Begins a run over documents. Its stages count their bytes in `kept`.
    pub(super) fn new(reading: ArrivalReading, run: PipelineRun, kept: KeptBytes) -> Self {
        Self {
            counted: None,
            reading: Some(reading),
            run,
            kept,
            results: WaitingDocuments::default(),
        }
    }

    /// Takes documents that count several times before the others.
    pub(super) fn after(self, counted: CountedReading) -> Self {
        let counted = Some(counted);
        Self { counted, ..self }
    }

    /// Returns the next result.
    ///
    /// # Errors
    /// The errors of reading and of the stages; there is no next result then.
    pub(super) async fn next(&mut self) -> Result<Option<Document>> {
        if let Some(mut counted) = self.counted.take() {
            while let Some((document, times)) = counted.next().await? {
                self.run.push_times(document, times)?;
            }
        }
        loop {
            if let Some(result) = self.results.pop() {
                return Ok(Some(result));
            }
            let Some(reading) = &mut self.reading else {
                return Ok(None);
            };
            let mut made = Vec::new();
            let flow = match reading.next().await? {
                Some(document) => self.run.push(document, &mut made)?,
                None => StageFlow::Done,
            };
            if flow == StageFlow::Done {
                self.reading = None;
                // It may compute for long, and this thread has other tasks.
                tokio::task::block_in_place(|| self.run.finish(&mut made))?;
            }
            for result in made {
                self.results.push(result);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        let ahead = self.reading.as_ref().map(|reading| reading.first.bytes());
        self.results.bytes() + self.kept.kept() + ahead.unwrap_or(0)
    }
}

/// The source of an answer.
pub(super) enum DocumentSource {
    Reading(Box<ArrivalReading>),
    Pipeline(Box<PipelineReading>),
    /// Documents that are all there.
    Ready(WaitingDocuments),
}

impl DocumentSource {
    /// Returns the next document.
    ///
    /// # Errors
    /// The errors of reading; there is no next document then.
    pub(super) async fn next(&mut self) -> Result<Option<Document>> {
        match self {
            Self::Reading(reading) => reading.next().await,
            Self::Pipeline(results) => results.next().await,
            Self::Ready(documents) => Ok(documents.pop()),
        }
    }

    /// Returns the bytes of the documents that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Reading(reading) => reading.first.bytes(),
            Self::Pipeline(results) => results.held_bytes(),
            Self::Ready(documents) => documents.bytes(),
        }
    }

    /// Returns whether it is known that there is no next document.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Reading(reading) => reading.has_ended(),
            Self::Pipeline(results) => results.reading.is_none() && results.results.is_empty(),
            Self::Ready(documents) => documents.is_empty(),
        }
    }
}
