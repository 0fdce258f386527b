//! The work of matching one document.
//!
//! # Invariants
//! * After a failure no condition does any more work: each is met at once, so that no loop goes on
//!   over values. The failure is the answer, whatever the conditions say.

use bson::{Bson, Document};

use super::pattern::TextPattern;
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{EvaluationMeter, Expression, ExpressionContext};
use crate::mongo::value::is_true;

/// A match under way.
#[derive(Debug)]
pub(super) struct MatchWork<'m> {
    document: &'m Document,
    context: &'m ExpressionContext,
    meter: EvaluationMeter,
    failure: Option<QueryError>,
}

impl<'m> MatchWork<'m> {
    /// Begins with a document and the surroundings of `$expr`, whose deadline counts.
    pub(super) fn new(document: &'m Document, context: &'m ExpressionContext) -> Self {
        Self {
            document,
            context,
            meter: context.meter(),
            failure: None,
        }
    }

    /// Returns whether conditions are still to be looked at, and counts one.
    pub(super) fn goes_on(&mut self) -> bool {
        self.failure.is_none() && self.meter.step().map_err(|e| self.fail(e)).is_ok()
    }

    /// Returns whether a value matches a pattern.
    pub(super) fn is_match(&mut self, pattern: &TextPattern, value: &Bson) -> bool {
        match pattern.matches(value) {
            Ok((is_match, steps)) => {
                let counted = self.meter.step_over(steps);
                counted.map_err(|e| self.fail(e)).is_err() || is_match
            }
            Err(error) => {
                self.fail(error);
                true
            }
        }
    }

    /// Returns whether `$expr` is true for the document.
    pub(super) fn is_true(&mut self, expression: &Expression) -> bool {
        match self.context.evaluate(expression, self.document) {
            Ok(value) => is_true(value.as_ref()),
            Err(error) => {
                self.fail(error);
                true
            }
        }
    }

    fn fail(&mut self, error: QueryError) {
        self.failure.get_or_insert(error);
    }

    /// Returns the answer of the conditions, or the first failure.
    pub(super) fn finish<T>(self, answer: T) -> Result<T> {
        self.failure.map_or(Ok(answer), Err)
    }
}
