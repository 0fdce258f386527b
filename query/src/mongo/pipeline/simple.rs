//! Stages with little of their own.

use std::sync::Arc;

use bson::{Bson, Document};

use super::flow::{RunningStage, StageFlow};
use super::{FieldsProjection, KeptBytes, PipelineContext};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{Expression, type_name};
use crate::mongo::filter::Filter;
use crate::mongo::number::{NumberType, integer};
use crate::mongo::sort::{Sort, TopK};

/// `$match`
#[derive(Debug)]
pub(super) struct MatchStage {
    pub(super) filter: Arc<Filter>,
    pub(super) context: PipelineContext,
}

impl RunningStage for MatchStage {
    fn push(&mut self, document: Document, out: &mut Vec<Document>) -> Result<StageFlow> {
        if self.filter.matches(&document, &self.context.expressions)? {
            out.push(document);
        }
        Ok(StageFlow::More)
    }
}

/// `$project` and its like
#[derive(Debug)]
pub(super) struct ProjectStage {
    pub(super) projection: Arc<FieldsProjection>,
    pub(super) context: PipelineContext,
}

impl RunningStage for ProjectStage {
    fn push(&mut self, document: Document, out: &mut Vec<Document>) -> Result<StageFlow> {
        out.push(self.projection.apply(document, &self.context.expressions)?);
        Ok(StageFlow::More)
    }
}

/// `$limit`, with the number of documents that it still takes.
#[derive(Debug)]
pub(super) struct LimitStage(pub(super) u64);

impl RunningStage for LimitStage {
    fn push(&mut self, document: Document, out: &mut Vec<Document>) -> Result<StageFlow> {
        if self.0 > 0 {
            out.push(document);
            self.0 -= 1;
        }
        Ok(match self.0 {
            0 => StageFlow::Done,
            _ => StageFlow::More,
        })
    }
}

/// `$skip`, with the number of documents that it still leaves out.
#[derive(Debug)]
pub(super) struct SkipStage(pub(super) u64);

impl RunningStage for SkipStage {
    fn push(&mut self, document: Document, out: &mut Vec<Document>) -> Result<StageFlow> {
        match self.0 {
            0 => out.push(document),
            _ => self.0 -= 1,
        }
        Ok(StageFlow::More)
    }
}

/// `$count`
#[derive(Debug)]
pub(super) struct CountStage {
    name: Arc<str>,
    count: i64,
}

impl CountStage {
    pub(super) fn new(name: &Arc<str>) -> Self {
        let name = Arc::clone(name);
        Self { name, count: 0 }
    }
}

impl RunningStage for CountStage {
    fn push(&mut self, _document: Document, _out: &mut Vec<Document>) -> Result<StageFlow> {
        self.count += 1;
        Ok(StageFlow::More)
    }

    fn push_times(
        &mut self,
        _document: Document,
        times: u64,
        _out: &mut Vec<Document>,
    ) -> Result<StageFlow> {
        self.count = self.count.saturating_add_unsigned(times);
        Ok(StageFlow::More)
    }

    fn finish(&mut self, out: &mut Vec<Document>) -> Result<()> {
        if self.count > 0 {
            let count = integer(self.count.into(), NumberType::Int32);
            out.push(Document::from_iter([(self.name.to_string(), count)]));
        }
        Ok(())
    }
}

/// `$replaceRoot`
#[derive(Debug)]
pub(super) struct ReplaceRootStage {
    pub(super) root: Arc<Expression>,
    pub(super) context: PipelineContext,
}

impl RunningStage for ReplaceRootStage {
    fn push(&mut self, document: Document, out: &mut Vec<Document>) -> Result<StageFlow> {
        match self.context.expressions.evaluate(&self.root, &document)? {
            Some(Bson::Document(root)) => {
                out.push(root);
                Ok(StageFlow::More)
            }
            other => {
                let given = type_name(other.as_ref());
                let message = format!("the new root of a document needs an object, but is {given}");
                Err(QueryError::located(40228, message))
            }
        }
    }
}

/// `$sort`, of the first documents alone if a limit follows it.
#[derive(Debug)]
pub(super) struct SortStage {
    /// The documents; `None` once they are taken on.
    top: Option<TopK>,
    bytes: usize,
    budget: KeptBytes,
}

impl SortStage {
    pub(super) fn new(sort: &Arc<Sort>, limit: Option<usize>, context: &PipelineContext) -> Self {
        Self {
            // The budget bounds its bytes.
            top: Some(TopK::new(Arc::clone(sort), limit, usize::MAX)),
            bytes: 0,
            budget: context.kept.clone(),
        }
    }
}

impl RunningStage for SortStage {
    fn push(&mut self, document: Document, _out: &mut Vec<Document>) -> Result<StageFlow> {
        let Some(top) = &mut self.top else {
            return Ok(StageFlow::Done);
        };
        top.push(document)?;
        let before = std::mem::replace(&mut self.bytes, top.bytes());
        self.budget.release(before);
        self.budget.keep(self.bytes, "$sort")?;
        Ok(StageFlow::More)
    }

    fn finish(&mut self, out: &mut Vec<Document>) -> Result<()> {
        out.extend(self.top.take().map(TopK::finish).unwrap_or_default());
        Ok(())
    }

    fn release(&mut self) {
        self.budget.release(std::mem::take(&mut self.bytes));
    }
}
