//! Parses a query. Errors name the operator and its position.

mod metric;
mod stage;

use super::ast::{Expr, LogQuery, MatchOp, Matcher};
use super::lexer::{LogqlToken, Spanned, TextFault, tokens};
use crate::error::{Error, Fault as Class, Result};

/// Longest query, bytes.
const BYTES_MAX: usize = 64 << 10;
/// Deepest nesting of brackets and operators.
const DEPTH_MAX: usize = 64;
/// Most stages of a pipeline, operands of a metric query, and terms of a condition, together.
const NODES_MAX: usize = 1000;

type Parse<T> = std::result::Result<T, TextFault>;

/// Parses a query.
///
/// # Errors
/// [`Error::Invalid`] naming what is wrong or not supported, with line and column.
pub fn parse(text: &str) -> Result<Expr> {
    if text.len() > BYTES_MAX {
        return Err(Error::invalid(format!(
            "the LogQL query has {} bytes; the limit is {BYTES_MAX}",
            text.len()
        )));
    }
    let parsed = tokens(text).and_then(|tokens| {
        let mut parser = LogqlParser {
            tokens,
            next: 0,
            depth: 0,
            nodes: 0,
        };
        let expr = parser.expr()?;
        match parser.peek() {
            LogqlToken::End => Ok(expr),
            _ => Err(parser.unexpected("the end of the query")),
        }
    });
    parsed.map_err(|fault| {
        let before = &text[..fault.at.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        let message = format!("LogQL, line {line}, column {column}: {}", fault.message);
        Error::of_fault(Class::Syntax, message)
    })
}

/// A position in the tokens of a query.
struct LogqlParser {
    tokens: Vec<Spanned>,
    next: usize,
    depth: usize,
    nodes: usize,
}

impl LogqlParser {
    fn peek(&self) -> &LogqlToken {
        &self.tokens[self.next].token
    }

    /// Returns the token after the next one.
    fn peek_second(&self) -> &LogqlToken {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.next + 1).min(last)].token
    }

    fn at(&self) -> usize {
        self.tokens[self.next].at
    }

    fn advance(&mut self) -> LogqlToken {
        let token = self.peek().clone();
        // The last token is the end, which remains.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn fault<T>(&self, message: impl Into<String>) -> Parse<T> {
        Err(TextFault::new(self.at(), message))
    }

    fn unexpected(&self, wanted: &str) -> TextFault {
        let found = match self.peek() {
            LogqlToken::End => "the query ends".to_owned(),
            token => format!("found {}", shown(token)),
        };
        TextFault::new(self.at(), format!("expected {wanted}, {found}"))
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), LogqlToken::Sign(found) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), LogqlToken::Word(found) if found == word)
    }

    /// Takes a sign, if it comes next.
    fn takes(&mut self, sign: &str) -> bool {
        let is_next = self.is_sign(sign);
        if is_next {
            self.advance();
        }
        is_next
    }

    /// Takes a word, if it comes next.
    fn takes_word(&mut self, word: &str) -> bool {
        let is_next = self.is_word(word);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn expect(&mut self, sign: &str) -> Parse<()> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.unexpected(sign)),
        }
    }

    fn word(&mut self, wanted: &str) -> Parse<String> {
        match self.peek().clone() {
            LogqlToken::Word(word) => {
                self.advance();
                Ok(word)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn text(&mut self, wanted: &str) -> Parse<String> {
        match self.peek().clone() {
            LogqlToken::Text(text) => {
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    /// Counts a node of the tree, so that its size is bounded.
    fn count(&mut self) -> Parse<()> {
        self.nodes += 1;
        match self.nodes > NODES_MAX {
            true => self.fault(format!("the query has more than {NODES_MAX} operators")),
            false => Ok(()),
        }
    }

    /// Runs `parse` one level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        self.count()?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fault(format!("the query nests deeper than {DEPTH_MAX} levels"));
        }
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    fn expr(&mut self) -> Parse<Expr> {
        // A log query may stand in brackets.
        let opening = self.tokens[self.next..].iter();
        let opening = opening
            .take_while(|t| t.token == LogqlToken::Sign("("))
            .count();
        let first = self.tokens.get(self.next + opening).map(|t| &t.token);
        if first == Some(&LogqlToken::Sign("{")) {
            return self.log_query().map(Expr::Log);
        }
        self.metric().map(Expr::Metric)
    }

    /// Parses a log query, maybe in brackets.
    fn log_query(&mut self) -> Parse<LogQuery> {
        if self.takes("(") {
            let query = self.deeper(Self::log_query)?;
            self.expect(")")?;
            return Ok(query);
        }
        let matchers = self.selector()?;
        let stages = self.stages()?;
        Ok(LogQuery { matchers, stages })
    }

    /// Parses `{a="b", c=~"d"}`.
    fn selector(&mut self) -> Parse<Vec<Matcher>> {
        self.expect("{")?;
        let mut matchers = Vec::new();
        while !self.takes("}") {
            self.count()?;
            let label = self.word("a label or }")?;
            let Some(op) = self.match_op() else {
                return Err(self.unexpected("=, !=, =~ or !~"));
            };
            let at = self.at();
            let value = self.text("a text in quotes")?;
            check_pattern(op, &value, at)?;
            matchers.push(Matcher { label, op, value });
            if !self.is_sign("}") {
                self.expect(",")?;
            }
        }
        Ok(matchers)
    }

    /// Takes an operator between a label and a text.
    fn match_op(&mut self) -> Option<MatchOp> {
        let op = match self.peek() {
            LogqlToken::Sign("=") => MatchOp::Equal,
            LogqlToken::Sign("!=") => MatchOp::NotEqual,
            LogqlToken::Sign("=~") => MatchOp::Matches,
            LogqlToken::Sign("!~") => MatchOp::NotMatches,
            _ => return None,
        };
        self.advance();
        Some(op)
    }
}

/// Checks the regular expression of a comparison.
fn check_pattern(op: MatchOp, pattern: &str, at: usize) -> Parse<()> {
    match op {
        MatchOp::Matches | MatchOp::NotMatches => check_regex(pattern, at),
        MatchOp::Equal | MatchOp::NotEqual => Ok(()),
    }
}

/// Checks a regular expression.
fn check_regex(pattern: &str, at: usize) -> Parse<()> {
    match super::pattern::compiled(pattern) {
        Ok(_) => Ok(()),
        Err(why) => Err(TextFault::new(at, format!("the regular expression: {why}"))),
    }
}

/// Formats a token for an error.
fn shown(token: &LogqlToken) -> String {
    match token {
        LogqlToken::Word(word) => word.clone(),
        LogqlToken::Text(text) => format!("the text {text:?}"),
        LogqlToken::Number(number) => number.to_string(),
        LogqlToken::Duration(_) => "a duration".to_owned(),
        LogqlToken::Bytes(_) => "a size".to_owned(),
        LogqlToken::Sign(sign) => (*sign).to_owned(),
        LogqlToken::End => "the end".to_owned(),
    }
}
