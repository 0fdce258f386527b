//! Variables of the dashboards. Grafana asks for their values by queries of their own.

use serde_json::{Value, json};

use super::{Board, HOST_BOARD, OVERVIEW_BOARD, Options, POSTGRES};

/// Text that Grafana inserts for a variable while all its values are chosen: an SQL literal.
const ALL: &str = "'*'";

const ACCESS_STREAMS: &str =
    "SELECT DISTINCT name FROM system.streams WHERE kind = 'access' ORDER BY name";
const STREAMS: &str =
    "SELECT DISTINCT name FROM system.streams WHERE kind <> 'quarantine' ORDER BY name";
const SITES: &str = "SELECT DISTINCT coalesce(site, '(none)') AS site FROM \"${traffic}\".daily \
     ORDER BY 1 LIMIT 500";
const PATHS: &str = "SELECT coalesce(path, '(none)') AS path FROM \"${stats}\".daily \
     WHERE bucket >= date_trunc('day', TIMESTAMP $__timeFrom()) AND bucket <= $__timeTo() \
     GROUP BY 1 ORDER BY sum(hits) DESC, 1 LIMIT 200";
/// The host that was entered, otherwise the one with the most events in the range.
const SHOWN: &str = "SELECT coalesce(nullif(${host:sqlstring}, ''), (SELECT host FROM \"${stream}\" \
     WHERE ${host:sqlstring} = '' AND $__timeFilter(time) AND host IS NOT NULL \
     GROUP BY host ORDER BY count(*) DESC, host LIMIT 1)) AS host";
/// A pattern for the hosts of the same network: the first three numbers of an IPv4 address, the
/// first four groups of an IPv6 address, or the domain of a name.
const NETWORK: &str = "SELECT CASE \
     WHEN host LIKE '%:%' THEN regexp_replace(host, '^(([^:]*:){1,4}).*', '\\1') || '%' \
     WHEN regexp_like(host, '^[0-9]+([.][0-9]+){3}') THEN regexp_replace(host, '[.][0-9]+$', '.%') \
     WHEN host LIKE '%.%' THEN regexp_replace(host, '^[^.]*', '%') \
     ELSE host END AS network FROM (SELECT ${shown:sqlstring} AS host) AS h";

/// Returns the query for the name of the rollup of this kind.
fn rollup(kind: &str) -> String {
    format!(
        "SELECT name FROM system.rollups WHERE stream = ${{stream:sqlstring}} \
         AND (name = '{kind}' OR name = ${{stream:sqlstring}} || '_{kind}') GROUP BY name ORDER BY name LIMIT 1"
    )
}

pub(super) fn variables(board: &Board, options: &Options) -> Vec<Value> {
    if board.uid == OVERVIEW_BOARD.uid {
        vec![
            stream(ACCESS_STREAMS, options),
            hidden("traffic", &rollup("traffic")),
            hidden("stats", &rollup("stats")),
            chosen("site", "Site", SITES),
            chosen("path", "Page", PATHS),
            text("host", "Host contains"),
        ]
    } else if board.uid == HOST_BOARD.uid {
        vec![
            stream(ACCESS_STREAMS, options),
            text("host", "Host"),
            hidden("shown", SHOWN),
            hidden("network", NETWORK),
        ]
    } else {
        vec![
            stream(STREAMS, options),
            hidden("traffic", &rollup("traffic")),
        ]
    }
}

fn queried(name: &str, label: &str, query: &str) -> Value {
    json!({
        "type": "query",
        "name": name,
        "label": label,
        "datasource": { "type": "postgres", "uid": POSTGRES },
        "query": query,
        // 2: when the range of time changes, which includes the opening of a dashboard.
        "refresh": 2,
        "regex": "",
        "sort": 0,
        "multi": false,
        "includeAll": false,
        "hide": 0,
        "skipUrlSync": false,
        "options": [],
        "current": {},
    })
}

fn stream(query: &str, options: &Options) -> Value {
    let mut variable = queried("stream", "Stream", query);
    let name = &options.stream;
    variable["current"] = json!({ "selected": false, "text": name, "value": name });
    variable
}

/// Returns a variable with one value, which follows from the others.
fn hidden(name: &str, query: &str) -> Value {
    let mut variable = queried(name, name, query);
    variable["hide"] = json!(2);
    // An address with the value of yesterday's host would show the wrong one.
    variable["skipUrlSync"] = json!(true);
    variable
}

/// Returns a variable of which several values or all can be chosen.
fn chosen(name: &str, label: &str, query: &str) -> Value {
    let mut variable = queried(name, label, query);
    variable["multi"] = json!(true);
    variable["includeAll"] = json!(true);
    variable["allValue"] = json!(ALL);
    variable["current"] = json!({ "selected": true, "text": ["All"], "value": ["$__all"] });
    variable
}

fn text(name: &str, label: &str) -> Value {
    json!({
        "type": "textbox",
        "name": name,
        "label": label,
        "query": "",
        "hide": 0,
        "skipUrlSync": false,
        "options": [{ "selected": true, "text": "", "value": "" }],
        "current": { "selected": true, "text": "", "value": "" },
    })
}
