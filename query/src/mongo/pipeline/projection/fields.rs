//! The tree of the fields of a projection.

use std::collections::HashMap;

use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::Expression;

/// The part of a projection for one field.
#[derive(Debug)]
pub(in crate::mongo::pipeline) enum FieldNode {
    /// Included or excluded as a whole.
    Named,
    Compute(Expression),
    Inside(FieldTree),
}

/// The fields of one level, in the order of the specification.
#[derive(Debug, Default)]
pub(in crate::mongo::pipeline) struct FieldTree {
    order: Vec<(String, FieldNode)>,
    places: HashMap<String, usize>,
    has_computed: bool,
}

impl FieldTree {
    pub(in crate::mongo::pipeline) fn get(&self, name: &str) -> Option<&FieldNode> {
        let place = self.places.get(name)?;
        self.order.get(*place).map(|(_, node)| node)
    }

    pub(in crate::mongo::pipeline) fn iter(&self) -> impl Iterator<Item = (&str, &FieldNode)> {
        self.order.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// Returns whether a field is computed, in this level or below.
    pub(in crate::mongo::pipeline) fn has_computed(&self) -> bool {
        self.has_computed
    }

    /// Adds a field.
    ///
    /// # Errors
    /// 31249 if one above the field is there, 31250 if the field is, or one inside it.
    pub(super) fn add(&mut self, names: &[String], node: FieldNode) -> Result<()> {
        let Some((name, below)) = names.split_first() else {
            return Ok(());
        };
        let collision = |code: i32| {
            let path = names.join(".");
            let message = format!("the field '{path}' stands beside itself, or one within it");
            QueryError::located(code, message)
        };
        self.has_computed |= matches!(node, FieldNode::Compute(_));
        let place = self.places.get(name).copied();
        match (place, below.is_empty()) {
            (Some(_), true) => Err(collision(31250)),
            (Some(place), false) => match &mut self.order[place].1 {
                FieldNode::Inside(inside) => inside.add(below, node),
                FieldNode::Named | FieldNode::Compute(_) => Err(collision(31249)),
            },
            (None, true) => {
                self.push(name, node);
                Ok(())
            }
            (None, false) => {
                let mut inside = Self::default();
                inside.add(below, node)?;
                self.push(name, FieldNode::Inside(inside));
                Ok(())
            }
        }
    }

    fn push(&mut self, name: &str, node: FieldNode) {
        self.places.insert(name.to_owned(), self.order.len());
        self.order.push((name.to_owned(), node));
    }
}
