//! Words, names, texts and marks of a statement, one after the other.

use crate::postgres::error::{Result, SqlError, state};

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lexeme<'a> {
    /// A name without quotes, or a keyword.
    Word(&'a str),
    /// A name in quotes.
    Quoted(String),
    /// A text in single quotes.
    Text(String),
    Number(&'a str),
    Mark(char),
}

/// A statement that is read from its beginning.
#[derive(Debug, Clone)]
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn left(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            let left = self.left();
            let trimmed = left.trim_start();
            self.at += left.len() - trimmed.len();
            let comment = match trimmed {
                line if line.starts_with("--") => line.find('\n').unwrap_or(line.len()),
                block if block.starts_with("/*") => comment_bytes(block),
                _ => return,
            };
            self.at += comment;
        }
    }

    /// Returns the next token without taking it.
    pub(super) fn peek(&self) -> Option<Lexeme<'a>> {
        self.clone().next()
    }

    /// Takes the next token; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Lexeme<'a>> {
        self.skip();
        let left = self.left();
        let first = left.chars().next()?;
        let is_word = |c: char| c == '_' || c == '$' || c.is_alphanumeric();
        let while_is = |is: &dyn Fn(char) -> bool| left.find(|c| !is(c)).unwrap_or(left.len());
        let (token, bytes) = match first {
            '\'' => quoted(left, '\'').map(|(text, bytes)| (Lexeme::Text(text), bytes))?,
            '"' => quoted(left, '"').map(|(text, bytes)| (Lexeme::Quoted(text), bytes))?,
            '0'..='9' => {
                let bytes = while_is(&|c| c.is_ascii_alphanumeric() || c == '.');
                (Lexeme::Number(&left[..bytes]), bytes)
            }
            c if is_word(c) => {
                let bytes = while_is(&is_word);
                (Lexeme::Word(&left[..bytes]), bytes)
            }
            mark => (Lexeme::Mark(mark), mark.len_utf8()),
        };
        self.at += bytes;
        Some(token)
    }

    /// Takes a keyword if it is the next token.
    pub(super) fn take(&mut self, keyword: &str) -> bool {
        let is_next =
            matches!(self.peek(), Some(Lexeme::Word(word)) if word.eq_ignore_ascii_case(keyword));
        if is_next {
            self.next();
        }
        is_next
    }

    /// Takes a mark if it is the next token.
    pub(super) fn take_mark(&mut self, mark: char) -> bool {
        let is_next = self.peek() == Some(Lexeme::Mark(mark));
        if is_next {
            self.next();
        }
        is_next
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.peek().is_none()
    }

    /// Takes a keyword.
    pub(super) fn expect(&mut self, keyword: &str) -> Result<()> {
        match self.take(keyword) {
            true => Ok(()),
            false => Err(self.wrong(keyword)),
        }
    }

    pub(super) fn expect_end(&mut self) -> Result<()> {
        match self.is_at_end() {
            true => Ok(()),
            false => Err(self.wrong("the end of the statement")),
        }
    }

    /// Takes the rest as it stands.
    pub(super) fn rest(&mut self) -> &'a str {
        let rest = self.left().trim();
        self.at = self.text.len();
        rest
    }

    /// Takes a name: in lower case without quotes.
    pub(super) fn name(&mut self) -> Result<String> {
        match self.peek() {
            Some(Lexeme::Word(word)) => {
                self.next();
                Ok(word.to_lowercase())
            }
            Some(Lexeme::Quoted(name)) => {
                self.next();
                Ok(name)
            }
            _ => Err(self.wrong("a name")),
        }
    }

    /// Takes the name of a setting.
    pub(super) fn dotted_name(&mut self) -> Result<String> {
        let mut name = self.name()?;
        while self.take_mark('.') {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name)
    }

    /// Takes the name of a table as it stands.
    pub(super) fn relation(&mut self) -> Result<&'a str> {
        self.skip();
        let from = self.at;
        self.name()?;
        while self.take_mark('.') {
            self.name()?;
        }
        Ok(&self.text[from..self.at])
    }

    /// Takes the text in parentheses that comes next, if it does.
    pub(super) fn parenthesis(&mut self) -> Result<Option<&'a str>> {
        if !self.take_mark('(') {
            return Ok(None);
        }
        let from = self.at;
        let mut depth = 1;
        loop {
            let end = self.at;
            match self.next() {
                Some(Lexeme::Mark('(')) => depth += 1,
                Some(Lexeme::Mark(')')) => depth -= 1,
                Some(_) => {}
                None => return Err(self.wrong(")")),
            }
            if depth == 0 {
                return Ok(Some(self.text[from..end].trim()));
            }
        }
    }

    /// Takes a text in single quotes.
    pub(super) fn text(&mut self) -> Result<String> {
        let is_escaped = self.take("E");
        match self.next() {
            Some(Lexeme::Text(text)) if is_escaped => Ok(text.replace("\\t", "\t")),
            Some(Lexeme::Text(text)) => Ok(text),
            _ => Err(self.wrong("a text in single quotes")),
        }
    }

    /// Takes a word or a text, in lower case.
    pub(super) fn word_or_text(&mut self) -> Result<String> {
        match self.next() {
            Some(Lexeme::Word(word)) => Ok(word.to_lowercase()),
            Some(Lexeme::Text(text)) => Ok(text.to_lowercase()),
            _ => Err(self.wrong("a word")),
        }
    }

    /// Takes the value of a switch, which may be left out for on. Returns whether it is off.
    pub(super) fn switch_is_off(&mut self) -> bool {
        match self.peek() {
            Some(Lexeme::Word(word) | Lexeme::Number(word)) => {
                self.next();
                ["false", "off", "0"].contains(&&*word.to_ascii_lowercase())
            }
            _ => false,
        }
    }

    /// Takes a constant; null is `None`. Its cast is left to the parameter that it becomes.
    pub(super) fn literal(&mut self) -> Result<Option<String>> {
        let minus = if self.take_mark('-') { "-" } else { "" };
        let value = match self.next() {
            Some(Lexeme::Number(number)) => Some(format!("{minus}{number}")),
            Some(Lexeme::Text(text)) => Some(text),
            Some(Lexeme::Word(word)) if word.eq_ignore_ascii_case("NULL") => None,
            Some(Lexeme::Word(word)) if is_switch(word) => Some(word.to_ascii_lowercase()),
            // `timestamp '2026-11-02'`
            Some(Lexeme::Word(_)) if matches!(self.peek(), Some(Lexeme::Text(_))) => {
                Some(self.text()?)
            }
            _ => return Err(self.wrong("a constant")),
        };
        while self.take_mark(':') {
            if !self.take_mark(':') {
                return Err(self.wrong("a type"));
            }
            self.dotted_name()?;
            self.parenthesis()?;
        }
        Ok(value)
    }

    /// Creates the error of a statement that goes on otherwise.
    pub(super) fn wrong(&self, expected: &str) -> SqlError {
        let found = match self.peek() {
            None => "at end of input".to_owned(),
            Some(Lexeme::Word(word) | Lexeme::Number(word)) => format!("at or near \"{word}\""),
            Some(Lexeme::Quoted(text) | Lexeme::Text(text)) => format!("at or near \"{text}\""),
            Some(Lexeme::Mark(mark)) => format!("at or near \"{mark}\""),
        };
        SqlError::new(state::SYNTAX, format!("syntax error {found}"))
            .hint(format!("expected {expected}"))
    }
}

fn is_switch(word: &str) -> bool {
    word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false")
}

/// Returns the length of a comment, which may have others within.
fn comment_bytes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// Returns a text between quotes and its length with them; `None` if it has no end. A quote within
/// is written twice.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            inner.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            inner.push(quote);
        } else {
            return Some((inner, at + 1));
        }
    }
    None
}
