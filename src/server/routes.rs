//! The table of routes and their parameters.
//!
//! [`Front`](super::front::Front) checks a request against the table before the router sees it. An
//! unknown path or method is answered with 404 or 405, an unknown parameter with 400 and the
//! nearest known one. So a request with a misspelled `dry_run` has no effect, and a new route
//! cannot be reached before its parameters, and the right that it needs, are in the table.

mod loki;
mod shippers;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use axum::http::Method;
use percent_encoding::percent_decode_str;
use query::nearest;

use super::prometheus::{EXEMPLARS, FORMAT, METADATA, NAMES, QUERY, RANGE, RULES};
use super::{cluster, quarantine, request_parameters, sql, tail};
use crate::access::{Action, Target};

/// One method of one path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route {
    method: &'static str,
    /// The path as the router writes it: a segment in braces matches any segment.
    pub(super) path: &'static str,
    /// The right that a client needs.
    pub(super) needs: Needs,
    parameters: &'static [&'static str],
}

/// A right: an action, and the place of a request that names its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) action: Action,
    pub(super) target: TargetOf,
}

/// The part of a request that names its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetOf {
    /// The segment in braces is a stream.
    Path,
    /// The parameter `stream`.
    Parameter,
    /// None: the answer leaves out what the client may not read.
    Visible,
    /// None: the request is about the whole store.
    Store,
}

const fn needs(action: Action, target: TargetOf) -> Needs {
    Needs { action, target }
}

const PUBLIC: Needs = needs(Action::Public, TargetOf::Visible);
const WRITES_STREAM: Needs = needs(Action::Ingest, TargetOf::Path);
const RESUMES: Needs = needs(Action::Ingest, TargetOf::Visible);
/// Servers of a cluster send the parts of batches of all streams.
const TAKES_PARTS: Needs = needs(Action::TakeParts, TargetOf::Store);
const READS: Needs = needs(Action::Read, TargetOf::Visible);
const READS_STREAM: Needs = needs(Action::Read, TargetOf::Path);
const READS_NAMED: Needs = needs(Action::Read, TargetOf::Parameter);
const READS_STORE: Needs = needs(Action::Read, TargetOf::Store);
const TENDS: Needs = needs(Action::Maintain, TargetOf::Store);
const ADMIN: Needs = needs(Action::Administer, TargetOf::Store);

const fn route(
    method: &'static str,
    path: &'static str,
    needs: Needs,
    parameters: &'static [&'static str],
) -> Route {
    Route {
        method,
        path,
        needs,
        parameters,
    }
}

