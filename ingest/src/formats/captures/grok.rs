//! Grok patterns: `grok:%{IP:host} %{WORD:method} %{NUMBER:bytes:int}`.
//!
//! A pattern is expanded to an expression, with the definitions of the crate `grok`, which are
//! those of Logstash. The expression is one of the crate `regex`, which needs no more time than a
//! line is long, so that no pattern and no line can stop a parser. It has neither look-around nor
//! atomic groups, and the definitions that have them are read without:
//! * An atomic group is a group.
//! * A definition that looks around forbids its value to begin or end within another number. That
//!   matters only beside text that could take a part of it. There the pattern is refused, and
//!   everywhere else the value is the same.
//! * A definition that looks for a text to be there is refused.

use grok::parser::{GrokComponent, grok_split};

use super::GroupType;

/// The most definitions in one another.
const DEPTH_MAX: usize = 32;
/// The longest expression, in bytes.
const EXPANDED_BYTES_MAX: usize = 256 << 10;
/// The beginning of the names of groups that a pattern names.
const GROUP: &str = "grok_";

/// A pattern as an expression.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    pub(super) expression: String,
    /// Of each group `grok_0`, `grok_1`, …: its field and type.
    pub(super) fields: Vec<(String, GroupType)>,
    /// Bytes of all definitions so far.
    bytes: usize,
}

impl Expansion {
    pub(super) fn of(pattern: &str) -> Result<Self, String> {
        let mut expansion = Self::default();
        let whole = expansion.expand(pattern, Author::User, 0)?;
        expansion.expression = whole.text;
        Ok(expansion)
    }

    /// Returns the field and type of a group; `None` for a group of the user's expression.
    pub(super) fn field(&self, group: &str) -> Option<&(String, GroupType)> {
        let number: usize = group.strip_prefix(GROUP)?.parse().ok()?;
        self.fields.get(number)
    }

    /// Returns the reason why the expression is none; that of a pattern is too long to be shown.
    pub(super) fn explain(&self, error: &regex::Error) -> String {
        let error = error.to_string();
        let shown = match self.fields.is_empty() {
            true => error.as_str(),
            false => error.lines().last().unwrap_or_default(),
        };
        format!("it is no regular expression: {shown}")
    }

    fn expand(&mut self, text: &str, author: Author, depth: usize) -> Result<Expanded, String> {
        self.bytes += text.len();
        if depth > DEPTH_MAX || self.bytes > EXPANDED_BYTES_MAX {
            return Err("its definitions name each other without end, or are too long".to_owned());
        }
        let mut whole = Expanded::default();
        for component in grok_split(text) {
            match component {
                GrokComponent::RegularExpression { string, .. } => {
                    whole.take_text(string, author)?;
                }
                GrokComponent::GrokPattern {
                    name,
                    alias,
                    extract,
                    definition,
                    ..
                } => {
                    let (definition, of) = match definition {
                        "" => (defined(name)?, Author::Library),
                        own => (own, Author::User),
                    };
                    let value = self.expand(definition, of, depth + 1)?;
                    let opening = self.opening(alias, extract, author)?;
                    whole.take_value(name, &opening, value, author)?;
                }
                GrokComponent::PatternError(error) => {
                    return Err(format!("it is no grok pattern: {error:?}"));
                }
            }
        }
        Ok(whole)
    }

    /// Returns the beginning of the group of a value, and notes its field.
    fn opening(&mut self, alias: &str, extract: &str, author: Author) -> Result<String, String> {
        if alias.is_empty() {
            return Ok("(?:".to_owned());
        }
        let field = alias.trim_matches(['[', ']']).replace("][", ".");
        if author == Author::User && self.fields.iter().any(|(known, _)| *known == field) {
            return Err(format!("two values are called {field:?}"));
        }
        let group = format!("(?<{GROUP}{}>", self.fields.len());
        self.fields.push((field, type_of(extract)?));
        Ok(group)
    }
}

/// The author of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    User,
    Library,
}

/// A definition as an expression.
#[derive(Debug, Default)]
struct Expanded {
    text: String,
    /// It forbids its value to begin within another.
    guards_begin: bool,
    /// It forbids its value to end within another.
    guards_end: bool,
    /// The last component, if it is a value that guards its end: its name.
    guarded: Option<String>,
    /// The last component is a value.
    ends_with_value: bool,
}

impl Expanded {
    fn take_text(&mut self, text: &str, author: Author) -> Result<(), String> {
        if let Some(name) = self.guarded.take()
            && author == Author::User
            && begins_openly(text)
        {
            return Err(touches(&name, "behind"));
        }
        let looks = match author {
            Author::User => Looks::none(text),
            Author::Library => Looks::of(text)?,
        };
        self.guards_begin |= looks.back;
        let goes_on = !looks.rest.chars().all(|c| "()|?:".contains(c));
        self.guards_end = looks.ahead || self.guards_end && !goes_on;
        self.text += &looks.rest;
        self.ends_with_value = false;
        Ok(())
    }

