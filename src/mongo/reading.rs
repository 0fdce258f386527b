//! Documents of a stream or of a level, as they are read.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aggregator::Level;
use arrow::array::RecordBatch;
use bson::Document;
use futures::StreamExt as _;
use query::mongo::{
    CounterDocuments, EventDocuments, ExpressionContext, Filter, scan, scan_counters, scan_level,
};
use query::{Answer, QueryStats, Question, Session};
use storage::{Snapshot, StreamKind};

use super::document::AnswerDocument;
use super::error::{CommandError, Result, code};
use super::namespace::Collection;
use crate::serve::{Client, Serving};

/// Time after which a search among rows lets others of its thread go on.
pub(super) const TURN: Duration = Duration::from_millis(5);

/// The documents of a collection that match a filter.
pub(super) struct DocumentReading {
    answer: Option<Answer>,
    /// The figures of the answer, once it has ended.
    figures: Option<QueryStats>,
    form: RowForm,
    filter: Arc<Filter>,
    expressions: ExpressionContext,
    rows: Option<ReadRows>,
    /// The fields that the filter reads; `None` for all.
    tested: Option<BTreeSet<String>>,
    /// Documents are wanted as they are sent.
    encodes: bool,
    /// The time when others of its thread last could go on.
    turn: Instant,
    /// Its share counts it until it has ended.
    _client: Client,
}

/// The rows of a collection, by which they become documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowForm {
    Events(StreamKind),
    Counters,
    Level,
}

impl RowForm {
    /// Returns the rows of a collection; `None` if it does not exist for a client.
    pub(super) fn of(
        snapshot: &Snapshot,
        client: &Client,
        collection: &Collection,
    ) -> Option<Self> {
        let streams = client.viewer(snapshot).streams;
        let is_own = |stream| streams.as_ref().is_none_or(|own| own.contains(stream));
        match collection {
            Collection::Stream(stream) => {
                let meta = snapshot.streams().get(stream).filter(|_| is_own(stream))?;
                Some(match meta.kind {
                    StreamKind::Counters => Self::Counters,
                    kind => Self::Events(kind),
                })
            }
            Collection::Level { rollup, level } => {
                let mut all = snapshot.manifest().rollups.iter();
                let level = Level::from_table(level)?;
                let meta = all.find(|meta| meta.name.as_str() == rollup && is_own(&meta.stream))?;
                let has_level = meta.levels.iter().any(|named| *named == level.as_str());
                has_level.then_some(Self::Level)
            }
        }
    }

    fn question(self, collection: &Collection, filter: &Filter, from_seq: u64) -> Question {
        match (collection, self) {
            (Collection::Stream(stream), Self::Counters) => scan_counters(stream, filter),
            (Collection::Stream(stream), _) => scan(stream, filter, from_seq),
            (Collection::Level { rollup, level }, _) => scan_level(rollup, level, filter),
        }
    }
}

/// Rows that have come.
enum ReadRows {
    /// Rows, and the next of them.
    Events(EventDocuments, usize),
    /// Counters that are complete, the one that is read first, and the one whose rows may go on.
    Counters(VecDeque<Document>, Document, CounterDocuments),
}

impl ReadRows {
    fn none(form: RowForm) -> Option<Self> {
        let none = || {
            Self::Counters(
                VecDeque::new(),
                Document::new(),
                CounterDocuments::default(),
            )
        };
        (form == RowForm::Counters).then(none)
    }

    /// Goes to the next row, and returns the sequence number of its event.
    fn advance(&mut self) -> Option<u64> {
        match self {
            Self::Events(events, next) if *next < events.len() => {
                *next += 1;
                Some(events.seq(*next - 1))
            }
            Self::Events(..) => None,
            Self::Counters(ready, current, _) => {
                *current = ready.pop_front()?;
                Some(0)
            }
        }
    }

    /// Returns whether the row matches a filter, which reads these fields, or all.
    fn is_match(&self, filter: &ReadingFilter<'_>) -> Result<bool> {
        let part;
        let document = match (self, filter.fields) {
            (Self::Counters(_, current, _), _) => current,
            (Self::Events(..), Some(fields)) if fields.is_empty() => &Document::new(),
            (Self::Events(events, next), Some(fields)) => {
                part = events.part(*next - 1, |name| fields.contains(name))?;
                &part
            }
            (Self::Events(events, next), None) => {
                part = events.document(*next - 1)?;
                &part
            }
        };
        Ok(filter.filter.matches(document, filter.expressions)?)
    }

    /// Takes the document of the row.
    fn document(&mut self, encodes: bool) -> query::Result<AnswerDocument> {
        Ok(match self {
            Self::Events(events, next) if encodes => {
                AnswerDocument::of_encoded(events.encoded(*next - 1)?)
            }
            Self::Events(events, next) => AnswerDocument::new(events.document(*next - 1)?),
            Self::Counters(_, current, _) => AnswerDocument::new(std::mem::take(current)),
        })
    }

    /// Takes the next batch of the answer.
    fn push(rows: &mut Option<Self>, batch: &RecordBatch, form: RowForm) -> query::Result<()> {
        match rows {
            Some(Self::Counters(ready, _, documents)) => {
                let mut made = Vec::new();
                documents.push(batch, &mut made)?;
                ready.extend(made);
            }
            rows => {
                let events = match form {
                    RowForm::Events(kind) => EventDocuments::new(batch, kind)?,
                    RowForm::Level | RowForm::Counters => EventDocuments::of_level(batch)?,
                };
                *rows = Some(Self::Events(events, 0));
            }
        }
        Ok(())
    }

