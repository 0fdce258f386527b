//! The fields of documents that expressions read.
//!
//! # Invariants
//! * Documents whose fields of a [`FieldUses`] are equal, dates up to their grain, have the same
//!   value of the expression.

use std::collections::BTreeMap;

use bson::Bson;

use super::operator::ExpressionOperator;
use super::{BoundVariable, Expression, ExpressionNode};

/// The unit of UTC to which a date may be cut without a change of what is read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::mongo) enum DateGrain {
    Exact,
    Second,
    Minute,
    Hour,
    Day,
}

/// The fields that are read, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldUses {
    fields: BTreeMap<String, DateGrain>,
    has_root: bool,
}

impl FieldUses {
    /// Adds a field.
    pub(in crate::mongo) fn add(&mut self, path: String, grain: DateGrain) {
        let known = self.fields.entry(path).or_insert(grain);
        *known = grain.min(*known);
    }

    /// Returns the fields; `None` if the whole document is read.
    pub(in crate::mongo) fn fields(&self) -> Option<&BTreeMap<String, DateGrain>> {
        (!self.has_root).then_some(&self.fields)
    }
}

impl Expression {
    /// Adds the fields that the expression reads.
    pub(in crate::mongo) fn add_uses(&self, uses: &mut FieldUses) {
        self.0.add_uses(uses);
    }
}

impl ExpressionNode {
    pub(super) fn add_uses(&self, uses: &mut FieldUses) {
        match self {
            Self::Literal(_) => {}
            Self::Variable(BoundVariable::Root, path) if path.names().is_empty() => {
                uses.has_root = true;
            }
            Self::Variable(BoundVariable::Root, path) => {
                uses.add(path.names().join("."), DateGrain::Exact);
            }
            // The values of bound variables are those of other nodes.
            Self::Variable(..) => {}
            Self::Object(fields) => fields.iter().for_each(|(_, node)| node.add_uses(uses)),
            Self::Array(items) => items.iter().for_each(|node| node.add_uses(uses)),
            Self::Call(operator, arguments) => match date_use(operator, arguments) {
                Some((path, grain)) => uses.add(path, grain),
                None => arguments
                    .iter()
                    .flatten()
                    .for_each(|node| node.add_uses(uses)),
            },
            Self::Regex(regex) => regex.for_each_node(&mut |node| node.add_uses(uses)),
            Self::Sort(sorter) => sorter.input.add_uses(uses),
            Self::Control(control) => control.for_each_node(&mut |node| node.add_uses(uses)),
        }
    }
}

/// Returns the field whose date an operator reads, and no more than a grain of it.
fn date_use(
    operator: &ExpressionOperator,
    arguments: &[Option<ExpressionNode>],
) -> Option<(String, DateGrain)> {
    let (Some(ExpressionNode::Variable(BoundVariable::Root, path)), others) =
        arguments.split_first()?
    else {
        return None;
    };
    if path.names().is_empty() {
        return None;
    }
    let grain = match operator.name {
        "$year" | "$month" | "$dayOfMonth" | "$dayOfYear" | "$dayOfWeek" | "$week" | "$isoWeek"
        | "$isoWeekYear" | "$isoDayOfWeek" => DateGrain::Day,
        "$hour" => DateGrain::Hour,
        "$minute" => DateGrain::Minute,
        "$second" => DateGrain::Second,
        "$dateTrunc" => return Some((path.names().join("."), truncated_grain(others)?)),
        _ => return None,
    };
    // A zone has days of its own.
    let is_utc = others.iter().all(Option::is_none);
    is_utc.then(|| (path.names().join("."), grain))
}

/// Returns the grain of `$dateTrunc` by its arguments behind the date: `unit`, `binSize`,
/// `timezone` and `startOfWeek`. All bins begin with a unit.
fn truncated_grain(arguments: &[Option<ExpressionNode>]) -> Option<DateGrain> {
    let is_constant = |argument: &Option<ExpressionNode>| {
        argument
            .as_ref()
            .is_none_or(|node| matches!(node, ExpressionNode::Literal(_)))
    };
    let [
        Some(ExpressionNode::Literal(Bson::String(unit))),
        size,
        None,
        start,
    ] = arguments
    else {
        return None;
    };
    if !is_constant(size) || !is_constant(start) {
        return None;
    }
    Some(match unit.as_str() {
        "day" | "week" | "month" | "quarter" | "year" => DateGrain::Day,
        "hour" => DateGrain::Hour,
        "minute" => DateGrain::Minute,
        "second" => DateGrain::Second,
        _ => return None,
    })
}
