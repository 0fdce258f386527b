//! Failures of commands: a sentence and an exit code, from one table.

mod class;

use std::fmt;
use std::io::{IsTerminal, Write};

pub(crate) use class::{Class, DISK, FAILED};

/// Wrong usage.
pub(crate) const USAGE: u8 = 2;
/// Some input was quarantined and `--strict` was given.
pub(crate) const QUARANTINED: u8 = 3;
/// Bad configuration.
pub(crate) const CONFIG: u8 = 78;

/// A command's failure.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    error: anyhow::Error,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(code: u8, what: impl fmt::Display) -> Self {
        Self {
            code,
            error: anyhow::anyhow!("{what}"),
        }
    }

    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self::new(USAGE, what)
    }

    pub(crate) fn config(what: impl fmt::Display) -> Self {
        Self::new(CONFIG, what)
    }

    /// Adds the file that the failure is about, unless the message names it.
    pub(crate) fn about(self, file: &str) -> Self {
        if self.to_string().contains(file) {
            return self;
        }
        Self {
            code: self.code,
            error: self.error.context(file.to_owned()),
        }
    }

    /// Returns the store's error, if the store failed.
    pub(crate) fn storage(&self) -> Option<&storage::Error> {
        self.error.downcast_ref()
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.error
            .chain()
            .filter_map(|e| e.downcast_ref::<std::io::Error>())
            .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Messages of storage and query already contain their causes; those of other errors are
        // added here.
        let mut shown = self.error.to_string();
        f.write_str(&shown)?;
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            if !shown.contains(&cause) {
                write!(f, ": {cause}")?;
                shown = cause;
            }
        }
        Ok(())
    }
}

/// Writes a message to standard error. Errors are ignored: standard error may be full or closed.
pub(crate) fn tell(what: impl fmt::Display) {
    let _ignored = writeln!(std::io::stderr(), "logmill: {what}");
}

/// Writes a message to standard error if that is a terminal: scripts do not need it.
pub(crate) fn note(what: impl fmt::Display) {
    if std::io::stderr().is_terminal() {
        tell(what);
    }
}

/// Returns the exit code for an error of the store.
pub(crate) fn code_of(kind: storage::Kind) -> u8 {
    Class::from(kind).codes().exit
}

impl From<storage::Error> for Failure {
    fn from(error: storage::Error) -> Self {
        // A rollup that conflicts with the store is a fault of the configuration.
        let code = match &error {
            storage::Error::Rollup { source, .. } if source.is::<aggregator::Error>() => CONFIG,
            other => code_of(other.kind()),
        };
        Self {
            code,
            error: error.into(),
        }
    }
}

impl From<query::Error> for Failure {
    fn from(error: query::Error) -> Self {
        let code = Class::from(error.kind()).codes().exit;
        Self {
            code,
            error: error.into(),
        }
    }
}

impl From<ingest::Error> for Failure {
    fn from(error: ingest::Error) -> Self {
        Self {
            code: FAILED,
            error: error.into(),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self {
            code: FAILED,
            error: error.into(),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self {
            code: FAILED,
            error,
        }
    }
}