    /// Takes the end of the answer.
    fn end(&mut self) {
        if let Self::Counters(ready, _, documents) = self {
            ready.extend(documents.finish());
        }
    }
}

/// A filter with the fields that it reads, `None` for all.
struct ReadingFilter<'a> {
    filter: &'a Filter,
    fields: Option<&'a BTreeSet<String>>,
    expressions: &'a ExpressionContext,
}

/// The terms on which documents are read.
#[derive(Clone)]
pub(super) struct ReadingTerms {
    pub(super) filter: Arc<Filter>,
    /// The surroundings of the filter's expressions.
    pub(super) expressions: ExpressionContext,
    pub(super) time_max: Option<Duration>,
}

impl ReadingTerms {
    pub(super) fn session(&self) -> Session {
        Session {
            time_max: self.time_max,
            ..Session::default()
        }
    }
}

impl DocumentReading {
    /// Begins to read, for so long at most. A collection that does not exist, or that the client
    /// may not read, has no documents.
    ///
    /// # Errors
    /// The errors of the query.
    pub(super) async fn begin(
        serving: &Serving,
        client: &Client,
        collection: &Collection,
        terms: ReadingTerms,
    ) -> Result<Self> {
        let snapshot = serving.store.snapshot();
        Self::begin_at(serving, client, snapshot, collection, (terms, 0)).await
    }

    /// Begins to read a snapshot, events from a sequence number on.
    ///
    /// # Errors
    /// The errors of the query.
    pub(super) async fn begin_at(
        serving: &Serving,
        client: &Client,
        snapshot: Arc<Snapshot>,
        collection: &Collection,
        (terms, from_seq): (ReadingTerms, u64),
    ) -> Result<Self> {
        let form = RowForm::of(&snapshot, client, collection);
        let answer = match form {
            None => None,
            Some(form) => {
                let question = form.question(collection, &terms.filter, from_seq);
                let asked = serving.ask_at(client, snapshot, terms.session(), question);
                Some(asked.await?)
            }
        };
        Ok(Self::of_answer(client, (answer, form), terms))
    }

    /// Reads the documents of an answer.
    pub(super) fn of_answer(
        client: &Client,
        (answer, form): (Option<Answer>, Option<RowForm>),
        terms: ReadingTerms,
    ) -> Self {
        Self {
            answer,
            figures: None,
            form: form.unwrap_or(RowForm::Level),
            tested: terms.filter.fields(),
            encodes: false,
            filter: terms.filter,
            expressions: terms.expressions,
            rows: form.and_then(ReadRows::none),
            turn: Instant::now(),
            _client: client.clone(),
        }
    }

    /// Returns the figures of the query. They are complete when all documents have been read.
    pub(super) fn figures(&self) -> QueryStats {
        let figures = self.answer.as_ref().map(Answer::figures);
        figures.or(self.figures.clone()).unwrap_or_default()
    }

    /// Reads documents as they are sent.
    pub(super) fn encode(&mut self) {
        self.encodes = true;
    }

    /// Returns the next document that matches, with the sequence number of its event.
    ///
    /// # Errors
    /// The errors of the query, or the time is over; there is no next document then.
    pub(super) async fn next(&mut self) -> Result<Option<(u64, AnswerDocument)>> {
        let Some(seq) = self.next_match().await? else {
            return Ok(None);
        };
        let document = self.rows.as_mut().map(|rows| rows.document(self.encodes));
        Ok(document.transpose()?.map(|document| (seq, document)))
    }

    /// Goes to the next row whose document matches, and returns the sequence number of its event.
    ///
    /// # Errors
    /// As those of [`Self::next`].
    pub(super) async fn next_match(&mut self) -> Result<Option<u64>> {
        loop {
            while let Some(seq) = self.rows.as_mut().and_then(ReadRows::advance) {
                if self.turn.elapsed() > TURN {
                    check(self.expressions.deadline)?;
                    tokio::task::yield_now().await;
                    self.turn = Instant::now();
                }
                let filter = ReadingFilter {
                    filter: &self.filter,
                    fields: self.tested.as_ref(),
                    expressions: &self.expressions,
                };
                let rows = self.rows.as_ref();
                if rows.map_or(Ok(false), |rows| rows.is_match(&filter))? {
                    return Ok(Some(seq));
                }
            }
            let Some(answer) = &mut self.answer else {
                return Ok(None);
            };
            match answer.stream.next().await {
                Some(batch) => ReadRows::push(&mut self.rows, &batch?, self.form)?,
                None => {
                    self.end();
                    self.rows.iter_mut().for_each(ReadRows::end);
                }
            }
        }
    }

    /// Ends the query, whose other documents nobody needs.
    pub(super) fn end(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.figures = Some(answer.figures());
        }
    }
}

pub(super) fn check(deadline: Option<Instant>) -> Result<()> {
    match deadline.is_some_and(|deadline| Instant::now() > deadline) {
        true => {
            let message = "the time is over; narrow the filter, or raise query.time_max";
            Err(CommandError::new(code::MAX_TIME_MS_EXPIRED, message))
        }
        false => Ok(()),
    }
}
