//! Reads expressions.

mod control;
mod names;
mod patterns;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bson::{Bson, Document, doc};

use self::control::{check_variable_name, parse_control};
use self::names::ArgumentNames;
use self::patterns::{parse_regex, parse_sort};
use super::catalog::{operator, remedy};
use super::control::ControlOperator;
use super::operator::{ArgumentForm, ExpressionOperator};
use super::{BoundVariable, DEPTH_MAX, ExpressionNode, FieldPath, NODES_MAX};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::size::weigh;

/// Maximum regular expressions of a scope: each may need some mebibytes.
const PATTERNS_MAX: usize = 256;
/// Maximum bytes of memory of the constants of a scope.
const CONSTANT_BYTES_MAX: usize = 256 << 20;

/// The variables that the expressions of a query may name.
///
/// It counts the nodes of all expressions that are read with it and its clones.
#[derive(Debug, Clone, Default)]
pub struct ExpressionScope {
    /// The innermost frame; the outermost has the variables of the query.
    frame: Arc<ScopeFrame>,
    nodes: Arc<AtomicUsize>,
    /// Regular expressions that are compiled.
    patterns: Arc<AtomicUsize>,
    /// The bytes of constants that are evaluated.
    constants: Arc<AtomicUsize>,
    /// The time by which the constants must be evaluated; `None` for any time.
    pub(super) deadline: Option<Instant>,
    depth: usize,
}

/// The names of one frame, with their places in it.
#[derive(Debug, Default)]
struct ScopeFrame {
    places: HashMap<String, usize>,
    outer: Option<Arc<Self>>,
}

impl ScopeFrame {
    fn new(names: Vec<String>, outer: Option<Arc<Self>>) -> Arc<Self> {
        let places = names.into_iter().enumerate();
        let places = places.map(|(place, name)| (name, place)).collect();
        Arc::new(Self { places, outer })
    }
}

impl ExpressionScope {
    /// Returns the scope of a query with these variables.
    ///
    /// # Errors
    /// 9 for a name that no variable can have.
    pub fn with_variables(variables: Vec<String>) -> Result<Self> {
        for name in &variables {
            check_variable_name(name)?;
        }
        Ok(Self {
            frame: ScopeFrame::new(variables, None),
            ..Self::default()
        })
    }

    /// Returns a scope with the variables of one more frame.
    fn bind(&self, names: Vec<String>) -> Self {
        Self {
            frame: ScopeFrame::new(names, Some(Arc::clone(&self.frame))),
            ..self.clone()
        }
    }

    /// Reads an expression.
    pub(super) fn parse(&self, expression: &Bson) -> Result<ExpressionNode> {
        if self.nodes.fetch_add(1, Ordering::Relaxed) >= NODES_MAX {
            let message = format!("the expressions have more than {NODES_MAX} parts");
            return Err(QueryError::failed_to_parse(message));
        }
        match expression {
            Bson::String(text) if text.starts_with("$$") => self.variable(&text[2..]),
            Bson::String(text) if text.starts_with('$') => self.field(&text[1..]),
            Bson::Document(document) => self.deeper()?.document(document),
            Bson::Array(items) => {
                let scope = self.deeper()?;
                let items = items.iter().map(|item| scope.parse(item));
                Ok(array(items.collect::<Result<_>>()?))
            }
            other => Ok(ExpressionNode::Literal(other.clone())),
        }
    }

    /// Counts a regular expression that is compiled.
    pub(in crate::mongo) fn count_pattern(&self) -> Result<()> {
        if self.patterns.fetch_add(1, Ordering::Relaxed) >= PATTERNS_MAX {
            let message = format!("the query has more than {PATTERNS_MAX} regular expressions");
            return Err(QueryError::failed_to_parse(message));
        }
        Ok(())
    }

    /// Counts a constant that is evaluated.
    pub(super) fn count_constant(&self, value: Option<&Bson>) -> Result<()> {
        let bytes = value.map(weigh).transpose()?.unwrap_or(0);
        let before = self.constants.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > CONSTANT_BYTES_MAX {
            let message = format!(
                "the constants of the query need more than {CONSTANT_BYTES_MAX} bytes of memory"
            );
            return Err(QueryError::located(17419, message));
        }
        Ok(())
    }

