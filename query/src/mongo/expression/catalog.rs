//! The operators by their names.

use super::operator::ExpressionOperator;
use super::{arithmetic, arrays, comparison, conversion, dates, elements, logarithms, objects};
use super::{places, replacing, sets, strings, summary, trimming};

/// Returns the operators.
pub(super) fn operators() -> impl Iterator<Item = &'static ExpressionOperator> {
    const TABLES: [&[ExpressionOperator]; 15] = [
        arithmetic::OPERATORS,
        arrays::OPERATORS,
        comparison::OPERATORS,
        conversion::OPERATORS,
        dates::OPERATORS,
        dates::PART_OPERATORS,
        elements::OPERATORS,
        logarithms::OPERATORS,
        objects::OPERATORS,
        places::OPERATORS,
        replacing::OPERATORS,
        sets::OPERATORS,
        strings::OPERATORS,
        summary::OPERATORS,
        trimming::OPERATORS,
    ];
    TABLES.iter().flat_map(|table| table.iter())
}

/// Returns the operator of a name with `$`.
pub(super) fn operator(name: &str) -> Option<&'static ExpressionOperator> {
    operators().find(|operator| operator.name == name)
}

/// Returns the remedy for an operator of MongoDB that is not here; `None` if MongoDB has none of
/// this name.
pub(super) fn remedy(name: &str) -> Option<&'static str> {
    Some(match name {
        "$rand" | "$sampleRate" => "take a part of the documents with a condition on a field",
        "$function" | "$accumulator" | "$where" => "no JavaScript runs here; use other operators",
        "$meta" => "there is no text index here; use $regexMatch",
        "$bitAnd" | "$bitOr" | "$bitXor" | "$bitNot" => "use $mod and $floor, or ask in SQL",
        "$binarySize" | "$toUUID" | "$toHashedIndexKey" => "there is no such operator for bytes",
        "$sin" | "$cos" | "$tan" | "$asin" | "$acos" | "$atan" | "$atan2" | "$sinh" | "$cosh"
        | "$tanh" | "$asinh" | "$acosh" | "$atanh" | "$degreesToRadians" | "$radiansToDegrees"
        | "$sigmoid" => "ask in SQL, which has trigonometry",
        _ => return None,
    })
}
