//! Functions of one text. Expressions of rollups and SQL share them, so that a key and a query
//! that write the same call mean the same values.
//!
//! | function | result |
//! |---|---|
//! | `lower`, `upper` | the text in lower or upper case |
//! | `url_decode` | without percent-encoding; `+` is a space |
//! | `url_extract_protocol`, `_host`, `_path`, `_query`, `_fragment` | a part of a URL |
//! | `user_agent_family`, `_version`, `_os`, `_os_version`, `_category` | the program of an agent |
//!
//! The names of the URL functions are Trino's. The database behind the user agents is the crate
//! `woothee`'s; `user_agent_category` is one of `pc`, `smartphone`, `mobilephone`, `appliance`,
//! `crawler` and `misc`.
//!
//! Rollups keep the results. So a function never changes: another database of user agents needs
//! functions of other names.

mod url;
mod user_agent;

pub use url::parameter as url_parameter;

use std::borrow::Cow;
use std::collections::HashMap;

use arrow::array::{Array, StringArray, StringBuilder};

use url::UrlPart;
use user_agent::AgentPart;

/// A function of one text, by its name in SQL and in expressions of rollups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextFunction {
    /// Text in lower case.
    Lower,
    /// Text in upper case.
    Upper,
    /// Text without percent-encoding.
    UrlDecode,
    #[doc(hidden)]
    Url(UrlPart),
    #[doc(hidden)]
    UserAgent(AgentPart),
}

impl TextFunction {
    /// All functions.
    pub const ALL: [Self; 13] = [
        Self::Lower,
        Self::Upper,
        Self::UrlDecode,
        Self::Url(UrlPart::Protocol),
        Self::Url(UrlPart::Host),
        Self::Url(UrlPart::Path),
        Self::Url(UrlPart::Query),
        Self::Url(UrlPart::Fragment),
        Self::UserAgent(AgentPart::Family),
        Self::UserAgent(AgentPart::Version),
        Self::UserAgent(AgentPart::Os),
        Self::UserAgent(AgentPart::OsVersion),
        Self::UserAgent(AgentPart::Category),
    ];

    /// Returns the function's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Upper => "upper",
            Self::UrlDecode => "url_decode",
            Self::Url(UrlPart::Protocol) => "url_extract_protocol",
            Self::Url(UrlPart::Host) => "url_extract_host",
            Self::Url(UrlPart::Path) => "url_extract_path",
            Self::Url(UrlPart::Query) => "url_extract_query",
            Self::Url(UrlPart::Fragment) => "url_extract_fragment",
            Self::UserAgent(AgentPart::Family) => "user_agent_family",
            Self::UserAgent(AgentPart::Version) => "user_agent_version",
            Self::UserAgent(AgentPart::Os) => "user_agent_os",
            Self::UserAgent(AgentPart::OsVersion) => "user_agent_os_version",
            Self::UserAgent(AgentPart::Category) => "user_agent_category",
        }
    }

    /// Returns the function of a name in lower case.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// Returns the function's value of a text.
    pub fn of(self, text: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::Lower => Some(text.to_lowercase().into()),
            Self::Upper => Some(text.to_uppercase().into()),
            Self::UrlDecode => Some(url::decode(text)),
            Self::Url(part) => url::part(text, part),
            Self::UserAgent(part) => user_agent::part(text, part),
        }
    }

    /// Returns the function's values of a column.
    pub fn of_column(self, texts: &StringArray) -> StringArray {
        match self {
            Self::UserAgent(_) => self.of_repeated(texts),
            _ => texts.iter().map(|t| self.of(t?)).collect(),
        }
    }

    /// As [`of_column`](Self::of_column), computed once for each text that occurs: dozens of
    /// patterns run over a user agent, and few of them are in use at any time.
    fn of_repeated(self, texts: &StringArray) -> StringArray {
        let mut known: HashMap<&str, Option<Cow<str>>> = HashMap::new();
        let mut values = StringBuilder::with_capacity(texts.len(), 0);
        for text in texts {
            let value = text.and_then(|text| {
                let value = known.entry(text).or_insert_with(|| self.of(text));
                value.as_deref()
            });
            values.append_option(value);
        }
        values.finish()
    }
}

/// Returns the path up to the end of its `n`th segment. A leading slash belongs to every prefix.
pub fn path_prefix(path: &str, n: usize) -> &str {
    let start = usize::from(path.starts_with('/'));
    if n == 0 {
        return &path[..start];
    }
    let mut slashes = path[start..].match_indices('/').map(|(at, _)| start + at);
    let end = slashes.nth(n - 1);
    &path[..end.unwrap_or(path.len())]
}

#[cfg(test)]
mod tests;
