//! A checked text.

use promql_parser::label::Matcher;
use promql_parser::parser::{self, Expr};

use super::error::{PromqlError, Result};
use super::needs::{self, Need};
use crate::promql::Steps;

/// Most operators and parentheses of a text: each may be one level of recursion.
pub(super) const OPERATORS_MAX: usize = 200;
/// Most bytes of a text.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A query.
#[derive(Debug)]
pub(crate) struct Query {
    /// On the heap: selectors are known by their addresses, which a move must not change.
    pub(super) expr: Box<Expr>,
}

impl Query {
    /// Parses a text.
    ///
    /// # Errors
    /// If it is too long, or not of the language.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let bad = |message: String| PromqlError::BadData(message);
        if text.len() > TEXT_BYTES_MAX {
            let bytes = text.len();
            return Err(bad(format!(
                "the query has {bytes} bytes; the limit is {TEXT_BYTES_MAX}"
            )));
        }
        let operators = operators(text);
        if operators > OPERATORS_MAX {
            return Err(bad(format!(
                "the query has {operators} operators and parentheses; the limit is {OPERATORS_MAX}"
            )));
        }
        let expr = parser::parse(text);
        let expr = expr.map_err(|why| bad(format!("invalid parameter \"query\": {why}")))?;
        needs::check(&expr)?;
        let expr = Box::new(expr);
        Ok(Self { expr })
    }

    /// Returns the series that an evaluation reads.
    ///
    /// # Errors
    /// If a subquery has too many steps.
    pub(crate) fn needs(&self, steps: Steps) -> Result<Vec<Need>> {
        needs::of(&self.expr, steps)
    }

    /// Returns the text in its canonical layout.
    pub(crate) fn formatted(&self) -> String {
        self.expr.prettify()
    }

    /// Returns whether the answer is one vector for each step.
    pub(crate) fn is_matrix(&self) -> bool {
        let mut expr = &*self.expr;
        while let Expr::Paren(inner) = expr {
            expr = &inner.expr;
        }
        matches!(expr, Expr::MatrixSelector(_) | Expr::Subquery(_))
    }
}

/// Returns the matchers of a text that is one selector, its name among them.
///
/// # Errors
/// If it is none.
pub(crate) fn selector_matchers(text: &str) -> Result<Vec<Matcher>> {
    match *Query::parse(text)?.expr {
        Expr::VectorSelector(selector) if selector.at.is_none() && selector.offset.is_none() => {
            Ok(needs::matchers_of(&selector))
        }
        _ => Err(PromqlError::BadData(format!(
            "invalid parameter \"match[]\": {text} is not a selector"
        ))),
    }
}

/// Counts what may be a level of recursion: characters of operators and opening brackets outside
/// of texts, comments and the braces of selectors, and the operators that are words.
fn operators(text: &str) -> usize {
    let (mut count, mut in_braces) = (0, false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' => drop(chars.find(|c| *c == '\n')),
            '"' | '\'' | '`' => {
                while let Some(inner) = chars.next() {
                    match inner {
                        '\\' if c != '`' => drop(chars.next()),
                        end if end == c => break,
                        _ => {}
                    }
                }
            }
            '{' => in_braces = true,
            '}' => in_braces = false,
            '+' | '-' | '*' | '/' | '%' | '^' | '=' | '<' | '>' | '(' | '[' if !in_braces => {
                count += 1;
            }
            _ => {}
        }
    }
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_operator = |word: &&str| {
        ["and", "or", "unless", "atan2"]
            .iter()
            .any(|operator| word.eq_ignore_ascii_case(operator))
    };
    count + words.filter(is_operator).count()
}
