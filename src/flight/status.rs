//! Errors of queries and of Arrow as statuses of gRPC.

use query::Fault;
use tonic::{Code, Status};

use crate::failure::Class;
use crate::grpc::status::{code_of, with_hint};
pub(super) use crate::grpc::status::{invalid, of_class, of_login, of_share};

/// Returns the status of a failed query.
pub(super) fn of_query(error: &query::Error) -> Status {
    let code = match error {
        query::Error::Limit { limit, .. } if *limit == query::Limits::TIME => {
            Code::DeadlineExceeded
        }
        other => match other.fault() {
            Some(Fault::NoTable) => Code::NotFound,
            Some(Fault::NotSupported) => Code::Unimplemented,
            _ => code_of(Class::from(other.kind())),
        },
    };
    with_hint(code, &error.message(), error.hint())
}

/// Returns the status of a request that would write.
pub(super) fn read_only() -> Status {
    with_hint(
        Code::Unimplemented,
        "Flight SQL reads this store and does not change it",
        Some("send events to POST /api/v1/ingest/{stream} of the HTTP listener"),
    )
}

/// Returns the status of a failure to encode or decode Arrow data.
pub(super) fn of_arrow(error: arrow::error::ArrowError) -> Status {
    with_hint(Code::Internal, &format!("Arrow: {error}"), None)
}
