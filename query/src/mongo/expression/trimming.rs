//! `$trim`, `$ltrim` and `$rtrim`.

use std::collections::HashSet;

use bson::Bson;

use super::operands::{misfit, nth};
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::Result;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::names("$trim", &["input"], &["chars"], |values| {
        trim("$trim", &values, |text, set| text.trim_matches(set))
    }),
    ExpressionOperator::names("$ltrim", &["input"], &["chars"], |values| {
        trim("$ltrim", &values, |text, set| text.trim_start_matches(set))
    }),
    ExpressionOperator::names("$rtrim", &["input"], &["chars"], |values| {
        trim("$rtrim", &values, |text, set| text.trim_end_matches(set))
    }),
];

/// Cuts characters from a text; the function says which.
type CutFunction = for<'a> fn(&'a str, &dyn Fn(char) -> bool) -> &'a str;

/// The characters that are cut without `chars` ("Whitespace Characters" in the manual of `$trim`).
const WHITESPACE: [char; 20] = [
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}',
];

fn trim(name: &str, values: &[Evaluated], cut: CutFunction) -> Result<Evaluated> {
    let input = match values.first() {
        Some(Some(Bson::String(text))) => text,
        Some(value) if is_nullish(value) => return Ok(Some(Bson::Null)),
        _ => {
            let operand = format!("the 'input' of {name}");
            return Err(misfit(50699, &operand, "a string", nth(values, 0)));
        }
    };
    let text = match values.get(1) {
        None | Some(None) => cut(input, &|c| WHITESPACE.contains(&c)),
        Some(Some(Bson::String(characters))) => {
            // Both texts may be long.
            let characters: HashSet<char> = characters.chars().collect();
            cut(input, &|c| characters.contains(&c))
        }
        Some(value) if is_nullish(value) => return Ok(Some(Bson::Null)),
        _ => {
            let operand = format!("the 'chars' of {name}");
            return Err(misfit(50700, &operand, "a string", nth(values, 1)));
        }
    };
    Ok(Some(Bson::String(text.to_owned())))
}
