//! The requests that a node of a cluster refuses: its own store is empty, and an answer about that
//! one would be taken for one about the cluster.

use axum::http::request::Parts;
use axum::response::Response;

use super::answer;
use crate::serve::Serving;

/// Beginnings and ends of the paths of what one store alone answers.
const BEGINS: [&str; 6] = [
    "/api/v1/backup",
    "/api/v1/indexes",
    "/api/v1/partitions",
    "/api/v1/quarantine",
    "/api/v1/rollups",
    "/api/v1/tail",
];
const ENDS: [&str; 2] = ["/erase", "/shard-keys"];

/// Refuses a request about one store, where the server is a node.
pub(super) fn check(serving: &Serving, head: &Parts) -> Result<(), Box<Response>> {
    let path = head.uri.path();
    let is_of_store = BEGINS.iter().any(|begin| path.starts_with(begin))
        || path.starts_with("/api/v1/streams/") && ENDS.iter().any(|end| path.ends_with(end));
    if !serving.config.cluster.is_node() || !is_of_store {
        return Ok(());
    }
    Err(Box::new(answer::bad_request(
        "this server is a node of a cluster and has no events itself; send the request to the server of each shard, as `logmill cluster status` lists them",
    )))
}
