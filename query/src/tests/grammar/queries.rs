//! Random queries: rows and groups of a stream, of another one and of levels, and sub-queries in
//! their conditions.

use super::compound::{derived, joined, united, windowed};
use super::expressions::Kind::{self, Condition, Date, Fraction, Integer, Text, Time};
use super::expressions::Scope;
use super::tables::LEVELS;
use super::values::{Values, ZONES};

/// The hint that requests the indexes of these columns.
const BY_INDEX: &str = "index(path, host, status, user, method)";

/// A query, and the hint behind its first SELECT.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) sql: String,
    pub(super) hint: &'static str,
}

impl Question {
    /// Returns the query as the engine gets it.
    pub(super) fn hinted(&self) -> String {
        self.of(&self.sql)
    }

    /// Returns another query with the same hint.
    pub(super) fn of(&self, sql: &str) -> String {
        match self.hint {
            "" => sql.to_owned(),
            hint => sql.replacen("SELECT", &format!("SELECT /*+ {hint} */"), 1),
        }
    }
}

pub(super) const ACCESS: [(&str, Kind); 16] = [
    ("time", Time),
    ("host", Text),
    ("user", Text),
    ("method", Text),
    ("path", Text),
    ("path", Text),
    ("query", Text),
    ("protocol", Text),
    ("request", Text),
    ("referrer", Text),
    ("user_agent", Text),
    ("site", Text),
    ("_id", Text),
    ("status", Integer),
    ("status", Integer),
    ("response_size", Integer),
];
pub(super) const APP: [(&str, Kind); 7] = [
    ("time", Time),
    ("service", Text),
    ("level", Text),
    ("note", Text),
    ("ms", Fraction),
    ("ok", Condition),
    ("n", Integer),
];
/// Columns that some rollup has together.
pub(super) const THEMES: [&[(&str, Kind)]; 5] = [
    &[("time", Time), ("path", Text), ("site", Text)],
    &[("time", Time), ("status", Integer), ("method", Text)],
    &[("time", Time), ("path", Text), ("status", Integer)],
    &[("time", Time), ("host", Text), ("method", Text)],
    &[("time", Time)],
];
const KINDS: [Kind; 7] = [Time, Time, Date, Text, Text, Integer, Condition];

pub(super) fn question(values: &mut Values) -> Question {
    let (sql, may_index) = match values.below(24) {
        0..4 => (simple(values), true),
        4..9 => (of_access(values), true),
        9..13 => (rows(values, "access", &Scope::of(&ACCESS), true), true),
        13 => (counted(values), false),
        14 | 15 => (derived(values), true),
        16 | 17 => (joined(values), true),
        18 => (united(values), true),
        19 => (of_level(values), false),
        20 => (of_app(values), false),
        21 => (windowed(values), false),
        _ => {
            let sql = of_value(values);
            return Question {
                sql,
                hint: BY_INDEX,
            };
        }
    };
    let hint = match values.below(10) {
        0..3 => "top_k",
        3..5 if may_index => BY_INDEX,
        5 => "no_rollup",
        _ => "",
    };
    Question { sql, hint }
}

/// Returns a query for all rows of a value, or of the values of two columns.
fn of_value(values: &mut Values) -> String {
    let scope = Scope::of(&ACCESS[1..6]).and(Scope::of(&ACCESS[13..15]));
    let (first, second) = (equality(values, &scope), equality(values, &scope));
    let condition = match values.below(4) {
        0 => format!("{first} AND {second}"),
        1 => format!("({first} OR {second})"),
        _ => first,
    };
    let columns = values.of(&[
        "_id AS c0, path AS c1",
        "count(*) AS c0",
        "time AS c0, request AS c1, status AS c2",
    ]);
    format!("SELECT {columns} FROM access WHERE {condition}")
}