/// All routes but the page and its assets, which keep their own state in their addresses.
pub(super) const ROUTES: &[Route] = &[
    route("GET", "/health", PUBLIC, &[]),
    route("GET", "/ready", PUBLIC, &[]),
    route("GET", "/metrics", READS_STORE, &[]),
    route(
        "POST",
        "/api/v1/ingest/{stream}",
        WRITES_STREAM,
        &request_parameters::PARAMETERS,
    ),
    route("POST", "/api/v1/sql", READS, &sql::PARAMETERS),
    route("GET", "/api/v1/tail", READS_NAMED, &tail::PARAMETERS),
    route("GET", "/api/v1/streams", READS, &[]),
    route("GET", "/api/v1/streams/{name}/schema", READS_STREAM, &[]),
    route(
        "GET",
        "/api/v1/streams/{name}/shard-keys",
        READS_STREAM,
        &["shards", "key"],
    ),
    route("POST", "/api/v1/streams/{name}/erase", TENDS, &[]),
    route("GET", "/api/v1/partitions", READS, &[]),
    route(
        "DELETE",
        "/api/v1/partitions",
        TENDS,
        &["stream", "date", "dry_run"],
    ),
    route(
        "POST",
        "/api/v1/partitions/detach",
        TENDS,
        &["stream", "date", "dry_run"],
    ),
    route(
        "POST",
        "/api/v1/partitions/attach",
        TENDS,
        &["stream", "date"],
    ),
    route(
        "POST",
        "/api/v1/partitions/retain",
        TENDS,
        &["stream", "dry_run"],
    ),
    route("POST", "/api/v1/partitions/compact", TENDS, &["stream"]),
    route("GET", "/api/v1/indexes", READS, &[]),
    route(
        "POST",
        "/api/v1/indexes/{stream}/{field}",
        TENDS,
        &["covering"],
    ),
    route("DELETE", "/api/v1/indexes/{stream}/{field}", TENDS, &[]),
    route(
        "GET",
        "/api/v1/quarantine",
        READS_STORE,
        &quarantine::CHOICE,
    ),
    route(
        "GET",
        "/api/v1/quarantine/explain",
        READS_STORE,
        &quarantine::EXPLAIN,
    ),
    route(
        "POST",
        "/api/v1/quarantine/replay",
        TENDS,
        &quarantine::REPLAY,
    ),
    route("POST", "/api/v1/quarantine/drop", TENDS, &quarantine::DROP),
    route("GET", "/api/v1/rollups", READS, &[]),
    route("POST", "/api/v1/rollups/run", TENDS, &[]),
    route("POST", "/api/v1/rollups/compact", TENDS, &[]),
    route("DELETE", "/api/v1/rollups/{name}", TENDS, &[]),
    route(
        "POST",
        "/api/v1/rollups/{name}/verify",
        TENDS,
        &["sample", "questions"],
    ),
    route(
        "POST",
        "/api/v1/rollups/{name}/rebuild",
        TENDS,
        &["from", "to"],
    ),
    route("POST", "/api/v1/backup", ADMIN, &[]),
    route("POST", "/api/v1/cluster/snapshots", READS, &[]),
    route("DELETE", "/api/v1/cluster/snapshots/{id}", READS, &[]),
    route(
        "POST",
        "/api/v1/cluster/requests",
        READS,
        &cluster::PARAMETERS,
    ),
    route("POST", "/api/v1/cluster/tail", READS, &[]),
    route("GET", "/api/v1/cluster/catalog", TAKES_PARTS, &[]),
    route("PUT", "/api/v1/cluster/catalog", TAKES_PARTS, &[]),
    route("GET", "/api/v1/cluster/shard", TAKES_PARTS, &[]),
    route("GET", "/api/v1/cluster/status", READS_STORE, &[]),
    route(
        "POST",
        "/api/v1/cluster/batches",
        TAKES_PARTS,
        &cluster::shard::PART,
    ),
    route(
        "GET",
        "/api/v1/cluster/sources",
        TAKES_PARTS,
        &cluster::shard::SOURCE,
    ),
    route("GET", "/api/v1/sources", RESUMES, &["producer", "prefix"]),
    route("GET", "/api/v1/queries", READS, &[]),
    route("DELETE", "/api/v1/queries/{id}", READS, &[]),
    route("GET", "/api/v1/session", PUBLIC, &[]),
    route("POST", "/api/v1/login", PUBLIC, &[]),
    route("POST", "/api/v1/logout", PUBLIC, &[]),
    route("GET", "/api/v1/users", ADMIN, &[]),
    route("PUT", "/api/v1/users/{name}", ADMIN, &[]),
    route("PUT", "/api/v1/users/{name}/password", ADMIN, &[]),
    route("DELETE", "/api/v1/users/{name}", ADMIN, &[]),
    route("GET", "/api/v1/tokens", ADMIN, &[]),
    route("POST", "/api/v1/tokens/{name}", ADMIN, &[]),
    route("DELETE", "/api/v1/tokens/{name}", ADMIN, &[]),
    route("GET", "/prometheus/api/v1/query", READS, &QUERY),
    route("POST", "/prometheus/api/v1/query", READS, &QUERY),
    route("GET", "/prometheus/api/v1/query_range", READS, &RANGE),
    route("POST", "/prometheus/api/v1/query_range", READS, &RANGE),
    route("GET", "/prometheus/api/v1/format_query", READS, &FORMAT),
    route("POST", "/prometheus/api/v1/format_query", READS, &FORMAT),
    route("GET", "/prometheus/api/v1/series", READS, &NAMES),
    route("POST", "/prometheus/api/v1/series", READS, &NAMES),
    route("GET", "/prometheus/api/v1/labels", READS, &NAMES),
    route("POST", "/prometheus/api/v1/labels", READS, &NAMES),
    route(
        "GET",
        "/prometheus/api/v1/label/{name}/values",
        READS,
        &NAMES,
    ),
    route("GET", "/prometheus/api/v1/metadata", READS, &METADATA),
    route(
        "GET",
        "/prometheus/api/v1/query_exemplars",
        READS,
        &EXEMPLARS,
    ),
    route(
        "POST",
        "/prometheus/api/v1/query_exemplars",
        READS,
        &EXEMPLARS,
    ),
    route("GET", "/prometheus/api/v1/rules", READS, &RULES),
    route("GET", "/prometheus/api/v1/status/buildinfo", READS, &[]),
];

