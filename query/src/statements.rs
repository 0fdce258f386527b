//! Texts of several statements: where one ends and the next begins.
//!
//! The tokens are those of the engine's own parser, so that a semicolon in a quoted text, in a
//! dollar-quoted text or in a comment ends nothing.
//!
//! # Invariants
//! * A piece is `text[start..][..piece.text.len()]` of the text that it was cut from.
//! * Time and memory are proportional to the length of the text, whatever the text is.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{
    Location, Token, TokenWithSpan, Tokenizer, TokenizerError,
};

use crate::error::{Error, Result};

/// Beginnings of the tokenizer's messages about a token without its end.
const UNTERMINATED: [&str; 3] = ["Unterminated", "Unexpected EOF", "Expected close delimiter"];

/// One statement of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementText {
    /// The statement with its comments, without its semicolon and the white space around it.
    pub text: String,
    /// Offset of the statement in the whole text, bytes.
    pub start: usize,
    /// Line of its first token that is no comment, from 1.
    pub line: u64,
}

/// Splits a text into its statements. Statements without any token but comments are left out.
///
/// # Errors
/// [`Error::Invalid`] when a quoted text or a comment does not end, or a token cannot be read: then
/// nobody can tell where the statements end.
pub fn split(text: &str) -> Result<Vec<StatementText>> {
    let tokens = tokens(text).map_err(|error| invalid(&error))?;
    let mut place = Position::of(text);
    let mut pieces = Vec::new();
    let (mut from, mut line) = (0, None);
    for token in &tokens {
        match token.token {
            Token::Whitespace(_) => {}
            Token::SemiColon => {
                let end = place.offset(token.span.start);
                pieces.extend(line.take().map(|line| piece(text, from, end, line)));
                from = end + 1;
            }
            _ => line = line.or(Some(token.span.start.line)),
        }
    }
    pieces.extend(line.map(|line| piece(text, from, text.len(), line)));
    Ok(pieces)
}

/// Returns whether a text consists of whole statements, each with its semicolon, so that an
/// interactive session can run it. A text that no further line can mend is complete too: its error
/// is the answer.
pub fn is_complete(text: &str) -> bool {
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(error) => return !is_unterminated(&error),
    };
    let mut tokens = tokens.iter().map(|token| &token.token);
    let last = tokens.rfind(|token| !matches!(token, Token::Whitespace(_)));
    last.is_none_or(|token| *token == Token::SemiColon)
}

/// Returns the tokens with their places.
fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    // The tokenizer takes the content of `/*! … */` for tokens, at wrong places. As an ordinary
    // comment of the same length it ends no statement.
    let text = text.replace("/*!", "/* ");
    Tokenizer::new(&GenericDialect {}, &text).tokenize_with_location()
}

fn is_unterminated(error: &TokenizerError) -> bool {
    let mut beginnings = UNTERMINATED.iter();
    beginnings.any(|beginning| error.message.starts_with(beginning))
}

fn invalid(error: &TokenizerError) -> Error {
    let Location { line, column } = error.location;
    Error::invalid(format!("{} at line {line}, column {column}", error.message))
}

fn piece(text: &str, from: usize, end: usize, line: u64) -> StatementText {
    let cut = &text[from..end];
    StatementText {
        text: cut.trim().to_owned(),
        start: from + (cut.len() - cut.trim_start().len()),
        line,
    }
}

/// A place in a text that only moves forward.
struct Position<'a> {
    rest: std::str::Chars<'a>,
    length: usize,
    at: Location,
}

impl<'a> Position<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            rest: text.chars(),
            length: text.len(),
            at: Location::new(1, 1),
        }
    }

    /// Moves to a line and column, counted as the tokenizer does, and returns the offset in bytes.
    fn offset(&mut self, to: Location) -> usize {
        while self.at < to {
            match self.rest.next() {
                Some('\n') => self.at = Location::new(self.at.line + 1, 1),
                Some(_) => self.at.column += 1,
                None => break,
            }
        }
        self.length - self.rest.as_str().len()
    }
}

#[cfg(test)]
mod tests;
