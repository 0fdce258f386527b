//! Regular expressions, and the patterns of `| pattern`.

use std::fmt;
use std::sync::Arc;

use datafusion::functions::regex::compile_regex;

type IsMatch = dyn Fn(&str) -> bool + Send + Sync;
type Captures = dyn Fn(&str) -> Option<Vec<(String, String)>> + Send + Sync;

/// A compiled regular expression.
#[derive(Clone)]
pub(super) struct Regex {
    is_match: Arc<IsMatch>,
    captures: Arc<Captures>,
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Regex").finish_non_exhaustive()
    }
}

impl Regex {
    /// Returns whether the text contains a match.
    pub(super) fn is_match(&self, text: &str) -> bool {
        (self.is_match)(text)
    }

    /// Returns the named groups of the first match with their texts; `None` without a match.
    pub(super) fn captures(&self, text: &str) -> Option<Vec<(String, String)>> {
        (self.captures)(text)
    }
}

/// Compiles a regular expression that may match anywhere.
///
/// # Errors
/// The reason why it is not valid.
pub(super) fn compiled(pattern: &str) -> Result<Regex, String> {
    let regex = compile_regex(pattern, None).map_err(|e| e.to_string())?;
    let with_groups = regex.clone();
    let captures = move |text: &str| {
        let found = with_groups.captures(text)?;
        let names = with_groups.capture_names().flatten();
        let named = names.filter_map(|name| {
            let value = found.name(name)?.as_str().to_owned();
            Some((name.to_owned(), value))
        });
        Some(named.collect())
    };
    Ok(Regex {
        is_match: Arc::new(move |text| regex.is_match(text)),
        captures: Arc::new(captures),
    })
}

/// Returns the regular expression that matches whole texts only.
pub(super) fn anchored(pattern: &str) -> String {
    format!("^(?s:{pattern})$")
}

/// A piece of a [`LinePattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternPiece {
    Text(String),
    /// A label, or `None` for `<_>`.
    Capture(Option<String>),
}

/// `<ip> - - <_> "<method> <path> <_>"`: texts and what stands between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinePattern(Vec<PatternPiece>);

impl LinePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// When it captures nothing, or two captures touch.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces: Vec<PatternPiece> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let capture = rest.strip_prefix('<').and_then(|after| {
                let (name, next) = after.split_once('>')?;
                let is_name = !name.is_empty()
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                    && !name.starts_with(|c: char| c.is_ascii_digit());
                is_name.then_some((name, next))
            });
            match capture {
                Some((name, next)) => {
                    if matches!(pieces.last(), Some(PatternPiece::Capture(_))) {
                        return Err("the pattern has two captures without text between".into());
                    }
                    pieces.push(PatternPiece::Capture(
                        (name != "_").then(|| name.to_owned()),
                    ));
                    rest = next;
                }
                None => {
                    let first = rest.chars().next().map_or(0, char::len_utf8);
                    let end = rest[first..].find('<').map_or(rest.len(), |at| at + first);
                    let (literal, next) = rest.split_at(end);
                    match pieces.last_mut() {
                        Some(PatternPiece::Text(before)) => before.push_str(literal),
                        _ => pieces.push(PatternPiece::Text(literal.to_owned())),
                    }
                    rest = next;
                }
            }
        }
        match pieces
            .iter()
            .any(|p| matches!(p, PatternPiece::Capture(Some(_))))
        {
            true => Ok(Self(pieces)),
            false => Err("the pattern has no capture such as <name>".into()),
        }
    }

    /// Returns the captured labels up to the first text that the line lacks.
    pub(super) fn captures(&self, line: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut rest = line;
        let mut pieces = self.0.iter().peekable();
        // The first text may stand anywhere in the line.
        if let Some(PatternPiece::Text(first)) = pieces.peek() {
            let Some(at) = rest.find(first.as_str()) else {
                return found;
            };
            rest = &rest[at + first.len()..];
            pieces.next();
        }
        while let Some(piece) = pieces.next() {
            let PatternPiece::Capture(name) = piece else {
                continue;
            };
            let (value, next, is_last) = match pieces.next() {
                None => (rest, "", true),
                Some(PatternPiece::Text(text)) => match rest.split_once(text.as_str()) {
                    Some((value, next)) => (value, next, false),
                    None => (rest, "", true),
                },
                Some(PatternPiece::Capture(_)) => return found,
            };
            if let Some(name) = name {
                found.push((name.clone(), value.to_owned()));
            }
            if is_last {
                return found;
            }
            rest = next;
        }
        found
    }
}
