//! Names of the HTTP interface that server and client share.

/// The header by which a client marks its query: `/api/v1/queries` returns it as `tag`.
pub(crate) const TAG: &str = "x-logmill-tag";