    fn deeper(&self) -> Result<Self> {
        let mut scope = self.clone();
        scope.depth += 1;
        if scope.depth > DEPTH_MAX {
            let message = format!("an expression is nested more than {DEPTH_MAX} levels deep");
            return Err(QueryError::failed_to_parse(message));
        }
        Ok(scope)
    }

    fn field(&self, path: &str) -> Result<ExpressionNode> {
        if path.is_empty() {
            let message = "the path '$' names no field; write '$field', or { $literal: \"$\" }";
            return Err(QueryError::located(16872, message));
        }
        let variable = self.find("CURRENT").unwrap_or(BoundVariable::Root);
        Ok(ExpressionNode::Variable(variable, FieldPath::parse(path)?))
    }

    fn variable(&self, text: &str) -> Result<ExpressionNode> {
        let (name, path) = match text.split_once('.') {
            Some((name, path)) => (name, FieldPath::parse(path)?),
            None => (text, FieldPath::default()),
        };
        let variable = match (self.find(name), name) {
            (_, "") => {
                let message = "the path '$$' names no variable; write '$$name'";
                return Err(QueryError::failed_to_parse(message));
            }
            (_, "ROOT") => BoundVariable::Root,
            (None, "CURRENT") => BoundVariable::Root,
            (_, "NOW") => BoundVariable::Now,
            (_, "REMOVE") => BoundVariable::Remove,
            (Some(bound), _) => bound,
            (None, _) => {
                let message = format!("there is no variable '$${name}' here");
                return Err(QueryError::located(17276, message));
            }
        };
        Ok(ExpressionNode::Variable(variable, path))
    }

    fn find(&self, name: &str) -> Option<BoundVariable> {
        let frames = std::iter::successors(Some(&self.frame), |frame| frame.outer.as_ref());
        frames.enumerate().find_map(|(frame, names)| {
            let index = *names.places.get(name)?;
            Some(BoundVariable::Bound { frame, index })
        })
    }

    fn document(&self, document: &Document) -> Result<ExpressionNode> {
        let mut fields = document.iter();
        if let (Some((name, argument)), rest) = (fields.next(), fields.next())
            && name.starts_with('$')
        {
            if rest.is_some() {
                let message = format!("the operator {name} has other fields beside it");
                return Err(QueryError::located(15983, message));
            }
            return self.operator(name, argument);
        }
        let mut object = Vec::with_capacity(document.len());
        for (name, value) in document {
            check_field_name(name)?;
            object.push((name.clone(), self.parse(value)?));
        }
        Ok(ExpressionNode::Object(object))
    }

    fn operator(&self, name: &str, argument: &Bson) -> Result<ExpressionNode> {
        if matches!(name, "$literal" | "$const") {
            return Ok(ExpressionNode::Literal(argument.clone()));
        }
        if let Some(regex) = parse_regex(name, argument, self)? {
            return Ok(ExpressionNode::Regex(Box::new(regex)));
        }
        if name == "$sortArray" {
            return Ok(ExpressionNode::Sort(Box::new(parse_sort(argument, self)?)));
        }
        if let Some(control) = parse_control(name, argument, self)? {
            return Ok(ExpressionNode::Control(Box::new(control)));
        }
        let operator = operator(name).ok_or_else(|| unknown(name))?;
        let arguments = match operator.form {
            ArgumentForm::List(at_least, at_most) => {
                let arguments = self.list(name, argument, at_least, at_most)?;
                arguments.into_iter().map(Some).collect()
            }
            ArgumentForm::Names(necessary, optional) => {
                let names = ArgumentNames::new(necessary, optional);
                self.names(name, argument, &names)?
            }
            ArgumentForm::Fallback(necessary, optional) => {
                return self.fallback(operator, argument, (necessary, optional));
            }
            ArgumentForm::DatePart => self.date_part(name, argument)?,
            ArgumentForm::FieldName => self.field_name(name, argument)?,
        };
        Ok(ExpressionNode::Call(operator, arguments))
    }

