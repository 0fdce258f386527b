//! Aggregation pipelines ("Aggregation Stages" in MongoDB's manual).
//!
//! A [`Pipeline`] is what a client asks for; [`Pipeline::start`] makes a [`PipelineRun`] of it,
//! which takes documents one by one and gives results on the way.
//!
//! # Invariants
//! * A stage that keeps documents counts their bytes against the limit of its run.
//! * `$out` and `$merge` are the last stage, and nothing here writes.

mod bucket;
pub(in crate::mongo) mod columns;
mod flow;
mod group;
mod inputs;
mod kept;
mod parse;
mod paths;
mod projection;
mod run;
mod simple;
mod sink;
mod stage;
mod unwind;

use bson::{DateTime, Document};

pub use self::columns::{ColumnGroups, FieldPlace, FieldRows, GroupResults};
pub use self::flow::StageFlow;
pub(in crate::mongo) use self::group::GroupSpec;
pub use self::kept::KeptBytes;
use self::parse::parse_pipeline;
pub(in crate::mongo) use self::projection::{FieldsProjection, ProjectionMode};
pub use self::run::PipelineRun;
pub use self::sink::{PipelineSink, SinkCollection, WhenMatched, WhenNotMatched};
pub(in crate::mongo) use self::stage::{FacetStages, PipelineStage};
use self::unwind::UnwindSpec;
use crate::mongo::error::Result;
use crate::mongo::expression::{ExpressionContext, ExpressionScope};

/// Maximum stages of a pipeline, as in MongoDB.
const STAGES_MAX: usize = 1000;

/// A pipeline that is understood.
#[derive(Debug)]
pub struct Pipeline {
    stages: Vec<PipelineStage>,
    sink: Option<PipelineSink>,
}

/// The surroundings of a run.
#[derive(Debug, Clone)]
pub struct PipelineContext {
    /// The surroundings of its expressions.
    pub expressions: ExpressionContext,
    /// The bytes that the stages may keep.
    pub kept: KeptBytes,
}

impl PipelineContext {
    /// Returns the surroundings of a run without variables and without a deadline.
    pub fn new(now: DateTime, bytes_max: usize) -> Self {
        Self {
            expressions: ExpressionContext::new(now),
            kept: KeptBytes::new(bytes_max),
        }
    }
}

impl Pipeline {
    /// Reads a pipeline.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code: among others 40323 for a
    /// stage without exactly one field, 40324 for a stage that does not exist, and 115 for one that
    /// this store does not have.
    pub fn parse(stages: &[Document], scope: &ExpressionScope) -> Result<Self> {
        parse_pipeline(stages, scope)
    }

    /// Returns the number of stages without `$out` and `$merge`.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    /// Returns where the results go; `None` if the client gets them.
    pub fn sink(&self) -> Option<&PipelineSink> {
        self.sink.as_ref()
    }

    /// Starts the pipeline, or the stages of it from `first_stage` on.
    pub fn start(&self, first_stage: usize, context: &PipelineContext) -> PipelineRun {
        let stages = self.stages.get(first_stage..).unwrap_or(&[]);
        PipelineRun::new(stages, context)
    }
}

#[cfg(test)]
mod tests;
