//! Reads filters.
//!
//! # Invariants
//! * Each level of conditions is counted before it is read, so that no filter can exhaust the
//!   stack.

use bson::{Bson, Document};

use super::comparison::{ComparedBy, ValueList};
use super::operands::{modulo, size, types};
use super::pattern::TextPattern;
use super::predicate::{ElementCondition, Predicate};
use super::{CONDITIONS_MAX, DEPTH_MAX, DocumentCondition, PATTERNS_MAX};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{Expression, ExpressionScope};
use crate::mongo::path::DottedPath;
use crate::mongo::value::is_true;

/// Reads the parts of one filter, and counts its conditions.
#[derive(Debug, Default)]
pub(super) struct FilterParser<'a> {
    /// The variables of `$expr`; `None` if the filter is one of elements.
    scope: Option<&'a ExpressionScope>,
    /// True within `$elemMatch`, where `$expr` cannot stand.
    is_in_element: bool,
    conditions: usize,
    /// Compiled expressions.
    patterns: usize,
}

impl<'a> FilterParser<'a> {
    /// Begins with the variables of `$expr`.
    pub(super) fn new(scope: &'a ExpressionScope) -> Self {
        Self {
            scope: Some(scope),
            ..Self::default()
        }
    }

    /// Reads the conditions of a document, all of which must hold.
    pub(super) fn document(
        &mut self,
        filter: &Document,
        depth: usize,
    ) -> Result<DocumentCondition> {
        self.enter(depth)?;
        let mut all = Vec::new();
        for (name, value) in filter {
            all.push(match name.as_str() {
                "$and" => DocumentCondition::All(self.list(name, value, depth)?),
                "$or" => DocumentCondition::Any(self.list(name, value, depth)?),
                "$nor" => DocumentCondition::None(self.list(name, value, depth)?),
                "$expr" => DocumentCondition::Expression(self.expression(value)?),
                "$comment" => continue,
                operator if operator.starts_with('$') => return Err(refused_at_top(operator)),
                field => {
                    let predicates = self.field(field, value, depth + 1)?;
                    DocumentCondition::Field(DottedPath::of_filter(field)?, predicates)
                }
            });
        }
        Ok(match all.len() {
            1 => all.pop().expect("BUG: there is one"),
            _ => DocumentCondition::All(all),
        })
    }

    fn expression(&self, value: &Bson) -> Result<Expression> {
        match self.scope {
            Some(scope) if !self.is_in_element => Expression::parse(value, scope),
            _ => Err(QueryError::bad_value(
                "$expr is within $elemMatch; it can stand beside the fields of a document alone",
            )),
        }
    }

    fn enter(&mut self, depth: usize) -> Result<()> {
        self.conditions += 1;
        if depth > DEPTH_MAX {
            let message = format!("the filter is nested more than {DEPTH_MAX} levels deep");
            return Err(QueryError::bad_value(message));
        }
        if self.conditions > CONDITIONS_MAX {
            let message = format!("the filter has more than {CONDITIONS_MAX} conditions");
            return Err(QueryError::bad_value(message));
        }
        Ok(())
    }

    fn list(&mut self, name: &str, value: &Bson, depth: usize) -> Result<Vec<DocumentCondition>> {
        let Some(items) = value.as_array() else {
            let message = format!("{name} needs an array of filters");
            return Err(QueryError::bad_value(message));
        };
        if items.is_empty() {
            let message = format!("{name} needs at least one filter");
            return Err(QueryError::bad_value(message));
        }
        let conditions = items.iter().map(|item| match item {
            Bson::Document(filter) => self.document(filter, depth + 1),
            _ => {
                let message = format!("each element of {name} must be a filter");
                Err(QueryError::bad_value(message))
            }
        });
        conditions.collect()
    }

    /// Reads the conditions on a field: operators, or a value that it is equal to.
    fn field(&mut self, field: &str, value: &Bson, depth: usize) -> Result<Vec<Predicate>> {
        match value {
            Bson::Document(operators) if is_operators(operators) => {
                self.operators(field, operators, depth)
            }
            value => Ok(vec![self.equality(value, depth)?]),
        }
    }

    /// Reads a value that a field is equal to, or an expression that it matches.
    fn equality(&mut self, value: &Bson, depth: usize) -> Result<Predicate> {
        self.enter(depth)?;
        match value {
            Bson::RegularExpression(_) => Ok(Predicate::Pattern(self.pattern(value, None)?)),
            value => comparison(ComparedBy::Eq, value),
        }
    }

