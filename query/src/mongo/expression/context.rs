//! The surroundings of expressions, beside their document.

use std::sync::Arc;
use std::time::Instant;

use bson::{Bson, DateTime, Document};

use super::meter::EvaluationMeter;
use super::{
    Evaluated, Expression, ExpressionNode, ExpressionScope, ExpressionVariables, VariableFrame,
};
use crate::mongo::error::Result;
use crate::mongo::size::weigh;

/// The surroundings of expressions: those of a whole query.
#[derive(Debug, Clone)]
pub struct ExpressionContext {
    /// The time of `$$NOW`.
    pub now: DateTime,
    /// The values of the variables of the scope, in their order; `None` for a missing one.
    pub variables: Arc<Vec<Option<Bson>>>,
    /// The time after which evaluations are refused; `None` for none.
    pub deadline: Option<Instant>,
}

impl ExpressionContext {
    /// Returns surroundings without variables and without a deadline.
    pub fn new(now: DateTime) -> Self {
        Self {
            now,
            variables: Arc::default(),
            deadline: None,
        }
    }

    /// Binds the variables of a command's `let`, whose values are expressions without fields.
    /// Returns the scope in which they have names. The deadline counts for them and for the
    /// constants of the scope.
    ///
    /// # Errors
    /// The reason for which a value cannot be understood, or not be computed; 17419 if all of them
    /// need too many bytes.
    pub fn bind(&mut self, given: &Document) -> Result<ExpressionScope> {
        let (nothing, outside) = (Document::new(), ExpressionScope::default());
        let mut values = Vec::with_capacity(given.len());
        let meter = self.meter();
        let mut held = meter.hold();
        for value in given.values() {
            let value = Expression::parse(value, &outside)?;
            let value = self.evaluate_within(&value, &nothing, &meter)?;
            held.add(value.as_ref().map(weigh).transpose()?.unwrap_or(0))?;
            values.push(value);
        }
        let mut scope = ExpressionScope::with_variables(given.keys().cloned().collect())?;
        scope.deadline = self.deadline;
        self.variables = Arc::new(values);
        Ok(scope)
    }

    /// Returns the value of an expression for a document; `None` if it is missing.
    ///
    /// # Errors
    /// As those of [`Expression::evaluate`].
    pub(in crate::mongo) fn evaluate(
        &self,
        expression: &Expression,
        document: &Document,
    ) -> Result<Evaluated> {
        self.evaluate_within(expression, document, &self.meter())
    }

    fn evaluate_within(
        &self,
        expression: &Expression,
        document: &Document,
        meter: &EvaluationMeter,
    ) -> Result<Evaluated> {
        let frame = VariableFrame::new(&self.variables);
        expression.evaluate(&ExpressionVariables::new(document, self.now, &frame, meter))
    }

    /// Returns the value of a node of an expression, as [`ExpressionContext::evaluate`] does.
    pub(super) fn evaluate_node(
        &self,
        node: &ExpressionNode,
        document: &Document,
    ) -> Result<Evaluated> {
        let (frame, meter) = (VariableFrame::new(&self.variables), self.meter());
        node.evaluate(&ExpressionVariables::new(
            document, self.now, &frame, &meter,
        ))
    }

    /// Returns a measure of work that ends at the deadline.
    pub(in crate::mongo) fn meter(&self) -> EvaluationMeter {
        EvaluationMeter::new(self.deadline)
    }
}
