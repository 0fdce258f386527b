//! Shapes: values that are made of single fields, so that rows of columns need no documents.
//!
//! # Invariants
//! * A shape has the value of its expression for every document whose fields that it reads are no
//!   documents and no arrays.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use super::{
    BoundVariable, Evaluated, Expression, ExpressionContext, ExpressionNode, FieldPath, FieldUses,
};
use crate::mongo::error::Result;

/// A value as it is made of the fields of a document.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::mongo) enum FieldShape<'a> {
    Missing,
    Constant(&'a Bson),
    /// The value of a field at the top.
    Field(String),
    /// The function of this index.
    Function(usize),
    Object(Vec<(String, Self)>),
}

/// A value that is computed of one field.
#[derive(Debug)]
pub(in crate::mongo) struct ShapeFunction<'a> {
    /// The field.
    pub(in crate::mongo) field: String,
    /// Its name in the expression, which a projection may have changed.
    name: String,
    node: &'a ExpressionNode,
}

impl ShapeFunction<'_> {
    /// Returns the result for a value of the field.
    ///
    /// # Errors
    /// As those of [`Expression::evaluate`].
    pub(in crate::mongo) fn evaluate(
        &self,
        value: Evaluated,
        context: &ExpressionContext,
    ) -> Result<Evaluated> {
        let value = value.map(|value| (self.name.clone(), value));
        let document: Document = value.into_iter().collect();
        context.evaluate_node(self.node, &document)
    }
}

/// The fields of a document behind some projections, as shapes of those before.
#[derive(Debug)]
pub(in crate::mongo) struct ShapedFields<'a> {
    fields: BTreeMap<String, FieldShape<'a>>,
    /// Other fields are as before; else they are missing.
    keeps_others: bool,
    functions: Vec<ShapeFunction<'a>>,
    scalars: Vec<String>,
}

/// The parts of shaped fields that are not those of the results.
#[derive(Debug)]
pub(in crate::mongo) struct ShapeParts<'a> {
    pub(in crate::mongo) functions: Vec<ShapeFunction<'a>>,
    /// Fields whose values must be no documents and no arrays, even where they are not read.
    pub(in crate::mongo) scalars: Vec<String>,
}

impl<'a> ShapedFields<'a> {
    /// The fields of a document before any projection.
    pub(in crate::mongo) fn unchanged() -> Self {
        Self {
            fields: BTreeMap::new(),
            keeps_others: true,
            functions: Vec::new(),
            scalars: Vec::new(),
        }
    }

    /// Replaces the fields by those that a projection makes, and removes others unless it keeps
    /// them.
    pub(in crate::mongo) fn project(
        &mut self,
        fields: Vec<(String, FieldShape<'a>)>,
        keeps_others: bool,
    ) {
        if !keeps_others {
            self.fields.clear();
            self.keeps_others = false;
        }
        self.fields.extend(fields);
    }

    /// Returns the shape of a field.
    pub(in crate::mongo) fn field(&self, name: &str) -> FieldShape<'a> {
        match self.fields.get(name) {
            Some(shape) => shape.clone(),
            None if self.keeps_others => FieldShape::Field(name.to_owned()),
            None => FieldShape::Missing,
        }
    }

    /// Returns the shape of a field that has nothing inside; `None` if it may have.
    pub(in crate::mongo) fn scalar(&mut self, name: &str) -> Option<FieldShape<'a>> {
        let shape = self.field(name);
        match &shape {
            FieldShape::Missing => {}
            FieldShape::Field(field) => self.scalars.push(field.clone()),
            _ => return None,
        }
        Some(shape)
    }

    /// Returns the shape of an expression; `None` if it has none.
    pub(in crate::mongo) fn expression(
        &mut self,
        expression: &'a Expression,
    ) -> Option<FieldShape<'a>> {
        self.node(&expression.0)
    }

    /// Returns the functions of all shapes, and the fields that must be scalars.
    pub(in crate::mongo) fn into_parts(self) -> ShapeParts<'a> {
        ShapeParts {
            functions: self.functions,
            scalars: self.scalars,
        }
    }

    fn node(&mut self, node: &'a ExpressionNode) -> Option<FieldShape<'a>> {
        match node {
            ExpressionNode::Literal(value) => Some(FieldShape::Constant(value)),
            ExpressionNode::Variable(BoundVariable::Root, path) => self.path(path),
            ExpressionNode::Variable(..) => None,
            ExpressionNode::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, node)| Some((name.clone(), self.node(node)?)));
                Some(FieldShape::Object(fields.collect::<Option<_>>()?))
            }
            node => self.function(node),
        }
    }

    fn path(&self, path: &'a FieldPath) -> Option<FieldShape<'a>> {
        let (first, below) = path.names().split_first()?;
        let mut shape = self.field(first);
        for name in below {
            shape = match shape {
                FieldShape::Missing => FieldShape::Missing,
                FieldShape::Object(fields) => {
                    let found = fields.into_iter().find(|(field, _)| field == name);
                    found.map_or(FieldShape::Missing, |(_, shape)| shape)
                }
                // The value may be a document or an array.
                FieldShape::Constant(_) | FieldShape::Field(_) | FieldShape::Function(_) => {
                    return None;
                }
            };
        }
        Some(shape)
    }

    /// Returns the shape of a node that reads one field as it is.
    fn function(&mut self, node: &'a ExpressionNode) -> Option<FieldShape<'a>> {
        let mut uses = FieldUses::default();
        node.add_uses(&mut uses);
        let mut names = uses.fields()?.keys();
        let (Some(name), None) = (names.next(), names.next()) else {
            return None;
        };
        let field = match self.fields.get(name.as_str()) {
            Some(FieldShape::Field(field)) => field.clone(),
            Some(_) => return None,
            None if self.keeps_others && !name.contains('.') => name.clone(),
            None => return None,
        };
        self.functions.push(ShapeFunction {
            field,
            name: name.clone(),
            node,
        });
        Some(FieldShape::Function(self.functions.len() - 1))
    }
}
