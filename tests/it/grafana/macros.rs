//! Queries as Grafana sends them. The browser replaces variables first; then the data source
//! replaces the interval, and last its macros (`pkg/tsdb/sqleng` and
//! `pkg/tsdb/grafana-postgresql-datasource/macros.go` of grafana/grafana).

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};

/// The value of a variable.
#[derive(Debug, Clone)]
pub(super) enum Value {
    One(String),
    Many(Vec<String>),
    /// All values of a variable that has a text for this. It is inserted as it stands.
    All(&'static str),
}

/// The range, the interval and the variables that a query is expanded for.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) from: DateTime<Utc>,
    pub(super) to: DateTime<Utc>,
    pub(super) interval_s: u64,
    /// The data source's switch for TimescaleDB.
    pub(super) timescale: bool,
    pub(super) variables: BTreeMap<String, Value>,
}

impl Scene {
    pub(super) fn expand(&self, query: &str) -> String {
        let query = self.with_variables(query);
        let ms = (self.interval_s * 1000).to_string();
        let query = query.replace("$__interval_ms", &ms);
        let query = query.replace("$__interval", &spelled(self.interval_s));
        let epochs = [
            ("$__unixEpochFrom()", self.from),
            ("$__unixEpochTo()", self.to),
        ];
        let query = epochs.iter().fold(query, |query, (name, at)| {
            query.replace(name, &at.timestamp().to_string())
        });
        self.with_macros(&query)
    }

    /// Replaces `$name`, `${name}` and `${name:format}`. Names that are no variables stay.
    fn with_variables(&self, query: &str) -> String {
        let mut text = String::new();
        let mut rest = query;
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            let braced = after.strip_prefix('{').and_then(|a| a.split_once('}'));
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (inside, behind) = braced.unwrap_or(after.split_at(end.unwrap_or(after.len())));
            let (name, format) = inside.split_once(':').unwrap_or((inside, ""));
            match self.variables.get(name) {
                Some(value) => {
                    text += &formatted(value, format);
                    rest = behind;
                }
                None => {
                    text.push('$');
                    rest = after;
                }
            }
        }
        text + rest
    }

    /// Replaces `$__name(arguments)`. No argument holds a closing parenthesis.
    fn with_macros(&self, query: &str) -> String {
        let mut text = String::new();
        let mut rest = query;
        while let Some((before, after)) = rest.split_once("$__") {
            text.push_str(before);
            let (name, behind) = after.split_once('(').expect("a macro has arguments");
            let (arguments, behind) = behind.split_once(')').expect("arguments end");
            let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
            // A comma right behind `$__timeGroup` is an old spelling of the other macro.
            let name = match name == "timeGroup" && behind.starts_with(',') {
                true => "timeGroupAlias",
                false => name,
            };
            text += &self.evaluated(name, &arguments);
            rest = behind;
        }
        text + rest
    }

    fn evaluated(&self, name: &str, arguments: &[&str]) -> String {
        let stamp =
            |at: DateTime<Utc>| format!("'{}'", at.to_rfc3339_opts(SecondsFormat::AutoSi, true));
        let (from, to) = (stamp(self.from), stamp(self.to));
        let column = arguments[0];
        match name {
            "time" => format!("{column} AS \"time\""),
            "timeFilter" => format!("{column} BETWEEN {from} AND {to}"),
            "timeFrom" => from,
            "timeTo" => to,
            "timeGroup" if self.timescale => {
                let seconds = seconds(arguments[1]);
                format!("time_bucket('{seconds}.000s',{column})")
            }
            "timeGroup" => {
                let seconds = seconds(arguments[1]);
                format!("floor(extract(epoch from {column})/{seconds})*{seconds}")
            }
            "timeGroupAlias" => format!("{} AS \"time\"", self.evaluated("timeGroup", arguments)),
            "unixEpochFilter" => {
                let (from, to) = (self.from.timestamp(), self.to.timestamp());
                format!("{column} >= {from} AND {column} <= {to}")
            }
            other => panic!("unknown macro {other}"),
        }
    }
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn formatted(value: &Value, format: &str) -> String {
    match (value, format) {
        (Value::All(text), _) => (*text).to_owned(),
        (Value::One(value), "sqlstring") => quoted(value),
        (Value::One(value), "csv" | "raw") => value.clone(),
        // Without a format, the PostgreSQL data source doubles quotes and adds none.
        (Value::One(value), "") => value.replace('\'', "''"),
        (Value::Many(values), "sqlstring" | "") => values
            .iter()
            .map(|v| quoted(v))
            .collect::<Vec<_>>()
            .join(","),
        (Value::Many(values), "csv") => values.join(","),
        (_, other) => panic!("unknown format {other}"),
    }
}

/// Returns an interval as Grafana spells it.
fn spelled(seconds: u64) -> String {
    match seconds {
        s if s >= 31_536_000 => format!("{}y", s / 31_536_000),
        s if s >= 86_400 => format!("{}d", s / 86_400),
        s if s >= 3_600 => format!("{}h", s / 3_600),
        s if s >= 60 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

fn seconds(interval: &str) -> u64 {
    let interval = interval.trim_matches('\'');
    let (count, unit) = interval.split_at(interval.len() - 1);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "y" => 31_536_000,
        other => panic!("unknown unit {other}"),
    };
    count.parse::<u64>().expect("a number") * unit
}

#[test]
fn macros_and_variables_expand_as_in_grafana() {
    let at = |s: &str| s.parse::<DateTime<Utc>>().expect("a time");
    let variables = [
        ("host", Value::One("o'neil".to_owned())),
        ("site", Value::Many(vec!["a".to_owned(), "b'c".to_owned()])),
        ("path", Value::All("'*'")),
    ];
    let mut scene = Scene {
        from: at("2026-11-20T10:00:00Z"),
        to: at("2026-11-20T11:00:00.5Z"),
        interval_s: 300,
        timescale: false,
        variables: variables.map(|(n, v)| (n.to_owned(), v)).into(),
    };
    let range = "'2026-11-20T10:00:00Z' AND '2026-11-20T11:00:00.500Z'";
    for (query, expected) in [
        ("$__timeFilter(t)", format!("t BETWEEN {range}")),
        (
            "$__timeGroup(t, $__interval)",
            "floor(extract(epoch from t)/300)*300".to_owned(),
        ),
        (
            "$__timeGroup(t,'1h',0)",
            "floor(extract(epoch from t)/3600)*3600".to_owned(),
        ),
        (
            "$__timeGroup(t,'5m'), x",
            "floor(extract(epoch from t)/300)*300 AS \"time\", x".to_owned(),
        ),
        (
            "$__timeGroupAlias(t,'5m')",
            "floor(extract(epoch from t)/300)*300 AS \"time\"".to_owned(),
        ),
        ("$__timeFrom()", "'2026-11-20T10:00:00Z'".to_owned()),
        ("$__interval_ms < 1", "300000 < 1".to_owned()),
        (
            "$__unixEpochFilter(e)",
            "e >= 1795168800 AND e <= 1795172400".to_owned(),
        ),
        (
            "'$host' ${host:sqlstring} ${site:csv} ${site}",
            "'o''neil' 'o''neil' a,b'c 'a','b''c'".to_owned(),
        ),
        ("${path:sqlstring} $other", "'*' $other".to_owned()),
    ] {
        assert_eq!(scene.expand(query), expected, "{query}");
    }
    scene.timescale = true;
    assert_eq!(
        scene.expand("$__timeGroup(t,'5m')"),
        "time_bucket('300.000s',t)"
    );
}