    /// Reads a list of arguments, or one argument.
    fn list(
        &self,
        name: &str,
        argument: &Bson,
        at_least: usize,
        at_most: usize,
    ) -> Result<Vec<ExpressionNode>> {
        let arguments = match argument {
            Bson::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        let count = arguments.len();
        if !(at_least..=at_most).contains(&count) {
            let (code, takes) = match (at_least, at_most) {
                (least, most) if least == most => (16020, format!("{least}")),
                (least, usize::MAX) => (28667, format!("at least {least}")),
                (least, most) => (28667, format!("{least} to {most}")),
            };
            let message = format!("{name} has {count} arguments; it takes {takes}");
            return Err(QueryError::located(code, message));
        }
        arguments.iter().map(|item| self.parse(item)).collect()
    }

    /// Reads arguments by name, in the order of the names.
    fn names(
        &self,
        operator: &str,
        argument: &Bson,
        names: &ArgumentNames,
    ) -> Result<Vec<Option<ExpressionNode>>> {
        let arguments = names.check(operator, argument)?;
        let nodes = names.all().map(|name| {
            let argument = arguments.get(name);
            argument.map(|value| self.parse(value)).transpose()
        });
        nodes.collect()
    }

    /// Reads arguments by name, with values for a null operand and, after a conversion, for one
    /// that fails.
    fn fallback(
        &self,
        operator: &'static ExpressionOperator,
        argument: &Bson,
        (necessary, optional): (&'static [&'static str], &'static [&'static str]),
    ) -> Result<ExpressionNode> {
        let names = ArgumentNames::new(necessary, optional);
        let mut arguments = self.names(operator.name, argument, &names)?;
        let mut take = |name: &str| {
            let place = names.all().position(|known| known == name)?;
            arguments.get_mut(place)?.take()
        };
        let (on_null, on_error) = (take("onNull"), take("onError"));
        Ok(ExpressionNode::Control(Box::new(
            ControlOperator::Fallback {
                operator,
                arguments,
                on_null,
                on_error,
            },
        )))
    }

    fn date_part(&self, operator: &str, argument: &Bson) -> Result<Vec<Option<ExpressionNode>>> {
        if argument.as_document().is_some_and(is_object) {
            let names = ArgumentNames::new(&["date"], &["timezone"]);
            return self.names(operator, argument, &names);
        }
        let mut date = self.list(operator, argument, 1, 1)?;
        Ok(vec![date.pop(), None])
    }

    fn field_name(&self, operator: &str, argument: &Bson) -> Result<Vec<Option<ExpressionNode>>> {
        let arguments = match argument {
            Bson::Document(arguments) if is_object(arguments) => arguments.clone(),
            field => doc! { "field": field.clone(), "input": "$$CURRENT" },
        };
        let names = ArgumentNames::new(&["field", "input"], &[]);
        if let Some(path) = arguments.get_str("field").ok()
            && path.starts_with('$')
            && !path.starts_with("$$")
        {
            let message = format!(
                "the field '{path}' of {operator} is a path; write {{ $literal: \"{path}\" }} for \
                 a field of this name"
            );
            return Err(QueryError::located(5654600, message));
        }
        self.names(operator, &Bson::Document(arguments), &names)
    }
}

/// Returns an array; one of constants is a constant, which is evaluated at once.
fn array(items: Vec<ExpressionNode>) -> ExpressionNode {
    let are_literals = items
        .iter()
        .all(|item| matches!(item, ExpressionNode::Literal(_)));
    if !are_literals {
        return ExpressionNode::Array(items);
    }
    let values = items.into_iter().filter_map(|item| match item {
        ExpressionNode::Literal(value) => Some(value),
        _ => None,
    });
    ExpressionNode::Literal(Bson::Array(values.collect()))
}

/// Returns whether a document has arguments by name, and is no operator.
fn is_object(document: &Document) -> bool {
    let first = document.keys().next();
    first.is_none_or(|name| !name.starts_with('$'))
}

/// Returns the error of an operator that is not here.
fn unknown(name: &str) -> QueryError {
    match remedy(name) {
        Some(remedy) => {
            let message = format!("the operator {name} is not supported; {remedy}");
            QueryError::not_supported(message)
        }
        None => {
            let message = format!("there is no operator {name} in expressions");
            QueryError::located(168, message)
        }
    }
}

/// Refuses the name of a field of an object that is an expression.
fn check_field_name(name: &str) -> Result<()> {
    let (code, reason) = if name.is_empty() {
        (15998, "is empty")
    } else if name.starts_with('$') {
        (16410, "begins with $, where operators stand alone")
    } else if name.contains('.') {
        (16412, "has a dot; nest objects instead")
    } else if name.contains('\0') {
        (16411, "holds a NUL character")
    } else {
        return Ok(());
    };
    let message = format!("the name '{name}' of a computed field {reason}");
    Err(QueryError::located(code, message))
}
