//! Aggregation expressions ("Aggregation Operators" in MongoDB's manual).
//!
//! # Invariants
//! * An expression has at most [`DEPTH_MAX`] levels, and all expressions of one
//!   [`ExpressionScope`] have at most [`NODES_MAX`] nodes: evaluation needs a bounded stack.
//! * `None` is a missing value. It is not null, and only operators make null of it.
//! * Each value that an operator makes is within the bounds of [`weigh`].
//! * Each node counts its work, so that evaluation ends soon after its deadline.

mod arithmetic;
mod arrays;
mod catalog;
mod comparison;
mod context;
mod control;
mod conversion;
mod dates;
mod elements;
mod field_path;
mod logarithms;
mod meter;
mod objects;
mod operands;
mod operator;
mod parse;
mod patterns;
mod places;
mod replacing;
mod sets;
mod shape;
mod sorting;
mod strings;
mod summary;
mod trimming;
mod uses;

use std::borrow::Cow;

use bson::{Bson, DateTime, Document};

pub use self::context::ExpressionContext;
use self::control::ControlOperator;
pub(in crate::mongo) use self::field_path::FieldPath;
use self::meter::HeldValues;
pub(in crate::mongo) use self::meter::{EvaluationMeter, check_deadline};
pub(in crate::mongo) use self::operands::type_name;
use self::operator::ExpressionOperator;
pub use self::parse::ExpressionScope;
use self::patterns::RegexOperator;
pub(in crate::mongo) use self::shape::{FieldShape, ShapeFunction, ShapedFields};
use self::sorting::ArraySorter;
pub(in crate::mongo) use self::uses::DateGrain;
pub use self::uses::FieldUses;
use crate::mongo::error::Result;
use crate::mongo::size::weigh;

/// Maximum levels of an expression.
const DEPTH_MAX: usize = 100;
/// Maximum nodes of the expressions of a scope.
const NODES_MAX: usize = 100_000;

/// A value, or none where a field is missing.
pub(in crate::mongo) type Evaluated = Option<Bson>;

/// An expression.
#[derive(Debug)]
pub(in crate::mongo) struct Expression(ExpressionNode);

/// A node of the tree of an expression.
#[derive(Debug)]
enum ExpressionNode {
    Literal(Bson),
    Variable(BoundVariable, FieldPath),
    Object(Vec<(String, ExpressionNode)>),
    Array(Vec<ExpressionNode>),
    /// An operator with its arguments; `None` for one by name that is not there.
    Call(&'static ExpressionOperator, Vec<Option<ExpressionNode>>),
    Regex(Box<RegexOperator>),
    Sort(Box<ArraySorter>),
    Control(Box<ControlOperator>),
}

/// A variable of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundVariable {
    /// `$$ROOT`, and `$$CURRENT` where it is not bound.
    Root,
    Now,
    Remove,
    /// The variable of this index, in the frame so many frames further out.
    Bound {
        frame: usize,
        index: usize,
    },
}

/// The variables that an expression is evaluated with.
#[derive(Debug)]
pub(in crate::mongo) struct ExpressionVariables<'a> {
    root: &'a Document,
    now: DateTime,
    frame: &'a VariableFrame<'a>,
    meter: &'a EvaluationMeter,
}

/// The variables that one operator binds.
#[derive(Debug)]
struct VariableFrame<'a> {
    values: Cow<'a, [Evaluated]>,
    outer: Option<&'a VariableFrame<'a>>,
}

impl<'a> ExpressionVariables<'a> {
    fn new(
        root: &'a Document,
        now: DateTime,
        frame: &'a VariableFrame<'a>,
        meter: &'a EvaluationMeter,
    ) -> Self {
        Self {
            root,
            now,
            frame,
            meter,
        }
    }

    fn bind<'b>(&self, frame: &'b VariableFrame<'b>) -> ExpressionVariables<'b>
    where
        'a: 'b,
    {
        ExpressionVariables { frame, ..*self }
    }

    fn bound(&self, mut frames_out: usize, index: usize) -> Option<&'a Bson> {
        let mut frame = Some(self.frame);
        while frames_out > 0 {
            frame = frame.and_then(|frame| frame.outer);
            frames_out -= 1;
        }
        frame?.values.get(index)?.as_ref()
    }
}

impl<'a> VariableFrame<'a> {
    /// Returns the frame of the variables of a query.
    fn new(values: &'a [Evaluated]) -> Self {
        Self {
            values: Cow::Borrowed(values),
            outer: None,
        }
    }
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code: among others 168 for an
    /// operator that does not exist, and 17276 for a variable that is not bound.
    pub(in crate::mongo) fn parse(expression: &Bson, scope: &ExpressionScope) -> Result<Self> {
        scope.parse(expression).map(Self)
    }

    /// Returns the value of the expression; `None` if it is missing.
    ///
    /// # Errors
    /// If an operand has a type that its operator does not take, if a value gets too large, and 50
    /// after the deadline.
    pub(in crate::mongo) fn evaluate(
        &self,
        variables: &ExpressionVariables<'_>,
    ) -> Result<Evaluated> {
        self.0.evaluate(variables)
    }

