//! Regular expressions of filters.

use bson::Bson;

use crate::mongo::error::{QueryError, Result};
use crate::mongo::pattern::{BoundedRegex, compile};

/// A regular expression with its options.
#[derive(Debug)]
pub(super) struct TextPattern {
    compiled: BoundedRegex,
    pattern: String,
    options: String,
}

impl TextPattern {
    pub(super) fn new(pattern: &str, options: &str) -> Result<Self> {
        if pattern.contains('\0') {
            let message = "a regular expression holds a NUL character";
            return Err(QueryError::bad_value(message));
        }
        Ok(Self {
            compiled: compile(pattern, options, 51091)?,
            pattern: pattern.to_owned(),
            options: options.to_owned(),
        })
    }

    /// Reads `$regex`, whose options stand beside it or are its own.
    pub(super) fn of_operator(value: &Bson, options: Option<&Bson>) -> Result<Self> {
        let options = match options {
            None => None,
            Some(Bson::String(options)) => Some(options.as_str()),
            Some(_) => return Err(QueryError::bad_value("$options needs a text")),
        };
        match value {
            Bson::String(pattern) => Self::new(pattern, options.unwrap_or_default()),
            Bson::RegularExpression(regex) => {
                let own = regex.options.as_str();
                if options.is_some() && !own.is_empty() {
                    let message = "a regular expression has options of its own and in $options";
                    return Err(QueryError::located(51075, message));
                }
                Self::new(regex.pattern.as_str(), options.unwrap_or(own))
            }
            _ => Err(QueryError::bad_value(
                "$regex needs a text or a regular expression",
            )),
        }
    }

    /// Returns whether a text matches, with the steps that this took. A stored expression does if
    /// it is the same.
    ///
    /// # Errors
    /// 51156 if the steps would be too many.
    pub(super) fn matches(&self, value: &Bson) -> Result<(bool, usize)> {
        Ok(match value {
            Bson::String(text) | Bson::Symbol(text) => {
                let (regex, steps) = self.compiled.for_text(text)?;
                (regex.is_match(text), steps)
            }
            Bson::RegularExpression(regex) => {
                let is_same = regex.pattern.as_str() == self.pattern
                    && regex.options.as_str() == self.options;
                (is_same, 0)
            }
            _ => (false, 0),
        })
    }
}