/// Returns a query of a chart: counts and sums by time and keys, in a range of time and of some
/// keys.
fn simple(values: &mut Values) -> String {
    let scope = Scope::of(values.of(&THEMES));
    let mut columns = Vec::new();
    for _ in 0..values.below(3) {
        columns.push(match values.below(3) {
            0 => scope.any(values).0,
            1 => format!(
                "date_trunc('{}', time)",
                values.of(&["minute", "hour", "day", "month"])
            ),
            _ => format!(
                "time_bucket('{}', time, '{}')",
                values.of(&["1 hour", "6 hours", "1 day", "1 week"]),
                values.of(&ZONES)
            ),
        });
    }
    let places: Vec<String> = (1..=columns.len()).map(|n| n.to_string()).collect();
    for _ in 0..1 + values.below(2) {
        columns.push(match values.below(6) {
            0..3 => "count(*)".to_owned(),
            3 => "sum(response_size)".to_owned(),
            4 => values
                .of(&["min(response_size)", "max(response_size)"])
                .to_owned(),
            _ => format!("count(*) FILTER (WHERE {})", equality(values, &scope)),
        });
    }
    let mut terms = Vec::new();
    if values.below(3) > 0 {
        terms.push(format!("time >= {}", values.stamp()));
    }
    if values.once_in(2) {
        terms.push(format!("time < {}", values.stamp()));
    }
    if values.once_in(2) {
        terms.push(equality(values, &scope));
    }
    let mut sql = format!("SELECT {} FROM access", items(&columns));
    if !terms.is_empty() {
        sql += &format!(" WHERE {}", terms.join(" AND "));
    }
    if !places.is_empty() {
        sql += &format!(" GROUP BY {}", places.join(", "));
    }
    sql + &ordered(values, columns.len())
}

/// Returns a condition that a column is one of some values, as indexes find them.
fn equality(values: &mut Values, scope: &Scope) -> String {
    let kind = values.of(&[Text, Text, Integer]);
    let Some(column) = scope.column(values, kind) else {
        return format!("time < {}", values.stamp());
    };
    let one = |values: &mut Values| match column.rsplit('.').next().unwrap_or_default() {
        "status" | "response_size" => values.of(&["200", "404", "500"]).to_owned(),
        "path" => format!("'/p{}'", values.below(8)),
        "host" => values.of(&["'alpha'", "'beta'", "'::1'"]).to_owned(),
        "user" => values.of(&["'frank'", "'Ærøskøbing'"]).to_owned(),
        "method" => values.of(&["'GET'", "'POST'"]).to_owned(),
        _ => values.text(),
    };
    let (first, second) = (one(values), one(values));
    match values.once_in(3) {
        true => format!("{column} IN ({first}, {second})"),
        false => format!("{column} = {first}"),
    }
}

fn of_access(values: &mut Values) -> String {
    let scope = match values.below(10) {
        0..7 => Scope::of(values.of(&THEMES)),
        _ => Scope::of(&ACCESS),
    };
    grouped(values, "access", &scope, &["response_size"])
}

fn of_app(values: &mut Values) -> String {
    match values.once_in(2) {
        true => rows(values, "app", &Scope::of(&APP), true),
        false => grouped(values, "app", &Scope::of(&APP), &["ms", "n"]),
    }
}

fn of_level(values: &mut Values) -> String {
    let (table, scope, measures) = level(values);
    match values.once_in(3) {
        true => rows(values, table, &scope, false),
        false => grouped(values, table, &scope, measures),
    }
}

pub(super) fn level(values: &mut Values) -> (&'static str, Scope, &'static [&'static str]) {
    let (table, _, keys, measures) = LEVELS[values.below(LEVELS.len())];
    let mut scope = Scope::of(&[("bucket", Time), ("bucket_end", Time)]);
    for key in keys {
        let kind = if *key == "status" { Integer } else { Text };
        scope.columns.push(((*key).to_owned(), kind));
    }
    scope.columns.push((measures[0].to_owned(), Integer));
    (table, scope, measures)
}

/// Returns a count of events in a range of time.
fn counted(values: &mut Values) -> String {
    let (from, to) = (values.day(), values.day());
    let stamp = values.stamp();
    match values.below(5) {
        0 => "SELECT count(*) AS n FROM access".to_owned(),
        1 => format!("SELECT count(*) AS n, count(1) AS m FROM access WHERE time >= {from}"),
        2 => format!("SELECT count(*) AS n FROM access WHERE time >= {from} AND time < {to}"),
        3 => format!("SELECT count(time) AS n FROM access WHERE time BETWEEN {from} AND {stamp}"),
        _ => format!("SELECT count(*) + 1 AS n FROM access WHERE time < {to} OR time >= {stamp}"),
    }
}

/// Returns ` WHERE …`, or nothing.
pub(super) fn filter(values: &mut Values, scope: &Scope, outer: Option<&str>) -> String {
    let mut terms = Vec::new();
    if values.below(5) > 0 {
        terms.push(scope.condition(values, 2));
    }
    let time = scope.column(values, Time);
    if let (Some(time), true) = (time, values.once_in(3)) {
        let (a, b) = (values.stamp(), values.stamp());
        // Stamps that are written alike have the order of time.
        terms.push(format!("{time} >= {}", a.clone().min(b.clone())));
        if values.once_in(2) {
            terms.push(format!("{time} < {}", a.max(b)));
        }
    }
    if let Some(outer) = outer {
        if values.once_in(3) {
            terms.push(equality(values, scope));
        }
        if values.once_in(10) {
            terms.push(by_query(values, scope, outer));
        }
        if values.once_in(20) {
            let (a, b) = (values.below(300), values.below(300));
            terms.push(format!(
                "{outer}._seq BETWEEN {} AND {}",
                a.min(b),
                a.max(b)
            ));
        }
    }
    match terms.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", terms.join(" AND ")),
    }
}