/// Returns the routes of the table, those of Loki's API, and those of shippers.
fn all() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().chain(loki::ROUTES).chain(shippers::ROUTES)
}

/// Result of the search for a route.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Route(&'static Route),
    /// The path is known with other methods, listed here as in `Allow`.
    OtherMethods(String),
    Nothing,
}

/// The routes of each path, by the pattern that the router has too.
static PATHS: LazyLock<matchit::Router<Vec<&'static Route>>> = LazyLock::new(|| {
    let mut paths: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
    for route in all() {
        paths.entry(route.path).or_default().push(route);
    }
    let mut router = matchit::Router::new();
    for (path, routes) in paths {
        let added = router.insert(path, routes);
        added.expect("BUG: the table has two patterns for one path");
    }
    router
});

/// Finds the route of a request. `HEAD` is a `GET` without its body.
pub(super) fn find(method: &Method, path: &str) -> Found {
    let Ok(here) = PATHS.at(path).map(|found| found.value) else {
        return Found::Nothing;
    };
    let asked = if method == Method::HEAD {
        "GET"
    } else {
        method.as_str()
    };
    match here.iter().find(|r| r.method == asked) {
        Some(route) => Found::Route(route),
        None => Found::OtherMethods(allow(here.iter().map(|r| r.method))),
    }
}

/// Lists the methods as in `Allow`.
pub(super) fn allow<'a>(methods: impl Iterator<Item = &'a str>) -> String {
    let mut all = Vec::new();
    for method in methods {
        all.push(method);
        all.extend((method == "GET").then_some("HEAD"));
    }
    all.join(", ")
}

/// A parameter that is unknown, occurs twice, or cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) hint: String,
}

impl Route {
    /// Returns the target of a request of this route. A parameter that is missing or not valid
    /// names no stream, so that a client limited to some streams is refused.
    pub(super) fn target<'a>(
        &self,
        path: &'a str,
        query: &str,
        held: &'a mut String,
    ) -> Target<'a> {
        match self.needs.target {
            TargetOf::Visible => Target::Visible,
            TargetOf::Store => Target::Store,
            TargetOf::Path => {
                let mut pairs = self.path.split('/').zip(path.split('/'));
                let segment = pairs.find(|(pattern, _)| pattern.starts_with('{'));
                *held = decode(segment.map_or("", |(_, segment)| segment)).unwrap_or_default();
                Target::Stream(held)
            }
            TargetOf::Parameter => {
                let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                let value = pairs.find_map(|(name, value)| {
                    (decode(name)? == "stream").then(|| decode(value)).flatten()
                });
                *held = value.unwrap_or_default();
                Target::Stream(held)
            }
        }
    }

    /// Checks the parameters of a request.
    ///
    /// # Errors
    /// For the first parameter that the route does not take, that occurs twice, or that cannot be
    /// decoded.
    pub(super) fn check(&self, query: &str) -> Result<(), Wrong> {
        let mut seen = BTreeSet::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(_)) = (decode(name), decode(value)) else {
                return Err(self.wrong(format!(
                    "{pair:?} is not percent-encoded UTF-8; % is written %25"
                )));
            };
            if !self.parameters.contains(&&*name) {
                let near = match nearest(&name, self.parameters.iter().copied()) {
                    Some(near) => format!("; did you mean {near}?"),
                    None => String::new(),
                };
                return Err(self.wrong(format!("unknown parameter {name:?}{near}")));
            }
            // A name that ends with [] is that of a list.
            if !seen.insert(name.clone()) && !name.ends_with("[]") {
                return Err(self.wrong(format!("the parameter {name} is given twice")));
            }
        }
        Ok(())
    }

    fn wrong(&self, message: String) -> Wrong {
        let takes = match self.parameters {
            [] => "no parameters".to_owned(),
            some => some.join(", "),
        };
        let more = match self.path {
            "/api/v1/sql" => sql::NOT_PARAMETERS,
            _ => "",
        };
        Wrong {
            message,
            hint: format!("{} {} takes {takes}{more}", self.method, self.path),
        }
    }
}

/// Decodes a name or value of a query; returns `None` if it is not percent-encoded UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        let hex = after.as_bytes().get(..2)?;
        if !hex.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = &after[2..];
    }
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced)
        .decode_utf8()
        .ok()
        .map(Cow::into_owned)
}

#[cfg(test)]
mod tests;
