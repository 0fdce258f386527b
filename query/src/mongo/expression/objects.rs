//! Operators of objects ("Object Expression Operators" in MongoDB's manual).

use bson::{Array, Bson, Document, doc};

use super::operands::{NULL, array_of, misfit, nth, type_name};
use super::operator::{ArgumentForm, ExpressionOperator};
use super::{Evaluated, is_nullish};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::size::encoded_bytes;

/// Maximum fields of an object that becomes an array: each pair needs many times its bytes in BSON.
const PAIRS_MAX: usize = 200_000;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$mergeObjects", (0, usize::MAX), merge),
    ExpressionOperator::list("$objectToArray", (1, 1), to_array),
    ExpressionOperator::list("$arrayToObject", (1, 1), of_array),
    ExpressionOperator::list("$bsonSize", (1, 1), size),
    ExpressionOperator {
        name: "$getField",
        form: ArgumentForm::FieldName,
        apply: field,
    },
];

fn merge(mut values: Vec<Evaluated>) -> Result<Evaluated> {
    if let [Some(Bson::Array(items))] = values.as_mut_slice() {
        let items = std::mem::take(items);
        values = items.into_iter().map(Some).collect();
    }
    let mut merged = Document::new();
    for value in values {
        match value {
            Some(Bson::Document(document)) => merged.extend(document),
            value if is_nullish(&value) => {}
            other => return Err(misfit(40400, "$mergeObjects", "objects", other.as_ref())),
        }
    }
    Ok(Some(Bson::Document(merged)))
}

fn to_array(mut values: Vec<Evaluated>) -> Result<Evaluated> {
    match values.pop().flatten() {
        Some(Bson::Document(document)) if document.len() > PAIRS_MAX => {
            let message = format!("$objectToArray makes more than {PAIRS_MAX} pairs; make fewer");
            Err(QueryError::located(17419, message))
        }
        Some(Bson::Document(document)) => {
            let pairs = document.into_iter();
            let pairs = pairs.map(|(name, value)| Bson::Document(doc! { "k": name, "v": value }));
            Ok(Some(Bson::Array(pairs.collect())))
        }
        value if is_nullish(&value) => NULL,
        other => Err(misfit(40390, "$objectToArray", "an object", other.as_ref())),
    }
}

fn of_array(mut values: Vec<Evaluated>) -> Result<Evaluated> {
    let items = array_of("$arrayToObject", 40386, values.pop().flatten())?;
    let Some(items) = items else {
        return NULL;
    };
    let mut object = Document::new();
    // The first element says in which form the others must be.
    let (are_pairs, code) = match items.first() {
        Some(Bson::Array(_)) => (true, 40396),
        Some(Bson::Document(_)) => (false, 40391),
        _ => (false, 40398),
    };
    for item in items {
        let (name, value) = match item {
            Bson::Array(pair) if are_pairs => pair_of_array(pair)?,
            Bson::Document(pair) if !are_pairs => pair_of_document(pair)?,
            other => {
                let given = type_name(Some(&other));
                let message = format!(
                    "$arrayToObject needs all elements as pairs, or all as objects of 'k' and \
                     'v', but got {given} among them"
                );
                return Err(QueryError::located(code, message));
            }
        };
        object.insert(name, value);
    }
    Ok(Some(Bson::Document(object)))
}

fn pair_of_array(pair: Array) -> Result<(String, Bson)> {
    match <[Bson; 2]>::try_from(pair) {
        Ok([Bson::String(name), value]) => Ok((checked(name)?, value)),
        Ok([other, _]) => {
            let operand = "the name of a pair of $arrayToObject";
            Err(misfit(40395, operand, "a string", Some(&other)))
        }
        Err(pair) => {
            let count = pair.len();
            let message = format!("a pair of $arrayToObject has {count} values; it needs 2");
            Err(QueryError::located(40397, message))
        }
    }
}

fn pair_of_document(mut pair: Document) -> Result<(String, Bson)> {
    if pair.len() != 2 {
        let count = pair.len();
        let message =
            format!("an object of $arrayToObject has {count} fields; it needs 'k' and 'v'");
        return Err(QueryError::located(40392, message));
    }
    match (pair.remove("k"), pair.remove("v")) {
        (Some(Bson::String(name)), Some(value)) => Ok((checked(name)?, value)),
        (Some(other), Some(_)) => {
            let operand = "the 'k' of an object of $arrayToObject";
            Err(misfit(40394, operand, "a string", Some(&other)))
        }
        _ => {
            let message = "an object of $arrayToObject needs the fields 'k' and 'v'";
            Err(QueryError::located(40393, message))
        }
    }
}

fn checked(name: String) -> Result<String> {
    if name.contains('\0') {
        let message = "a name of $arrayToObject holds a NUL character";
        return Err(QueryError::located(4940400, message));
    }
    Ok(name)
}

fn size(values: Vec<Evaluated>) -> Result<Evaluated> {
    match nth(&values, 0) {
        None | Some(Bson::Null | Bson::Undefined) => NULL,
        Some(Bson::Document(document)) => Ok(Some(Bson::Int32(encoded_bytes(document) as i32))),
        other => Err(misfit(31393, "$bsonSize", "an object", other)),
    }
}

/// `$getField`: a field by its name, which may have dots and begin with `$`.
fn field(mut values: Vec<Evaluated>) -> Result<Evaluated> {
    let input = values.pop().flatten();
    let Some(Some(Bson::String(name))) = values.first() else {
        let operand = "the 'field' of $getField";
        return Err(misfit(3041704, operand, "a string", nth(&values, 0)));
    };
    Ok(match input {
        Some(Bson::Document(mut document)) => document.remove(name),
        Some(Bson::Null | Bson::Undefined) => Some(Bson::Null),
        _ => None,
    })
}
