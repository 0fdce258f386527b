//! The request parameters of each family of calls.

/// Parameters of every call that brings records.
pub(in crate::server) const PUSH: [&str; 4] = ["stream", "w", "j", "wtimeout"];
/// Parameters of `_bulk`: those of [`PUSH`], and those of Elasticsearch that have no meaning here.
pub(in crate::server) const ELASTIC: [&str; 20] = [
    "stream",
    "w",
    "j",
    "wtimeout",
    "pipeline",
    "refresh",
    "routing",
    "timeout",
    "wait_for_active_shards",
    "filter_path",
    "pretty",
    "human",
    "error_trace",
    "require_alias",
    "require_data_stream",
    "_source",
    "_source_includes",
    "_source_excludes",
    "list_executed_pipelines",
    "include_source_on_error",
];
/// Parameters of Splunk's collector: those of [`PUSH`], and metadata of the events.
pub(in crate::server) const HEC: [&str; 10] = [
    "stream",
    "w",
    "j",
    "wtimeout",
    "index",
    "host",
    "source",
    "sourcetype",
    "channel",
    "time",
];
/// Parameters of the collector's `ack`.
pub(in crate::server) const HEC_ACK: [&str; 1] = ["channel"];
