//! Reads the operators whose arguments are prepared before the first document.

use bson::Bson;

use super::{ArgumentNames, ExpressionScope};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::ExpressionNode;
use crate::mongo::expression::patterns::{RegexOperator, RegexResult};
use crate::mongo::expression::sorting::{ArrayOrder, ArraySorter};
use crate::mongo::sort::{Sort, is_descending};

const REGEX: ArgumentNames = ArgumentNames::new(&["input", "regex"], &["options"]);
const SORT: ArgumentNames = ArgumentNames::new(&["input", "sortBy"], &[]);

/// Reads an operator of regular expressions; `None` if it is not one.
pub(super) fn parse_regex(
    name: &str,
    argument: &Bson,
    scope: &ExpressionScope,
) -> Result<Option<RegexOperator>> {
    let result = match name {
        "$regexMatch" => RegexResult::IsMatch,
        "$regexFind" => RegexResult::First,
        "$regexFindAll" => RegexResult::All,
        _ => return Ok(None),
    };
    let mut nodes = scope.names(name, argument, &REGEX)?.into_iter();
    let mut next = || nodes.next().flatten();
    let (input, regex, options) = (next(), next(), next());
    let input = input.expect("BUG: necessary names are checked");
    let regex = regex.expect("BUG: necessary names are checked");
    scope.count_pattern()?;
    RegexOperator::new(result, input, regex, options).map(Some)
}

/// Reads `$sortArray`.
pub(super) fn parse_sort(argument: &Bson, scope: &ExpressionScope) -> Result<ArraySorter> {
    let arguments = SORT.check("$sortArray", argument)?;
    let input: ExpressionNode = scope.parse(&arguments["input"])?;
    let order = match &arguments["sortBy"] {
        Bson::Document(fields) if fields.is_empty() => {
            let message = "the 'sortBy' of $sortArray has no field; name one, or write 1 or -1";
            return Err(QueryError::located(2942503, message));
        }
        Bson::Document(fields) => ArrayOrder::Fields(Sort::parse(fields)?),
        direction => match is_descending("$sortArray", direction) {
            Ok(is_descending) => ArrayOrder::Values { is_descending },
            Err(_) => {
                let message =
                    "the 'sortBy' of $sortArray needs 1 or -1, or an object of fields with those";
                return Err(QueryError::located(2942504, message));
            }
        },
    };
    Ok(ArraySorter { input, order })
}
