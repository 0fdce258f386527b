//! Reads projections.

use bson::{Bson, Document};

use super::fields::{FieldNode, FieldTree};
use super::{FieldsProjection, ProjectionMode};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{Expression, ExpressionScope, FieldPath};
use crate::mongo::value::is_true;

/// Maximum levels of a projection.
const DEPTH_MAX: usize = 100;

impl FieldsProjection {
    /// Reads `$project`.
    ///
    /// # Errors
    /// 15969 if it is no object, 51272 if it is empty, 31253 and 31254 if it includes some fields
    /// and excludes others.
    pub(in crate::mongo::pipeline) fn parse_project(
        spec: &Bson,
        scope: &ExpressionScope,
    ) -> Result<Self> {
        let Bson::Document(spec) = spec else {
            let message = "$project needs an object of fields";
            return Err(QueryError::located(15969, message));
        };
        if spec.is_empty() {
            let message = "$project has no field; name at least one";
            return Err(QueryError::located(51272, message));
        }
        let mut reader = FieldsReader::new(scope, None);
        reader.read(spec, &[])?;
        let is_inclusion = reader.includes.unwrap_or(reader.id == Some(true));
        let includes_id = reader.id.unwrap_or(true);
        // `_id` is named if it is not what the others are by default.
        if includes_id == is_inclusion && !reader.names_id {
            reader.fields.add(&["_id".to_owned()], FieldNode::Named)?;
        }
        let mode = match is_inclusion {
            true => ProjectionMode::Inclusion,
            false => ProjectionMode::Exclusion,
        };
        let fields = reader.fields;
        Ok(Self { mode, fields })
    }

    /// Reads `$addFields` or `$set`.
    ///
    /// # Errors
    /// 40272 if it is no object.
    pub(in crate::mongo::pipeline) fn parse_addition(
        stage: &str,
        spec: &Bson,
        scope: &ExpressionScope,
    ) -> Result<Self> {
        let Bson::Document(spec) = spec else {
            let message = format!("{stage} needs an object of fields");
            return Err(QueryError::located(40272, message));
        };
        if spec.is_empty() {
            let message = format!("{stage} has no field; name at least one");
            return Err(QueryError::located(40177, message));
        }
        let mode = ProjectionMode::Addition;
        let mut reader = FieldsReader::new(scope, Some(mode));
        reader.read(spec, &[])?;
        let fields = reader.fields;
        Ok(Self { mode, fields })
    }

    /// Reads `$unset`.
    ///
    /// # Errors
    /// 31002 if it is neither a name nor names, 31119 if it is an empty list, 31120 for a name that
    /// is no string.
    pub(in crate::mongo::pipeline) fn parse_unset(spec: &Bson) -> Result<Self> {
        let names = match spec {
            Bson::Array(names) if names.is_empty() => {
                let message = "$unset has no field; name at least one";
                return Err(QueryError::located(31119, message));
            }
            Bson::Array(names) => names.as_slice(),
            Bson::String(_) => std::slice::from_ref(spec),
            _ => {
                let message = "$unset needs the name of a field, or an array of names";
                return Err(QueryError::located(31002, message));
            }
        };
        let mut fields = FieldTree::default();
        for name in names {
            let Bson::String(name) = name else {
                let message = format!("$unset needs names of fields, but got {name}");
                return Err(QueryError::located(31120, message));
            };
            fields.add(FieldPath::parse(name)?.names(), FieldNode::Named)?;
        }
        let mode = ProjectionMode::Exclusion;
        Ok(Self { mode, fields })
    }
}

struct FieldsReader<'a> {
    scope: &'a ExpressionScope,
    /// The mode if the stage says it, and not its fields.
    mode: Option<ProjectionMode>,
    /// True if fields other than `_id` are included; `None` before the first.
    includes: Option<bool>,
    /// True if `_id` is included; `None` while nothing is said about it.
    id: Option<bool>,
    /// True if `_id` has a node: it is computed, or a part of it is projected.
    names_id: bool,
    fields: FieldTree,
}

impl<'a> FieldsReader<'a> {
    fn new(scope: &'a ExpressionScope, mode: Option<ProjectionMode>) -> Self {
        Self {
            scope,
            mode,
            includes: None,
            id: None,
            names_id: false,
            fields: FieldTree::default(),
        }
    }

    fn read(&mut self, spec: &Document, above: &[String]) -> Result<()> {
        for (name, value) in spec {
            let mut names = above.to_vec();
            names.extend_from_slice(FieldPath::parse(name)?.names());
            if names.len() > DEPTH_MAX {
                let message = format!("a projection is nested more than {DEPTH_MAX} levels deep");
                return Err(QueryError::failed_to_parse(message));
            }
            self.names_id |= names[0] == "_id" && names.len() > 1;
            self.field(names, value)?;
        }
        Ok(())
    }

    fn field(&mut self, names: Vec<String>, value: &Bson) -> Result<()> {
        let is_addition = self.mode == Some(ProjectionMode::Addition);
        match value {
            Bson::Document(inside) => match inside.keys().next() {
                None if is_addition => self.computed(&names, value),
                None => {
                    let path = names.join(".");
                    let message = format!("the projection of '{path}' is an empty object");
                    Err(QueryError::located(51270, message))
                }
                Some(first) if first.starts_with('$') => self.computed(&names, value),
                Some(_) => self.read(inside, &names),
            },
            Bson::Boolean(_)
            | Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::Double(_)
            | Bson::Decimal128(_)
                if !is_addition =>
            {
                self.named(&names, is_true(Some(value)))
            }
            value => self.computed(&names, value),
        }
    }

    fn computed(&mut self, names: &[String], value: &Bson) -> Result<()> {
        if self.mode.is_none() {
            if self.includes == Some(false) {
                let path = names.join(".");
                let message =
                    format!("'{path}' cannot be computed where other fields are excluded");
                return Err(QueryError::located(31252, message));
            }
            if names == ["_id"] {
                self.id = Some(true);
                self.names_id = true;
            }
            self.includes = Some(true);
        }
        let expression = Expression::parse(value, self.scope)?;
        self.fields.add(names, FieldNode::Compute(expression))
    }

    fn named(&mut self, names: &[String], is_included: bool) -> Result<()> {
        if names == ["_id"] {
            if self.id.is_some() {
                let message = "the field '_id' stands beside itself";
                return Err(QueryError::located(31250, message));
            }
            self.id = Some(is_included);
            return Ok(());
        }
        match self.includes {
            Some(included) if included != is_included => {
                let path = names.join(".");
                let (code, verb, others) = match is_included {
                    true => (31253, "included", "excluded"),
                    false => (31254, "excluded", "included"),
                };
                let message = format!("'{path}' cannot be {verb} where other fields are {others}");
                return Err(QueryError::located(code, message));
            }
            _ => self.includes = Some(is_included),
        }
        self.fields.add(names, FieldNode::Named)
    }
}
