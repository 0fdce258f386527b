//! Reads filters.

use bson::{Bson, Document};
use regex::{Regex, RegexBuilder};

use super::predicate::{ComparedBy, Predicate};
use super::{DEPTH_MAX, DocumentCondition, NODES_MAX};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::path::FieldPath;
use crate::mongo::value::BsonNumber;

/// Maximum bytes of a compiled expression.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Names of types with their numbers in BSON.
const TYPES: [(&str, i32); 20] = [
    ("double", 1),
    ("string", 2),
    ("object", 3),
    ("array", 4),
    ("binData", 5),
    ("undefined", 6),
    ("objectId", 7),
    ("bool", 8),
    ("date", 9),
    ("null", 10),
    ("regex", 11),
    ("dbPointer", 12),
    ("javascript", 13),
    ("symbol", 14),
    ("javascriptWithScope", 15),
    ("int", 16),
    ("timestamp", 17),
    ("long", 18),
    ("decimal", 19),
    ("minKey", -1),
];
const MAX_KEY: (&str, i32) = ("maxKey", 127);
/// The types that `number` stands for.
const NUMBERS: [i32; 4] = [1, 16, 18, 19];

/// Counts the conditions of a filter.
#[derive(Debug, Default)]
pub(super) struct FilterParser {
    nodes: usize,
}

impl FilterParser {
    /// Reads the conditions of a document, all of which must hold.
    pub(super) fn document(
        &mut self,
        filter: &Document,
        depth: usize,
    ) -> Result<DocumentCondition> {
        self.enter(depth)?;
        let mut all = Vec::new();
        for (name, value) in filter {
            match name.as_str() {
                "$and" => all.push(DocumentCondition::All(self.list(name, value, depth)?)),
                "$or" => all.push(DocumentCondition::Any(self.list(name, value, depth)?)),
                "$nor" => all.push(DocumentCondition::None(self.list(name, value, depth)?)),
                "$comment" => {}
                "$expr" | "$where" | "$text" | "$jsonSchema" | "$alwaysTrue" | "$alwaysFalse" => {
                    let message = format!(
                        "{name} is not supported in filters; compare fields with values, or ask in SQL"
                    );
                    return Err(QueryError::not_supported(message));
                }
                operator if operator.starts_with('$') => {
                    let message = format!(
                        "unknown top level operator: {operator}. If you have a field name that starts with a '$' symbol, consider using $getField or $setField."
                    );
                    return Err(QueryError::bad_value(message));
                }
                field => {
                    let path = FieldPath::new(field);
                    for predicate in self.field(value, depth + 1)? {
                        all.push(DocumentCondition::Field(path.clone(), predicate));
                    }
                }
            }
        }
        Ok(match all.len() {
            1 => all.pop().expect("BUG: there is one"),
            _ => DocumentCondition::All(all),
        })
    }

    fn enter(&mut self, depth: usize) -> Result<()> {
        self.nodes += 1;
        if depth > DEPTH_MAX {
            let message = format!("the filter is nested more than {DEPTH_MAX} levels deep");
            return Err(QueryError::bad_value(message));
        }
        if self.nodes > NODES_MAX {
            let message = format!("the filter has more than {NODES_MAX} conditions");
            return Err(QueryError::bad_value(message));
        }
        Ok(())
    }

