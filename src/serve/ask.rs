//! The way of listeners to answers: questions over the present state of the store, and the events
//! that come from now on.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use query::{Answer, Parameters, Question, SchemaInfo, Session, Sources, TailFilter};
use storage::{Arrived, Name, Snapshot};

use super::Serving;
use crate::wiring::StoreInfo;

/// A condition compiled for the columns that a stream had then.
#[derive(Debug, Clone)]
pub(crate) struct CompiledFilter {
    /// The number of these columns.
    pub(crate) columns: usize,
    pub(crate) filter: Arc<TailFilter>,
}

impl Serving {
    /// Returns the data of system tables for the present state of the store.
    pub(crate) fn info(&self) -> StoreInfo {
        let info = StoreInfo::of_store(&self.store, self.scrub.last_error.lock().clone());
        info.with_access(&self.access)
    }

    /// Returns the present state of the store, for questions that must agree with each other.
    pub(crate) fn sources(&self) -> Sources {
        self.sources_at(self.store.snapshot())
    }

    fn sources_at(&self, snapshot: Arc<Snapshot>) -> Sources {
        self.intake.note_foreground();
        Sources::one(snapshot, Arc::new(self.info()))
    }

    /// Starts a question on the present state of the store.
    ///
    /// # Errors
    /// The errors of [`query::Engine::ask`].
    pub(crate) async fn ask(
        &self,
        session: &Session,
        question: Question,
        parameters: Parameters,
    ) -> query::Result<Answer> {
        let sources = self.sources();
        let asked = self.engine.ask(sources, session, question, parameters);
        asked.await
    }

    /// Returns the fields of a stream; `None` if there is no such stream.
    ///
    /// # Errors
    /// The errors of [`query::schema`].
    pub(crate) async fn schema(&self, stream: &Name) -> query::Result<Option<SchemaInfo>> {
        let system = Arc::new(self.info());
        query::schema(&self.engine, self.store.snapshot(), system, stream).await
    }

    /// Returns every event that becomes visible from now on, in batches.
    pub(crate) fn follow(&self) -> Receiver<Arrived> {
        self.store.follow()
    }

    /// Starts a question on a state of the store. Returns the first sequence number that the
    /// state does not contain, too: followed events from there on are the ones that come after it.
    ///
    /// # Errors
    /// The errors of [`query::Engine::ask`].
    pub(crate) async fn ask_before_following(
        &self,
        question: Question,
    ) -> query::Result<(u64, Answer)> {
        let snapshot = self.store.snapshot();
        let next_seq = snapshot.next_seq();
        let (sources, session) = (self.sources_at(snapshot), Session::default());
        let asked = self
            .engine
            .ask(sources, &session, question, Parameters::None);
        Ok((next_seq, asked.await?))
    }

    /// Compiles a condition for the present columns of a stream; `None` if there is no such
    /// stream.
    ///
    /// # Errors
    /// The errors of [`TailFilter::new`].
    pub(crate) fn filter(
        &self,
        stream: &Name,
        condition: Option<&str>,
    ) -> query::Result<Option<CompiledFilter>> {
        let snapshot = self.store.snapshot();
        let Some(meta) = snapshot.streams().get(stream) else {
            return Ok(None);
        };
        let id_prefix = snapshot.manifest().id_prefix();
        let filter = TailFilter::new(&self.engine, meta, id_prefix, condition)?;
        Ok(Some(CompiledFilter {
            columns: meta.columns.len(),
            filter: Arc::new(filter),
        }))
    }

    /// Counts the received events of a stream before a question needs their counts.
    ///
    /// # Errors
    /// The errors of [`query::make_cells`].
    pub(crate) fn make_cells(&self, stream: &Name) -> query::Result<()> {
        let _permit = self.intake.background_permit();
        query::make_cells(&self.store.snapshot(), stream)
    }
}
