//! The requests that a node of a cluster refuses: its own store is empty, and an answer about that
//! one would be taken for one about the cluster.

use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;

use super::answer;
use crate::serve::Serving;

/// Beginnings and ends of the paths of what one store alone answers.
const BEGINS: [&str; 5] = [
    "/api/v1/backup",
    "/api/v1/indexes",
    "/api/v1/partitions",
    "/api/v1/quarantine",
    "/api/v1/rollups",
];
const ENDS: [&str; 2] = ["/erase", "/shard-keys"];
/// Lists, which have what all servers tell.
const LISTS: [&str; 4] = [
    "/api/v1/indexes",
    "/api/v1/partitions",
    "/api/v1/quarantine",
    "/api/v1/rollups",
];

/// Refuses a request about one store, where the server is a node.
pub(super) fn check(serving: &Serving, head: &Parts) -> Result<(), Box<Response>> {
    let path = head.uri.path();
    let lists = head.method == Method::GET && LISTS.contains(&path);
    match !lists && is_of_one_store(path) {
        true => serving
            .has_events()
            .map_err(|why| Box::new(answer::bad_request(why))),
        false => Ok(()),
    }
}

fn is_of_one_store(path: &str) -> bool {
    BEGINS.iter().any(|begin| path.starts_with(begin))
        || path.starts_with("/api/v1/streams/") && ENDS.iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Action;
    use crate::server::routes::ROUTES;

    /// Otherwise a new route of administration would succeed at a node, and change nothing.
    #[test]
    fn administration_is_of_accounts_or_of_one_store() {
        let is_of_accounts = |path: &str| {
            let accounts = ["/api/v1/users", "/api/v1/tokens"];
            accounts.iter().any(|begin| path.starts_with(begin))
        };
        let mut administration = 0;
        for route in ROUTES {
            if route.needs.action == Action::Administer {
                administration += 1;
                let path = route.path;
                assert_ne!(is_of_one_store(path), is_of_accounts(path), "{path}");
            }
        }
        assert!(administration > 10, "{administration}");
    }
}
