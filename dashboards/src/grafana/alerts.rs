//! Alert rules: a query for one number, and a limit of it.
//!
//! A rule reads the stream itself: its last minutes, for which rollups answer where they can. So
//! it needs no variable, and no `$`, which Grafana would read as a variable of its environment.

use serde_json::{Value, json};

use super::sql::identifier;
use super::{Board, OVERVIEW_BOARD, Options, POSTGRES, STORE_BOARD, yaml};

/// A rule. It fires when the number of its query is beyond the limit for a while.
struct AlertRule {
    uid: &'static str,
    title: &'static str,
    summary: &'static str,
    /// The dashboard and the panel that show more.
    shown: (Board, &'static str),
    /// The query, with `{stream}` and `{latency}`; its answer is one row with one number.
    sql: &'static str,
    /// `gt` or `lt`.
    beyond: &'static str,
    limit: f64,
    lasts: &'static str,
    severity: &'static str,
}

const RULES: [AlertRule; 9] = [
    AlertRule {
        uid: "logmill-errors",
        title: "Many 5xx",
        summary: "More than 5 % of the requests of the last ten minutes were answered with a status of 500 to 599.",
        shown: (OVERVIEW_BOARD, "classes"),
        sql: "SELECT coalesce(CAST(count(*) FILTER (WHERE status >= 500) AS DOUBLE) / nullif(count(*), 0), 0) AS share\nFROM {stream}\nWHERE time >= now() - INTERVAL '10 minutes'",
        beyond: "gt",
        limit: 0.05,
        lasts: "5m",
        severity: "critical",
    },
    AlertRule {
        uid: "logmill-silence",
        title: "No traffic",
        summary: "No event of the last fifteen minutes has arrived.",
        shown: (OVERVIEW_BOARD, "hits"),
        sql: "SELECT count(*) AS events\nFROM {stream}\nWHERE time >= now() - INTERVAL '15 minutes'",
        beyond: "lt",
        limit: 1.0,
        lasts: "5m",
        severity: "critical",
    },
    AlertRule {
        uid: "logmill-sizes",
        title: "Responses have grown",
        summary: "The 99th percentile of response sizes in the last hour is more than ten times that of the day before.",
        shown: (OVERVIEW_BOARD, "sizes"),
        sql: "SELECT coalesce(recent.p99 / nullif(before.p99, 0), 0) AS times\nFROM (\n  SELECT CAST(approx_percentile_cont(response_size, 0.99) AS DOUBLE) AS p99\n  FROM {stream}\n  WHERE time >= now() - INTERVAL '1 hour'\n) AS recent\nCROSS JOIN (\n  SELECT CAST(approx_percentile_cont(response_size, 0.99) AS DOUBLE) AS p99\n  FROM {stream}\n  WHERE time >= now() - INTERVAL '25 hours' AND time < now() - INTERVAL '1 hour'\n) AS before",
        beyond: "gt",
        limit: 10.0,
        lasts: "10m",
        severity: "warning",
    },
    AlertRule {
        uid: "logmill-quarantine",
        title: "Quarantine is rising",
        summary: "In the last fifteen minutes a hundred more lines could not be parsed than usual in the day before.",
        shown: (STORE_BOARD, "quarantine_by_reason"),
        sql: "SELECT count(*) FILTER (WHERE time >= now() - INTERVAL '15 minutes')\n  - count(*) FILTER (WHERE time < now() - INTERVAL '15 minutes') / 95.0 AS items\nFROM system.quarantine\nWHERE time >= now() - INTERVAL '1 day'",
        beyond: "gt",
        limit: 100.0,
        lasts: "0s",
        severity: "warning",
    },
    AlertRule {
        uid: "logmill-rollups",
        title: "Rollups wait",
        summary: "Events have waited for more than ten minutes for the seal that adds them to the rollups.",
        shown: (STORE_BOARD, "rollups"),
        sql: "SELECT coalesce(max(extract(epoch FROM now() - last_run_at)), 0) AS seconds\nFROM system.rollups\nWHERE waiting > 0",
        beyond: "gt",
        limit: 600.0,
        lasts: "0s",
        severity: "warning",
    },
    AlertRule {
        uid: "logmill-journal",
        title: "Journal is behind",
        summary: "More than a million items are not synced in the journal.",
        shown: (STORE_BOARD, "journal"),
        sql: "SELECT coalesce(sum(unsynced), 0) AS items\nFROM system.store",
        beyond: "gt",
        limit: 1_000_000.0,
        lasts: "2m",
        severity: "warning",
    },
    AlertRule {
        uid: "logmill-disk",
        title: "Disk is full soon",
        summary: "At the growth of the last seven days the disk is full within seven days.",
        shown: (STORE_BOARD, "disk_room"),
        sql: "SELECT least(coalesce(min(disk_full_days), 3650.0), 3650.0) AS days\nFROM system.store",
        beyond: "lt",
        limit: 7.0,
        lasts: "0s",
        severity: "warning",
    },
    AlertRule {
        uid: "logmill-failure",
        title: "Store has an error",
        summary: "The last seal, the last maintenance run or a comparison of rollups with raw events failed.",
        shown: (STORE_BOARD, "rollups"),
        sql: "SELECT count(last_error) AS errors\nFROM system.store",
        beyond: "gt",
        limit: 0.0,
        lasts: "0s",
        severity: "critical",
    },
    AlertRule {
        uid: "logmill-latency",
        title: "Responses are slow",
        summary: "The 99th percentile of the latency in the last ten minutes is more than three times that of the day before.",
        shown: (OVERVIEW_BOARD, "latency"),
        sql: "SELECT coalesce(recent.p99 / nullif(before.p99, 0), 0) AS times\nFROM (\n  SELECT CAST(approx_percentile_cont({latency}, 0.99) AS DOUBLE) AS p99\n  FROM {stream}\n  WHERE time >= now() - INTERVAL '10 minutes'\n) AS recent\nCROSS JOIN (\n  SELECT CAST(approx_percentile_cont({latency}, 0.99) AS DOUBLE) AS p99\n  FROM {stream}\n  WHERE time >= now() - INTERVAL '1 day' AND time < now() - INTERVAL '10 minutes'\n) AS before",
        beyond: "gt",
        limit: 3.0,
        lasts: "5m",
        severity: "warning",
    },
];

/// Returns `provisioning/alerting/logmill.yaml`.
pub(super) fn alerts(options: &Options) -> String {
    let of_latency =
        |rule: &&AlertRule| options.latency.is_some() || !rule.sql.contains("{latency}");
    let rules: Vec<Value> = RULES
        .iter()
        .filter(of_latency)
        .map(|r| rule(r, options))
        .collect();
    yaml::document(&json!({
        "apiVersion": 1,
        "groups": [{
            "orgId": 1,
            "name": "logmill",
            "folder": "Logmill",
            "interval": "1m",
            "rules": rules,
        }],
    }))
}

fn rule(rule: &AlertRule, options: &Options) -> Value {
    let latency = options
        .latency
        .as_ref()
        .map(|latency| identifier(&latency.field));
    let sql = rule.sql.replace("{stream}", &identifier(&options.stream));
    let sql = sql.replace("{latency}", &latency.unwrap_or_default());
    json!({
        "uid": rule.uid,
        "title": rule.title,
        "condition": "B",
        "for": rule.lasts,
        "noDataState": "NoData",
        "execErrState": "Error",
        "isPaused": false,
        "labels": { "severity": rule.severity },
        "annotations": {
            "summary": rule.summary,
            "__dashboardUid__": rule.shown.0.uid,
            "__panelId__": panel_id(rule, options).to_string(),
        },
        "data": [
            {
                "refId": "A",
                "datasourceUid": POSTGRES,
                "relativeTimeRange": { "from": 600, "to": 0 },
                "model": { "refId": "A", "format": "table", "rawQuery": true, "editorMode": "code", "rawSql": sql },
            },
            {
                "refId": "B",
                "datasourceUid": "__expr__",
                "relativeTimeRange": { "from": 0, "to": 0 },
                "model": {
                    "refId": "B",
                    "type": "threshold",
                    "expression": "A",
                    "conditions": [{ "evaluator": { "type": rule.beyond, "params": [rule.limit] } }],
                },
            },
        ],
    })
}

/// Returns the number of a panel within its dashboard, counted from 1 as [`super::dashboard`] does.
fn panel_id(rule: &AlertRule, options: &Options) -> usize {
    let (board, name) = &rule.shown;
    let found = board.panels(options).position(|panel| panel.name == *name);
    debug_assert!(
        found.is_some(),
        "{} names no panel of {}",
        rule.uid,
        board.uid
    );
    found.map_or(0, |at| at + 1)
}
