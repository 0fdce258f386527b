//! Operators that evaluate some of their arguments, or one of them many times.

use std::borrow::Cow;

use bson::Bson;

use super::conversion::CONVERSION_FAILURE;
use super::operands::{array_of, integral_index};
use super::{
    Evaluated, ExpressionNode, ExpressionOperator, ExpressionVariables, VariableFrame, is_nullish,
    operands_of, weigh_optional,
};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::value::is_true;

/// An operator with an order of evaluation of its own.
#[derive(Debug)]
pub(super) enum ControlOperator {
    And(Vec<ExpressionNode>),
    Or(Vec<ExpressionNode>),
    Cond([ExpressionNode; 3]),
    IfNull(Vec<ExpressionNode>),
    Switch {
        branches: Vec<(ExpressionNode, ExpressionNode)>,
        default: Option<ExpressionNode>,
    },
    Let {
        values: Vec<ExpressionNode>,
        inside: ExpressionNode,
    },
    Map {
        input: ExpressionNode,
        inside: ExpressionNode,
    },
    Filter {
        input: ExpressionNode,
        condition: ExpressionNode,
        limit: Option<ExpressionNode>,
    },
    Reduce {
        input: ExpressionNode,
        initial: ExpressionNode,
        inside: ExpressionNode,
    },
    /// An operator with a value of its own for a null operand, or for one that it cannot convert.
    Fallback {
        operator: &'static ExpressionOperator,
        arguments: Vec<Option<ExpressionNode>>,
        on_null: Option<ExpressionNode>,
        on_error: Option<ExpressionNode>,
    },
}

impl ControlOperator {
    /// Visits the nodes of the operator. Variables that it binds have the values of some of them.
    pub(super) fn for_each_node(&self, visit: &mut dyn FnMut(&ExpressionNode)) {
        match self {
            Self::And(nodes) | Self::Or(nodes) | Self::IfNull(nodes) => {
                nodes.iter().for_each(visit);
            }
            Self::Cond(nodes) => nodes.iter().for_each(visit),
            Self::Switch { branches, default } => {
                for (condition, value) in branches {
                    visit(condition);
                    visit(value);
                }
                default.iter().for_each(visit);
            }
            Self::Let { values, inside } => {
                values.iter().for_each(&mut *visit);
                visit(inside);
            }
            Self::Map { input, inside } => {
                visit(input);
                visit(inside);
            }
            Self::Filter {
                input,
                condition,
                limit,
            } => {
                visit(input);
                visit(condition);
                limit.iter().for_each(visit);
            }
            Self::Reduce {
                input,
                initial,
                inside,
            } => {
                visit(input);
                visit(initial);
                visit(inside);
            }
            Self::Fallback {
                arguments,
                on_null,
                on_error,
                ..
            } => {
                let arguments = arguments.iter().flatten();
                arguments.chain(on_null).chain(on_error).for_each(visit);
            }
        }
    }

    pub(super) fn evaluate(&self, variables: &ExpressionVariables<'_>) -> Result<Evaluated> {
        match self {
            Self::And(conditions) => any(conditions, false, variables),
            Self::Or(conditions) => any(conditions, true, variables),
            Self::Cond([condition, then, otherwise]) => {
                match is_true(condition.evaluate(variables)?.as_ref()) {
                    true => then.evaluate(variables),
                    false => otherwise.evaluate(variables),
                }
            }
            Self::IfNull(candidates) => {
                let mut value = None;
                for candidate in candidates {
                    value = candidate.evaluate(variables)?;
                    if !is_nullish(&value) {
                        break;
                    }
                }
                Ok(value)
            }
            Self::Switch { branches, default } => switch(branches, default.as_ref(), variables),
            Self::Let { values, inside } => let_in(values, inside, variables),
            Self::Map { input, inside } => map(input, inside, variables),
            Self::Filter {
                input,
                condition,
                limit,
            } => filter(input, condition, limit.as_ref(), variables),
            Self::Reduce {
                input,
                initial,
                inside,
            } => reduce(input, initial, inside, variables),
            Self::Fallback {
                operator,
                arguments,
                on_null,
                on_error,
            } => {
                let (values, _held) = operands_of(operator, arguments, variables)?;
                if let Some(on_null) = on_null
                    && values.first().is_none_or(is_nullish)
                {
                    return on_null.evaluate(variables);
                }
                match ((operator.apply)(values), on_error) {
                    (Err(error), Some(on_error)) if error.code == CONVERSION_FAILURE => {
                        on_error.evaluate(variables)
                    }
                    (result, _) => result,
                }
            }
        }
    }
}

fn frame<'a>(values: Vec<Evaluated>, variables: &ExpressionVariables<'a>) -> VariableFrame<'a> {
    VariableFrame {
        values: Cow::Owned(values),
        outer: Some(variables.frame),
    }
}

