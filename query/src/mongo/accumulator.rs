//! Accumulators of groups ("Accumulators" in MongoDB's manual).
//!
//! # Invariants
//! * The state of an accumulator says how its memory grows, so that a caller can bound it.

mod merged;
mod state;

use std::sync::Arc;

use bson::Bson;

pub(in crate::mongo) use self::state::AccumulatorState;
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{Expression, ExpressionScope};
use crate::mongo::value::BsonNumber;

/// An accumulator with the expression of its values.
#[derive(Debug)]
pub(in crate::mongo) struct GroupAccumulator {
    function: AccumulatorFunction,
    argument: Expression,
}

/// The function of an accumulator.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::mongo) enum AccumulatorFunction {
    Sum,
    Avg,
    Min,
    Max,
    First,
    Last,
    Push,
    AddToSet,
    Count,
    StdDevPop,
    StdDevSamp,
    /// The parts of the values below each percentile, from 0 to 1.
    Percentile(Arc<[f64]>),
    Median,
    MergeObjects,
}

impl GroupAccumulator {
    /// Reads the accumulator of a field of `$group`, as `{ $sum: "$a" }`.
    ///
    /// # Errors
    /// 40234 if it is no object, 40238 if it does not have one field, 15952 for an unknown
    /// operator, 40237 for a list of other than one argument.
    pub(in crate::mongo) fn parse(
        field: &str,
        spec: &Bson,
        scope: &ExpressionScope,
    ) -> Result<Self> {
        let no_object = || {
            let message =
                format!("the field '{field}' of a group needs an accumulator, as {{ $sum: 1 }}");
            QueryError::located(40234, message)
        };
        let spec = spec.as_document().ok_or_else(no_object)?;
        let mut fields = spec.iter();
        let (Some((name, argument)), None) = (fields.next(), fields.next()) else {
            let message = format!("the field '{field}' of a group needs exactly one accumulator");
            return Err(QueryError::located(40238, message));
        };
        let function = match name.as_str() {
            "$count" => return Self::count(argument),
            "$percentile" | "$median" => return Self::percentile(name, argument, scope),
            name if !name.starts_with('$') => return Err(no_object()),
            name => AccumulatorFunction::of_name(name)?,
        };
        let argument = match argument {
            Bson::Array(items) => match items.as_slice() {
                [argument] => argument,
                items => {
                    let count = items.len();
                    let message = format!(
                        "the accumulator {name} of '{field}' has {count} arguments; it takes 1"
                    );
                    return Err(QueryError::located(40237, message));
                }
            },
            argument => argument,
        };
        let argument = Expression::parse(argument, scope)?;
        Ok(Self { function, argument })
    }

    fn count(argument: &Bson) -> Result<Self> {
        if argument.as_document().is_none_or(|empty| !empty.is_empty()) {
            let message = "the accumulator $count has an argument; write { $count: {} }";
            return Err(QueryError::type_mismatch(message));
        }
        Ok(Self {
            function: AccumulatorFunction::Count,
            argument: Expression::parse(&Bson::Null, &ExpressionScope::default())?,
        })
    }

    fn percentile(name: &str, argument: &Bson, scope: &ExpressionScope) -> Result<Self> {
        let has_parts = name == "$percentile";
        let Bson::Document(arguments) = argument else {
            let message = format!("{name} needs an object of 'input' and 'method'");
            return Err(QueryError::located(7429703, message));
        };
        let known = |name: &str| matches!(name, "input" | "method") || (has_parts && name == "p");
        if let Some(other) = arguments.keys().find(|name| !known(name)) {
            let message = format!("{name} has no option '{other}'");
            return Err(QueryError::located(40415, message));
        }
        let necessary = |field: &str| {
            arguments.get(field).ok_or_else(|| {
                let message = format!("{name} needs '{field}'");
                QueryError::located(40414, message)
            })
        };
        let method = necessary("method")?;
        if method.as_str() != Some("approximate") {
            let message = format!("the 'method' of {name} is {method}; write \"approximate\"");
            return Err(QueryError::bad_value(message));
        }
        let argument = Expression::parse(necessary("input")?, scope)?;
        let function = match has_parts {
            true => AccumulatorFunction::Percentile(parts(necessary("p")?, scope)?.into()),
            false => AccumulatorFunction::Median,
        };
        Ok(Self { function, argument })
    }

    /// Returns whether the order of the values does not matter, and a value that comes several
    /// times can be added at once.
    pub(in crate::mongo) fn counts_equal_values(&self) -> bool {
        matches!(
            self.function,
            AccumulatorFunction::Sum
                | AccumulatorFunction::Avg
                | AccumulatorFunction::Min
                | AccumulatorFunction::Max
                | AccumulatorFunction::AddToSet
                | AccumulatorFunction::Count
        )
    }

    /// Returns the expression of the values.
    pub(in crate::mongo) fn argument(&self) -> &Expression {
        &self.argument
    }

    /// Returns the state before the first value.
    pub(in crate::mongo) fn start(&self) -> AccumulatorState {
        AccumulatorState::new(&self.function)
    }
}

impl AccumulatorFunction {
    fn of_name(name: &str) -> Result<Self> {
        Ok(match name {
            "$sum" => Self::Sum,
            "$avg" => Self::Avg,
            "$min" => Self::Min,
            "$max" => Self::Max,
            "$first" => Self::First,
            "$last" => Self::Last,
            "$push" => Self::Push,
            "$addToSet" => Self::AddToSet,
            "$stdDevPop" => Self::StdDevPop,
            "$stdDevSamp" => Self::StdDevSamp,
            "$mergeObjects" => Self::MergeObjects,
            "$accumulator" => return Err(refused(name, "no JavaScript runs here")),
            "$firstN" | "$lastN" | "$minN" | "$maxN" => {
                return Err(refused(name, "take $push and $slice"));
            }
            "$top" | "$bottom" | "$topN" | "$bottomN" => {
                return Err(refused(
                    name,
                    "sort before the group, and take $first or $push",
                ));
            }
            _ => {
                let message = format!("a group has no accumulator {name}");
                return Err(QueryError::located(15952, message));
            }
        })
    }
}

fn refused(name: &str, remedy: &str) -> QueryError {
    let message = format!("the accumulator {name} is not supported; {remedy}");
    QueryError::not_supported(message)
}

/// Maximum parts of `$percentile`.
const PARTS_MAX: usize = 1000;

/// Reads the list `p` of `$percentile`.
fn parts(list: &Bson, scope: &ExpressionScope) -> Result<Vec<f64>> {
    let refuse = || {
        let message = format!(
            "the 'p' of $percentile needs an array of 1 to {PARTS_MAX} numbers from 0 to 1"
        );
        QueryError::located(7750301, message)
    };
    let list = Expression::parse(list, scope)?.constant(scope)?;
    let Some(Bson::Array(list)) = list else {
        return Err(refuse());
    };
    let part = |part: &Bson| {
        let part = BsonNumber::of(part)?.to_double();
        (0.0..=1.0).contains(&part).then_some(part)
    };
    let parts: Option<Vec<f64>> = list.iter().map(part).collect();
    parts
        .filter(|parts| (1..=PARTS_MAX).contains(&parts.len()))
        .ok_or_else(refuse)
}

#[cfg(test)]
mod tests;