    fn list(&mut self, name: &str, value: &Bson, depth: usize) -> Result<Vec<DocumentCondition>> {
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            return Err(QueryError::bad_value(format!(
                "{name} must be a nonempty array"
            )));
        };
        let conditions = items.iter().map(|item| match item {
            Bson::Document(filter) => self.document(filter, depth + 1),
            _ => Err(QueryError::bad_value(
                "$or/$and/$nor entries need to be full objects",
            )),
        });
        conditions.collect()
    }

    /// Reads the conditions on a field: operators, or a value that it is equal to.
    fn field(&mut self, value: &Bson, depth: usize) -> Result<Vec<Predicate>> {
        match value {
            Bson::Document(operators) if is_operators(operators) => {
                self.operators(operators, depth)
            }
            Bson::RegularExpression(regex) => {
                self.enter(depth)?;
                let pattern = pattern(regex.pattern.as_str(), regex.options.as_str())?;
                Ok(vec![Predicate::Pattern(pattern)])
            }
            value => {
                self.enter(depth)?;
                Ok(vec![Predicate::Compare(ComparedBy::Eq, value.clone())])
            }
        }
    }

    fn operators(&mut self, operators: &Document, depth: usize) -> Result<Vec<Predicate>> {
        let mut predicates = Vec::new();
        for (name, value) in operators {
            self.enter(depth)?;
            let compare = |comparison| Predicate::Compare(comparison, value.clone());
            predicates.push(match name.as_str() {
                "$eq" => compare(ComparedBy::Eq),
                "$gt" => compare(ComparedBy::Gt),
                "$gte" => compare(ComparedBy::Gte),
                "$lt" => compare(ComparedBy::Lt),
                "$lte" => compare(ComparedBy::Lte),
                "$ne" => Predicate::Not(vec![compare(ComparedBy::Eq)]),
                "$in" => any_of(name, value)?,
                "$nin" => Predicate::Not(vec![any_of(name, value)?]),
                "$exists" => match crate::mongo::value::is_true(Some(value)) {
                    true => Predicate::Exists,
                    false => Predicate::Not(vec![Predicate::Exists]),
                },
                "$type" => Predicate::Type(types(value)?),
                "$regex" => Predicate::Pattern(pattern_of(value, operators.get("$options"))?),
                "$options" if operators.contains_key("$regex") => continue,
                "$options" => return Err(QueryError::bad_value("$options needs a $regex")),
                "$size" => Predicate::Size(size(value)?),
                "$mod" => modulo(value)?,
                "$elemMatch" => self.element(value, depth)?,
                "$all" => self.each(value, depth)?,
                "$not" => self.not(value, depth)?,
                "$comment" => continue,
                unknown => {
                    return Err(QueryError::bad_value(format!(
                        "unknown operator: {unknown}"
                    )));
                }
            });
        }
        Ok(predicates)
    }

    fn element(&mut self, value: &Bson, depth: usize) -> Result<Predicate> {
        let Bson::Document(inside) = value else {
            return Err(QueryError::bad_value("$elemMatch needs an Object"));
        };
        let is_logical = |name: &str| ["$and", "$or", "$nor"].contains(&name);
        let first = inside.keys().next().map(String::as_str);
        match is_operators(inside) && !first.is_some_and(is_logical) {
            true => Ok(Predicate::ElementMeets(self.operators(inside, depth + 1)?)),
            false => {
                let condition = self.document(inside, depth + 1)?;
                Ok(Predicate::ElementMatches(Box::new(condition)))
            }
        }
    }

    fn each(&mut self, value: &Bson, depth: usize) -> Result<Predicate> {
        let Bson::Array(items) = value else {
            return Err(QueryError::bad_value("$all needs an array"));
        };
        let mut each = Vec::new();
        for item in items {
            match item {
                Bson::Document(inside)
                    if inside.keys().next().is_some_and(|n| n == "$elemMatch") =>
                {
                    each.extend(self.operators(inside, depth + 1)?);
                }
                Bson::Document(inside) if is_operators(inside) => {
                    return Err(QueryError::bad_value("no $ expressions in $all"));
                }
                item => each.extend(self.field(item, depth + 1)?),
            }
        }
        Ok(Predicate::Each(each))
    }

    fn not(&mut self, value: &Bson, depth: usize) -> Result<Predicate> {
        match value {
            Bson::RegularExpression(_) => Ok(Predicate::Not(self.field(value, depth + 1)?)),
            Bson::Document(inside) if is_operators(inside) => {
                Ok(Predicate::Not(self.operators(inside, depth + 1)?))
            }
            _ => Err(QueryError::bad_value("$not needs a regex or a document")),
        }
    }
}

/// Returns whether a document has operators in the place of a value.
fn is_operators(document: &Document) -> bool {
    document
        .keys()
        .next()
        .is_some_and(|name| name.starts_with('$'))
}

