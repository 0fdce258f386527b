//! Panels about the store: ingest, quarantine, journal, rollups and disk.

use super::{Panel, PanelKind, Scope, column, sql};

/// A panel with the values that most of them have.
const PANEL: Panel = Panel {
    name: "",
    title: "",
    description: "",
    unit: "short",
    kind: PanelKind::Stat,
    scope: Scope::Store,
    at: (0, 0, 0, 0),
    columns: &[],
    sql: "",
};

/// The panels of the dashboard of the store.
pub const STORE: &[Panel] = &[
    Panel {
        name: "events",
        title: "Events",
        description: "Events in the store, of all streams.",
        at: (0, 0, 4, 4),
        columns: &[column("events", "Events")],
        sql: sql!("events"),
        ..PANEL
    },
    Panel {
        name: "journal",
        title: "Journal lag",
        description: "Items that queries read already and that the journal has not synced yet.",
        at: (4, 0, 4, 4),
        columns: &[column("unsynced", "Not synced").limits(100_000.0, 1_000_000.0)],
        sql: sql!("store_state"),
        ..PANEL
    },
    Panel {
        name: "rollup_waiting",
        title: "Waiting for rollups",
        description: "Events in memory that the next seal adds to the rollups, and the time since the last seal. Queries count them already.",
        at: (8, 0, 6, 4),
        columns: &[
            column("memtable_events", "Events"),
            column("seal_age_s", "Last seal").unit("s"),
        ],
        sql: sql!("store_state"),
        ..PANEL
    },
    Panel {
        name: "quarantine_waiting",
        title: "Quarantine",
        description: "Lines that could not be parsed and wait for a decision.",
        at: (14, 0, 4, 4),
        columns: &[column("items", "Items").limits(1.0, 10_000.0)],
        sql: sql!("quarantine_waiting"),
        ..PANEL
    },
    Panel {
        name: "disk_room",
        title: "Disk",
        description: "Free space, and the days until it is used up as the store grew in the last seven days: known once a server has sampled for a day.",
        at: (18, 0, 6, 4),
        columns: &[
            column("disk_free_bytes", "Free").unit("bytes"),
            column("disk_full_days", "Full in").unit("d"),
        ],
        sql: sql!("store_state"),
        ..PANEL
    },
    Panel {
        name: "stream_hits",
        title: "Events of $stream",
        description: "Events of the stream in each interval, by the time of the event.",
        kind: PanelKind::Bars,
        at: (0, 4, 12, 8),
        columns: &[column("hits", "Events")],
        sql: sql!("stream_hits"),
        ..PANEL
    },
    Panel {
        name: "quarantine_by_reason",
        title: "Quarantined lines by reason",
        description: "Lines that could not be parsed in each interval, by the time of their receipt.",
        kind: PanelKind::Metrics,
        at: (12, 4, 12, 8),
        columns: &[column("items", "Items")],
        sql: sql!("quarantine_by_reason"),
        ..PANEL
    },
    Panel {
        name: "rollups",
        title: "Levels of the rollups",
        description: "Each level: the sequence number and the time up to which it counts, the events that wait for the next seal, its rows and bytes, and the duration of the last seal.",
        kind: PanelKind::Table,
        at: (0, 12, 24, 10),
        columns: &[
            column("stream", "Stream"),
            column("name", "Rollup"),
            column("level", "Level"),
            column("last_run", "Last run").unit("none"),
            column("last_run_at", "Run at").unit("dateTimeAsIso"),
            column("waiting", "Waiting"),
            column("rows", "Rows"),
            column("bytes", "Bytes").unit("bytes"),
            column("last_ms", "Seal").unit("ms"),
            column("complete_from", "Complete from").unit("dateTimeAsIso"),
            column("last_error", "Last error"),
            column("note", "Note"),
        ],
        sql: sql!("rollups"),
        ..PANEL
    },
    Panel {
        name: "quarantine",
        title: "Quarantine",
        description: "Lines that could not be parsed, by stream and reason, with the state of their resolution and an example.",
        kind: PanelKind::Table,
        at: (0, 22, 12, 8),
        columns: &[
            column("stream", "Stream"),
            column("reason", "Reason"),
            column("state", "State"),
            column("items", "Items"),
            column("newest", "Newest").unit("dateTimeAsIso"),
            column("example", "Example"),
        ],
        sql: sql!("quarantine"),
        ..PANEL
    },
    Panel {
        name: "disk",
        title: "Disk space",
        description: "Bytes on the disk by stream and kind of file. The reserve is space that events never use.",
        unit: "bytes",
        kind: PanelKind::Ranking,
        at: (12, 22, 12, 8),
        columns: &[column("what", "Files"), column("bytes", "Bytes")],
        sql: sql!("disk"),
        ..PANEL
    },
    Panel {
        name: "streams",
        title: "Streams",
        description: "Streams with their events in parts and in memory, their parts and bytes, and the times of their first and last event.",
        kind: PanelKind::Table,
        at: (0, 30, 24, 7),
        columns: &[
            column("name", "Stream"),
            column("kind", "Kind"),
            column("events", "Events"),
            column("memtable_events", "In memory"),
            column("parts", "Parts"),
            column("bytes", "Bytes").unit("bytes"),
            column("first_time", "First event").unit("dateTimeAsIso"),
            column("last_time", "Last event").unit("dateTimeAsIso"),
        ],
        sql: sql!("streams"),
        ..PANEL
    },
    Panel {
        name: "jobs",
        title: "Maintenance",
        description: "The newest jobs on the store with their reasons: merges, retention, drops, backups, failed seals.",
        kind: PanelKind::Table,
        at: (0, 37, 24, 8),
        columns: &[
            column("started", "Started").unit("dateTimeAsIso"),
            column("job", "Job"),
            column("stream", "Stream"),
            column("what", "Done"),
            column("why", "Reason"),
            column("state", "State"),
            column("ms", "Took").unit("ms"),
            column("bytes_read", "Read").unit("bytes"),
            column("bytes_written", "Written").unit("bytes"),
            column("last_error", "Last error"),
        ],
        sql: sql!("jobs"),
        ..PANEL
    },
    Panel {
        name: "queries",
        title: "Running queries",
        description: "Queries that run at the moment, this one among them.",
        kind: PanelKind::Table,
        at: (0, 45, 24, 6),
        columns: &[
            column("started", "Started").unit("dateTimeAsIso"),
            column("client", "Client"),
            column("state", "State"),
            column("elapsed_ms", "Elapsed").unit("ms"),
            column("rows_examined", "Rows read"),
            column("bytes_read", "Read").unit("bytes"),
            column("sql", "Query"),
        ],
        sql: sql!("queries"),
        ..PANEL
    },
    Panel {
        name: "shards",
        title: "Shards",
        description: "Shards of the cluster with their servers, if the server is in one. The epoch counts starts and take-overs; the messages behind are those that a start would read.",
        kind: PanelKind::Table,
        at: (0, 51, 24, 6),
        columns: &[
            column("shard", "Shard"),
            column("server", "Server"),
            column("epoch", "Epoch"),
            column("unsealed", "Not sealed"),
            column("behind", "Messages behind"),
            column("sealed_at", "Last seal").unit("dateTimeAsIso"),
            column("error", "Error"),
        ],
        sql: sql!("shards"),
        ..PANEL
    },
];
