//! A panel in Grafana's model.

use serde_json::{Value, json};

use super::{HOST_BOARD, LOKI, OVERVIEW_BOARD, Options, POSTGRES, sql};
use crate::panels::{Link, Panel, PanelColumn, PanelKind};

/// Colors of classes of status, and of other columns that have one by meaning.
const COLORS: [(&str, &str); 6] = [
    ("s2", "green"),
    ("s3", "blue"),
    ("s4", "orange"),
    ("s5", "red"),
    ("other", "purple"),
    ("errors", "orange"),
];

pub(super) fn panel(panel: &Panel, id: u32, options: &Options) -> Value {
    let (x, y, w, h) = panel.at;
    let is_loki = panel.kind == PanelKind::Logs;
    let mut made = json!({
        "id": id,
        "type": plugin(panel.kind),
        "title": panel.title,
        "description": panel.description,
        "datasource": source(is_loki),
        "gridPos": { "x": x, "y": y, "w": w, "h": h },
        "targets": [target(panel, options)],
        "fieldConfig": {
            "defaults": defaults(panel, options),
            "overrides": overrides(panel),
        },
        "options": form(panel.kind),
    });
    if matches!(
        panel.kind,
        PanelKind::Bars | PanelKind::Lines | PanelKind::Metrics
    ) {
        // Rollups count minutes, and visitors hours.
        let is_hourly = panel.sql.contains("visitors_state");
        made["interval"] = json!(if is_hourly { "1h" } else { "1m" });
        made["maxDataPoints"] = json!(300);
    }
    if matches!(
        panel.kind,
        PanelKind::Stat | PanelKind::Table | PanelKind::Categories | PanelKind::Ranking
    ) {
        let names: Vec<&str> = panel.columns.iter().map(|c| c.name).collect();
        made["transformations"] = json!([
            { "id": "filterFieldsByName", "options": { "include": { "names": names } } },
        ]);
    }
    made
}

fn source(is_loki: bool) -> Value {
    match is_loki {
        true => json!({ "type": "loki", "uid": LOKI }),
        false => json!({ "type": "postgres", "uid": POSTGRES }),
    }
}

fn target(panel: &Panel, options: &Options) -> Value {
    let query = sql::query(panel, options);
    match panel.kind {
        PanelKind::Logs => json!({
            "refId": "A",
            "datasource": source(true),
            "expr": query.trim_end(),
            "queryType": "range",
            "editorMode": "code",
            "maxLines": 1000,
        }),
        kind => json!({
            "refId": "A",
            "datasource": source(false),
            "rawQuery": true,
            "editorMode": "code",
            "format": match kind {
                PanelKind::Bars | PanelKind::Lines | PanelKind::Metrics => "time_series",
                _ => "table",
            },
            "rawSql": query.trim_end(),
        }),
    }
}

fn plugin(kind: PanelKind) -> &'static str {
    match kind {
        PanelKind::Stat => "stat",
        PanelKind::Bars | PanelKind::Lines | PanelKind::Metrics => "timeseries",
        PanelKind::Categories | PanelKind::Ranking => "barchart",
        PanelKind::Table => "table",
        PanelKind::Logs => "logs",
    }
}

fn defaults(panel: &Panel, options: &Options) -> Value {
    let latency = options
        .latency
        .as_ref()
        .filter(|_| panel.sql.contains("{latency}"));
    let unit = latency.map_or(panel.unit, |latency| &latency.unit);
    let mut defaults = json!({
        "unit": unit,
        "noValue": "–",
        "color": { "mode": "palette-classic" },
        "thresholds": { "mode": "absolute", "steps": [{ "color": "text", "value": null }] },
        "custom": custom(panel.kind),
    });
    match panel.kind {
        PanelKind::Stat => defaults["color"] = json!({ "mode": "thresholds" }),
        // Nothing that is counted is below zero.
        PanelKind::Bars | PanelKind::Metrics | PanelKind::Categories | PanelKind::Ranking => {
            defaults["min"] = json!(0)
        }
        _ => {}
    }
    defaults
}

