//! The routes of Loki's read API.

use super::{READS, Route, route};
use crate::server::loki::{
    FIELDS, NAMES, PATTERNS, QUERY, RANGE, SERIES, STATS, TAIL, VOLUME, VOLUME_RANGE,
};

/// All routes below `/loki/`.
pub(super) const ROUTES: &[Route] = &[
    route("GET", "/loki/api/v1/query", READS, &QUERY),
    route("POST", "/loki/api/v1/query", READS, &QUERY),
    route("GET", "/loki/api/v1/query_range", READS, &RANGE),
    route("POST", "/loki/api/v1/query_range", READS, &RANGE),
    route("GET", "/loki/api/v1/labels", READS, &NAMES),
    route("POST", "/loki/api/v1/labels", READS, &NAMES),
    route("GET", "/loki/api/v1/label", READS, &NAMES),
    route("POST", "/loki/api/v1/label", READS, &NAMES),
    route("GET", "/loki/api/v1/label/{name}/values", READS, &NAMES),
    route("GET", "/loki/api/v1/series", READS, &SERIES),
    route("POST", "/loki/api/v1/series", READS, &SERIES),
    route("GET", "/loki/api/v1/index/stats", READS, &STATS),
    route("POST", "/loki/api/v1/index/stats", READS, &STATS),
    route("GET", "/loki/api/v1/index/volume", READS, &VOLUME),
    route("POST", "/loki/api/v1/index/volume", READS, &VOLUME),
    route(
        "GET",
        "/loki/api/v1/index/volume_range",
        READS,
        &VOLUME_RANGE,
    ),
    route(
        "POST",
        "/loki/api/v1/index/volume_range",
        READS,
        &VOLUME_RANGE,
    ),
    route("GET", "/loki/api/v1/detected_labels", READS, &NAMES),
    route("GET", "/loki/api/v1/detected_fields", READS, &FIELDS),
    route(
        "GET",
        "/loki/api/v1/detected_field/{name}/values",
        READS,
        &FIELDS,
    ),
    route("GET", "/loki/api/v1/patterns", READS, &PATTERNS),
    route("GET", "/loki/api/v1/status/buildinfo", READS, &[]),
    route("GET", "/loki/api/v1/tail", READS, &TAIL),
];