    fn operators(
        &mut self,
        field: &str,
        operators: &Document,
        depth: usize,
    ) -> Result<Vec<Predicate>> {
        let mut predicates = Vec::with_capacity(operators.len());
        for (name, value) in operators {
            self.enter(depth)?;
            let not = |predicate| Predicate::Not(vec![predicate]);
            predicates.push(match name.as_str() {
                "$eq" => comparison(ComparedBy::Eq, value)?,
                "$gt" => order(ComparedBy::Gt, field, value)?,
                "$gte" => order(ComparedBy::Gte, field, value)?,
                "$lt" => order(ComparedBy::Lt, field, value)?,
                "$lte" => order(ComparedBy::Lte, field, value)?,
                "$ne" if matches!(value, Bson::RegularExpression(_)) => {
                    return Err(QueryError::bad_value(
                        "$ne takes no regular expression; use $not",
                    ));
                }
                "$ne" => not(comparison(ComparedBy::Eq, value)?),
                "$in" => self.any_of(name, value)?,
                "$nin" => not(self.any_of(name, value)?),
                "$exists" if is_true(Some(value)) => Predicate::Exists,
                "$exists" => not(Predicate::Exists),
                "$type" => Predicate::Type(types(value)?),
                "$regex" => {
                    let options = operators.get("$options");
                    Predicate::Pattern(self.pattern(value, options)?)
                }
                "$options" if operators.contains_key("$regex") => continue,
                "$options" => {
                    return Err(QueryError::bad_value("$options has no $regex beside it"));
                }
                "$size" => Predicate::Size(size(value)?),
                "$mod" => modulo(value)?,
                "$elemMatch" => Predicate::Element(self.element(value, depth)?),
                "$all" => self.each(value, depth)?,
                "$not" => self.not(field, value, depth)?,
                "$comment" => continue,
                unknown => return Err(refused_at_field(unknown)),
            });
        }
        Ok(predicates)
    }

    fn pattern(&mut self, value: &Bson, options: Option<&Bson>) -> Result<TextPattern> {
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            let message = format!("the filter has more than {PATTERNS_MAX} regular expressions");
            return Err(QueryError::bad_value(message));
        }
        if let Some(scope) = self.scope {
            scope.count_pattern()?;
        }
        TextPattern::of_operator(value, options)
    }

    fn any_of(&mut self, name: &str, value: &Bson) -> Result<Predicate> {
        let Bson::Array(items) = value else {
            return Err(QueryError::bad_value(format!("{name} needs an array")));
        };
        let (mut values, mut patterns) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                Bson::RegularExpression(_) => patterns.push(self.pattern(item, None)?),
                Bson::Document(inside) if is_operators(inside) => {
                    return Err(QueryError::bad_value(format!(
                        "{name} takes values, and no operators"
                    )));
                }
                Bson::Undefined => {
                    let message = format!("{name} takes no undefined value");
                    return Err(QueryError::bad_value(message));
                }
                item => {
                    check_depth(item)?;
                    values.push(item.clone());
                }
            }
        }
        let values = ValueList::new(values);
        Ok(Predicate::In { values, patterns })
    }

    /// Reads the operand of `$elemMatch`.
    pub(super) fn element(&mut self, operand: &Bson, depth: usize) -> Result<ElementCondition> {
        let outside = std::mem::replace(&mut self.is_in_element, true);
        let condition = self.element_without_expr(operand, depth);
        self.is_in_element = outside;
        condition
    }

    fn element_without_expr(&mut self, operand: &Bson, depth: usize) -> Result<ElementCondition> {
        let Bson::Document(inside) = operand else {
            return Err(QueryError::bad_value("$elemMatch needs a document"));
        };
        let has_fields = ["$and", "$or", "$nor", "$comment", "$expr", "$where"];
        let first = inside.keys().next().map_or("", String::as_str);
        let is_value = first.starts_with('$') && !has_fields.contains(&first);
        Ok(match is_value {
            true => ElementCondition::Value(self.operators("", inside, depth + 1)?),
            false => ElementCondition::Fields(Box::new(self.document(inside, depth + 1)?)),
        })
    }

    fn each(&mut self, value: &Bson, depth: usize) -> Result<Predicate> {
        let Bson::Array(items) = value else {
            return Err(QueryError::bad_value("$all needs an array"));
        };
        let is_of_elements = items.first().and_then(element_operand).is_some();
        let predicates = items
            .iter()
            .map(|item| match (element_operand(item), item) {
                (Some(operand), _) if is_of_elements => {
                    Ok(Predicate::Element(self.element(operand, depth + 1)?))
                }
                (None, _) if is_of_elements => Err(QueryError::bad_value(
                    "$all takes either values or conditions of $elemMatch",
                )),
                (_, Bson::Document(inside)) if is_operators(inside) => Err(QueryError::bad_value(
                    "$all takes values, and of operators $elemMatch alone",
                )),
                (_, item) => self.equality(item, depth + 1),
            });
        Ok(Predicate::Each(predicates.collect::<Result<_>>()?))
    }

    fn not(&mut self, field: &str, value: &Bson, depth: usize) -> Result<Predicate> {
        match value {
            Bson::RegularExpression(_) => {
                Ok(Predicate::Not(vec![self.equality(value, depth + 1)?]))
            }
            Bson::Document(inside) if inside.is_empty() => {
                Err(QueryError::bad_value("$not needs a condition"))
            }
            Bson::Document(inside) => {
                Ok(Predicate::Not(self.operators(field, inside, depth + 1)?))
            }
            _ => Err(QueryError::bad_value(
                "$not needs operators or a regular expression",
            )),
        }
    }
}

