//! The formats: one table.
//!
//! An entry names a format and the kind of its streams, recognises a line of it for `auto`, and
//! makes its reader (`reader.rs`). A new format is a file in `formats/` and a line of the table.
//!
//! A line may be of several formats: one of Combined is one of Common with more behind it. Later
//! entries of the table are more particular, so a line counts for the last one that recognises it.

pub(crate) mod access;
mod alb;
mod apache_error;
mod auto;
mod bson;
mod captures;
mod documents;
mod fields;
mod haproxy;
mod headed;
mod json;
mod logfmt;
mod nginx_error;
mod plain;
mod s3_access;
mod syslog;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use storage::StreamKind;

pub use self::access::AccessPattern;
pub(crate) use self::auto::NO_FORMAT;
pub use self::captures::LineRegex;
pub use self::headed::LineFields;
pub(crate) use self::headed::{HEADER_LINE_BYTES_MAX, Header, no_header};
use crate::anonymise::Anonymiser;
use crate::bad::Bad;
use crate::error::{Error, Result};
use crate::reader::{Choice, Fit, FormatEntry, LineReader, ReaderOptions};
use crate::select::Selection;

/// Makes the enum of the formats and the way from each to its entry.
macro_rules! table {
    ($($(#[$attribute:meta])* $format:ident: $entry:path,)+) => {
        /// The format of the bytes of a source.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$attribute])* $format,)+
            /// A `LogFormat` of Apache httpd, or a `log_format` of nginx.
            Pattern(Arc<AccessPattern>),
            /// A regular expression of the user's, or a grok pattern.
            Regex(Arc<LineRegex>),
            /// CSV, TSV or W3C with the fields of its lines.
            Fields(Arc<LineFields>),
        }

        impl Format {
            /// Every format but patterns and expressions, in the order of the table.
            pub(crate) const ALL: &[Self] = &[$(Self::$format),+];

            pub(crate) fn entry(&self) -> &'static FormatEntry {
                match self {
                    $(Self::$format => &$entry,)+
                    Self::Pattern(_) => &access::PATTERN,
                    Self::Regex(_) => &captures::FORMAT,
                    Self::Fields(_) => &headed::WITH_FIELDS,
                }
            }
        }
    };
}

table! {
    /// Decide from the first lines.
    #[default]
    Auto: auto::FORMAT,
    /// The Common Log Format, whole lines only.
    Common: access::COMMON,
    /// The Combined Log Format, whole lines only.
    Combined: access::COMBINED,
    /// Combined behind the name of the virtual host, whole lines only.
    VhostCombined: access::VHOST_COMBINED,
    /// One JSON object a line.
    Json: json::FORMAT,
    /// A line is an event.
    Plain: plain::FORMAT,
    /// Pairs of names and values.
    Logfmt: logfmt::FORMAT,
    /// RFC 5424, RFC 3164 and files of both.
    Syslog: syslog::FORMAT,
    /// The error log of nginx.
    NginxError: nginx_error::FORMAT,
    /// The error log of Apache httpd.
    ApacheError: apache_error::FORMAT,
    /// Access logs of AWS Application Load Balancers.
    Alb: alb::FORMAT,
    /// Server access logs of Amazon S3.
    S3Access: s3_access::FORMAT,
    /// The HTTP and TCP logs of HAProxy.
    Haproxy: haproxy::FORMAT,
    /// The W3C extended log file format.
    W3c: headed::W3C,
    /// Comma-separated values behind a header.
    Csv: headed::CSV,
    /// Tab-separated values behind a header.
    Tsv: headed::TSV,
    /// A BSON document an item, of clients of MongoDB.
    Bson: bson::FORMAT,
    /// Increments of counters, each a document of BSON.
    Counters: bson::COUNTERS,
}

/// Names of formats of later versions.
const NOT_YET: [&str; 1] = ["logmill"];

