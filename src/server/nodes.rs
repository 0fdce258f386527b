//! Requests to a node of a cluster about stores. Its own store is empty, and an answer about that
//! one would be taken for one about the cluster.
//!
//! # Invariants
//! * A request that changes or verifies a store (the right [`Action::Maintain`]) goes to the
//!   servers of all shards ([`sending`]).
//! * Lists have the rows of all servers. A request that one store alone can answer is refused.

mod reports;
mod sending;

use axum::http::request::Parts;
use axum::response::Response;

use super::answer;
use super::routes::{self, Found, Route};
use crate::access::Action;
use crate::serve::Serving;

pub(super) use sending::send_on;

/// Beginning of the paths by which the servers of a cluster ask each other.
const CLUSTER: &str = "/api/v1/cluster/";
/// Routes of requests that one store alone can answer.
const OF_ONE_STORE: [&str; 3] = [
    "/api/v1/backup",
    "/api/v1/quarantine/explain",
    "/api/v1/streams/{name}/shard-keys",
];

/// Refuses a request about one store, where the server is a node.
pub(super) fn check(serving: &Serving, route: Option<&Route>) -> Result<(), Box<Response>> {
    match route.is_some_and(|route| OF_ONE_STORE.contains(&route.path)) {
        true => serving
            .has_events()
            .map_err(|why| Box::new(answer::bad_request(why))),
        false => Ok(()),
    }
}

/// Returns the right that a request needs here: the server of a node's shard does what the nodes,
/// its peers, pass on from their operators.
pub(super) fn action(serving: &Serving, route: &Route) -> Action {
    let cluster = &serving.config.cluster;
    match route.needs.action {
        Action::Maintain if cluster.shard.is_some() && cluster.finds_shards() => Action::TakeParts,
        action => action,
    }
}

/// Returns whether a request is one of a server of the cluster.
pub(super) fn is_of_cluster(serving: &Serving, head: &Parts) -> bool {
    let path = head.uri.path();
    let is_passed_on = || match routes::find(&head.method, path) {
        Found::Route(route) => action(serving, route) == Action::TakeParts,
        _ => false,
    };
    path.starts_with(CLUSTER) || serving.config.cluster.finds_shards() && is_passed_on()
}

/// Returns the route of a request that the servers of the shards answer, where this one is a node.
pub(super) fn route_to_shards(serving: &Serving, head: &Parts) -> Option<&'static Route> {
    if !serving.config.cluster.is_node() {
        return None;
    }
    match routes::find(&head.method, head.uri.path()) {
        Found::Route(route) if route.needs.action == Action::Maintain => Some(route),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::routes::ROUTES;

    /// Otherwise a new route of administration would succeed at a node, and change nothing.
    #[test]
    fn administration_is_of_accounts_or_of_one_store() {
        let accounts = ["/api/v1/users", "/api/v1/tokens"];
        let is_of_accounts = |path: &str| accounts.iter().any(|begin| path.starts_with(begin));
        let mut administration = 0;
        for route in ROUTES {
            if route.needs.action == Action::Administer {
                administration += 1;
                let path = route.path;
                let is_of_one = OF_ONE_STORE.contains(&path);
                assert_ne!(is_of_one, is_of_accounts(path), "{path}");
            }
        }
        assert!(administration > 5, "{administration}");
    }
}
