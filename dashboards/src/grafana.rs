//! Files by which a stock Grafana (10 to 13, without a plugin) shows a store: data sources,
//! dashboards and alert rules, in the folders that Grafana's provisioning reads.
//!
//! # Invariants
//! * No file contains a secret: user and password are variables of Grafana's environment.
//! * Every query of a panel is a template of [`crate::panels`]. Those of variables and of alert
//!   rules stand beside them.
//! * The same options give the same bytes.

mod alerts;
mod dashboard;
mod panel;
mod sources;
mod sql;
mod variables;
mod yaml;

use crate::panels::{HOST, LATENCY, OVERVIEW, Panel, STORE};

/// Identifier of the PostgreSQL data source.
const POSTGRES: &str = "logmill-postgres";
/// Identifier of the Loki data source.
const LOKI: &str = "logmill-loki";
/// Identifier of the Prometheus data source.
const PROMETHEUS: &str = "logmill-prometheus";

/// The store to show, and how Grafana reaches it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address of the store's page, without a slash at its end.
    pub url: String,
    /// Host and port of the store's PostgreSQL listener.
    pub postgres: String,
    /// The stream that dashboards show first and that alert rules watch.
    pub stream: String,
    /// Adds a Prometheus data source.
    pub prometheus: bool,
    /// Field of the time that a response took, if events have one.
    pub latency: Option<Latency>,
}

/// Field of the time that a response took.
#[derive(Debug, Clone)]
pub struct Latency {
    /// Name of the column.
    pub field: String,
    /// Its unit by Grafana's identifier: `s`, `ms`, `µs` or `ns`.
    pub unit: String,
}

/// A file, and its path below the folder that Grafana mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Path with slashes, relative to the folder of `--out`.
    pub path: &'static str,
    /// The content.
    pub content: String,
}

/// A dashboard: an identifier, a title and panels.
#[derive(Debug, Clone, Copy)]
struct Board {
    uid: &'static str,
    title: &'static str,
    description: &'static str,
    path: &'static str,
    panels: &'static [Panel],
}

const OVERVIEW_BOARD: Board = Board {
    uid: "logmill-overview",
    title: "Logmill: overview",
    description: "Traffic of a stream: requests, statuses, sizes, visitors, pages and hosts.",
    path: "dashboards/overview.json",
    panels: OVERVIEW,
};

const HOST_BOARD: Board = Board {
    uid: "logmill-host",
    title: "Logmill: host and date",
    description: "One host in the chosen range of time: its events, what it did before and after, and its neighbours.",
    path: "dashboards/host.json",
    panels: HOST,
};

const STORE_BOARD: Board = Board {
    uid: "logmill-store",
    title: "Logmill: ingest and rollups",
    description: "The store: ingest, quarantine, journal, levels of the rollups, disk, maintenance and queries.",
    path: "dashboards/store.json",
    panels: STORE,
};

const BOARDS: [Board; 3] = [OVERVIEW_BOARD, HOST_BOARD, STORE_BOARD];

impl Board {
    /// Returns the panels for these options.
    fn panels(&self, options: &Options) -> impl Iterator<Item = Panel> {
        let latency = options.latency.is_some() && self.uid == OVERVIEW_BOARD.uid;
        let panels = self.panels.iter().copied();
        panels.chain(latency.then_some(LATENCY))
    }
}

/// Returns all files. Dashboards are read from `/etc/grafana/dashboards/logmill` in Grafana's own
/// file system, or from where the variable `LOGMILL_DASHBOARDS` says.
pub fn files(options: &Options) -> Vec<File> {
    let mut files = vec![
        File {
            path: "provisioning/datasources/logmill.yaml",
            content: sources::sources(options),
        },
        File {
            path: "provisioning/dashboards/logmill.yaml",
            content: sources::folder(),
        },
        File {
            path: "provisioning/alerting/logmill.yaml",
            content: alerts::alerts(options),
        },
    ];
    files.extend(BOARDS.iter().map(|board| File {
        path: board.path,
        content: format!("{:#}\n", dashboard::dashboard(board, options)),
    }));
    files
}

#[cfg(test)]
mod tests;
