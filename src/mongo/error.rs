//! Errors as MongoDB reports them ("Error Codes" in its documentation): a code with its name, and a
//! message.

use std::borrow::Cow;

use bson::{Document, doc};
use query::mongo::QueryError;

use crate::access::Refused;
use crate::failure::Class;
use crate::serve::Exceeded;

/// Codes of errors with their names.
pub(super) mod code {
    pub(in crate::mongo) const INTERNAL_ERROR: i32 = 1;
    pub(in crate::mongo) const BAD_VALUE: i32 = 2;
    pub(in crate::mongo) const INVALID_LENGTH: i32 = 4;
    pub(in crate::mongo) const UNAUTHORIZED: i32 = 13;
    pub(in crate::mongo) const FAILED_TO_PARSE: i32 = 9;
    pub(in crate::mongo) const TYPE_MISMATCH: i32 = 14;
    pub(in crate::mongo) const OVERFLOW: i32 = 15;
    pub(in crate::mongo) const PROTOCOL_ERROR: i32 = 17;
    pub(in crate::mongo) const AUTHENTICATION_FAILED: i32 = 18;
    pub(in crate::mongo) const ILLEGAL_OPERATION: i32 = 20;
    pub(in crate::mongo) const INVALID_BSON: i32 = 22;
    pub(in crate::mongo) const CONFLICTING_UPDATE_OPERATORS: i32 = 40;
    pub(in crate::mongo) const NAMESPACE_NOT_FOUND: i32 = 26;
    pub(in crate::mongo) const INDEX_NOT_FOUND: i32 = 27;
    pub(in crate::mongo) const CURSOR_NOT_FOUND: i32 = 43;
    pub(in crate::mongo) const NAMESPACE_EXISTS: i32 = 48;
    pub(in crate::mongo) const MAX_TIME_MS_EXPIRED: i32 = 50;
    pub(in crate::mongo) const COMMAND_NOT_FOUND: i32 = 59;
    pub(in crate::mongo) const DOLLAR_PREFIXED_FIELD_NAME: i32 = 52;
    pub(in crate::mongo) const INVALID_ID_FIELD: i32 = 53;
    pub(in crate::mongo) const WRITE_CONCERN_TIMEOUT: i32 = 64;
    pub(in crate::mongo) const CANNOT_CREATE_INDEX: i32 = 67;
    pub(in crate::mongo) const INVALID_OPTIONS: i32 = 72;
    pub(in crate::mongo) const INVALID_NAMESPACE: i32 = 73;
    pub(in crate::mongo) const UNKNOWN_REPL_WRITE_CONCERN: i32 = 79;
    pub(in crate::mongo) const UNSATISFIABLE_WRITE_CONCERN: i32 = 100;
    pub(in crate::mongo) const INDEX_OPTIONS_CONFLICT: i32 = 85;
    pub(in crate::mongo) const COMMAND_NOT_SUPPORTED: i32 = 115;
    pub(in crate::mongo) const COMMAND_NOT_SUPPORTED_ON_VIEW: i32 = 166;
    pub(in crate::mongo) const INVALID_INDEX_SPECIFICATION_OPTION: i32 = 197;
    pub(in crate::mongo) const MECHANISM_UNAVAILABLE: i32 = 334;
    pub(in crate::mongo) const QUERY_EXCEEDED_MEMORY_LIMIT: i32 = 292;
    pub(in crate::mongo) const TOO_MANY_CURSORS: i32 = 462;
    pub(in crate::mongo) const BSON_OBJECT_TOO_LARGE: i32 = 10334;
    pub(in crate::mongo) const DUPLICATE_KEY: i32 = 11000;
    pub(in crate::mongo) const INTERRUPTED: i32 = 11601;
    pub(in crate::mongo) const UNKNOWN_FIELD: i32 = 40415;
    pub(in crate::mongo) const MISSING_FIELD: i32 = 40414;
}

