//! Random queries over more than one table: over queries, joins, unions; and windows.

use super::expressions::Kind::{self, Date, Integer, Text, Time};
use super::expressions::Scope;
use super::queries::{
    ACCESS, APP, THEMES, direction, filter, grouped, items, level, ordered, rows,
};
use super::values::Values;

/// Returns a query over another one, which stands in place of its table or in a clause before it.
pub(super) fn derived(values: &mut Values) -> String {
    let of_access = Scope::of(&ACCESS);
    let (inner, scope) = match values.below(3) {
        0 => {
            let filter = filter(values, &of_access, Some("access"));
            let bound = match values.once_in(2) {
                true => format!(" ORDER BY time{}, _id LIMIT {}", direction(values), 1 + values.below(120)),
                false => String::new(),
            };
            let text = of_access.expression(values, Text, 2);
            let time = of_access.expression(values, Time, 1);
            (
                format!("SELECT {time} AS t, {text} AS s, status AS i, response_size AS m FROM access{filter}{bound}"),
                Scope::of(&[("t", Time), ("s", Text), ("i", Integer)]),
            )
        }
        1 => {
            let theme = Scope::of(values.of(&THEMES[..2]));
            let time = theme.expression(values, Time, 2);
            let filter = filter(values, &theme, None);
            let (key, kind) = theme.any(values);
            let as_text = if kind == Text { key } else { format!("CAST({key} AS TEXT)") };
            (
                format!(
                    "SELECT {time} AS t, {as_text} AS s, count(*) AS i, sum(response_size) AS m FROM access{filter} GROUP BY 1, 2"
                ),
                Scope::of(&[("t", Time), ("s", Text), ("i", Integer)]),
            )
        }
        _ => (
            "SELECT date_trunc('hour', time) AS t, host AS s, count(*) AS i, max(response_size) AS m FROM access GROUP BY 1, 2 \
             UNION ALL SELECT time AS t, service AS s, n AS i, 0 AS m FROM app"
                .to_owned(),
            Scope::of(&[("t", Time), ("s", Text), ("i", Integer)]),
        ),
    };
    if values.once_in(2) {
        let outer = match values.once_in(2) {
            true => grouped(values, "d", &scope, &["m", "i"]),
            false => rows(values, "d", &scope, false),
        };
        return format!("WITH d AS ({inner}) {outer}");
    }
    let from = format!("({inner}) AS d");
    match values.once_in(2) {
        true => grouped(values, &from, &scope, &["m", "i"]),
        false => rows(values, &from, &scope, false),
    }
}

pub(super) fn joined(values: &mut Values) -> String {
    let a = Scope::of(&ACCESS).under("a");
    let (other, b, on) = match values.below(4) {
        0 | 1 => {
            let b = Scope::of(&ACCESS).under("b");
            let on = values.of(&[
                "a._id = b._id",
                "a.time = b.time",
                "a.host = b.host AND a.path = b.path AND date_trunc('day', a.time) = date_trunc('day', b.time)",
                "a.user = b.user AND date_trunc('hour', a.time) = date_trunc('hour', b.time)",
            ]);
            ("access b".to_owned(), b, on.to_owned())
        }
        2 => {
            let (table, scope, _) = level(values);
            let key = match table {
                "coarse.daily" => "host",
                "traffic.minutely" => "method",
                _ => "path",
            };
            let unit = match table {
                "stats.hourly" => "hour",
                "traffic.minutely" => "minute",
                _ => "day",
            };
            let on = format!("date_trunc('{unit}', a.time) = b.bucket AND a.{key} = b.{key}");
            (format!("{table} b"), scope.under("b"), on)
        }
        _ => {
            let b = Scope::of(&APP).under("b");
            let on = values.of(&[
                "date_trunc('hour', a.time) = date_trunc('hour', b.time)",
                "a.path = b.note AND a.status = b.n",
                "a.path = b.note AND b.ok",
            ]);
            ("app b".to_owned(), b, on.to_owned())
        }
    };
    let how = values.of(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let both = a.clone().and(b);
    let more = match values.once_in(3) {
        true => format!(" AND {}", both.condition(values, 1)),
        false => String::new(),
    };
    let from = format!("access a {how} {other} ON {on}{more}");
    match values.below(3) {
        0 => rows(values, &from, &both, false),
        _ => grouped(values, &from, &both, &["a.response_size"]),
    }
}

pub(super) fn united(values: &mut Values) -> String {
    let kinds: Vec<Kind> = (0..1 + values.below(3))
        .map(|_| values.of(&[Date, Text, Integer]))
        .collect();
    let side = |values: &mut Values| -> String {
        let (from, scope) = match values.below(3) {
            0 => ("app", Scope::of(&APP)),
            _ => ("access", Scope::of(&ACCESS)),
        };
        let columns: Vec<String> = kinds
            .iter()
            .map(|kind| match kind {
                Integer => format!("CAST({} AS BIGINT)", scope.expression(values, Integer, 1)),
                Text => format!("CAST({} AS TEXT)", scope.expression(values, Text, 1)),
                _ => scope.expression(values, *kind, 1),
            })
            .collect();
        let filter = filter(values, &scope, None);
        let mut sql = format!("SELECT {} FROM {from}{filter}", items(&columns));
        if values.once_in(2) {
            let places: Vec<String> = (1..=columns.len()).map(|n| n.to_string()).collect();
            sql += &format!(" GROUP BY {}", places.join(", "));
        }
        sql
    };
    let how = values.of(&["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT"]);
    let sql = format!("{} {how} {}", side(values), side(values));
    sql + &ordered(values, kinds.len())
}

pub(super) fn windowed(values: &mut Values) -> String {
    let scope = Scope::of(&ACCESS);
    let (by, condition) = (scope.any(values).0, scope.condition(values, 1));
    let window = match values.once_in(2) {
        true => format!("(PARTITION BY {by} ORDER BY _id)"),
        false => format!("(ORDER BY _id{})", values.of(&["", " DESC"])),
    };
    let function = values.of(&[
        "row_number()",
        "rank()",
        "lag(status)",
        "lead(path, 2)",
        "sum(response_size)",
        "count(*)",
        "max(time)",
        "first_value(host)",
    ]);
    let order = ordered(values, 2);
    format!("SELECT _id AS c0, {function} OVER {window} AS c1 FROM access WHERE {condition}{order}")
}
