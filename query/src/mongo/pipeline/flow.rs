//! The common parts of stages at work.

use std::fmt::Debug;

use bson::Document;

use crate::mongo::error::Result;

/// The answer of a stage: it takes more documents, or it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageFlow {
    /// It takes more.
    More,
    /// No further document changes the results.
    Done,
}

/// A stage at work.
pub(super) trait RunningStage: Debug + Send {
    /// Takes a document and appends the results that it completes. The results of the one before
    /// have been taken on.
    fn push(&mut self, document: Document, out: &mut Vec<Document>) -> Result<StageFlow>;

    /// Takes a document that counts several times. The result of a projection counts as often.
    fn push_times(
        &mut self,
        document: Document,
        times: u64,
        out: &mut Vec<Document>,
    ) -> Result<StageFlow> {
        let _ = times;
        self.push(document, out)
    }

    /// Appends the results that need all documents.
    fn finish(&mut self, out: &mut Vec<Document>) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// Lets go of the memory of the results, which have been taken on.
    fn release(&mut self) {}
}
