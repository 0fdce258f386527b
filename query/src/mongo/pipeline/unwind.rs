//! `$unwind`.

use std::sync::Arc;

use bson::{Bson, Document};

use super::flow::{RunningStage, StageFlow};
use super::paths::{remove, replace, set};
use super::{KeptBytes, PipelineContext};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{EvaluationMeter, FieldPath};
use crate::mongo::size::{weigh, weigh_document};

/// A stage that makes a document of each element of an array.
#[derive(Debug)]
pub(in crate::mongo) struct UnwindSpec {
    /// The array.
    path: FieldPath,
    /// The field for the place of the element.
    index: Option<FieldPath>,
    /// If true, a document without elements is kept.
    keeps_empty: bool,
}

impl UnwindSpec {
    /// Reads `$unwind`.
    pub(super) fn parse(spec: &Bson) -> Result<Self> {
        let options = match spec {
            Bson::String(path) => return Self::of_path(path),
            Bson::Document(options) => options,
            _ => {
                let message = "$unwind needs a path, as \"$field\", or an object with 'path'";
                return Err(QueryError::located(15981, message));
            }
        };
        let (mut unwind, mut index, mut keeps_empty) = (None, None, false);
        for (name, value) in options {
            match (name.as_str(), value) {
                ("path", Bson::String(path)) => unwind = Some(Self::of_path(path)?),
                ("path", _) => {
                    let message = "the 'path' of $unwind needs a string, as \"$field\"";
                    return Err(QueryError::located(28808, message));
                }
                ("preserveNullAndEmptyArrays", Bson::Boolean(keeps)) => keeps_empty = *keeps,
                ("preserveNullAndEmptyArrays", _) => {
                    let message = "the 'preserveNullAndEmptyArrays' of $unwind needs true or false";
                    return Err(QueryError::located(28809, message));
                }
                ("includeArrayIndex", value) => index = Some(index_path(value)?),
                (other, _) => {
                    let message = format!("$unwind has no option '{other}'");
                    return Err(QueryError::located(28811, message));
                }
            }
        }
        let unwind = unwind.ok_or_else(|| QueryError::located(28812, "$unwind needs 'path'"))?;
        Ok(Self {
            index,
            keeps_empty,
            ..unwind
        })
    }

    fn of_path(path: &str) -> Result<Self> {
        let Some(name) = path.strip_prefix('$') else {
            let message = format!("the path '{path}' of $unwind lacks the $ before it");
            return Err(QueryError::located(28818, message));
        };
        Ok(Self {
            path: FieldPath::parse(name)?,
            index: None,
            keeps_empty: false,
        })
    }

    fn with_index(&self, document: &mut Document, index: Option<usize>) {
        if let Some(path) = &self.index {
            let index = index.map_or(Bson::Null, |index| Bson::Int64(index as i64));
            set(document, path.names(), index);
        }
    }

    /// Appends the document of each element, and returns their bytes.
    fn unwind(
        &self,
        mut document: Document,
        limits: (&KeptBytes, &EvaluationMeter),
        out: &mut Vec<Document>,
    ) -> Result<usize> {
        // The array leaves the document, so that it is not copied with each element.
        let value = replace(&mut document, self.path.names(), Bson::Null);
        let items = match value {
            Some(Bson::Array(items)) if items.is_empty() => {
                remove(&mut document, self.path.names());
                Vec::new()
            }
            Some(Bson::Array(items)) => items,
            None | Some(Bson::Null | Bson::Undefined) => Vec::new(),
            Some(single) => {
                replace(&mut document, self.path.names(), single);
                self.with_index(&mut document, None);
                out.push(document);
                return Ok(0);
            }
        };
        if items.is_empty() {
            if self.keeps_empty {
                self.with_index(&mut document, None);
                out.push(document);
            }
            return Ok(0);
        }
        let (budget, meter) = limits;
        let each = weigh_document(&document)?;
        let mut bytes = 0;
        for (index, item) in items.into_iter().enumerate() {
            meter.step()?;
            bytes += each + weigh(&item)?;
            budget.check(bytes, "$unwind")?;
            let mut result = document.clone();
            replace(&mut result, self.path.names(), item);
            self.with_index(&mut result, Some(index));
            out.push(result);
        }
        Ok(bytes)
    }
}

fn index_path(name: &Bson) -> Result<FieldPath> {
    match name {
        Bson::String(name) if name.starts_with('$') => {
            let message = format!("the 'includeArrayIndex' '{name}' of $unwind begins with $");
            Err(QueryError::located(28822, message))
        }
        Bson::String(name) if !name.is_empty() => FieldPath::parse(name),
        _ => {
            let message = "the 'includeArrayIndex' of $unwind needs the name of a field";
            Err(QueryError::located(28810, message))
        }
    }
}

/// `$unwind` at work.
#[derive(Debug)]
pub(super) struct UnwindStage {
    unwind: Arc<UnwindSpec>,
    context: PipelineContext,
    /// The bytes of the documents that wait for the next stage.
    bytes: usize,
}

impl UnwindStage {
    pub(super) fn new(unwind: &Arc<UnwindSpec>, context: &PipelineContext) -> Self {
        Self {
            unwind: Arc::clone(unwind),
            context: context.clone(),
            bytes: 0,
        }
    }
}

impl RunningStage for UnwindStage {
    fn push(&mut self, document: Document, out: &mut Vec<Document>) -> Result<StageFlow> {
        self.release();
        let (budget, meter) = (&self.context.kept, self.context.expressions.meter());
        self.bytes = self.unwind.unwind(document, (budget, &meter), out)?;
        budget.keep(self.bytes, "$unwind")?;
        Ok(StageFlow::More)
    }

    fn release(&mut self) {
        self.context.kept.release(std::mem::take(&mut self.bytes));
    }
}