/// Returns the options of fields of one kind of panel.
fn custom(kind: PanelKind) -> Value {
    match kind {
        PanelKind::Bars | PanelKind::Metrics => json!({
            "drawStyle": "bars",
            "fillOpacity": 80,
            "lineWidth": 0,
            "showPoints": "never",
            "stacking": { "mode": "normal", "group": "A" },
        }),
        PanelKind::Lines => json!({
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 0,
            "showPoints": "auto",
            "pointSize": 4,
            // Events that come rarely leave gaps of several intervals.
            "spanNulls": true,
            "scaleDistribution": { "type": "log", "log": 10 },
        }),
        PanelKind::Categories | PanelKind::Ranking => json!({ "fillOpacity": 80, "lineWidth": 0 }),
        PanelKind::Table => json!({ "align": "auto", "inspect": true }),
        PanelKind::Stat | PanelKind::Logs => json!({}),
    }
}

fn form(kind: PanelKind) -> Value {
    let legend = json!({
        "displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": [],
    });
    match kind {
        PanelKind::Stat => json!({
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "vertical",
            "textMode": "value_and_name",
            // Texts and times too, not only numbers.
            "reduceOptions": { "calcs": ["lastNotNull"], "fields": "/.*/", "values": false },
        }),
        PanelKind::Bars | PanelKind::Lines | PanelKind::Metrics => json!({
            "legend": legend,
            "tooltip": { "mode": "multi", "sort": "none" },
        }),
        PanelKind::Categories | PanelKind::Ranking => json!({
            "orientation": if kind == PanelKind::Ranking { "horizontal" } else { "vertical" },
            "barWidth": 0.8,
            "groupWidth": 0.8,
            "showValue": "auto",
            "stacking": "normal",
            "xTickLabelRotation": if kind == PanelKind::Ranking { 0 } else { -45 },
            "xTickLabelSpacing": 0,
            "legend": legend,
            "tooltip": { "mode": "single", "sort": "none" },
        }),
        PanelKind::Table => json!({ "showHeader": true, "cellHeight": "sm" }),
        PanelKind::Logs => json!({
            "showTime": true,
            "wrapLogMessage": true,
            "enableLogDetails": true,
            "dedupStrategy": "none",
            "sortOrder": "Ascending",
            "showLabels": false,
            "showCommonLabels": false,
            "prettifyLogMessage": false,
        }),
    }
}

fn overrides(panel: &Panel) -> Vec<Value> {
    // The series of a column with `metric` have the values of that as names.
    if panel.kind == PanelKind::Metrics {
        return Vec::new();
    }
    let of = |column: &PanelColumn| {
        json!({
            "matcher": { "id": "byName", "options": column.name },
            "properties": properties(panel, column),
        })
    };
    panel.columns.iter().map(of).collect()
}

fn properties(panel: &Panel, column: &PanelColumn) -> Vec<Value> {
    let mut properties = vec![json!({ "id": "displayName", "value": column.title })];
    if !column.unit.is_empty() {
        properties.push(json!({ "id": "unit", "value": column.unit }));
    }
    if let Some((yellow, red)) = column.limits {
        let steps = json!([
            { "color": "text", "value": null },
            { "color": "orange", "value": yellow },
            { "color": "red", "value": red },
        ]);
        let value = json!({ "mode": "absolute", "steps": steps });
        properties.push(json!({ "id": "thresholds", "value": value }));
        if panel.kind == PanelKind::Table {
            let value = json!({ "type": "color-text" });
            properties.push(json!({ "id": "custom.cellOptions", "value": value }));
            properties.push(json!({ "id": "color", "value": { "mode": "thresholds" } }));
        }
    }
    let colored = matches!(panel.kind, PanelKind::Bars | PanelKind::Categories);
    if let Some((_, color)) = COLORS
        .iter()
        .find(|(name, _)| colored && *name == column.name)
    {
        let value = json!({ "mode": "fixed", "fixedColor": color });
        properties.push(json!({ "id": "color", "value": value }));
    }
    if let Some(to) = column.link {
        properties.push(json!({ "id": "links", "value": [link(to)] }));
    }
    properties
}

/// Returns a link to the dashboard that a value leads to, with the stream and the range of time.
fn link(to: Link) -> Value {
    let (title, uid, variable) = match to {
        Link::Host => ("Show this host", HOST_BOARD.uid, "host"),
        Link::Path => ("Show this page", OVERVIEW_BOARD.uid, "path"),
    };
    let variables = format!(
        "var-stream=${{stream:percentencode}}&var-{variable}=${{__value.raw:percentencode}}"
    );
    json!({
        "title": title,
        "url": format!("/d/{uid}?{variables}&from=${{__from}}&to=${{__to}}"),
    })
}
