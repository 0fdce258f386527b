//! A dashboard in Grafana's model (version 38, which Grafana 10 and later read).

use serde_json::{Value, json};

use super::{BOARDS, Board, HOST_BOARD, Options, STORE_BOARD, panel, variables};

const SCHEMA_VERSION: u32 = 38;

pub(super) fn dashboard(board: &Board, options: &Options) -> Value {
    let panels = board.panels(options).zip(1..);
    let panels: Vec<Value> = panels
        .map(|(panel, id)| panel::panel(&panel, id, options))
        .collect();
    json!({
        "id": null,
        "uid": board.uid,
        "title": board.title,
        "description": board.description,
        "tags": ["logmill"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "fiscalYearStartMonth": 0,
        "weekStart": "",
        // Buckets of a day begin at midnight of UTC.
        "timezone": "utc",
        "time": { "from": "now-24h", "to": "now" },
        "timepicker": {},
        "refresh": "30s",
        "annotations": { "list": [] },
        "templating": { "list": variables::variables(board, options) },
        "links": links(board, options),
        "panels": panels,
    })
}

/// Returns links to the other dashboards and to the page.
fn links(board: &Board, options: &Options) -> Vec<Value> {
    let others = BOARDS.iter().filter(|other| other.uid != board.uid);
    let mut links: Vec<Value> = others
        .map(|other| {
            let title = other.title.trim_start_matches("Logmill: ");
            let stream = "var-stream=${stream:percentencode}";
            link(title, &format!("/d/{}?{stream}", other.uid), true)
        })
        .collect();
    let stream = format!("{}/?stream=${{stream:percentencode}}", options.url);
    let page = if board.uid == HOST_BOARD.uid {
        let date = "date=${__from:date:YYYY-MM-DD}&zone=UTC";
        format!("{stream}&host=${{shown:percentencode}}&{date}")
    } else if board.uid == STORE_BOARD.uid {
        stream
    } else {
        format!("{stream}&from=${{__from:date:iso}}&to=${{__to:date:iso}}&zone=UTC")
    };
    links.push(link("Logmill's page", &page, false));
    links
}

fn link(title: &str, url: &str, is_dashboard: bool) -> Value {
    json!({
        "type": "link",
        "title": title,
        "url": url,
        "icon": if is_dashboard { "dashboard" } else { "external link" },
        "tooltip": "",
        "tags": [],
        "asDropdown": false,
        "includeVars": false,
        "keepTime": is_dashboard,
        "targetBlank": !is_dashboard,
    })
}
