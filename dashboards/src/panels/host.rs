//! Panels about one host in a range of time, and about its neighbours.

use super::{CLASSES, Link, Panel, PanelColumn, PanelKind, Scope, column, sql};

/// A panel with the values that most of them have.
const PANEL: Panel = Panel {
    name: "",
    title: "",
    description: "",
    unit: "short",
    kind: PanelKind::Table,
    scope: Scope::Host,
    at: (0, 0, 0, 0),
    columns: &[],
    sql: "",
};

/// Columns of events before and after the range.
const EVENTS: &[PanelColumn] = &[
    column("time", "Time").unit("dateTimeAsIso"),
    column("status", "Status").unit("none").limits(400.0, 500.0),
    column("method", "Method"),
    column("path", "Page"),
    column("response_size", "Size").unit("bytes"),
];

/// The panels of the dashboard of one host.
pub const HOST: &[Panel] = &[
    Panel {
        name: "slice_summary",
        title: "$shown",
        description: "Events of the host in the range of the dashboard: how many, of which classes of status, and how many bytes they got.",
        kind: PanelKind::Stat,
        at: (0, 0, 16, 4),
        columns: &[
            column("n", "Requests"),
            column("s2", "2xx"),
            column("s3", "3xx"),
            column("s4", "4xx"),
            column("s5", "5xx").limits(1.0, 10.0),
            column("bytes", "Sent").unit("bytes"),
        ],
        sql: sql!("slice_summary"),
        ..PANEL
    },
    Panel {
        name: "slice_span",
        title: "First and last request",
        description: "Times of the host's first and last event in the range.",
        kind: PanelKind::Stat,
        unit: "dateTimeAsIso",
        at: (16, 0, 8, 4),
        columns: &[column("first", "First"), column("last", "Last")],
        sql: sql!("slice_summary"),
        ..PANEL
    },
    Panel {
        name: "host_classes",
        title: "Requests by class of status",
        description: "Requests of the host in each interval, by the first digit of their status.",
        kind: PanelKind::Bars,
        at: (0, 4, 16, 8),
        columns: CLASSES,
        sql: sql!("classes"),
        ..PANEL
    },
    Panel {
        name: "host_statuses",
        title: "Statuses",
        description: "Requests of the host by status.",
        kind: PanelKind::Ranking,
        at: (16, 4, 8, 8),
        columns: &[column("status", "Status"), column("n", "Requests")],
        sql: sql!("host_statuses"),
        ..PANEL
    },
    Panel {
        name: "host_days",
        title: "Days around the range",
        description: "Requests of the host on each day (UTC) with any, from 15 days before the range to 15 days after it.",
        kind: PanelKind::Categories,
        at: (0, 12, 12, 8),
        columns: &[
            column("day", "Day"),
            column("answered", "below 400"),
            column("errors", "4xx and 5xx"),
        ],
        sql: sql!("host_days"),
        ..PANEL
    },
    Panel {
        name: "neighbours",
        title: "Its network: $network",
        description: "Hosts of the range in the same network: the same first three numbers of an IPv4 address, the same first four groups of an IPv6 address, the same domain of a name.",
        at: (12, 12, 12, 8),
        columns: &[
            column("host", "Host").link(Link::Host),
            column("n", "Requests"),
            column("errors", "4xx and 5xx"),
            column("bytes", "Sent").unit("bytes"),
            column("first", "First").unit("dateTimeAsIso"),
            column("last", "Last").unit("dateTimeAsIso"),
        ],
        sql: sql!("neighbours"),
        ..PANEL
    },
    Panel {
        name: "slice_page",
        title: "Events",
        description: "The first thousand events of the host in the range, in the order in which they happened.",
        at: (0, 20, 24, 11),
        columns: &[
            column("time", "Time").unit("dateTimeAsIso"),
            column("status", "Status").unit("none").limits(400.0, 500.0),
            column("method", "Method"),
            column("path", "Page"),
            column("query", "Query"),
            column("response_size", "Size").unit("bytes"),
            column("referrer", "Referrer"),
            column("user_agent", "User agent"),
        ],
        sql: sql!("slice_page"),
        ..PANEL
    },
    Panel {
        name: "host_before",
        title: "Before the range",
        description: "The last 25 events of the host before the range, of 30 days at most, the newest first.",
        at: (0, 31, 12, 9),
        columns: EVENTS,
        sql: sql!("host_before"),
        ..PANEL
    },
    Panel {
        name: "host_after",
        title: "After the range",
        description: "The first 25 events of the host after the range, of 30 days at most.",
        at: (12, 31, 12, 9),
        columns: EVENTS,
        sql: sql!("host_after"),
        ..PANEL
    },
    Panel {
        name: "host_paths",
        title: "Pages",
        description: "Pages that the host asked for most. A click shows the page among all hosts.",
        at: (0, 40, 24, 8),
        columns: &[
            column("path", "Page").link(Link::Path),
            column("n", "Requests"),
            column("errors", "4xx and 5xx"),
            column("bytes", "Sent").unit("bytes"),
        ],
        sql: sql!("host_paths"),
        ..PANEL
    },
    Panel {
        name: "host_lines",
        title: "Lines",
        description: "Lines of the host in the range, by the Loki data source: each opens with its fields, and the button of a line shows the lines around it.",
        unit: "none",
        kind: PanelKind::Logs,
        at: (0, 48, 24, 11),
        sql: include_str!("../../panels/loki_lines.logql"),
        ..PANEL
    },
];
