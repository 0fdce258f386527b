//! Regular expressions, compiled within bounds.
//!
//! The engine needs time linear in the text for each match, and so there is no look-around, and
//! there are no back-references.

use regex::{Regex, RegexBuilder};

use crate::mongo::error::{QueryError, Result};

/// Maximum bytes of a compiled expression.
pub(super) const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of the text of an expression, as in MongoDB.
const PATTERN_BYTES_MAX: usize = 32_764;

/// Compiles an expression with MongoDB's options.
///
/// # Errors
/// `code` if the text is none, 51108 for an unknown option.
pub(super) fn compile(pattern: &str, options: &str, code: i32) -> Result<Regex> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let message = format!("a regular expression has more than {PATTERN_BYTES_MAX} bytes");
        return Err(QueryError::located(code, message));
    }
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(COMPILED_BYTES_MAX);
    builder.dfa_size_limit(COMPILED_BYTES_MAX);
    for option in options.chars() {
        match option {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            // Each text is UTF-8.
            'u' => &mut builder,
            other => {
                let message = format!("a regular expression has the unknown option '{other}'");
                return Err(QueryError::located(51108, message));
            }
        };
    }
    builder.build().map_err(|error| refusal(&error, code))
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
