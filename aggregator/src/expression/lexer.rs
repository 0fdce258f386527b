//! The lexer: splits text into words, names, literals and signs, each with its position.

/// A token of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A keyword, a function or a field.
    Word(String),
    /// A field in double quotes.
    Name(String),
    /// Text in single quotes.
    Text(String),
    /// An integer without its sign.
    Integer(u64),
    /// A decimal without its sign.
    Decimal(f64),
    /// An operator, a bracket or a comma.
    Sign(&'static str),
    End,
}

/// Words that are fields only in double quotes.
const RESERVED: [&str; 7] = ["and", "or", "not", "is", "null", "in", "like"];
/// Signs in the order of matching: a longer sign precedes its prefixes.
const SIGNS: [&str; 14] = [
    "==", "!=", "<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "/", "%", "-",
];

pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|r| word.eq_ignore_ascii_case(r))
}

/// Checks whether a field needs no quotes.
pub(super) fn is_plain(name: &str) -> bool {
    word_len(name) == name.len() && !name.is_empty() && !is_reserved(name)
}

/// Returns the length of the word at the start of `text`: letters, digits and `_`, in parts joined
/// by dots.
fn word_len(text: &str) -> usize {
    let mut len = 0;
    loop {
        let part = &text[len..];
        let end = part
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(part.len());
        if end == 0 || part.as_bytes()[0].is_ascii_digit() {
            return len.saturating_sub(1);
        }
        len += end;
        if !text[len..].starts_with('.') {
            return len;
        }
        len += 1;
    }
}

/// Returns the length of the number at the start of `text`, and true if it is a decimal.
fn number_len(text: &str) -> (usize, bool) {
    let digits = |from: usize| {
        let rest = &text[from..];
        from + rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len())
    };
    let (mut end, mut decimal) = (digits(0), false);
    if text[end..].starts_with('.') {
        (end, decimal) = (digits(end + 1), true);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        (end, decimal) = (digits(end + 1 + sign), true);
    }
    (end, decimal)
}

/// Returns the tokens and the byte at which each begins; the last is [`Token::End`]. An error has
/// its byte too.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, (usize, String)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else {
            tokens.push((at, Token::End));
            return Ok(tokens);
        };
        let (token, len) = match first {
            '\'' | '"' => {
                let (inner, len) = between_quotes(rest, first)
                    .ok_or_else(|| (at, "a quote is not closed".to_owned()))?;
                let token = if first == '"' {
                    Token::Name
                } else {
                    Token::Text
                };
                (token(inner), len)
            }
            '0'..='9' => {
                let (len, decimal) = number_len(rest);
                (number(&rest[..len], decimal).map_err(|e| (at, e))?, len)
            }
            _ => match (word_len(rest), SIGNS.iter().find(|s| rest.starts_with(**s))) {
                (0, Some(sign)) => (Token::Sign(sign), sign.len()),
                (0, None) => return Err((at, format!("{first:?} is not expected"))),
                (len, _) => (Token::Word(rest[..len].to_owned()), len),
            },
        };
        tokens.push((at, token));
        at += len;
    }
}

fn number(text: &str, decimal: bool) -> Result<Token, String> {
    if !decimal {
        let value = text.parse().map(Token::Integer);
        return value.map_err(|_| format!("{text} exceeds 64 bits"));
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Token::Decimal(value)),
        _ => Err(format!("{text} is not a number")),
    }
}

/// Returns the text between the quote at the start of `text` and the closing one, and its length
/// with both quotes. Two quotes in a row stand for one.
fn between_quotes(text: &str, quote: char) -> Option<(String, usize)> {
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
