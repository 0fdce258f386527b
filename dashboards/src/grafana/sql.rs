//! Templates of panels as queries for Grafana.

use super::Options;
use crate::panels::{Panel, PanelKind, Scope};

/// Condition that is true while all pages are chosen. Grafana replaces the variable by the text
/// `'*'` then, otherwise by a list of literals; the planner drops the branches that are false.
const ALL_PATHS: &str = "'*' IN (${path:sqlstring})";
const PATHS: &str = "coalesce(path, '(none)') IN (${path:sqlstring})";
const SITES: &str =
    "('*' IN (${site:sqlstring}) OR coalesce(site, '(none)') IN (${site:sqlstring}))";

/// A level, with the intervals of a chart that it is read for, in milliseconds.
struct Level {
    table: &'static str,
    unit: &'static str,
    from_ms: Option<u64>,
    below_ms: Option<u64>,
}

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

const LEVELS: [Level; 3] = [
    Level {
        table: "minutely",
        unit: "minute",
        from_ms: None,
        below_ms: Some(HOUR_MS),
    },
    Level {
        table: "hourly",
        unit: "hour",
        from_ms: Some(HOUR_MS),
        below_ms: Some(DAY_MS),
    },
    Level {
        table: "daily",
        unit: "day",
        from_ms: Some(DAY_MS),
        below_ms: None,
    },
];

/// Returns the query of a panel.
pub(super) fn query(panel: &Panel, options: &Options) -> String {
    let order = match panel.kind {
        PanelKind::Bars | PanelKind::Lines => "ORDER BY 1\n",
        PanelKind::Metrics => "ORDER BY 1, 2\n",
        _ => "",
    };
    let filled = fill(panel.sql, |word, columns| {
        value(panel, options, word, columns)
    });
    filled + order
}

/// Replaces every `{word}` and `{word(columns)}` for which there is a value. Words after a `$`
/// are variables of Grafana and stay.
fn fill(template: &str, value: impl Fn(&str, &[&str]) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let replaced = after.split_once('}').and_then(|(inside, behind)| {
            let (word, columns) = inside.split_once('(').unwrap_or((inside, ""));
            let columns = columns.trim_end_matches(')').split(',').map(str::trim);
            let columns: Vec<&str> = columns.collect();
            let found = (!before.ends_with('$')).then(|| value(word, &columns))??;
            Some((found, behind))
        });
        match replaced {
            Some((found, behind)) => {
                filled.push_str(&found);
                rest = behind;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled + rest
}

fn value(panel: &Panel, options: &Options, word: &str, columns: &[&str]) -> Option<String> {
    let of_host = panel.scope == Scope::Host;
    Some(match word {
        "t" => "\"time\"".to_owned(),
        "bucket" => {
            let column = if of_host { "time" } else { "bucket" };
            // Counts are zero where there is no row; percentiles have no value there.
            let missing = if panel.kind == PanelKind::Bars {
                ", 0"
            } else {
                ""
            };
            format!("$__timeGroup({column}, $__interval{missing})")
        }
        "hits" if of_host => "count(*)".to_owned(),
        "hits" => "sum(hits)".to_owned(),
        "bytes" => "sum(bytes_exact)".to_owned(),
        "visitors" => "distinct_count(distinct_merge(visitors_state))".to_owned(),
        "p50" | "p90" | "p99" => {
            let hundredths = word.trim_start_matches('p');
            format!("hist_quantile(hist_merge(size), 0.{hundredths})")
        }
        "events" if of_host => raw(panel.scope),
        "events" => events(columns),
        "counts" => counts(columns),
        "raw" => raw(panel.scope),
        "latency" => identifier(&options.latency.as_ref()?.field),
        _ => return None,
    })
}

/// Returns a name as an SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns raw events of the variables.
fn raw(scope: Scope) -> String {
    let conditions = match scope {
        Scope::Host => "host = ${shown:sqlstring}".to_owned(),
        _ => format!("{SITES} AND ({ALL_PATHS} OR {PATHS})"),
    };
    format!("\"${{stream}}\" WHERE $__timeFilter(time) AND {conditions}")
}

/// Returns cells of the rollup that has the columns: `traffic` while all pages are chosen, `stats`
/// for chosen pages or where pages are told apart, raw events for what no rollup has.
fn events(columns: &[&str]) -> String {
    let (by_path, by_status) = (columns.contains(&"path"), columns.contains(&"status"));
    let mut arms = Vec::new();
    if !by_path {
        arms.extend(of_rollup("traffic", columns, ALL_PATHS));
    }
    if by_path {
        arms.extend(of_rollup("stats", columns, "TRUE"));
    } else if !by_status {
        arms.extend(of_rollup(
            "stats",
            columns,
            &format!("NOT {ALL_PATHS} AND {PATHS}"),
        ));
    } else {
        let columns = columns.iter().map(|column| match *column {
            "bucket" => "time AS bucket",
            "hits" => "1 AS hits",
            key => key,
        });
        arms.push(format!(
            "SELECT {} FROM \"${{stream}}\" WHERE NOT {ALL_PATHS} AND {PATHS} AND $__timeFilter(time) AND {SITES}",
            columns.collect::<Vec<_>>().join(", ")
        ));
    }
    union(&arms)
}

/// Returns cells of the rollup that every stream has, without conditions on keys.
fn counts(columns: &[&str]) -> String {
    union(&levels("traffic", columns, "TRUE"))
}

fn union(arms: &[String]) -> String {
    format!("(\n  {}\n) AS c", arms.join("\n  UNION ALL\n  "))
}

fn of_rollup(rollup: &str, columns: &[&str], condition: &str) -> Vec<String> {
    levels(rollup, columns, &format!("{condition} AND {SITES}"))
}

/// Returns a query for each level. One of them is not false for a given interval.
fn levels(rollup: &str, columns: &[&str], condition: &str) -> Vec<String> {
    let from_hour =
        columns.contains(&"visitors_state") || (rollup == "stats" && columns.contains(&"size"));
    let usable = &LEVELS[usize::from(from_hour)..];
    let arms = usable.iter().enumerate().map(|(n, level)| {
        let mut conditions = Vec::new();
        conditions.extend(
            level
                .from_ms
                .filter(|_| n > 0)
                .map(|ms| format!("$__interval_ms >= {ms}")),
        );
        conditions.extend(level.below_ms.map(|ms| format!("$__interval_ms < {ms}")));
        // Where minutes are not counted, a range of minutes shows the hours that it touches.
        conditions.push(match from_hour {
            true => format!(
                "bucket >= date_trunc('{}', TIMESTAMP $__timeFrom()) AND bucket <= $__timeTo()",
                level.unit
            ),
            false => "$__timeFilter(bucket)".to_owned(),
        });
        format!(
            "SELECT {} FROM \"${{{rollup}}}\".{} WHERE {} AND {condition}",
            columns.join(", "),
            level.table,
            conditions.join(" AND ")
        )
    });
    arms.collect()
}
