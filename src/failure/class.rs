//! The classes of failures, and the code of each in every protocol: one table.
//!
//! The SQLSTATEs are from PostgreSQL (its documentation, appendix A), the MongoDB codes from the
//! server's `error_codes.yml`.

/// Any other failure of a command; success is 0.
pub(crate) const FAILED: u8 = 1;
/// The store is corrupt and was not opened (`EX_DATAERR` of sysexits).
pub(crate) const CORRUPT: u8 = 65;
/// Disk error (`EX_IOERR` of sysexits).
pub(crate) const DISK: u8 = 74;

/// The remedy for a failure: the one thing that a client needs, whatever its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Correct the request.
    Invalid,
    /// Correct the query.
    InvalidQuery,
    /// Log in with valid credentials.
    Unauthenticated,
    /// Ask an administrator for the right.
    Forbidden,
    /// Send fewer requests.
    TooMany,
    /// Choose another identity: this one was used with another body.
    Conflict,
    /// None: the client cancelled the query.
    Cancelled,
    /// Request less.
    TooLarge,
    /// Try again shortly.
    Overloaded,
    /// Free some disk space.
    DiskFull,
    /// Wait until the store is available again.
    Unavailable,
    /// Send the batch again under the same identity: the outcome is unknown.
    Unknown,
    /// Call an operator: data is damaged.
    Corrupt,
    /// Report a fault of this program.
    Internal,
}

/// Codes of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Codes {
    /// `error.code` of the HTTP interface.
    pub(crate) code: &'static str,
    /// HTTP status.
    pub(crate) http: u16,
    /// Exit code of a command.
    pub(crate) exit: u8,
    /// SQLSTATE of the PostgreSQL protocol.
    pub(crate) sqlstate: &'static str,
    /// Code of the MongoDB protocol.
    pub(crate) mongo: i32,
    /// The same request may succeed shortly.
    pub(crate) retry: bool,
}

impl Class {
    /// Returns the codes of the class.
    pub(crate) fn codes(self) -> Codes {
        // code, HTTP, exit, SQLSTATE, MongoDB, retry
        let (code, http, exit, sqlstate, mongo, retry) = match self {
            Self::Invalid => ("invalid", 400, FAILED, "22023", 2, false),
            Self::InvalidQuery => ("invalid_query", 400, FAILED, "42000", 2, false),
            Self::Unauthenticated => ("unauthenticated", 401, FAILED, "28000", 18, false),
            Self::Forbidden => ("forbidden", 403, FAILED, "42501", 13, false),
            Self::TooMany => ("too_many_requests", 429, FAILED, "53400", 462, true),
            Self::Conflict => ("key_reused", 422, FAILED, "23505", 11000, false),
            Self::Cancelled => ("cancelled", 409, FAILED, "57014", 11601, false),
            Self::TooLarge => ("too_large", 422, FAILED, "54000", 146, false),
            Self::Overloaded => ("overloaded", 503, FAILED, "53000", 462, true),
            Self::DiskFull => ("disk_full", 507, DISK, "53100", 14031, true),
            Self::Unavailable => ("unavailable", 503, FAILED, "57P03", 91, true),
            Self::Unknown => ("unknown", 503, DISK, "58030", 64, false),
            Self::Corrupt => ("internal", 500, CORRUPT, "XX001", 8, false),
            Self::Internal => ("internal", 500, FAILED, "XX000", 1, false),
        };
        Codes {
            code,
            http,
            exit,
            sqlstate,
            mongo,
            retry,
        }
    }
}

impl From<storage::Kind> for Class {
    fn from(kind: storage::Kind) -> Self {
        use storage::Kind;
        match kind {
            Kind::Invalid => Self::Invalid,
            Kind::Conflict => Self::Conflict,
            Kind::Overloaded => Self::Overloaded,
            Kind::DiskFull => Self::DiskFull,
            Kind::Unavailable | Kind::Closed => Self::Unavailable,
            Kind::Disk => Self::Unknown,
            Kind::Corrupt => Self::Corrupt,
            _ => Self::Internal,
        }
    }
}

impl From<query::Kind> for Class {
    fn from(kind: query::Kind) -> Self {
        use query::Kind;
        match kind {
            Kind::Invalid => Self::InvalidQuery,
            Kind::Cancelled => Self::Cancelled,
            Kind::Resources => Self::TooLarge,
            Kind::Busy => Self::Overloaded,
            Kind::ShareBusy => Self::TooMany,
            Kind::Peer => Self::Unavailable,
            Kind::Corrupt => Self::Corrupt,
            _ => Self::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Class;

    #[test]
    fn every_class_has_codes_of_every_protocol() {
        let classes = [
            Class::Invalid,
            Class::InvalidQuery,
            Class::Unauthenticated,
            Class::Forbidden,
            Class::TooMany,
            Class::Conflict,
            Class::Cancelled,
            Class::TooLarge,
            Class::Overloaded,
            Class::DiskFull,
            Class::Unavailable,
            Class::Unknown,
            Class::Corrupt,
            Class::Internal,
        ];
        for class in classes {
            let codes = class.codes();
            assert!((400..600).contains(&codes.http), "{class:?}");
            assert_ne!(codes.exit, 0, "{class:?}");
            assert_eq!(codes.sqlstate.len(), 5, "{class:?}");
            assert_ne!(codes.sqlstate, "00000", "{class:?}");
            assert!(codes.mongo > 0, "{class:?}");
            assert!(
                !codes.retry || codes.http >= 500 || codes.http == 429,
                "{class:?}"
            );
        }
    }
}