/// Returns a condition with a sub-query on the stream `access`.
fn by_query(values: &mut Values, scope: &Scope, outer: &str) -> String {
    let of_access = Scope::of(&ACCESS).under("z");
    let condition = of_access.condition(values, 1);
    let not = values.of(&["", "NOT "]);
    let text = scope
        .column(values, Text)
        .unwrap_or_else(|| "'/p1'".to_owned());
    let integer = scope
        .column(values, Integer)
        .unwrap_or_else(|| "200".to_owned());
    match values.below(6) {
        0 => format!("{text} {not}IN (SELECT z.path FROM access z WHERE {condition})"),
        1 => format!("{text} IN (SELECT lower(z.host) FROM access z WHERE {condition})"),
        2 => format!(
            "{integer} {not}IN (SELECT z.status FROM access z WHERE z.status IS NOT NULL AND {condition})"
        ),
        3 => format!("{integer} >= (SELECT avg(z.status) FROM access z WHERE {condition})"),
        4 => format!(
            "{not}EXISTS (SELECT 1 FROM access z WHERE z.time = {outer}.time AND {condition})"
        ),
        _ => format!(
            "(SELECT count(*) FROM access z WHERE date_trunc('hour', z.time) = date_trunc('hour', {outer}.time) AND {condition}) > 1"
        ),
    }
}

fn aggregate(values: &mut Values, scope: &Scope, measures: &[&str]) -> String {
    let measure = values.of(measures);
    let (column, _) = scope.any(values);
    let mut aggregate = match values.below(26) {
        0..6 => "count(*)".to_owned(),
        6..9 => format!("sum({measure})"),
        9 => format!("avg({measure})"),
        10 => format!("count({measure})"),
        11 => format!("min({measure})"),
        12 => format!("max({measure})"),
        13 => format!("count({column})"),
        14 => format!("min({column})"),
        15 => format!("max({column})"),
        16 => format!("count(DISTINCT {column})"),
        17 | 18 => {
            let condition = scope.condition(values, 1);
            format!("sum(CASE WHEN {condition} THEN 1 ELSE 0 END)")
        }
        19 => format!("count(CASE WHEN {} THEN 1 END)", scope.condition(values, 1)),
        20 => format!("bool_or({})", scope.condition(values, 1)),
        21 => format!("max({})", scope.expression(values, Time, 2)),
        22 => format!("sum({})", scope.expression(values, Integer, 1)),
        23 => format!("min({})", scope.expression(values, Text, 2)),
        24 => {
            values
                .of(&["median", "stddev", "var_pop", "bit_xor"])
                .to_owned()
                + "(CAST("
                + measure
                + " AS BIGINT))"
        }
        _ => format!("count({})", scope.expression(values, Text, 2)),
    };
    if values.once_in(4) {
        aggregate += &format!(" FILTER (WHERE {})", scope.condition(values, 1));
    }
    aggregate
}

fn groups(values: &mut Values, scope: &Scope) -> Vec<String> {
    let count = values.of(&[0, 0, 1, 1, 1, 2, 2, 3]);
    let one = |_| {
        let kind = values.of(&KINDS);
        match values.below(3) {
            0 => scope.any(values).0,
            _ => scope.expression(values, kind, 2),
        }
    };
    (0..count).map(one).collect()
}

