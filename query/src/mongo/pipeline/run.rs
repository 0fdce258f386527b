//! Runs of pipelines, document by document.
//!
//! # Invariants
//! * A run that is done takes no more documents, and its stages are finished in their order.
//! * The deadline is looked at for each document that a stage takes.

mod facet;

use std::sync::Arc;
use std::vec::IntoIter;

use bson::Document;

use self::facet::FacetStage;
use super::flow::{RunningStage, StageFlow};
use super::group::GroupStage;
use super::simple::{
    CountStage, LimitStage, MatchStage, ProjectStage, ReplaceRootStage, SkipStage, SortStage,
};
use super::unwind::UnwindStage;
use super::{PipelineContext, PipelineStage};
use crate::mongo::error::Result;
use crate::mongo::expression::check_deadline;
use crate::mongo::size::weigh_document;

/// A pipeline at work.
#[derive(Debug)]
pub struct PipelineRun {
    stages: Vec<Box<dyn RunningStage>>,
    context: PipelineContext,
    is_done: bool,
}

impl PipelineRun {
    pub(super) fn new(stages: &[PipelineStage], context: &PipelineContext) -> Self {
        let starts = stages.iter().enumerate();
        let stages = starts.map(|(nth, stage)| start(stage, &stages[nth + 1..], context));
        Self {
            stages: stages.collect(),
            context: context.clone(),
            is_done: false,
        }
    }

    /// Starts stages of which one is at work already.
    pub(super) fn with_stage(
        stages: &[PipelineStage],
        nth: usize,
        stage: impl RunningStage + 'static,
        context: &PipelineContext,
    ) -> Self {
        let mut run = Self::new(stages, context);
        run.stages[nth] = Box::new(stage);
        run
    }

    /// Takes a document and appends the results that it completes.
    ///
    /// # Errors
    /// The errors of the expressions, 292 if the stages keep too many bytes, or if the results of
    /// one document have too many, and 50 after the deadline.
    pub fn push(&mut self, document: Document, out: &mut Vec<Document>) -> Result<StageFlow> {
        if self.is_done {
            return Ok(StageFlow::Done);
        }
        let mut results = RunResults::new(out, &self.context);
        let flow = drive(&mut self.stages, vec![document], &mut results)?;
        self.is_done = flow == StageFlow::Done;
        Ok(flow)
    }

    /// Takes a document that counts several times, for a pipeline that has
    /// [`counted_inputs`](super::Pipeline::counted_inputs).
    ///
    /// # Errors
    /// As those of [`PipelineRun::push`].
    pub fn push_times(&mut self, document: Document, times: u64) -> Result<()> {
        if let Some(deadline) = self.context.expressions.deadline {
            check_deadline(deadline)?;
        }
        let (mut document, mut next) = (document, Vec::new());
        for stage in &mut self.stages {
            stage.push_times(document, times, &mut next)?;
            match next.pop() {
                // A projection: the stage behind it counts.
                Some(projected) => document = projected,
                None => break,
            }
            next.clear();
        }
        Ok(())
    }

    /// Appends the results that need all documents. Call it once, also after [`StageFlow::Done`].
    ///
    /// # Errors
    /// As those of [`PipelineRun::push`].
    pub fn finish(&mut self, out: &mut Vec<Document>) -> Result<()> {
        self.is_done = true;
        let mut results = RunResults::new(out, &self.context);
        let mut stages = self.stages.as_mut_slice();
        while let Some((stage, after)) = stages.split_first_mut() {
            let mut last = Vec::new();
            stage.finish(&mut last)?;
            drive(after, last, &mut results)?;
            stage.release();
            stages = after;
        }
        Ok(())
    }
}

/// The results of one call.
#[derive(Debug)]
struct RunResults<'a> {
    documents: &'a mut Vec<Document>,
    bytes: usize,
    context: &'a PipelineContext,
}

impl<'a> RunResults<'a> {
    fn new(documents: &'a mut Vec<Document>, context: &'a PipelineContext) -> Self {
        Self {
            documents,
            bytes: 0,
            context,
        }
    }

    fn add(&mut self, document: Document) -> Result<()> {
        self.bytes += weigh_document(&document)?;
        self.context.kept.check(self.bytes, "the result")?;
        self.documents.push(document);
        Ok(())
    }
}

/// Takes each document through all stages before the next, so that few are in memory. Returns
/// [`StageFlow::Done`] if a stage takes no more documents.
fn drive(
    stages: &mut [Box<dyn RunningStage>],
    documents: Vec<Document>,
    results: &mut RunResults<'_>,
) -> Result<StageFlow> {
    let mut flow = StageFlow::More;
    // The documents that wait for each stage, from the first on; those that wait for no stage are
    // results.
    let mut waiting: Vec<IntoIter<Document>> = vec![documents.into_iter()];
    while let Some(documents) = waiting.last_mut() {
        let Some(document) = documents.next() else {
            waiting.pop();
            continue;
        };
        if let Some(deadline) = results.context.expressions.deadline {
            check_deadline(deadline)?;
        }
        let Some(stage) = stages.get_mut(waiting.len() - 1) else {
            results.add(document)?;
            continue;
        };
        let mut next = Vec::new();
        if stage.push(document, &mut next)? == StageFlow::Done {
            flow = StageFlow::Done;
            // Nothing that waits here or before can change the results.
            waiting.fill_with(IntoIter::default);
        }
        waiting.push(next.into_iter());
    }
    Ok(flow)
}

fn start(
    stage: &PipelineStage,
    after: &[PipelineStage],
    context: &PipelineContext,
) -> Box<dyn RunningStage> {
    match stage {
        PipelineStage::Match(filter) => Box::new(MatchStage {
            filter: Arc::clone(filter),
            context: context.clone(),
        }),
        PipelineStage::Project(projection) => Box::new(ProjectStage {
            projection: Arc::clone(projection),
            context: context.clone(),
        }),
        PipelineStage::Group(group) => Box::new(GroupStage::new(group, context)),
        PipelineStage::Sort(sort) => Box::new(SortStage::new(sort, sort_limit(after), context)),
        PipelineStage::Limit(limit) => Box::new(LimitStage(*limit)),
        PipelineStage::Skip(skip) => Box::new(SkipStage(*skip)),
        PipelineStage::Unwind(unwind) => Box::new(UnwindStage::new(unwind, context)),
        PipelineStage::Count(name) => Box::new(CountStage::new(name)),
        PipelineStage::ReplaceRoot(root) => Box::new(ReplaceRootStage {
            root: Arc::clone(root),
            context: context.clone(),
        }),
        PipelineStage::Facet(facets) => Box::new(FacetStage::new(facets, context)),
    }
}

/// Returns the number of documents that the stages after a sort take from it.
fn sort_limit(after: &[PipelineStage]) -> Option<usize> {
    let mut skipped = 0_u64;
    for stage in after {
        match stage {
            PipelineStage::Skip(skip) => skipped = skipped.saturating_add(*skip),
            PipelineStage::Limit(limit) => {
                return usize::try_from(skipped.saturating_add(*limit)).ok();
            }
            _ => return None,
        }
    }
    None
}