    fn take_value(
        &mut self,
        name: &str,
        opening: &str,
        value: Self,
        author: Author,
    ) -> Result<(), String> {
        if author == Author::User {
            let is_open = self.ends_with_value || ends_openly(&self.text);
            if value.guards_begin && is_open {
                return Err(touches(name, "before"));
            }
            if let Some(before) = &self.guarded {
                return Err(touches(before, "behind"));
            }
        }
        // Within a definition, a guard of a value may be one of the whole.
        self.guards_begin |= value.guards_begin && is_beginning(&self.text);
        self.guarded = value.guards_end.then(|| name.to_owned());
        self.guards_end |= value.guards_end;
        self.ends_with_value = true;
        self.text += opening;
        self.text += &value.text;
        self.text.push(')');
        Ok(())
    }
}

fn touches(name: &str, side: &str) -> String {
    format!(
        "%{{{name}}} touches what stands {side} it, which could take a part of its value: put a \
         text between them, or write that part as (?<name>…)"
    )
}

/// Returns whether an expression so far says nothing of the text before a value.
fn is_beginning(text: &str) -> bool {
    let rest = text.replace("\\b", "");
    rest.rsplit('|').next().is_some_and(|last| {
        let last = last.trim_end_matches("(?:").trim_end_matches('(');
        last.is_empty()
    })
}

/// Returns whether the end of an expression can match different texts: `.*` and `\d`, but not `: `.
fn ends_openly(text: &str) -> bool {
    let mut chars = text.chars().rev();
    let (last, before) = (chars.next(), chars.next());
    match (before, last) {
        (_, None) => false,
        (Some('\\'), Some(class)) => class.is_ascii_alphanumeric() && class != 't',
        (_, Some(last)) => "*+?})].".contains(last),
    }
}

/// Returns whether the beginning of an expression can match different texts.
fn begins_openly(text: &str) -> bool {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some('\\'), Some(class)) => class.is_ascii_alphanumeric() && class != 't',
        (Some(first), _) => "([.".contains(first) || first.is_ascii_digit(),
        (None, _) => false,
    }
}

/// Returns the definition of a name.
fn defined(name: &str) -> Result<&'static str, String> {
    let mut known = grok::patterns().iter();
    let found = known.find(|(known, _)| *known == name);
    let unknown = || {
        format!(
            "%{{{name}}} is not defined: write %{{{name}=EXPRESSION}}, or the expression itself"
        )
    };
    found.map(|(_, definition)| *definition).ok_or_else(unknown)
}

/// A text of the library without its look-around.
#[derive(Debug, Default)]
struct Looks {
    rest: String,
    back: bool,
    ahead: bool,
}

impl Looks {
    fn none(text: &str) -> Self {
        Self {
            rest: text.to_owned(),
            ..Self::default()
        }
    }

    fn of(text: &str) -> Result<Self, String> {
        let mut looks = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find("(?") {
            looks.rest += &rest[..at];
            rest = &rest[at..];
            if rest.starts_with("(?<=") || rest.starts_with("(?=") {
                return Err(
                    "a definition looks for a text to be there, which cannot be told in \
                            linear time: write the expression itself"
                        .to_owned(),
                );
            }
            let is_back = rest.starts_with("(?<!");
            if is_back || rest.starts_with("(?!") {
                let end = rest.find(')').ok_or("a definition is not closed")?;
                // `(?!<` is a slip of the library: it forbids a `<` where a digit stands.
                let is_slip = rest.starts_with("(?!<");
                looks.back |= is_back;
                looks.ahead |= !is_back && !is_slip;
                rest = &rest[end + 1..];
                continue;
            }
            let (opening, length) = match rest.starts_with("(?>") {
                true => ("(?:", "(?>".len()),
                false => ("(?", "(?".len()),
            };
            looks.rest += opening;
            rest = &rest[length..];
        }
        looks.rest += rest;
        // Digits are those of ASCII, with which the expression stays small; `\h` is one of base 16.
        looks.rest = looks.rest.replace(r"\d", "[0-9]");
        looks.rest = looks.rest.replace(r"\h", "[0-9A-Fa-f]");
        Ok(looks)
    }
}

fn type_of(extract: &str) -> Result<GroupType, String> {
    Ok(match extract {
        "" | "text" | "string" => GroupType::Text,
        "int" | "integer" | "long" => GroupType::Int,
        "float" | "double" => GroupType::Float,
        "bool" | "boolean" => GroupType::Bool,
        other => {
            return Err(format!(
                "the type {other:?} is not known: write int, float, bool or text"
            ));
        }
    })
}

#[cfg(test)]
mod tests;
