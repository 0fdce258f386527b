//! Classifies the errors of a query that is wrong in itself, for protocols that have a code for
//! each class.
//!
//! The class follows from the type of the error where there is one. DataFusion has one type for
//! many faults of planning and running; [`SENTENCES`] tells these apart by its words.

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

/// The fault of a query that is wrong in itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fault {
    /// The text is no statement.
    Syntax,
    /// There is no such table.
    NoTable,
    /// There is no such column.
    NoColumn,
    /// Several tables have the column.
    AmbiguousColumn,
    /// There is no such function.
    NoFunction,
    /// An operator or a function does not take a value of that type.
    WrongType,
    /// A division by zero.
    DivisionByZero,
    /// A number does not fit its type.
    OutOfRange,
    /// A text is no number, date or time.
    BadText,
    /// The statement uses a part of SQL that does not exist here.
    NotSupported,
    /// The statement would write.
    ReadOnly,
    /// A parameter has no value, or one that does not fit.
    BadParameter,
    /// Any other fault.
    #[default]
    Other,
}

/// Words of DataFusion and arrow 59 that nothing but their text tells apart.
pub(super) const SENTENCES: [(&str, Fault); 17] = [
    ("Invalid function '", Fault::NoFunction),
    ("table function '", Fault::NoFunction),
    ("' not found", Fault::NoTable),
    ("No function matches the given name", Fault::WrongType),
    ("does not support zero arguments", Fault::WrongType),
    ("Failed to coerce arguments", Fault::WrongType),
    ("Cannot infer common argument type", Fault::WrongType),
    ("Cannot coerce", Fault::WrongType),
    ("Cannot cast", Fault::WrongType),
    ("Unsupported CAST", Fault::WrongType),
    ("value found for placeholder", Fault::BadParameter),
    ("was not provided a value", Fault::BadParameter),
    ("Error parsing timestamp", Fault::BadText),
    ("Divide by zero", Fault::DivisionByZero),
    ("Overflow happened", Fault::OutOfRange),
    ("failed to resolve schema", Fault::NoTable),
    ("failed to resolve catalog", Fault::NoTable),
];

/// Words of a cast of a number that does not fit, for which arrow has no type of its own.
pub(super) const NO_ROOM: &str = "Can't cast value";

/// Returns the fault of an error.
pub(super) fn of(error: &DataFusionError) -> Fault {
    match error {
        DataFusionError::SQL(..) => Fault::Syntax,
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound { .. } => Fault::NoColumn,
            SchemaError::AmbiguousReference { .. }
            | SchemaError::DuplicateQualifiedField { .. }
            | SchemaError::DuplicateUnqualifiedField { .. } => Fault::AmbiguousColumn,
        },
        DataFusionError::NotImplemented(_) => Fault::NotSupported,
        DataFusionError::ArrowError(error, _) => match &**error {
            ArrowError::DivideByZero => Fault::DivisionByZero,
            ArrowError::ArithmeticOverflow(_) => Fault::OutOfRange,
            ArrowError::CastError(text) if text.starts_with(NO_ROOM) => Fault::OutOfRange,
            ArrowError::CastError(_) | ArrowError::ParseError(_) => Fault::BadText,
            ArrowError::NotYetImplemented(_) => Fault::NotSupported,
            _ => Fault::Other,
        },
        other => of_words(&other.strip_backtrace()),
    }
}

fn of_words(text: &str) -> Fault {
    let mut found = SENTENCES.iter();
    let found = found.find(|(words, _)| text.contains(words));
    found.map_or(Fault::Other, |(_, fault)| *fault)
}
