//! Operators of sets ("Set Expression Operators" in MongoDB's manual): arrays without their order
//! and without what repeats in them.
//!
//! A union and an intersection are in the order of values, which the manual leaves open.

use std::collections::HashSet;

use bson::{Array, Bson};

use super::operands::misfit;
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::Result;
use crate::mongo::value::{compare, is_true, put_key};

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$setEquals", (2, usize::MAX), equals),
    ExpressionOperator::list("$setIntersection", (0, usize::MAX), intersection),
    ExpressionOperator::list("$setUnion", (0, usize::MAX), union),
    ExpressionOperator::list("$setDifference", (2, 2), difference),
    ExpressionOperator::list("$setIsSubset", (2, 2), is_subset),
    ExpressionOperator::list("$anyElementTrue", (1, 1), |values| {
        let items = first("$anyElementTrue", 17041, values)?;
        let is_any = items.iter().any(|item| is_true(Some(item)));
        Ok(Some(Bson::Boolean(is_any)))
    }),
    ExpressionOperator::list("$allElementsTrue", (1, 1), |values| {
        let items = first("$allElementsTrue", 17040, values)?;
        let are_all = items.iter().all(|item| is_true(Some(item)));
        Ok(Some(Bson::Boolean(are_all)))
    }),
];

type ValueKeys = HashSet<Vec<u8>>;

fn key(value: &Bson) -> Vec<u8> {
    let mut key = Vec::new();
    put_key(value, &mut key);
    key
}

fn keys(items: &[Bson]) -> ValueKeys {
    items.iter().map(key).collect()
}

fn array_of(name: &str, code: i32, value: Evaluated) -> Result<Array> {
    match value {
        Some(Bson::Array(items)) => Ok(items),
        other => Err(misfit(code, name, "arrays alone", other.as_ref())),
    }
}

fn first(name: &str, code: i32, mut values: Vec<Evaluated>) -> Result<Array> {
    array_of(name, code, values.pop().flatten())
}

fn equals(values: Vec<Evaluated>) -> Result<Evaluated> {
    let mut sets = Vec::with_capacity(values.len());
    for value in values {
        sets.push(keys(&array_of("$setEquals", 17044, value)?));
    }
    let are_equal = sets.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(Some(Bson::Boolean(are_equal)))
}

fn sorted(mut items: Array) -> Result<Evaluated> {
    items.sort_by(compare);
    Ok(Some(Bson::Array(items)))
}

fn intersection(values: Vec<Evaluated>) -> Result<Evaluated> {
    let mut common: Option<Array> = None;
    for value in values {
        if is_nullish(&value) {
            return Ok(Some(Bson::Null));
        }
        let mut items = array_of("$setIntersection", 17047, value)?;
        let before = common.map(|common| keys(&common));
        let mut seen = ValueKeys::new();
        items.retain(|item| {
            let key = key(item);
            before.as_ref().is_none_or(|before| before.contains(&key)) && seen.insert(key)
        });
        common = Some(items);
    }
    sorted(common.unwrap_or_default())
}

fn union(values: Vec<Evaluated>) -> Result<Evaluated> {
    let (mut all, mut seen) = (Array::new(), ValueKeys::new());
    for value in values {
        if is_nullish(&value) {
            return Ok(Some(Bson::Null));
        }
        let items = array_of("$setUnion", 17043, value)?;
        all.extend(items.into_iter().filter(|item| seen.insert(key(item))));
    }
    sorted(all)
}

fn difference(mut values: Vec<Evaluated>) -> Result<Evaluated> {
    if values.iter().any(is_nullish) {
        return Ok(Some(Bson::Null));
    }
    let right = array_of("$setDifference", 17049, values.pop().flatten());
    let mut left = array_of("$setDifference", 17048, values.pop().flatten())?;
    let mut seen = keys(&right?);
    left.retain(|item| seen.insert(key(item)));
    Ok(Some(Bson::Array(left)))
}

fn is_subset(mut values: Vec<Evaluated>) -> Result<Evaluated> {
    let right = array_of("$setIsSubset", 17042, values.pop().flatten());
    let left = array_of("$setIsSubset", 17046, values.pop().flatten())?;
    let is_subset = keys(&left).is_subset(&keys(&right?));
    Ok(Some(Bson::Boolean(is_subset)))
}
