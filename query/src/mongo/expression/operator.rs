//! Operators that evaluate all of their arguments.

use super::Evaluated;
use crate::mongo::error::Result;

/// A function of the values of arguments.
type OperatorFunction = fn(Vec<Evaluated>) -> Result<Evaluated>;

/// An operator with a function of the values of its arguments.
pub(super) struct ExpressionOperator {
    /// The name, with `$`.
    pub(super) name: &'static str,
    pub(super) form: ArgumentForm,
    /// The function. An argument by name that is not there is `None`; one that is there and is
    /// missing is null.
    pub(super) apply: OperatorFunction,
}

/// The form of the arguments of an operator.
#[derive(Debug, Clone, Copy)]
pub(super) enum ArgumentForm {
    /// A list of this many arguments at least and at most. One argument stands for a list of one.
    List(usize, usize),
    /// An object with these names; the names of the second list may be absent.
    Names(&'static [&'static str], &'static [&'static str]),
    /// As [`ArgumentForm::Names`], among the optional ones `onNull` and maybe `onError`. The
    /// function does not get these.
    Fallback(&'static [&'static str], &'static [&'static str]),
    /// A date alone, or an object of `date` and `timezone`.
    DatePart,
    /// The name of a field of `$$CURRENT`, or an object of `field` and `input`.
    FieldName,
}

impl ExpressionOperator {
    /// An operator that takes a list.
    pub(super) const fn list(
        name: &'static str,
        arguments: (usize, usize),
        apply: OperatorFunction,
    ) -> Self {
        let form = ArgumentForm::List(arguments.0, arguments.1);
        Self { name, form, apply }
    }

    /// An operator that takes arguments by name, the first ones necessary and the others not.
    pub(super) const fn names(
        name: &'static str,
        necessary: &'static [&'static str],
        optional: &'static [&'static str],
        apply: OperatorFunction,
    ) -> Self {
        let form = ArgumentForm::Names(necessary, optional);
        Self { name, form, apply }
    }

    /// An operator that takes arguments by name, and values in place of its own.
    pub(super) const fn fallback(
        name: &'static str,
        necessary: &'static [&'static str],
        optional: &'static [&'static str],
        apply: OperatorFunction,
    ) -> Self {
        let form = ArgumentForm::Fallback(necessary, optional);
        Self { name, form, apply }
    }

    /// Returns whether a missing argument is null, which tells it from one that is not there.
    pub(super) fn has_names(&self) -> bool {
        matches!(
            self.form,
            ArgumentForm::Names(..) | ArgumentForm::Fallback(..) | ArgumentForm::DatePart
        )
    }
}

impl std::fmt::Debug for ExpressionOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