impl Format {
    /// Returns the name as users spell it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pattern(pattern) => pattern.name(),
            Self::Regex(regex) => regex.name(),
            Self::Fields(fields) => fields.name(),
            format => format.entry().name,
        }
    }

    /// Makes a reader of lines.
    pub(crate) fn reader(&self, options: &ReaderOptions, choice: Choice) -> Box<dyn LineReader> {
        match self {
            Self::Pattern(pattern) => pattern.reader(),
            Self::Regex(regex) => regex.reader(options),
            Self::Fields(fields) => fields.reader(options),
            format => (format.entry().reader)(options, choice),
        }
    }

    /// Returns the kind of a stream of this format. `Auto`, when nothing fits, counts as an access
    /// log.
    pub fn kind(&self) -> StreamKind {
        self.entry().kind
    }

    /// Returns whether a source in this format may hold JSON values that are not one to a line.
    pub fn may_hold_values(&self) -> bool {
        self.entry().holds_values
    }

    /// Checks the names that a stream's configuration has for fields of this format. Those of
    /// `Auto` and of documents can be any.
    ///
    /// # Errors
    /// [`Error::UnknownField`], [`Error::NotAnonymised`] and [`Error::LineNotAnonymised`].
    pub fn check(&self, selection: &Selection, anonymiser: &Anonymiser) -> Result<()> {
        match self {
            Self::Common | Self::Combined | Self::VhostCombined => {
                access::check(selection, anonymiser)
            }
            Self::Pattern(pattern) => pattern.check(selection, anonymiser),
            Self::Plain | Self::NginxError | Self::ApacheError | Self::Haproxy => {
                documents::check_line(selection, anonymiser)
            }
            Self::Auto | Self::Json | Self::Logfmt | Self::Syslog | Self::Regex(_) => Ok(()),
            Self::Bson | Self::Counters | Self::Alb | Self::S3Access => Ok(()),
            Self::W3c | Self::Csv | Self::Tsv | Self::Fields(_) => Ok(()),
        }
    }

    /// Returns the names of all formats, for messages.
    fn names() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|format| format.as_str()).collect();
        match names.split_last() {
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

/// Returns the format that a line which is not empty is in.
pub(crate) fn recognise(line: &[u8]) -> Option<(Format, Fit)> {
    let mut formats = Format::ALL.iter().rev();
    formats.find_map(|format| {
        let recognise = format.entry().recognise?;
        Some((format.clone(), recognise(line).ok()?))
    })
}

/// Returns the format that a line which is in none comes nearest to, and where it differs.
pub(crate) fn nearest(line: &[u8]) -> Option<(Format, Bad)> {
    let mut nearest: Option<(Format, Bad)> = None;
    for format in Format::ALL {
        let Some(Err(bad)) = format.entry().recognise.map(|recognise| recognise(line)) else {
            continue;
        };
        if bad.at > nearest.as_ref().map_or(0, |(_, bad)| bad.at) {
            nearest = Some((format.clone(), bad));
        }
    }
    nearest
}

impl PartialOrd for Format {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Format {
    /// Orders formats as the table does, and patterns behind them by their texts.
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |format: &Self| Self::ALL.iter().position(|known| known == format);
        let rank = |format: &Self| rank(format).unwrap_or(Self::ALL.len());
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.as_str().cmp(other.as_str()))
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = Error;

    /// Reads a name.
    ///
    /// # Errors
    /// [`Error::FormatNotYet`] for a name that a later version will know, else
    /// [`Error::UnknownFormat`] with the known names.
    fn from_str(name: &str) -> Result<Self> {
        let mut formats = Self::ALL.iter();
        if let Some(format) = formats.find(|format| format.as_str() == name) {
            return Ok(format.clone());
        }
        if let Some(pattern) = AccessPattern::of_name(name) {
            return pattern.map(Self::Pattern);
        }
        if let Some(regex) = LineRegex::of_name(name) {
            return regex.map(Self::Regex);
        }
        if let Some(fields) = LineFields::of_name(name) {
            return fields.map(Self::Fields);
        }
        let is_not_yet = NOT_YET.contains(&name);
        let (name, known) = (name.to_owned(), Self::names());
        Err(match is_not_yet {
            true => Error::FormatNotYet { name, known },
            false => Error::UnknownFormat { name, known },
        })
    }
}

#[cfg(test)]
mod tests;
