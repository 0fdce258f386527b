//! Cuts the text of a query into tokens, each with its position.

use super::duration::{bytes, duration_ns};

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LogqlToken {
    Word(String),
    Text(String),
    Number(f64),
    /// Nanoseconds.
    Duration(i64),
    Bytes(u64),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// A token and the byte at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spanned {
    pub(super) token: LogqlToken,
    pub(super) at: usize,
}

/// An error at a byte of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextFault {
    pub(super) message: String,
    pub(super) at: usize,
}

impl TextFault {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, at }
    }
}

/// Operators and brackets, those that begin with others first.
const SIGNS: [&str; 29] = [
    "|=", "|~", "|>", "!>", "=~", "!~", "!=", "==", ">=", "<=", "|", "=", ">", "<", "{", "}", "(",
    ")", "[", "]", ",", "+", "-", "*", "/", "%", "^", "@", ":",
];

/// Cuts a query into tokens; the last one is [`LogqlToken::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Spanned>, TextFault> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at += blank(&text[at..]);
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else {
            let token = LogqlToken::End;
            found.push(Spanned { token, at });
            return Ok(found);
        };
        let (token, length) = match first {
            '"' => quoted(rest, at)?,
            '`' => raw(rest, at)?,
            '0'..='9' => quantity(rest, at)?,
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => quantity(rest, at)?,
            c if c.is_ascii_alphabetic() || c == '_' => word(rest),
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (LogqlToken::Sign(sign), sign.len()),
                None => {
                    return Err(TextFault::new(
                        at,
                        format!("unexpected character {first:?}"),
                    ));
                }
            },
        };
        found.push(Spanned { token, at });
        at += length;
    }
}

/// Returns the length of white space and comments.
fn blank(text: &str) -> usize {
    let mut rest = text.trim_start();
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
        rest = rest.trim_start();
    }
    text.len() - rest.len()
}

fn word(text: &str) -> (LogqlToken, usize) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    (LogqlToken::Word(text[..end].to_owned()), end)
}

/// Reads a number, a duration or a size.
fn quantity(text: &str, at: usize) -> Result<(LogqlToken, usize), TextFault> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == 'µ' || c == '_';
    let mut end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    // `1e-3` and `1e+3`
    let is_exponent = text[..end].ends_with(['e', 'E'])
        && text[..end - 1].parse::<f64>().is_ok()
        && text[end..].starts_with(['+', '-']);
    if is_exponent {
        let digits = text[end + 1..].find(|c: char| !c.is_ascii_digit());
        end = digits.map_or(text.len(), |digits| end + 1 + digits);
    }
    let written = &text[..end];
    let number = written.parse::<f64>().ok().filter(|n| n.is_finite());
    let token = match (number, duration_ns(written), bytes(written)) {
        (Some(number), ..) => LogqlToken::Number(number),
        (None, Some(ns), _) => LogqlToken::Duration(ns),
        (None, None, Some(bytes)) => LogqlToken::Bytes(bytes),
        (None, None, None) => {
            let message = format!(
                "{written:?} is no number, no duration such as 5m or 1h30m, and no size such as 10KB"
            );
            return Err(TextFault::new(at, message));
        }
    };
    Ok((token, end))
}

fn raw(text: &str, at: usize) -> Result<(LogqlToken, usize), TextFault> {
    match text[1..].split_once('`') {
        Some((inside, _)) => Ok((LogqlToken::Text(inside.to_owned()), inside.len() + 2)),
        None => Err(TextFault::new(at, "the text has no closing `")),
    }
}

/// Reads a text with the escapes of Go.
fn quoted(text: &str, at: usize) -> Result<(LogqlToken, usize), TextFault> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((place, c)) = chars.next() {
        match c {
            '"' => return Ok((LogqlToken::Text(value), place + 1)),
            '\n' => return Err(TextFault::new(at, "the text has no closing \" on its line")),
            '\\' => {
                let wrong =
                    || TextFault::new(at + place, "unknown escape in a text; write \\\\ for \\");
                let (_, escaped) = chars.next().ok_or_else(wrong)?;
                let digits = match escaped {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => 0,
                };
                value.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'v' => '\u{b}',
                    '\\' | '"' | '\'' => escaped,
                    'x' | 'u' | 'U' => {
                        let hex: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
                        let is_hex =
                            hex.len() == digits && hex.bytes().all(|b| b.is_ascii_hexdigit());
                        let code = is_hex.then(|| u32::from_str_radix(&hex, 16).ok()).flatten();
                        code.and_then(char::from_u32).ok_or_else(wrong)?
                    }
                    _ => return Err(wrong()),
                });
            }
            c => value.push(c),
        }
    }
    Err(TextFault::new(at, "the text has no closing \""))
}
