//! Regular expressions, compiled within bounds.
//!
//! The engine needs time linear in the text for each match, and so there is no look-around, and
//! there are no back-references.

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;

use crate::mongo::error::{QueryError, Result};
use crate::regex_steps::{TEXT_STEPS_MAX, states, steps};

/// Maximum bytes of a compiled expression.
pub(super) const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of the text of an expression, as in MongoDB.
const PATTERN_BYTES_MAX: usize = 32_764;

/// A regular expression that is not searched for in a text which would take it too long: a search
/// cannot be stopped.
#[derive(Debug)]
pub(super) struct BoundedRegex {
    compiled: Regex,
    states: u64,
}

impl BoundedRegex {
    /// Returns the expression for a text, with the steps of a search.
    ///
    /// # Errors
    /// 51156 if they are too many.
    pub(super) fn for_text(&self, text: &str) -> Result<(&Regex, usize)> {
        let steps = steps(self.states, text.len());
        if steps > TEXT_STEPS_MAX {
            let message = format!(
                "a regular expression would take {steps} steps for a text of {} bytes; the limit is {TEXT_STEPS_MAX}; use a shorter expression",
                text.len()
            );
            return Err(QueryError::located(51156, message));
        }
        Ok((&self.compiled, usize::try_from(steps).unwrap_or(usize::MAX)))
    }
}

/// Compiles an expression with MongoDB's options.
///
/// # Errors
/// `code` if the text is none, 51108 for an unknown option.
pub(super) fn compile(pattern: &str, options: &str, code: i32) -> Result<BoundedRegex> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let message = format!("a regular expression has more than {PATTERN_BYTES_MAX} bytes");
        return Err(QueryError::located(code, message));
    }
    let (mut builder, mut parser) = (RegexBuilder::new(pattern), ParserBuilder::new());
    builder.size_limit(COMPILED_BYTES_MAX);
    builder.dfa_size_limit(COMPILED_BYTES_MAX);
    for option in options.chars() {
        match option {
            'i' => {
                builder.case_insensitive(true);
                parser.case_insensitive(true);
            }
            'm' => {
                builder.multi_line(true);
                parser.multi_line(true);
            }
            's' => {
                builder.dot_matches_new_line(true);
                parser.dot_matches_new_line(true);
            }
            'x' => {
                builder.ignore_whitespace(true);
                parser.ignore_whitespace(true);
            }
            // Each text is UTF-8.
            'u' => {}
            other => {
                let message = format!("a regular expression has the unknown option '{other}'");
                return Err(QueryError::located(51108, message));
            }
        }
    }
    let compiled = builder.build().map_err(|error| refusal(&error, code))?;
    let parsed = parser.build().parse(pattern);
    let states = parsed.map_or(u64::MAX, |hir| states(&hir));
    Ok(BoundedRegex { compiled, states })
}

fn refusal(error: &regex::Error, code: i32) -> QueryError {
    let message = match error {
        regex::Error::CompiledTooBig(_) => {
            format!("a regular expression needs more than {COMPILED_BYTES_MAX} bytes, compiled")
        }
        error => format!(
            "a regular expression cannot be read: {error}; there is no look-around, and there are no back-references"
        ),
    };
    QueryError::located(code, message)
}
