//! Panels about all events of a stream.

use super::{CLASSES, Link, Panel, PanelColumn, PanelKind, Scope, column, sql};

/// A panel with the values that most of them have.
const PANEL: Panel = Panel {
    name: "",
    title: "",
    description: "",
    unit: "short",
    kind: PanelKind::Stat,
    scope: Scope::Pages,
    at: (0, 0, 0, 0),
    columns: &[],
    sql: "",
};

const SIZES: &[PanelColumn] = &[
    column("p50", "p50"),
    column("p90", "p90"),
    column("p99", "p99"),
];

/// The panels of the dashboard of a stream.
pub const OVERVIEW: &[Panel] = &[
    Panel {
        name: "totals",
        title: "Requests and bytes",
        description: "Requests of the range, and the bytes of their responses.",
        at: (0, 0, 6, 4),
        columns: &[
            column("hits", "Requests"),
            column("bytes", "Sent").unit("bytes"),
        ],
        sql: sql!("totals"),
        ..PANEL
    },
    Panel {
        name: "errors",
        title: "Errors",
        description: "Share of requests that were answered with a status of 500 to 599, and of 400 to 499.",
        unit: "percentunit",
        at: (6, 0, 6, 4),
        columns: &[
            column("server", "5xx").limits(0.01, 0.05),
            column("client", "4xx").limits(0.1, 0.3),
        ],
        sql: sql!("errors"),
        ..PANEL
    },
    Panel {
        name: "visitors",
        title: "Visitors",
        description: "Distinct hosts of the range, within two percent. Rollups count them from the hour on, so the ends of the range are those of whole hours.",
        at: (12, 0, 6, 4),
        columns: &[column("visitors", "Visitors")],
        sql: sql!("visitors"),
        ..PANEL
    },
    Panel {
        name: "newest",
        title: "Newest event",
        description: "Time of the last event of the range.",
        unit: "dateTimeFromNow",
        at: (18, 0, 6, 4),
        columns: &[column("newest", "Newest event")],
        sql: sql!("newest"),
        ..PANEL
    },
    Panel {
        name: "hits",
        title: "Requests",
        description: "Requests in each interval, from the coarsest level that the interval allows.",
        kind: PanelKind::Bars,
        at: (0, 4, 12, 8),
        columns: &[column("hits", "Requests")],
        sql: sql!("hits"),
        ..PANEL
    },
    Panel {
        name: "classes",
        title: "Requests by class of status",
        description: "Requests in each interval by the first digit of their status. For chosen pages they come from raw events, as no rollup counts both.",
        kind: PanelKind::Bars,
        at: (12, 4, 12, 8),
        columns: CLASSES,
        sql: sql!("classes"),
        ..PANEL
    },
    Panel {
        name: "sizes",
        title: "Response size",
        description: "Percentiles of response sizes in each interval, of merged histograms: 50, 90 and 99 of a hundred responses are no larger.",
        unit: "bytes",
        kind: PanelKind::Lines,
        at: (0, 12, 12, 8),
        columns: SIZES,
        sql: sql!("sizes"),
        ..PANEL
    },
    Panel {
        name: "bytes",
        title: "Bytes sent",
        description: "Bytes of the responses in each interval.",
        unit: "bytes",
        kind: PanelKind::Bars,
        at: (12, 12, 12, 8),
        columns: &[column("bytes", "Sent")],
        sql: sql!("bytes"),
        ..PANEL
    },
    Panel {
        name: "visitors_by_bucket",
        title: "Visitors by interval",
        description: "Distinct hosts in each interval of an hour or more. One that comes in several intervals is counted in each.",
        kind: PanelKind::Bars,
        at: (0, 20, 12, 9),
        columns: &[column("visitors", "Visitors")],
        sql: sql!("visitors_by_bucket"),
        ..PANEL
    },
    Panel {
        name: "top_paths",
        title: "Top pages",
        description: "Pages with the most requests, whichever pages are chosen. A click chooses the page.",
        kind: PanelKind::Table,
        at: (12, 20, 12, 9),
        columns: &[
            column("path", "Page").link(Link::Path),
            column("n", "Requests"),
            column("share", "Share").unit("percentunit"),
            column("b", "Sent").unit("bytes"),
        ],
        sql: sql!("top_paths"),
        ..PANEL
    },
    Panel {
        name: "busy_hosts",
        title: "Busiest hosts",
        description: "Hosts with the most requests, among those whose name contains the variable Host. A click opens the host's dashboard. No rollup counts hosts: raw events are read.",
        kind: PanelKind::Table,
        at: (0, 29, 24, 9),
        columns: &[
            column("host", "Host").link(Link::Host),
            column("n", "Requests"),
            column("errors", "4xx and 5xx"),
            column("bytes", "Sent").unit("bytes"),
            column("last", "Last request").unit("dateTimeAsIso"),
        ],
        sql: sql!("busy_hosts"),
        ..PANEL
    },
];

/// The panel of the field with the latency, for streams that have one.
pub const LATENCY: Panel = Panel {
    name: "latency",
    title: "Latency",
    description: "Percentiles of the time that responses took, in each interval. A rollup with a histogram of the field answers, and raw events without one.",
    kind: PanelKind::Lines,
    at: (0, 38, 24, 8),
    columns: SIZES,
    sql: sql!("latency"),
    ..PANEL
};
