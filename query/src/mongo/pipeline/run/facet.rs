//! `$facet`: several pipelines over the same documents.

use std::sync::Arc;

use bson::{Bson, Document};

use super::PipelineRun;
use crate::mongo::error::Result;
use crate::mongo::pipeline::flow::{RunningStage, StageFlow};
use crate::mongo::pipeline::{FacetStages, KeptBytes, PipelineContext};
use crate::mongo::size::{check_value_bytes, encoded_bytes, weigh_document};

/// `$facet` at work.
#[derive(Debug)]
pub(super) struct FacetStage {
    facets: Arc<FacetStages>,
    runs: Vec<(PipelineRun, Vec<Document>)>,
    /// The bytes of the results in BSON: all are in one document.
    bytes: usize,
    /// The bytes of the results in memory.
    kept: usize,
    budget: KeptBytes,
}

impl FacetStage {
    pub(super) fn new(facets: &Arc<FacetStages>, context: &PipelineContext) -> Self {
        let runs = facets.iter();
        let runs = runs.map(|(_, stages)| (PipelineRun::new(stages, context), Vec::new()));
        Self {
            facets: Arc::clone(facets),
            runs: runs.collect(),
            bytes: 0,
            kept: 0,
            budget: context.kept.clone(),
        }
    }

    /// Counts the results of a facet from the first that is new.
    fn count(&mut self, facet: usize, first: usize) -> Result<()> {
        for document in &self.runs[facet].1[first..] {
            let kept = weigh_document(document)?;
            self.kept += kept;
            self.budget.keep(kept, "$facet")?;
            self.bytes += encoded_bytes(document);
            check_value_bytes(self.bytes)?;
        }
        Ok(())
    }
}

impl RunningStage for FacetStage {
    fn push(&mut self, document: Document, _out: &mut Vec<Document>) -> Result<StageFlow> {
        let mut flow = StageFlow::Done;
        for facet in 0..self.runs.len() {
            let (run, results) = &mut self.runs[facet];
            let first = results.len();
            if run.push(document.clone(), results)? == StageFlow::More {
                flow = StageFlow::More;
            }
            self.count(facet, first)?;
        }
        Ok(flow)
    }

    fn finish(&mut self, out: &mut Vec<Document>) -> Result<()> {
        for facet in 0..self.runs.len() {
            let (run, results) = &mut self.runs[facet];
            let first = results.len();
            run.finish(results)?;
            self.count(facet, first)?;
        }
        let mut result = Document::new();
        for ((name, _), (_, results)) in self.facets.iter().zip(self.runs.drain(..)) {
            let results = results.into_iter().map(Bson::Document);
            result.insert(name, Bson::Array(results.collect()));
        }
        out.push(result);
        Ok(())
    }

    fn release(&mut self) {
        self.budget.release(std::mem::take(&mut self.kept));
    }
}
