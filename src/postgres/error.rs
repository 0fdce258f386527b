//! Errors as PostgreSQL reports them: a severity, an SQLSTATE, a message and a hint
//! (PostgreSQL's documentation, "Error and Notice Message Fields" and appendix A).

use std::fmt;

use bytes::{BufMut, BytesMut};
use query::Fault;

use super::message::{Malformed, put, put_text};
use crate::access::Refused;
use crate::failure::Class;
use crate::serve::Exceeded;

/// SQLSTATEs of this protocol; those of other failures are in [`Class`].
pub(super) mod state {
    pub(in crate::postgres) const ACTIVE_TRANSACTION: &str = "25001";
    pub(in crate::postgres) const BAD_PARAMETER: &str = "22023";
    pub(in crate::postgres) const CANCELLED: &str = "57014";
    pub(in crate::postgres) const DUPLICATE_CURSOR: &str = "42P03";
    pub(in crate::postgres) const DUPLICATE_STATEMENT: &str = "42P05";
    pub(in crate::postgres) const FAILED_TRANSACTION: &str = "25P02";
    pub(in crate::postgres) const IDLE: &str = "57P05";
    pub(in crate::postgres) const INVALID_AUTHORIZATION: &str = "28000";
    pub(in crate::postgres) const INVALID_CURSOR: &str = "34000";
    pub(in crate::postgres) const INVALID_PASSWORD: &str = "28P01";
    pub(in crate::postgres) const INVALID_STATEMENT: &str = "26000";
    pub(in crate::postgres) const NO_ACTIVE_TRANSACTION: &str = "25P01";
    pub(in crate::postgres) const NOT_SUPPORTED: &str = "0A000";
    pub(in crate::postgres) const PROTOCOL: &str = "08P01";
    pub(in crate::postgres) const READ_ONLY: &str = "25006";
    pub(in crate::postgres) const SHUTDOWN: &str = "57P01";
    pub(in crate::postgres) const SYNTAX: &str = "42601";
    pub(in crate::postgres) const TOO_MANY_CONNECTIONS: &str = "53300";
    pub(in crate::postgres) const UNDEFINED_DATABASE: &str = "3D000";
    pub(in crate::postgres) const UNDEFINED_SETTING: &str = "42704";
}

/// An error of a statement or of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SqlError {
    /// The connection ends with it.
    pub(super) is_fatal: bool,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

pub(super) type Result<T, E = SqlError> = std::result::Result<T, E>;

impl SqlError {
    /// Creates an error that ends its statement.
    pub(super) fn new(code: &'static str, message: impl fmt::Display) -> Self {
        Self {
            is_fatal: false,
            code,
            message: message.to_string(),
            hint: None,
        }
    }

    /// Creates an error that ends its connection.
    pub(super) fn fatal(code: &'static str, message: impl fmt::Display) -> Self {
        Self {
            is_fatal: true,
            ..Self::new(code, message)
        }
    }

    /// Adds a hint.
    pub(super) fn hint(self, hint: impl fmt::Display) -> Self {
        Self {
            hint: Some(hint.to_string()),
            ..self
        }
    }

    /// Creates the error of a statement that is not supported.
    pub(super) fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(state::NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Creates the error of a refused login.
    pub(super) fn of_login(refused: Refused, user: &str) -> Self {
        match refused {
            Refused::Missing | Refused::Wrong => Self::fatal(
                state::INVALID_PASSWORD,
                format!("password authentication failed for user \"{user}\""),
            ),
            Refused::Slow(wait) => Self::fatal(
                state::INVALID_AUTHORIZATION,
                "too many logins of this user from this address failed",
            )
            .hint(format!("try again in {} seconds", wait.as_secs() + 1)),
        }
    }

    /// Appends the error to the messages for the client.
    pub(super) fn put(&self, out: &mut BytesMut) {
        let severity = if self.is_fatal { "FATAL" } else { "ERROR" };
        put_report(
            out,
            b'E',
            severity,
            self.code,
            &self.message,
            self.hint.as_deref(),
        );
    }
}

/// Appends a warning.
pub(super) fn put_warning(out: &mut BytesMut, code: &str, message: &str) {
    put_report(out, b'N', "WARNING", code, message, None);
}

fn put_report(
    out: &mut BytesMut,
    kind: u8,
    severity: &str,
    code: &str,
    message: &str,
    hint: Option<&str>,
) {
    put(out, kind, |out| {
        let fields = [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(code)),
            (b'M', Some(message)),
            (b'H', hint),
        ];
        for (field, text) in fields {
            if let Some(text) = text {
                out.put_u8(field);
                put_text(out, text);
            }
        }
        out.put_u8(0);
    });
}

impl From<Malformed> for SqlError {
    fn from(Malformed(why): Malformed) -> Self {
        Self::fatal(state::PROTOCOL, format!("protocol violation: {why}"))
    }
}

impl From<Exceeded> for SqlError {
    fn from(exceeded: Exceeded) -> Self {
        let code = Class::TooMany.codes().sqlstate;
        Self::new(code, exceeded.message()).hint(exceeded.hint())
    }
}

impl From<query::Error> for SqlError {
    fn from(error: query::Error) -> Self {
        let code = match &error {
            query::Error::Cancelled { .. } => state::CANCELLED,
            query::Error::Limit { limit, .. } if *limit == query::Limits::TIME => state::CANCELLED,
            other => match other.fault() {
                Some(fault) => of_fault(fault),
                None => Class::from(other.kind()).codes().sqlstate,
            },
        };
        Self {
            is_fatal: false,
            code,
            message: error.message(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

fn of_fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Syntax => state::SYNTAX,
        Fault::NoTable => "42P01",
        Fault::NoColumn => "42703",
        Fault::AmbiguousColumn => "42702",
        Fault::NoFunction => "42883",
        Fault::WrongType => "42804",
        Fault::DivisionByZero => "22012",
        Fault::OutOfRange => "22003",
        Fault::BadText => "22P02",
        Fault::NotSupported => state::NOT_SUPPORTED,
        Fault::ReadOnly => state::READ_ONLY,
        Fault::BadParameter => state::BAD_PARAMETER,
        _ => Class::InvalidQuery.codes().sqlstate,
    }
}
