//! The routes of shippers' protocols. The stream of a record stands in the body, so that the
//! handler checks the right to write into it.

use super::{Needs, PUBLIC, Route, TargetOf, needs, route};
use crate::access::Action;
use crate::server::shippers::{ELASTIC, HEC, HEC_ACK, PUSH};

const WRITES: Needs = needs(Action::Ingest, TargetOf::Visible);
/// Parameters of the calls that prepare Elasticsearch's storage, which have no effect.
const PREPARE: [&str; 8] = [
    "filter_path",
    "pretty",
    "human",
    "master_timeout",
    "timeout",
    "create",
    "order",
    "wait_for_status",
];

/// All routes of shippers.
pub(super) const ROUTES: &[Route] = &[
    route("GET", "/elasticsearch", PUBLIC, &PREPARE),
    route("GET", "/elasticsearch/", PUBLIC, &PREPARE),
    route("POST", "/_bulk", WRITES, &ELASTIC),
    route("POST", "/{index}/_bulk", WRITES, &ELASTIC),
    route("PUT", "/_bulk", WRITES, &ELASTIC),
    route("PUT", "/{index}/_bulk", WRITES, &ELASTIC),
    route("GET", "/_license", WRITES, &PREPARE),
    route("GET", "/_xpack", WRITES, &PREPARE),
    route("GET", "/_cluster/health", WRITES, &PREPARE),
    route("GET", "/_ilm/policy/{name}", WRITES, &PREPARE),
    route("PUT", "/_ilm/policy/{name}", WRITES, &PREPARE),
    route("GET", "/_index_template/{name}", WRITES, &PREPARE),
    route("PUT", "/_index_template/{name}", WRITES, &PREPARE),
    route("GET", "/_component_template/{name}", WRITES, &PREPARE),
    route("PUT", "/_component_template/{name}", WRITES, &PREPARE),
    route("GET", "/_template/{name}", WRITES, &PREPARE),
    route("PUT", "/_template/{name}", WRITES, &PREPARE),
    route("GET", "/_ingest/pipeline/{name}", WRITES, &PREPARE),
    route("PUT", "/_ingest/pipeline/{name}", WRITES, &PREPARE),
    route("GET", "/_data_stream/{name}", WRITES, &PREPARE),
    route("PUT", "/_data_stream/{name}", WRITES, &PREPARE),
    route("POST", "/elasticsearch/_bulk", WRITES, &ELASTIC),
    route("POST", "/elasticsearch/{index}/_bulk", WRITES, &ELASTIC),
    route("PUT", "/elasticsearch/_bulk", WRITES, &ELASTIC),
    route("PUT", "/elasticsearch/{index}/_bulk", WRITES, &ELASTIC),
    route("GET", "/elasticsearch/_license", WRITES, &PREPARE),
    route("GET", "/elasticsearch/_xpack", WRITES, &PREPARE),
    route("GET", "/elasticsearch/_cluster/health", WRITES, &PREPARE),
    route("GET", "/elasticsearch/_ilm/policy/{name}", WRITES, &PREPARE),
    route("PUT", "/elasticsearch/_ilm/policy/{name}", WRITES, &PREPARE),
    route(
        "GET",
        "/elasticsearch/_index_template/{name}",
        WRITES,
        &PREPARE,
    ),
    route(
        "PUT",
        "/elasticsearch/_index_template/{name}",
        WRITES,
        &PREPARE,
    ),
    route(
        "GET",
        "/elasticsearch/_component_template/{name}",
        WRITES,
        &PREPARE,
    ),
    route(
        "PUT",
        "/elasticsearch/_component_template/{name}",
        WRITES,
        &PREPARE,
    ),
    route("GET", "/elasticsearch/_template/{name}", WRITES, &PREPARE),
    route("PUT", "/elasticsearch/_template/{name}", WRITES, &PREPARE),
    route(
        "GET",
        "/elasticsearch/_ingest/pipeline/{name}",
        WRITES,
        &PREPARE,
    ),
    route(
        "PUT",
        "/elasticsearch/_ingest/pipeline/{name}",
        WRITES,
        &PREPARE,
    ),
    route(
        "GET",
        "/elasticsearch/_data_stream/{name}",
        WRITES,
        &PREPARE,
    ),
    route(
        "PUT",
        "/elasticsearch/_data_stream/{name}",
        WRITES,
        &PREPARE,
    ),
    route("POST", "/services/collector", WRITES, &HEC),
    route("POST", "/services/collector/event", WRITES, &HEC),
    route("POST", "/services/collector/event/1.0", WRITES, &HEC),
    route("POST", "/services/collector/raw", WRITES, &HEC),
    route("POST", "/services/collector/raw/1.0", WRITES, &HEC),
    route("POST", "/services/collector/ack", WRITES, &HEC_ACK),
    route("GET", "/services/collector/health", PUBLIC, &HEC_ACK),
    route("GET", "/services/collector/health/1.0", PUBLIC, &HEC_ACK),
    route("POST", "/loki/api/v1/push", WRITES, &PUSH),
    route("POST", "/upload", WRITES, &PUSH),
    route("POST", "/v1/logs", WRITES, &PUSH),
    route("POST", "/v1/traces", WRITES, &PUSH),
    route("POST", "/v1/metrics", WRITES, &PUSH),
];
