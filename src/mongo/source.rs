//! The documents of an answer, one after the other, whatever makes them.

use std::collections::VecDeque;

use bson::Document;
use query::QueryStats;
use query::mongo::{KeptBytes, PipelineRun, StageFlow, encoded_bytes};

use super::error::{CommandError, Result, code};
use super::reading::DocumentReading;
use super::tail::TailReading;

/// Bytes of documents that are read ahead, so that a query of few documents ends at once and does
/// not wait for the next batch of its client.
const AHEAD_BYTES: usize = 4 << 20;

/// Documents that wait, with the bytes that they have in BSON.
#[derive(Debug, Default)]
pub(super) struct WaitingDocuments {
    documents: VecDeque<WaitingDocument>,
    bytes: usize,
}

#[derive(Debug)]
enum WaitingDocument {
    Ready(Document, usize),
    /// BSON: a decoded document takes ten times the memory.
    Packed(Vec<u8>),
}

impl WaitingDocument {
    fn bytes(&self) -> usize {
        match self {
            Self::Ready(_, bytes) => *bytes,
            Self::Packed(bytes) => bytes.len(),
        }
    }
}

impl WaitingDocuments {
    pub(super) fn push(&mut self, document: Document) {
        let bytes = encoded_bytes(&document);
        self.bytes += bytes;
        self.documents
            .push_back(WaitingDocument::Ready(document, bytes));
    }

    /// Returns the bytes of the next document.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        self.documents.front().map(WaitingDocument::bytes)
    }

    pub(super) fn pop(&mut self) -> Option<Document> {
        let document = self.documents.pop_front()?;
        self.bytes -= document.bytes();
        Some(match document {
            WaitingDocument::Ready(document, _) => document,
            WaitingDocument::Packed(bytes) => {
                Document::from_reader(&bytes[..]).expect("BUG: it was a document")
            }
        })
    }

    /// Packs the documents, for a client that may take long to ask for them.
    ///
    /// # Errors
    /// If one is no BSON.
    pub(super) fn pack(&mut self) -> Result<()> {
        for document in &mut self.documents {
            if let WaitingDocument::Ready(ready, _) = document {
                let mut bytes = ready.to_vec().map_err(|error| {
                    let message = format!("a document cannot be sent: {error}");
                    CommandError::new(code::BAD_VALUE, message)
                })?;
                bytes.shrink_to_fit();
                *document = WaitingDocument::Packed(bytes);
            }
        }
        self.bytes = self.documents.iter().map(WaitingDocument::bytes).sum();
        Ok(())
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
                    bytes += encoded_bytes(&document);
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
    pub(super) async fn next(&mut self) -> Result<Option<Document>> {
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

    fn figures(&self) -> QueryStats {
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

    fn has_ended(&self) -> bool {
        self.first.is_empty() && self.has_ended
    }
}

/// The results of a pipeline.
pub(super) struct PipelineReading {
    /// The documents that the pipeline has not taken; `None` once it takes no more.
    reading: Option<ArrivalReading>,
    run: PipelineRun,
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
        Self {
            figures,
            reading: Some(reading),
            run,
            kept,
            results: WaitingDocuments::default(),
        }
    }

    /// Returns the next result.
    ///
    /// # Errors
    /// The errors of reading and of the stages; there is no next result then.
    pub(super) async fn next(&mut self) -> Result<Option<Document>> {
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
                self.figures.add_read(&reading.figures());
                self.reading = None;
                self.run.finish(&mut made)?;
            }
            for result in made {
                self.results.push(result);
            }
        }
    }

    /// Returns the figures of its queries. They are complete when it has ended.
    pub(super) fn figures(&self) -> &QueryStats {
        &self.figures
    }

    fn held_bytes(&self) -> usize {
        let ahead = self.reading.as_ref().map(ArrivalReading::held_bytes);
        self.results.bytes() + self.kept.kept() + ahead.unwrap_or(0)
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
    pub(super) async fn next(&mut self) -> Result<Option<Document>> {
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
            Self::Pipeline(results) => {
                results.results.pack()?;
                results
                    .reading
                    .as_mut()
                    .map_or(Ok(()), ArrivalReading::pack)
            }
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
            Self::Pipeline(results) => results.reading.is_none() && results.results.is_empty(),
            Self::Tail(tail) => tail.has_ended(),
            Self::Ready(documents) => documents.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Decimal128, doc, oid::ObjectId};

    use super::*;

    #[test]
    fn packed_documents_come_back_as_they_were_and_in_order() {
        let all = [
            doc! { "_id": ObjectId::from_bytes([7; 12]), "n": [1, 2_i64, 0.5, Bson::Null] },
            doc! {},
            doc! { "t": bson::DateTime::from_millis(-1), "d": Bson::Decimal128(Decimal128::from_bytes([1; 16])) },
            doc! { "a": { "b": { "c": "x".repeat(1000) } }, "": Bson::MinKey },
        ];
        let mut waiting = WaitingDocuments::default();
        let (first, later) = all.split_at(2);
        first.iter().cloned().for_each(|d| waiting.push(d));
        let bytes = waiting.bytes();
        waiting.pack().expect("packs");
        assert_eq!(waiting.bytes(), bytes);
        later.iter().cloned().for_each(|d| waiting.push(d));
        for document in &all {
            let encoded = document.to_vec().expect("BSON").len();
            assert_eq!(waiting.next_bytes(), Some(encoded));
            assert_eq!(waiting.pop().as_ref(), Some(document));
        }
        assert!(waiting.is_empty() && waiting.bytes() == 0);
    }
}
