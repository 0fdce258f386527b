//! Statements of `--bench queries`, over events and over the levels of their rollups. The generated
//! days begin on 2026-11-02.

/// A name, a description, and the statement.
pub(crate) type Statement = (&'static str, &'static str, String);

/// Returns statements over events: of a host and a path, and of the most requested path.
pub(crate) fn raw(host: &str, path: &str, hot: &str) -> Vec<Statement> {
    let day = "time >= '2026-11-09' AND time < '2026-11-10'";
    vec![
        ("Q1", "host and date", format!("SELECT * FROM access WHERE host = '{host}' AND {day}")),
        ("Q2", "one path", format!("SELECT * FROM access WHERE path = '{path}'")),
        ("Q3a", "count of a day", format!("SELECT count(*) FROM access WHERE {day}")),
        ("Q3b", "a day's first 1,000 by time", format!("SELECT * FROM access WHERE {day} ORDER BY time LIMIT 1000")),
        ("Q4", "hits by path and day", "SELECT path, date_trunc('day', time) AS day, count(*) FROM access WHERE time >= '2026-11-01' AND time < '2026-12-01' GROUP BY 1, 2".into()),
        ("Q5", "hot path, minutes of an hour", format!("SELECT date_trunc('minute', time) AS m, count(*) FROM access WHERE path = '{hot}' AND time >= '2026-11-15T23:00:00Z' AND time < '2026-11-16' GROUP BY 1 ORDER BY 1")),
        ("Q6", "hot path, hours of seven days", format!("SELECT date_trunc('hour', time) AS h, count(*) FROM access WHERE path = '{hot}' AND time >= '2026-11-09' AND time < '2026-11-16' GROUP BY 1 ORDER BY 1")),
        ("Q7d", "host by day: count, sum, mean", "SELECT host, date_trunc('day', time) AS d, count(*), sum(response_size), avg(response_size) FROM access GROUP BY 1, 2".into()),
        ("Q7w", "host by week", "SELECT host, date_trunc('week', time) AS d, count(*), sum(response_size), avg(response_size) FROM access GROUP BY 1, 2".into()),
        ("Q7m", "host by month", "SELECT host, date_trunc('month', time) AS d, count(*), sum(response_size), avg(response_size) FROM access GROUP BY 1, 2".into()),
        ("Q8", "p50, p95, p99 by hour", "SELECT date_trunc('hour', time) AS h, approx_percentile_cont(response_size, 0.5), approx_percentile_cont(response_size, 0.95), approx_percentile_cont(response_size, 0.99) FROM access GROUP BY 1 ORDER BY 1".into()),
        ("Q9", "exact distinct hosts by day", "SELECT date_trunc('day', time) AS d, count(DISTINCT host) FROM access GROUP BY 1 ORDER BY 1".into()),
        ("Q9a", "approximate distinct hosts by day", "SELECT date_trunc('day', time) AS d, approx_distinct(host) FROM access GROUP BY 1 ORDER BY 1".into()),
        ("Q10", "top 20 paths of 24 h", "SELECT path, count(*) AS n FROM access WHERE time >= '2026-11-15' AND time < '2026-11-16' GROUP BY path ORDER BY n DESC LIMIT 20".into()),
        ("Q11", "status class by 5 minutes", "SELECT date_bin('5 minutes', time) AS b, status / 100 AS c, count(*) FROM access GROUP BY 1, 2 ORDER BY 1, 2".into()),
        ("Q12a", "a day's user agents with a text", format!("SELECT count(*) FROM access WHERE {day} AND user_agent LIKE '%bot%'")),
        ("Q12b", "a day's user agents by pattern", format!("SELECT count(*) FROM access WHERE {day} AND user_agent ~ '(bot|Chrome)/[0-9]'")),
        ("Q13", "count of everything", "SELECT count(*) FROM access".into()),
        ]
}

/// Returns statements over levels.
pub(crate) fn rollups(hot: &str) -> Vec<Statement> {
    vec![
        ("R4", "hits by path and day", "SELECT path, bucket, hits FROM stats.daily".to_owned()),
        ("R5", "hot path, minutes of an hour", format!("SELECT bucket, sum(hits) FROM stats.minutely WHERE path = '{hot}' AND bucket >= '2026-11-15T23:00:00Z' AND bucket < '2026-11-16' GROUP BY 1 ORDER BY 1")),
        ("R6", "hot path, hours of seven days", format!("SELECT bucket, sum(hits) FROM stats.hourly WHERE path = '{hot}' AND bucket >= '2026-11-09' AND bucket < '2026-11-16' GROUP BY 1 ORDER BY 1")),
        ("R8", "p50, p95, p99 by hour", "SELECT bucket, hist_quantile(hist_merge(size), 0.5), hist_quantile(hist_merge(size), 0.95), hist_quantile(hist_merge(size), 0.99) FROM traffic.hourly GROUP BY 1 ORDER BY 1".into()),
        ("R9a", "distinct hosts by day", "SELECT bucket, distinct_count(distinct_merge(visitors_state)) FROM traffic.daily GROUP BY 1 ORDER BY 1".into()),
        ("R10", "top 20 paths of 24 h", "SELECT path, sum(hits) AS n FROM stats.daily WHERE bucket = '2026-11-15' GROUP BY path ORDER BY n DESC LIMIT 20".into()),
        ("R11", "status class by 5 minutes", "SELECT time_bucket('5 minutes', bucket) AS b, status / 100 AS c, sum(hits) FROM traffic.minutely GROUP BY 1, 2 ORDER BY 1, 2".into()),
        ]
}