    /// Returns the value of an expression of a scope that is the same for every document; `None` if
    /// it is another, or missing.
    ///
    /// # Errors
    /// As those of [`Expression::evaluate`], and 17419 if all constants of the scope need too many
    /// bytes.
    pub(in crate::mongo) fn constant(&self, scope: &ExpressionScope) -> Result<Evaluated> {
        if !self.0.is_constant() {
            return Ok(None);
        }
        let mut context = ExpressionContext::new(DateTime::MIN);
        context.deadline = scope.deadline;
        let value = context.evaluate(self, &Document::new())?;
        scope.count_constant(value.as_ref())?;
        Ok(value)
    }
}

impl ExpressionNode {
    fn evaluate(&self, variables: &ExpressionVariables<'_>) -> Result<Evaluated> {
        let value = match self {
            Self::Literal(value) => {
                variables.meter.step()?;
                return Ok(Some(value.clone()));
            }
            Self::Variable(variable, path) => {
                variables.meter.step()?;
                return Ok(read(*variable, path, variables));
            }
            Self::Object(fields) => object(fields, variables)?,
            Self::Array(items) => array(items, variables)?,
            Self::Call(operator, arguments) => call(operator, arguments, variables)?,
            Self::Regex(regex) => regex.evaluate(variables)?,
            Self::Sort(sorter) => sorter.evaluate(variables)?,
            Self::Control(control) => control.evaluate(variables)?,
        };
        weigh_optional(value.as_ref(), variables)?;
        Ok(value)
    }

    fn is_constant(&self) -> bool {
        match self {
            Self::Literal(_) => true,
            Self::Variable(..) => false,
            Self::Object(fields) => fields.iter().all(|(_, node)| node.is_constant()),
            Self::Array(items) => items.iter().all(Self::is_constant),
            Self::Call(_, arguments) => arguments.iter().flatten().all(Self::is_constant),
            Self::Regex(_) | Self::Sort(_) | Self::Control(_) => false,
        }
    }
}

/// Returns the bytes of a value in memory, after counting the steps that copy it.
fn weigh_optional(value: Option<&Bson>, variables: &ExpressionVariables<'_>) -> Result<usize> {
    let bytes = value.map(weigh).transpose()?.unwrap_or(0);
    variables.meter.step_over(bytes)?;
    Ok(bytes)
}

fn read(
    variable: BoundVariable,
    path: &FieldPath,
    variables: &ExpressionVariables<'_>,
) -> Evaluated {
    match variable {
        BoundVariable::Root if path.names().is_empty() => {
            Some(Bson::Document(variables.root.clone()))
        }
        BoundVariable::Root => path.in_document(variables.root),
        BoundVariable::Now => path.in_value(&Bson::DateTime(variables.now)),
        BoundVariable::Remove => None,
        BoundVariable::Bound { frame, index } => variables
            .bound(frame, index)
            .and_then(|value| path.in_value(value)),
    }
}

fn object(
    fields: &[(String, ExpressionNode)],
    variables: &ExpressionVariables<'_>,
) -> Result<Evaluated> {
    let mut object = Document::new();
    let mut held = variables.meter.hold();
    for (name, node) in fields {
        if let Some(value) = node.evaluate(variables)? {
            held.add(weigh_optional(Some(&value), variables)?)?;
            object.insert(name, value);
        }
    }
    Ok(Some(Bson::Document(object)))
}

fn array(items: &[ExpressionNode], variables: &ExpressionVariables<'_>) -> Result<Evaluated> {
    let mut values = Vec::with_capacity(items.len());
    let mut held = variables.meter.hold();
    for item in items {
        let value = item.evaluate(variables)?.unwrap_or(Bson::Null);
        held.add(weigh_optional(Some(&value), variables)?)?;
        values.push(value);
    }
    Ok(Some(Bson::Array(values)))
}

fn call(
    operator: &'static ExpressionOperator,
    arguments: &[Option<ExpressionNode>],
    variables: &ExpressionVariables<'_>,
) -> Result<Evaluated> {
    let (values, _held) = operands_of(operator, arguments, variables)?;
    (operator.apply)(values)
}

/// Returns the values of arguments, which are held as long as the second result.
fn operands_of<'a>(
    operator: &'static ExpressionOperator,
    arguments: &[Option<ExpressionNode>],
    variables: &ExpressionVariables<'a>,
) -> Result<(Vec<Evaluated>, HeldValues<'a>)> {
    let mut values = Vec::with_capacity(arguments.len());
    let mut held = variables.meter.hold();
    for argument in arguments {
        let value = match argument {
            None => None,
            Some(node) if operator.has_names() => {
                Some(node.evaluate(variables)?.unwrap_or(Bson::Null))
            }
            Some(node) => node.evaluate(variables)?,
        };
        held.add(weigh_optional(value.as_ref(), variables)?)?;
        values.push(value);
    }
    Ok((values, held))
}

/// Returns whether a value is missing or null, which makes most operators return null.
fn is_nullish(value: &Evaluated) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

#[cfg(test)]
mod tests;
