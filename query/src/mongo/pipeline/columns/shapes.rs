//! Shapes of columns, and the projections that make them.

use bson::Bson;
use bson::raw::CString;

use crate::mongo::expression::{FieldShape, ShapedFields};
use crate::mongo::pipeline::projection::{FieldNode, FieldTree, FieldsProjection, ProjectionMode};

/// A value as it is made of the columns of a row.
#[derive(Debug)]
pub(super) enum ColumnShape {
    Missing,
    Constant(Bson),
    /// The column of this index in [`ShapeColumns::names`].
    Column(usize),
    Function(usize),
    Object(Vec<(CString, Self)>),
}

impl FieldsProjection {
    /// Replaces fields by those that the projection makes; `None` if they have no shapes.
    pub(super) fn shape<'a>(&'a self, fields: &mut ShapedFields<'a>) -> Option<()> {
        let mut made = Vec::new();
        for (name, node) in self.fields.iter() {
            let shape = match (node, self.mode) {
                (FieldNode::Named, ProjectionMode::Exclusion) => FieldShape::Missing,
                (FieldNode::Named, _) => fields.field(name),
                (FieldNode::Compute(expression), _) => fields.expression(expression)?,
                // A scalar has nothing inside that could be left out.
                (FieldNode::Inside(_), ProjectionMode::Exclusion) => fields.scalar(name)?,
                (FieldNode::Inside(inside), _) => {
                    fields.scalar(name)?;
                    computed(inside, fields)?
                }
            };
            made.push((name.to_owned(), shape));
        }
        fields.project(made, self.mode != ProjectionMode::Inclusion);
        Some(())
    }
}

/// Returns the document that takes the place of a scalar or a missing value: one of the computed
/// fields, if there are any.
fn computed<'a>(inside: &'a FieldTree, fields: &mut ShapedFields<'a>) -> Option<FieldShape<'a>> {
    let mut made = Vec::new();
    for (name, node) in inside.iter() {
        let shape = match node {
            FieldNode::Named => continue,
            FieldNode::Compute(expression) => fields.expression(expression)?,
            FieldNode::Inside(inside) => computed(inside, fields)?,
        };
        made.push((name.to_owned(), shape));
    }
    Some(match inside.has_computed() {
        true => FieldShape::Object(made),
        false => FieldShape::Missing,
    })
}

/// The columns and functions of shapes.
#[derive(Debug, Default)]
pub(super) struct ShapeColumns {
    pub(super) names: Vec<String>,
    /// The functions that are evaluated.
    pub(super) functions: Vec<usize>,
}

impl ShapeColumns {
    pub(super) fn column(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// Returns a shape of columns; `None` if a name in it cannot be written.
    pub(super) fn shape(&mut self, shape: FieldShape<'_>) -> Option<ColumnShape> {
        Some(match shape {
            FieldShape::Missing => ColumnShape::Missing,
            FieldShape::Constant(value) => ColumnShape::Constant(value.clone()),
            FieldShape::Field(name) => ColumnShape::Column(self.column(&name)),
            FieldShape::Function(function) => {
                self.functions.push(function);
                ColumnShape::Function(function)
            }
            FieldShape::Object(fields) => {
                let fields = fields.into_iter();
                let fields = fields
                    .map(|(name, shape)| Some((CString::try_from(name).ok()?, self.shape(shape)?)));
                ColumnShape::Object(fields.collect::<Option<_>>()?)
            }
        })
    }
}