/// Returns the name of a code.
fn name_of(code: i32) -> Cow<'static, str> {
    Cow::Borrowed(match code {
        1 => "InternalError",
        2 => "BadValue",
        9 => "FailedToParse",
        4 => "InvalidLength",
        8 => "UnknownError",
        13 => "Unauthorized",
        14 => "TypeMismatch",
        15 => "Overflow",
        18 => "AuthenticationFailed",
        20 => "IllegalOperation",
        17 => "ProtocolError",
        22 => "InvalidBSON",
        40 => "ConflictingUpdateOperators",
        26 => "NamespaceNotFound",
        27 => "IndexNotFound",
        43 => "CursorNotFound",
        48 => "NamespaceExists",
        50 => "MaxTimeMSExpired",
        52 => "DollarPrefixedFieldName",
        53 => "InvalidIdField",
        59 => "CommandNotFound",
        64 => "WriteConcernTimeout",
        67 => "CannotCreateIndex",
        72 => "InvalidOptions",
        73 => "InvalidNamespace",
        79 => "UnknownReplWriteConcern",
        91 => "ShutdownInProgress",
        100 => "UnsatisfiableWriteConcern",
        115 => "CommandNotSupported",
        146 => "ExceededMemoryLimit",
        166 => "CommandNotSupportedOnView",
        168 => "InvalidPipelineOperator",
        241 => "ConversionFailure",
        197 => "InvalidIndexSpecificationOption",
        292 => "QueryExceededMemoryLimitNoDiskUseAllowed",
        334 => "MechanismUnavailable",
        462 => "IngressRequestRateLimitExceeded",
        10334 => "BSONObjectTooLarge",
        11000 => "DuplicateKey",
        11601 => "Interrupted",
        14031 => "OutOfDiskSpace",
        other => return Cow::Owned(format!("Location{other}")),
    })
}

/// The error of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandError {
    pub(super) code: i32,
    pub(super) message: String,
    /// The same command may succeed shortly, under the same `txnNumber`.
    is_retryable: bool,
}

pub(super) type Result<T, E = CommandError> = std::result::Result<T, E>;

impl CommandError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_retryable: false,
        }
    }

    /// Creates the error of a class. A hint follows the message: clients show one text.
    pub(super) fn of_class(class: Class, message: &str, hint: Option<&str>) -> Self {
        let codes = class.codes();
        let message = match hint {
            Some(hint) => format!("{message}; {hint}"),
            None => message.to_owned(),
        };
        Self {
            code: codes.mongo,
            message,
            is_retryable: codes.retry,
        }
    }

    /// Returns the answer to a command that failed; one with a retry identity says whether it is
    /// to be sent again.
    pub(super) fn answer(&self, has_identity: bool) -> Document {
        let mut answer = doc! {
            "ok": 0.0,
            "errmsg": &self.message,
            "code": self.code,
            "codeName": &*name_of(self.code),
        };
        if self.is_retryable && has_identity {
            answer.insert("errorLabels", ["RetryableWriteError"]);
        }
        answer
    }
}

impl From<storage::Error> for CommandError {
    fn from(error: storage::Error) -> Self {
        let class = Class::from(error.kind());
        let hint = match class {
            Class::Unknown => {
                Some("the outcome is unknown; send it again under the same txnNumber")
            }
            Class::DiskFull => Some("free some space; writes resume by themselves"),
            _ => None,
        };
        Self::of_class(class, &error.to_string(), hint)
    }
}

impl From<query::Error> for CommandError {
    fn from(error: query::Error) -> Self {
        if let query::Error::Limit {
            limit: "query.time_max",
            ..
        } = &error
        {
            return Self::new(code::MAX_TIME_MS_EXPIRED, error.to_string());
        }
        Self::of_class(error.kind().into(), &error.message(), error.hint())
    }
}

impl From<QueryError> for CommandError {
    fn from(error: QueryError) -> Self {
        Self::new(error.code, error.message)
    }
}

impl From<Exceeded> for CommandError {
    fn from(exceeded: Exceeded) -> Self {
        Self::of_class(Class::TooMany, &exceeded.message(), Some(exceeded.hint()))
    }
}

impl From<Refused> for CommandError {
    fn from(refused: Refused) -> Self {
        let message = match refused {
            Refused::Missing | Refused::Wrong => "the login failed".to_owned(),
            Refused::Slow(wait) => format!(
                "too many logins of this user from this address failed; try again in {} seconds",
                wait.as_secs() + 1
            ),
        };
        Self::new(code::AUTHENTICATION_FAILED, message)
    }
}