/// Returns the operand of an `$elemMatch` in the list of `$all`.
fn element_operand(item: &Bson) -> Option<&Bson> {
    let (name, operand) = item.as_document()?.iter().next()?;
    (name == "$elemMatch").then_some(operand)
}

/// Returns whether a document has operators in the place of a value. A reference to another
/// document, which has `$ref` and `$id`, is a value.
fn is_operators(document: &Document) -> bool {
    let first = document.keys().next();
    let is_reference = || document.contains_key("$ref") && document.contains_key("$id");
    first.is_some_and(|name| name.starts_with('$')) && !is_reference()
}

fn comparison(comparison: ComparedBy, value: &Bson) -> Result<Predicate> {
    if matches!(value, Bson::Undefined) {
        return Err(QueryError::bad_value(
            "a field cannot be compared with undefined",
        ));
    }
    check_depth(value)?;
    Ok(Predicate::Compare(comparison, value.clone()))
}

fn order(order: ComparedBy, field: &str, value: &Bson) -> Result<Predicate> {
    if matches!(value, Bson::RegularExpression(_)) {
        let message = format!("'{field}' has no order against a regular expression");
        return Err(QueryError::bad_value(message));
    }
    comparison(order, value)
}

/// Refuses a value that is too deep to be compared within the stack.
fn check_depth(value: &Bson) -> Result<()> {
    match is_deeper(value, DEPTH_MAX) {
        true => {
            let message = format!("a value is nested more than {DEPTH_MAX} levels deep");
            Err(QueryError::bad_value(message))
        }
        false => Ok(()),
    }
}

fn is_deeper(value: &Bson, levels: usize) -> bool {
    let inside = |value: &Bson| is_deeper(value, levels - 1);
    match value {
        Bson::Document(_) | Bson::Array(_) if levels == 0 => true,
        Bson::Document(document) => document.values().any(inside),
        Bson::Array(items) => items.iter().any(inside),
        _ => false,
    }
}

fn refused_at_top(operator: &str) -> QueryError {
    let remedy = match operator {
        "$where" => "write the condition with query operators, or ask in SQL",
        "$text" => "use $regex",
        "$jsonSchema" => "use $type and $exists",
        "$sampleRate" | "$alwaysTrue" | "$alwaysFalse" => "ask in SQL",
        _ => {
            return QueryError::bad_value(format!(
                "unknown top level operator: {operator}; $and, $or and $nor join filters"
            ));
        }
    };
    QueryError::not_supported(format!("{operator} is not supported; {remedy}"))
}

fn refused_at_field(operator: &str) -> QueryError {
    let remedy = match operator {
        "$near" | "$nearSphere" | "$geoNear" | "$geoWithin" | "$geoIntersects" | "$within" => {
            "compare the coordinates with $gte and $lte"
        }
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => "use $mod or SQL",
        _ => return QueryError::bad_value(format!("unknown operator: {operator}")),
    };
    QueryError::not_supported(format!("{operator} is not supported; {remedy}"))
}
