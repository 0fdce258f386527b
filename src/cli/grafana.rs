//! Arguments of `logmill grafana`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct GrafanaArgs {
    /// The folder to write into; existing files of the same names are replaced.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The address at which Grafana and its users reach `logmill serve`.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
    pub(crate) url: String,
    /// Host and port of the PostgreSQL listener.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5433")]
    pub(crate) postgres: String,
    /// The stream that dashboards show first and that alert rules watch.
    #[arg(long, default_value = "access")]
    pub(crate) stream: String,
    /// Add a Prometheus data source, which reads rollups as metrics.
    #[arg(long)]
    pub(crate) prometheus: bool,
    /// The field of the time that a response took, if events have one: adds a panel and a rule.
    #[arg(long, value_name = "FIELD")]
    pub(crate) latency: Option<String>,
    /// The unit of that field.
    #[arg(long, value_enum, requires = "latency", default_value = "s")]
    pub(crate) latency_unit: LatencyUnit,
}

/// Unit of a latency.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LatencyUnit {
    S,
    Ms,
    Us,
    Ns,
}