/// Returns ` GROUP BY …` of some expressions, which are the first columns.
fn group_by(values: &mut Values, groups: &[String]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let positions: Vec<String> = (1..=groups.len()).map(|n| n.to_string()).collect();
    let all = groups.join(", ");
    let first = &groups[0];
    match values.below(14) {
        0 => format!(" GROUP BY ROLLUP({all})"),
        1 => format!(" GROUP BY CUBE({all})"),
        2 => format!(" GROUP BY GROUPING SETS (({all}), ({first}), ())"),
        3 => format!(" GROUP BY {all}, {first}"),
        4 => format!(" GROUP BY CUBE({all}, {first})"),
        5 => format!(" GROUP BY {}, 1", positions.join(", ")),
        6 | 7 => format!(" GROUP BY {all}"),
        _ => format!(" GROUP BY {}", positions.join(", ")),
    }
}

pub(super) fn direction(values: &mut Values) -> &'static str {
    values.of(&["", " DESC", " DESC NULLS LAST", " ASC NULLS FIRST"])
}

fn limit(values: &mut Values) -> String {
    let limit = values.of(&[0, 1, 2, 5, 20, 100]);
    match values.below(6) {
        0 => String::new(),
        1 | 2 => format!(" LIMIT {limit} OFFSET {}", values.below(6)),
        _ => format!(" LIMIT {limit}"),
    }
}

/// Returns ` ORDER BY 2 DESC, … LIMIT …` of columns by their place.
pub(super) fn ordered(values: &mut Values, columns: usize) -> String {
    if values.below(3) > 0 {
        return String::new();
    }
    let keys = (0..1 + values.below(2)).map(|_| {
        let place = 1 + values.below(columns);
        format!("{place}{}", direction(values))
    });
    let keys: Vec<String> = keys.collect();
    format!(" ORDER BY {}{}", keys.join(", "), limit(values))
}

pub(super) fn items(columns: &[String]) -> String {
    let named = columns.iter().enumerate();
    let named: Vec<String> = named
        .map(|(nth, column)| format!("{column} AS c{nth}"))
        .collect();
    named.join(", ")
}

pub(super) fn grouped(values: &mut Values, from: &str, scope: &Scope, measures: &[&str]) -> String {
    let mut sql = aggregated(values, from, scope, measures);
    sql.1 += &ordered(values, sql.0);
    sql.1
}

/// Returns a query without an order, and its number of columns.
fn aggregated(
    values: &mut Values,
    from: &str,
    scope: &Scope,
    measures: &[&str],
) -> (usize, String) {
    let groups = groups(values, scope);
    let mut columns = groups.clone();
    for _ in 0..1 + values.below(2) {
        columns.push(aggregate(values, scope, measures));
    }
    let outer = (from == "access").then_some("access");
    let filter = filter(values, scope, outer);
    let by = group_by(values, &groups);
    let mut sql = format!("SELECT {} FROM {from}{filter}{by}", items(&columns));
    if values.once_in(6) {
        let (had, compared) = (aggregate(values, scope, measures), values.below(4));
        sql += &match had.starts_with("count") || had.starts_with("sum(C") {
            true => format!(" HAVING {had} > {compared}"),
            false => format!(" HAVING {had} IS NOT NULL"),
        };
    }
    (columns.len(), sql)
}

pub(super) fn rows(values: &mut Values, from: &str, scope: &Scope, is_stream: bool) -> String {
    let some = |values: &mut Values| {
        let kind = values.of(&KINDS);
        match values.once_in(2) {
            true => scope.any(values).0,
            false => scope.expression(values, kind, 2),
        }
    };
    let columns: Vec<String> = (0..1 + values.below(4)).map(|_| some(values)).collect();
    let outer = (is_stream && from == "access").then_some("access");
    let filter = filter(values, scope, outer);
    let distinct = values.once_in(8);
    let order = match scope.column(values, Time) {
        Some(time) if !distinct && values.below(5) < 3 => {
            let then = match values.below(3) {
                0 => format!(", {}{}", some(values), direction(values)),
                1 if is_stream => format!(", _id{}", direction(values)),
                _ => String::new(),
            };
            format!(
                " ORDER BY {time}{}{then}{}",
                direction(values),
                limit(values)
            )
        }
        _ => ordered(values, columns.len()),
    };
    let distinct = if distinct { "DISTINCT " } else { "" };
    format!(
        "SELECT {distinct}{} FROM {from}{filter}{order}",
        items(&columns)
    )
}