fn any_of(name: &str, value: &Bson) -> Result<Predicate> {
    let Bson::Array(items) = value else {
        return Err(QueryError::bad_value(format!("{name} needs an array")));
    };
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Bson::RegularExpression(regex) => {
                patterns.push(pattern(regex.pattern.as_str(), regex.options.as_str())?);
            }
            Bson::Document(inside) if is_operators(inside) => {
                return Err(QueryError::bad_value(format!("cannot nest $ under {name}")));
            }
            item => values.push(item.clone()),
        }
    }
    Ok(Predicate::In { values, patterns })
}

fn types(value: &Bson) -> Result<Vec<i32>> {
    let of = |value: &Bson| -> Result<Vec<i32>> {
        if let Bson::String(name) = value {
            if name == "number" {
                return Ok(NUMBERS.to_vec());
            }
            let known = TYPES
                .iter()
                .chain([&MAX_KEY])
                .find(|(known, _)| known == name);
            let known = known.map(|(_, number)| vec![*number]);
            let unknown = || QueryError::bad_value(format!("Unknown type name alias: {name}"));
            return known.ok_or_else(unknown);
        }
        let number = BsonNumber::of(value).and_then(|number| number.to_integer());
        let known = |number: &i64| {
            let numbers = TYPES.iter().chain([&MAX_KEY]);
            numbers
                .map(|(_, known)| i64::from(*known))
                .any(|known| known == *number)
        };
        let wrong = || QueryError::bad_value(format!("Invalid numerical type code: {value}"));
        let number = number.filter(known).ok_or_else(wrong)?;
        Ok(vec![
            i32::try_from(number).expect("BUG: it is one of the table"),
        ])
    };
    match value {
        Bson::Array(items) if items.is_empty() => Err(QueryError::failed_to_parse(
            "$type must match at least one type",
        )),
        Bson::Array(items) => Ok(items.iter().map(of).collect::<Result<Vec<_>>>()?.concat()),
        value => of(value),
    }
}

fn size(value: &Bson) -> Result<i64> {
    let number = BsonNumber::of(value).and_then(|number| number.to_integer());
    let number = number.ok_or_else(|| {
        QueryError::failed_to_parse(format!(
            "Failed to parse $size. Expected an integer: {value}"
        ))
    })?;
    match number < 0 {
        true => Err(QueryError::bad_value(format!(
            "Failed to parse $size. Expected a non-negative number in: $size: {number}"
        ))),
        false => Ok(number),
    }
}

fn modulo(value: &Bson) -> Result<Predicate> {
    let items = value.as_array().map(Vec::as_slice);
    let Some([divisor, remainder]) = items else {
        return Err(QueryError::bad_value(
            "malformed mod, needs to be an array of two numbers",
        ));
    };
    let whole = |value: &Bson| {
        let number = match BsonNumber::of(value)? {
            BsonNumber::Double(double) => BsonNumber::Double(double.trunc()),
            number => number,
        };
        number.to_integer()
    };
    let (Some(divisor), Some(remainder)) = (whole(divisor), whole(remainder)) else {
        return Err(QueryError::bad_value(
            "malformed mod, divisor or remainder not a number",
        ));
    };
    match divisor {
        0 => Err(QueryError::bad_value("divisor cannot be 0")),
        divisor => Ok(Predicate::Modulo(divisor, remainder)),
    }
}

fn pattern_of(value: &Bson, options: Option<&Bson>) -> Result<Regex> {
    let options = match options {
        None => None,
        Some(Bson::String(options)) => Some(options.as_str()),
        Some(_) => return Err(QueryError::bad_value("$options has to be a string")),
    };
    match value {
        Bson::String(text) => pattern(text, options.unwrap_or_default()),
        Bson::RegularExpression(regex) => pattern(
            regex.pattern.as_str(),
            options.unwrap_or(regex.options.as_str()),
        ),
        _ => Err(QueryError::bad_value("$regex has to be a string")),
    }
}

fn pattern(text: &str, options: &str) -> Result<Regex> {
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(PATTERN_BYTES_MAX);
    for option in options.chars() {
        match option {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            // Every text is UTF-8.
            'u' => &mut builder,
            other => {
                let message = format!("invalid flag in regex options: {other}");
                return Err(QueryError::located(51108, message));
            }
        };
    }
    builder.build().map_err(|error| {
        QueryError::located(
            51091,
            format!("Regular expression is invalid: {error}; look-around and back-references are not supported"),
        )
    })
}
