//! Reads the operators with an order of evaluation of their own.

use bson::Bson;

use super::ExpressionScope;
use super::names::{ArgumentNames, BRANCH};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::ExpressionNode;
use crate::mongo::expression::control::ControlOperator;

const COND: ArgumentNames = ArgumentNames::new(&["if", "then", "else"], &[]);
const SWITCH: ArgumentNames = ArgumentNames::new(&["branches"], &["default"]);
const CASE: ArgumentNames = ArgumentNames::new(&["case", "then"], &[]);
const LET: ArgumentNames = ArgumentNames::new(&["vars", "in"], &[]);
const MAP: ArgumentNames = ArgumentNames::new(&["input", "in"], &["as"]);
const FILTER: ArgumentNames = ArgumentNames::new(&["input", "cond"], &["as", "limit"]);
const REDUCE: ArgumentNames = ArgumentNames::new(&["input", "initialValue", "in"], &[]);

/// Reads an operator; `None` if it is not one of these.
pub(super) fn parse_control(
    name: &str,
    argument: &Bson,
    scope: &ExpressionScope,
) -> Result<Option<ControlOperator>> {
    Ok(Some(match name {
        "$and" => ControlOperator::And(scope.list(name, argument, 0, usize::MAX)?),
        "$or" => ControlOperator::Or(scope.list(name, argument, 0, usize::MAX)?),
        "$cond" => ControlOperator::Cond(cond(argument, scope)?),
        "$ifNull" => ControlOperator::IfNull(scope.list(name, argument, 2, usize::MAX)?),
        "$switch" => switch(argument, scope)?,
        "$let" => let_in(argument, scope)?,
        "$map" => {
            let arguments = MAP.check(name, argument)?;
            let inner = scope.bind(vec![variable_name(arguments.get("as"))?]);
            ControlOperator::Map {
                input: scope.parse(&arguments["input"])?,
                inside: inner.parse(&arguments["in"])?,
            }
        }
        "$filter" => {
            let arguments = FILTER.check(name, argument)?;
            let inner = scope.bind(vec![variable_name(arguments.get("as"))?]);
            let limit = arguments.get("limit");
            ControlOperator::Filter {
                input: scope.parse(&arguments["input"])?,
                condition: inner.parse(&arguments["cond"])?,
                limit: limit.map(|limit| scope.parse(limit)).transpose()?,
            }
        }
        "$reduce" => {
            let arguments = REDUCE.check(name, argument)?;
            let inner = scope.bind(vec!["this".to_owned(), "value".to_owned()]);
            ControlOperator::Reduce {
                input: scope.parse(&arguments["input"])?,
                initial: scope.parse(&arguments["initialValue"])?,
                inside: inner.parse(&arguments["in"])?,
            }
        }
        _ => return Ok(None),
    }))
}

fn cond(argument: &Bson, scope: &ExpressionScope) -> Result<[ExpressionNode; 3]> {
    if !matches!(argument, Bson::Document(_)) {
        let nodes = scope.list("$cond", argument, 3, 3)?;
        return Ok(nodes.try_into().expect("BUG: three arguments are read"));
    }
    let arguments = COND.check("$cond", argument)?;
    Ok([
        scope.parse(&arguments["if"])?,
        scope.parse(&arguments["then"])?,
        scope.parse(&arguments["else"])?,
    ])
}

fn switch(argument: &Bson, scope: &ExpressionScope) -> Result<ControlOperator> {
    let arguments = SWITCH.check("$switch", argument)?;
    let Some(Bson::Array(given)) = arguments.get("branches") else {
        let message = "the 'branches' of $switch need an array";
        return Err(QueryError::located(40061, message));
    };
    let mut branches = Vec::with_capacity(given.len());
    for branch in given {
        let branch = CASE.check(BRANCH, branch)?;
        let case = scope.parse(&branch["case"])?;
        branches.push((case, scope.parse(&branch["then"])?));
    }
    if branches.is_empty() {
        let message = "$switch has no branches; give it one";
        return Err(QueryError::located(40068, message));
    }
    let default = arguments.get("default");
    let default = default.map(|default| scope.parse(default)).transpose()?;
    Ok(ControlOperator::Switch { branches, default })
}

fn let_in(argument: &Bson, scope: &ExpressionScope) -> Result<ControlOperator> {
    let arguments = LET.check("$let", argument)?;
    let Some(Bson::Document(given)) = arguments.get("vars") else {
        let message = "the 'vars' of $let need an object of names and expressions";
        return Err(QueryError::located(10065, message));
    };
    let (mut bound, mut values) = (Vec::new(), Vec::new());
    for (name, value) in given {
        check_variable_name(name)?;
        bound.push(name.clone());
        values.push(scope.parse(value)?);
    }
    let inside = scope.bind(bound).parse(&arguments["in"])?;
    Ok(ControlOperator::Let { values, inside })
}

/// Returns the name of the variable of an element, `this` if there is none.
fn variable_name(name: Option<&Bson>) -> Result<String> {
    match name {
        None => Ok("this".to_owned()),
        Some(Bson::String(name)) => {
            check_variable_name(name)?;
            Ok(name.clone())
        }
        Some(_) => Err(QueryError::failed_to_parse(
            "'as' needs the name of a variable, without $",
        )),
    }
}

/// Refuses a name that no variable of a user can have.
pub(super) fn check_variable_name(name: &str) -> Result<()> {
    let starts = |first: char| first.is_ascii_lowercase() || !first.is_ascii();
    let continues = |next: char| next.is_ascii_alphanumeric() || next == '_' || !next.is_ascii();
    if name == "CURRENT" || (name.starts_with(starts) && name.chars().all(continues)) {
        return Ok(());
    }
    let message = format!(
        "no variable can have the name '{name}'; begin with a small letter, and go on with \
         letters, digits and _"
    );
    Err(QueryError::failed_to_parse(message))
}
