//! The names of formats, as users spell them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use storage::StreamKind;

use crate::error::{Error, Result};

/// How the bytes of a source are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// Decide from the first lines.
    #[default]
    Auto,
    /// The Common Log Format, whole lines only.
    Common,
    /// The Combined Log Format, whole lines only.
    Combined,
    /// Combined behind the name of the virtual host, whole lines only.
    VhostCombined,
    /// One JSON object a line.
    Json,
    /// A line is an event.
    Plain,
}

/// Names that belong to formats of later versions.
const NOT_YET: [&str; 6] = [
    "nginx_error",
    "apache_error",
    "logfmt",
    "syslog",
    "w3c",
    "logmill",
];
/// Beginnings of formats of later versions that carry a pattern.
const NOT_YET_PREFIXES: [&str; 4] = ["regex:", "grok:", "apache:", "nginx:"];

impl Format {
    /// The name as users spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Common => "common",
            Self::Combined => "combined",
            Self::VhostCombined => "vhost_combined",
            Self::Json => "json",
            Self::Plain => "plain",
        }
    }

    /// What a stream of this format holds. `Auto`, when nothing fits, counts as an access log.
    pub fn kind(self) -> StreamKind {
        match self {
            Self::Auto | Self::Common | Self::Combined | Self::VhostCombined => StreamKind::Access,
            Self::Json | Self::Plain => StreamKind::Documents,
        }
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
        Ok(match name {
            "auto" => Self::Auto,
            "common" => Self::Common,
            "combined" => Self::Combined,
            "vhost_combined" => Self::VhostCombined,
            "json" => Self::Json,
            "plain" => Self::Plain,
            _ if NOT_YET.contains(&name)
                || NOT_YET_PREFIXES.iter().any(|p| name.starts_with(p)) =>
            {
                return Err(Error::FormatNotYet {
                    name: name.to_owned(),
                });
            }
            _ => {
                return Err(Error::UnknownFormat {
                    name: name.to_owned(),
                });
            }
        })
    }
}

#[cfg(test)]
mod tests;