/// Returns whether a condition is `wanted`, without evaluating those after it.
fn any(
    conditions: &[ExpressionNode],
    wanted: bool,
    variables: &ExpressionVariables<'_>,
) -> Result<Evaluated> {
    for condition in conditions {
        if is_true(condition.evaluate(variables)?.as_ref()) == wanted {
            return Ok(Some(Bson::Boolean(wanted)));
        }
    }
    Ok(Some(Bson::Boolean(!wanted)))
}

fn switch(
    branches: &[(ExpressionNode, ExpressionNode)],
    default: Option<&ExpressionNode>,
    variables: &ExpressionVariables<'_>,
) -> Result<Evaluated> {
    for (case, then) in branches {
        if is_true(case.evaluate(variables)?.as_ref()) {
            return then.evaluate(variables);
        }
    }
    match default {
        Some(default) => default.evaluate(variables),
        None => {
            let message = "no case of $switch is true for a document; add a 'default'";
            Err(QueryError::located(40066, message))
        }
    }
}

fn let_in(
    values: &[ExpressionNode],
    inside: &ExpressionNode,
    variables: &ExpressionVariables<'_>,
) -> Result<Evaluated> {
    let mut bound = Vec::with_capacity(values.len());
    let mut held = variables.meter.hold();
    for value in values {
        let value = value.evaluate(variables)?;
        held.add(weigh_optional(value.as_ref(), variables)?)?;
        bound.push(value);
    }
    let frame = frame(bound, variables);
    inside.evaluate(&variables.bind(&frame))
}

fn map(
    input: &ExpressionNode,
    inside: &ExpressionNode,
    variables: &ExpressionVariables<'_>,
) -> Result<Evaluated> {
    let input = input.evaluate(variables)?;
    let mut held = variables.meter.hold();
    held.add(weigh_optional(input.as_ref(), variables)?)?;
    let Some(items) = array_of("the 'input' of $map", 16883, input)? else {
        return Ok(Some(Bson::Null));
    };
    let mut mapped = Vec::with_capacity(items.len());
    for item in items {
        variables.meter.step()?;
        let frame = frame(vec![Some(item)], variables);
        let value = inside.evaluate(&variables.bind(&frame))?;
        let value = value.unwrap_or(Bson::Null);
        held.add(weigh_optional(Some(&value), variables)?)?;
        mapped.push(value);
    }
    Ok(Some(Bson::Array(mapped)))
}

fn filter(
    input: &ExpressionNode,
    condition: &ExpressionNode,
    limit: Option<&ExpressionNode>,
    variables: &ExpressionVariables<'_>,
) -> Result<Evaluated> {
    let input = input.evaluate(variables)?;
    let mut held = variables.meter.hold();
    held.add(weigh_optional(input.as_ref(), variables)?)?;
    let items = array_of("the 'input' of $filter", 28651, input)?;
    let limit = limit.map(|limit| limit.evaluate(variables)).transpose()?;
    let limit = match limit.filter(|limit| !is_nullish(limit)).flatten() {
        None => i64::MAX,
        Some(limit) => integral_index(&limit)
            .filter(|limit| *limit > 0)
            .ok_or_else(|| {
                let message = format!(
                    "the 'limit' of $filter needs an integer of 32 bits from 1 on, but got {limit}"
                );
                QueryError::located(327392, message)
            })?,
    };
    let Some(items) = items else {
        return Ok(Some(Bson::Null));
    };
    let mut kept = Vec::new();
    for item in items {
        variables.meter.step()?;
        let frame = frame(vec![Some(item)], variables);
        if is_true(condition.evaluate(&variables.bind(&frame))?.as_ref()) {
            kept.extend(frame.values.into_owned().pop().flatten());
            if kept.len() as i64 >= limit {
                break;
            }
        }
    }
    Ok(Some(Bson::Array(kept)))
}

fn reduce(
    input: &ExpressionNode,
    initial: &ExpressionNode,
    inside: &ExpressionNode,
    variables: &ExpressionVariables<'_>,
) -> Result<Evaluated> {
    let input = input.evaluate(variables)?;
    let mut held_input = variables.meter.hold();
    held_input.add(weigh_optional(input.as_ref(), variables)?)?;
    let Some(items) = array_of("the 'input' of $reduce", 40080, input)? else {
        return Ok(Some(Bson::Null));
    };
    let mut value = initial.evaluate(variables)?;
    for item in items {
        let mut held = variables.meter.hold();
        held.add(weigh_optional(value.as_ref(), variables)?)?;
        let frame = frame(vec![Some(item), value], variables);
        value = inside.evaluate(&variables.bind(&frame))?;
    }
    Ok(value)
}
