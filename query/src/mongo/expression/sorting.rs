//! `$sortArray`.

use bson::{Bson, Document};

use super::operands::array_of;
use super::{Evaluated, ExpressionNode, ExpressionVariables};
use crate::mongo::error::Result;
use crate::mongo::sort::{Sort, SortKey};
use crate::mongo::value::compare;

/// A sort of the elements of an array.
#[derive(Debug)]
pub(super) struct ArraySorter {
    pub(super) input: ExpressionNode,
    pub(super) order: ArrayOrder,
}

/// An order of elements.
#[derive(Debug)]
pub(super) enum ArrayOrder {
    /// By the elements themselves.
    Values { is_descending: bool },
    /// By fields of the elements; one that is no document has none.
    Fields(Sort),
}

impl ArraySorter {
    pub(super) fn evaluate(&self, variables: &ExpressionVariables<'_>) -> Result<Evaluated> {
        let input = self.input.evaluate(variables)?;
        let Some(mut items) = array_of("the 'input' of $sortArray", 2942504, input)? else {
            return Ok(Some(Bson::Null));
        };
        match &self.order {
            ArrayOrder::Values { is_descending } => items.sort_by(|a, b| match is_descending {
                true => compare(b, a),
                false => compare(a, b),
            }),
            ArrayOrder::Fields(sort) => {
                let nothing = Document::new();
                let mut keyed: Vec<(SortKey, Bson)> = Vec::with_capacity(items.len());
                for item in items {
                    variables.meter.step()?;
                    keyed.push((sort.key(item.as_document().unwrap_or(&nothing)), item));
                }
                keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
                items = keyed.into_iter().map(|(_, item)| item).collect();
            }
        }
        Ok(Some(Bson::Array(items)))
    }
}
