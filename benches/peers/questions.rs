//! The questions, each in the SQL of the three engines.

/// Rule by which answers are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Same {
    /// Row by row, in any order.
    Rows,
    /// By one column: rows of one second may stand in any order, so which of them come last is
    /// open.
    Column(&'static str),
    /// Each value within this share of [`Question::exact`].
    Nearly(f64),
}

/// Tolerance of a histogram of two digits.
const QUANTILES_NEAR: f64 = 0.01;
/// Tolerance of a distinct count: three standard errors, each under 2 %.
const DISTINCT_NEAR: f64 = 0.06;

/// A question. `{t}` is the table, `{at}` its time in the form that DuckDB truncates best,
/// `{columns}` all columns; the others are [`Values`].
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) same: Same,
    pub(crate) ours: &'static str,
    pub(crate) duckdb: &'static str,
    pub(crate) chdb: &'static str,
    /// Exact answer by DuckDB, where the others are approximate: the key, then for each value the
    /// least and the greatest that it may be.
    pub(crate) exact: Option<&'static str>,
}

/// Constants by name.
pub(crate) type Values = Vec<(&'static str, String)>;

/// Puts constants in the place of their names.
pub(crate) fn spelled(text: &str, values: &Values) -> String {
    let put =
        |text: String, (name, value): &(&str, String)| text.replace(&format!("{{{name}}}"), value);
    values.iter().fold(text.to_owned(), put)
}

/// Returns a question whose text all three share.
const fn common(name: &'static str, what: &'static str, same: Same, sql: &'static str) -> Question {
    Question {
        name,
        what,
        same,
        ours: sql,
        duckdb: sql,
        chdb: sql,
        exact: None,
    }
}

pub(crate) fn questions() -> [Question; 18] {
    [
        common(
            "Q1",
            "host and date",
            Same::Rows,
            "SELECT {columns} FROM {t} WHERE host = '{host}' AND time >= '{day}' AND time < '{next}'",
        ),
        common(
            "Q2",
            "one path",
            Same::Rows,
            "SELECT {columns} FROM {t} WHERE path = '{path}'",
        ),
        common(
            "Q3a",
            "count of a day",
            Same::Rows,
            "SELECT count(*) FROM {t} WHERE time >= '{day}' AND time < '{next}'",
        ),
        common(
            "Q3b",
            "a day's first 1,000 by time",
            Same::Column("time"),
            "SELECT {columns} FROM {t} WHERE time >= '{day}' AND time < '{next}' ORDER BY time LIMIT 1000",
        ),
        Question {
            name: "Q4",
            what: "hits by path and day",
            same: Same::Rows,
            ours: "SELECT path, date_trunc('day', time) AS bucket, count(*) FROM {t} \
                   WHERE time >= '2026-11-01' AND time < '2026-12-01' GROUP BY 1, 2",
            duckdb: "SELECT path, date_trunc('day', {at}), count(*) FROM {t} \
                     WHERE time >= '2026-11-01' AND time < '2026-12-01' GROUP BY 1, 2",
            chdb: "SELECT path, toDateTime64(toDate(time), 6, 'UTC'), count() FROM {t} \
                   WHERE time >= '2026-11-01' AND time < '2026-12-01' GROUP BY path, toDate(time)",
            exact: None,
        },
        Question {
            name: "Q5",
            what: "hot path, minutes of an hour",
            same: Same::Rows,
            ours: "SELECT date_trunc('minute', time) AS bucket, count(*) FROM {t} \
                   WHERE path = '{hot}' AND time >= '{hour}' AND time < '{end}' GROUP BY 1 ORDER BY 1",
            duckdb: "SELECT date_trunc('minute', {at}), count(*) FROM {t} \
                     WHERE path = '{hot}' AND time >= '{hour}' AND time < '{end}' GROUP BY 1 ORDER BY 1",
            chdb: "SELECT toDateTime64(toStartOfMinute(time), 6, 'UTC'), count() FROM {t} \
                   WHERE path = '{hot}' AND time >= '{hour}' AND time < '{end}' \
                   GROUP BY toStartOfMinute(time) ORDER BY toStartOfMinute(time)",
            exact: None,
        },
        Question {
            name: "Q6",
            what: "hot path, hours of seven days",
            same: Same::Rows,
            ours: "SELECT date_trunc('hour', time) AS bucket, count(*) FROM {t} \
                   WHERE path = '{hot}' AND time >= '{week}' AND time < '{end}' GROUP BY 1 ORDER BY 1",
            duckdb: "SELECT date_trunc('hour', {at}), count(*) FROM {t} \
                     WHERE path = '{hot}' AND time >= '{week}' AND time < '{end}' GROUP BY 1 ORDER BY 1",
            chdb: "SELECT toDateTime64(toStartOfHour(time), 6, 'UTC'), count() FROM {t} \
                   WHERE path = '{hot}' AND time >= '{week}' AND time < '{end}' \
                   GROUP BY toStartOfHour(time) ORDER BY toStartOfHour(time)",
            exact: None,
        },
        Question {
            name: "Q7d",
            what: "host by day: count, sum, mean",
            same: Same::Rows,
            ours: "SELECT host, date_trunc('day', time) AS bucket, count(*), sum(response_size), avg(response_size) \
                   FROM {t} GROUP BY 1, 2",
            duckdb: "SELECT host, date_trunc('day', {at}), count(*), sum(response_size), avg(response_size) \
                     FROM {t} GROUP BY 1, 2",
            chdb: "SELECT host, toDateTime64(toDate(time), 6, 'UTC'), count(), sum(response_size), avg(response_size) \
                   FROM {t} GROUP BY host, toDate(time)",
            exact: None,
        },
        Question {
            name: "Q7w",
            what: "host by week",
            same: Same::Rows,
            ours: "SELECT host, date_trunc('week', time) AS bucket, count(*), sum(response_size), avg(response_size) \
                   FROM {t} GROUP BY 1, 2",
            duckdb: "SELECT host, date_trunc('week', {at}), count(*), sum(response_size), avg(response_size) \
                     FROM {t} GROUP BY 1, 2",
            chdb: "SELECT host, toDateTime64(toMonday(time), 6, 'UTC'), count(), sum(response_size), avg(response_size) \
                   FROM {t} GROUP BY host, toMonday(time)",
            exact: None,
        },
        Question {
            name: "Q7m",
            what: "host by month",
            same: Same::Rows,
            ours: "SELECT host, date_trunc('month', time) AS bucket, count(*), sum(response_size), avg(response_size) \
                   FROM {t} GROUP BY 1, 2",
            duckdb: "SELECT host, date_trunc('month', {at}), count(*), sum(response_size), avg(response_size) \
                     FROM {t} GROUP BY 1, 2",
            chdb: "SELECT host, toDateTime64(toStartOfMonth(time), 6, 'UTC'), count(), sum(response_size), \
                   avg(response_size) FROM {t} GROUP BY host, toStartOfMonth(time)",
            exact: None,
        },
        // Exact quantiles of the peers take less time than their sketches.
        Question {
            name: "Q8",
            what: "p50, p95, p99 by hour",
            same: Same::Nearly(QUANTILES_NEAR),
            ours: "SELECT date_trunc('hour', time) AS bucket, approx_percentile_cont(response_size, 0.5), \
                   approx_percentile_cont(response_size, 0.95), approx_percentile_cont(response_size, 0.99) \
                   FROM {t} GROUP BY 1 ORDER BY 1",
            duckdb: "SELECT bucket, q[1], q[2], q[3] FROM (SELECT date_trunc('hour', {at}) AS bucket, \
                     quantile_disc(response_size, [0.5, 0.95, 0.99]) AS q FROM {t} GROUP BY 1) ORDER BY 1",
            chdb: "SELECT toDateTime64(bucket, 6, 'UTC') AS hour, q[1], q[2], q[3] FROM (SELECT toStartOfHour(time) AS bucket, \
                   quantilesExact(0.5, 0.95, 0.99)(response_size) AS q FROM {t} GROUP BY bucket) ORDER BY hour",
            exact: Some(
                "SELECT bucket, xs[greatest(m[1] - 2, 1)], xs[least(m[1] + 2, n)], xs[greatest(m[2] - 2, 1)], \
                 xs[least(m[2] + 2, n)], xs[greatest(m[3] - 2, 1)], xs[least(m[3] + 2, n)] FROM ( \
                 SELECT *, len(xs) AS n, [ceil(0.5 * len(xs))::INT, ceil(0.95 * len(xs))::INT, \
                 ceil(0.99 * len(xs))::INT] AS m FROM (SELECT date_trunc('hour', {at}) AS bucket, \
                 list_sort(list(response_size) FILTER (WHERE response_size IS NOT NULL)) AS xs FROM {t} GROUP BY 1))",
            ),
        },
        Question {
            name: "Q9",
            what: "exact distinct hosts by day",
            same: Same::Rows,
            ours: "SELECT date_trunc('day', time) AS bucket, count(DISTINCT host) FROM {t} GROUP BY 1 ORDER BY 1",
            duckdb: "SELECT date_trunc('day', {at}), count(DISTINCT host) FROM {t} GROUP BY 1 ORDER BY 1",
            chdb: "SELECT toDateTime64(toDate(time), 6, 'UTC'), uniqExact(host) FROM {t} \
                   GROUP BY toDate(time) ORDER BY toDate(time)",
            exact: None,
        },
        Question {
            name: "Q9a",
            what: "approximate distinct hosts by day",
            same: Same::Nearly(DISTINCT_NEAR),
            ours: "SELECT date_trunc('day', time) AS bucket, approx_distinct(host) FROM {t} GROUP BY 1 ORDER BY 1",
            duckdb: "SELECT date_trunc('day', {at}), approx_count_distinct(host) FROM {t} GROUP BY 1 ORDER BY 1",
            chdb: "SELECT toDateTime64(toDate(time), 6, 'UTC'), uniqCombined(host) FROM {t} \
                   GROUP BY toDate(time) ORDER BY toDate(time)",
            exact: Some(
                "SELECT bucket, n, n FROM (SELECT date_trunc('day', {at}) AS bucket, count(DISTINCT host) AS n \
                 FROM {t} GROUP BY 1)",
            ),
        },
        common(
            "Q10",
            "top 20 paths of 24 h",
            Same::Rows,
            "SELECT path, count(*) AS n FROM {t} WHERE time >= '{last}' AND time < '{end}' \
             GROUP BY path ORDER BY n DESC, path LIMIT 20",
        ),
        Question {
            name: "Q11",
            what: "status class by 5 minutes",
            same: Same::Rows,
            ours: "SELECT date_bin('5 minutes', time) AS bucket, status / 100 AS class, count(*) FROM {t} \
                   GROUP BY 1, 2 ORDER BY 1, 2",
            duckdb: "SELECT time_bucket(INTERVAL '5 minutes', {at}), status // 100, count(*) FROM {t} \
                     GROUP BY 1, 2 ORDER BY 1, 2",
            chdb: "SELECT toDateTime64(toStartOfFiveMinutes(time), 6, 'UTC'), intDiv(status, 100), count() FROM {t} \
                   GROUP BY toStartOfFiveMinutes(time), intDiv(status, 100) \
                   ORDER BY toStartOfFiveMinutes(time), intDiv(status, 100)",
            exact: None,
        },
        common(
            "Q12a",
            "a day's user agents with a text",
            Same::Rows,
            "SELECT count(*) FROM {t} WHERE time >= '{day}' AND time < '{next}' AND user_agent LIKE '%bingbot%'",
        ),
        Question {
            name: "Q12b",
            what: "a day's user agents by pattern",
            same: Same::Rows,
            ours: "SELECT count(*) FROM {t} WHERE time >= '{day}' AND time < '{next}' AND user_agent ~ '(bing|Google)bot/[0-9]'",
            duckdb: "SELECT count(*) FROM {t} WHERE time >= '{day}' AND time < '{next}' \
                     AND regexp_matches(user_agent, '(bing|Google)bot/[0-9]')",
            chdb: "SELECT count() FROM {t} WHERE time >= '{day}' AND time < '{next}' AND match(user_agent, '(bing|Google)bot/[0-9]')",
            exact: None,
        },
        common(
            "Q13",
            "count of everything",
            Same::Rows,
            "SELECT count(*) FROM {t}",
        ),
    ]
}
