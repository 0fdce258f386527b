//! Questions about the lines and documents of `shards::equal`: `{t}` stands for the stream, `{r}`
//! for the beginning of its rollups' names. The order of the rows is that of the question.

/// Questions about an access log.
pub(super) const ACCESS: [&str; 34] = [
    "SELECT count(*) AS n FROM {t}",
    "SELECT count(response_size) AS n, sum(response_size) AS b, min(response_size) AS l, \
     max(response_size) AS h, avg(response_size) AS a, min(time) AS first, max(time) AS last \
     FROM {t}",
    "SELECT status, count(*) AS n, sum(response_size) AS b, avg(response_size) AS a FROM {t} \
     GROUP BY status ORDER BY status",
    "SELECT path, count(*) AS n FROM {t} GROUP BY path ORDER BY n DESC, path LIMIT 7",
    "SELECT date_trunc('hour', time) AS h, count(*) AS n, sum(response_size) AS b FROM {t} \
     GROUP BY 1 ORDER BY 1",
    "SELECT /*+ no_rollup */ date_trunc('day', time) AS d, site, count(*) AS n FROM {t} \
     GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT time_bucket('20 minutes', time) AS b, count(*) AS n FROM {t} \
     WHERE host = '203.0.113.7' GROUP BY 1 ORDER BY 1",
    "SELECT site, host, count(*) AS n, max(response_size) AS m FROM {t} WHERE status >= 400 \
     GROUP BY site, host ORDER BY site, host",
    "SELECT count(*) FILTER (WHERE status = 500) AS e, count(*) FILTER (WHERE path = '/') AS p \
     FROM {t}",
    "SELECT count(DISTINCT host) AS hosts, count(DISTINCT path) AS paths FROM {t} \
     WHERE status <> 304",
    "SELECT site, count(DISTINCT host) AS n FROM {t} GROUP BY site ORDER BY site",
    "SELECT DISTINCT site, method, status FROM {t} ORDER BY site, method, status",
    "SELECT status, median(response_size) AS m, percentile_cont(response_size, 0.9) AS p \
     FROM {t} GROUP BY status ORDER BY status",
    "SELECT stddev(response_size) AS s, bool_and(status < 600) AS a FROM {t}",
    "SELECT time, host, path, status, response_size FROM {t} ORDER BY time DESC LIMIT 25",
    "SELECT time, host, query FROM {t} WHERE path = '/p7' ORDER BY time LIMIT 10 OFFSET 5",
    "SELECT a.host AS host, count(*) AS n FROM {t} AS a JOIN \
     (SELECT host, max(response_size) AS m FROM {t} GROUP BY host) AS b \
     ON a.host = b.host AND a.response_size = b.m GROUP BY a.host ORDER BY a.host",
    "SELECT count(*) AS n FROM {t} WHERE host IN \
     (SELECT host FROM {t} WHERE status = 500 AND path = '/p7')",
    "SELECT path, n, rank() OVER (ORDER BY n DESC, path) AS r FROM \
     (SELECT path, count(*) AS n FROM {t} GROUP BY path) AS p ORDER BY r LIMIT 9",
    "SELECT host, count(*) AS n FROM {t} GROUP BY host HAVING count(*) > 65 \
     ORDER BY n DESC, host",
    "SELECT status, n FROM (SELECT status, count(*) AS n FROM {t} GROUP BY status UNION ALL \
     SELECT -1 AS status, count(*) AS n FROM {t}) AS u ORDER BY status",
    "SELECT string_agg(host, ',' ORDER BY host) AS hosts FROM \
     (SELECT DISTINCT host FROM {t} WHERE status = 404) AS h",
    "SELECT count(*) AS n FROM {t} WHERE path LIKE '/p1%' \
     AND time >= TIMESTAMP '2024-03-01T12:00:00Z' AND time < TIMESTAMP '2024-03-03T12:00:00Z'",
    "SELECT count(DISTINCT _id) AS ids, min(length(_id)) AS l, max(length(_id)) AS h FROM {t}",
    "SELECT bucket, site, path, hits, bytes FROM {r}stats.minutely WHERE path = '/p7' \
     ORDER BY bucket, site, path",
    "SELECT * FROM {r}stats.hourly WHERE site = 'site-1.example' \
     AND bucket < TIMESTAMP '2024-03-01T06:00:00Z' ORDER BY bucket, path",
    "SELECT * FROM {r}stats.daily ORDER BY bucket, site, path",
    "SELECT bucket, sum(hits) AS n, sum(bytes) AS b FROM {r}stats.weekly \
     GROUP BY bucket ORDER BY bucket",
    "SELECT bucket, site, path, hits, size_p99, visitors FROM {r}stats.monthly \
     ORDER BY bucket, site, path",
    "SELECT bucket, hist_quantile(hist_merge(size), 0.5) AS m, \
     distinct_count(distinct_merge(visitors_state)) AS v FROM {r}stats.daily \
     GROUP BY bucket ORDER BY bucket",
    "SELECT * FROM {r}traffic.minutely WHERE status = 500 ORDER BY bucket, site, method LIMIT 50",
    "SELECT * FROM {r}traffic.yearly ORDER BY bucket, site, status, method",
    "SELECT * FROM {r}stats.daily_documents WHERE metadata['path'] = '/p7' ORDER BY _id",
    "SELECT * FROM {r}stats.monthly_documents ORDER BY _id",
];

/// Questions about documents.
pub(super) const DOCUMENTS: [&str; 11] = [
    "SELECT k, size, user.name AS name, user.id AS id, ok, late0, late1, late2, \
     attr_json(_rest, 'size') AS other FROM {t} ORDER BY k",
    "SELECT count(*) AS n, count(size) AS c, sum(size) AS s, min(size) AS l, max(size) AS h, \
     avg(user.id) AS a FROM {t}",
    "SELECT user.name AS name, count(*) AS n, count(DISTINCT user.id) AS ids FROM {t} \
     GROUP BY 1 ORDER BY 1",
    "SELECT attr_type(_rest, 'size') AS kind, count(*) AS n FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT attr(_rest, 'tags.1') AS tag, count(*) AS n FROM {t} WHERE ok GROUP BY 1 \
     ORDER BY 2 DESC, 1",
    "SELECT date_trunc('day', time) AS d, count(*) AS n FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT time, k FROM {t} WHERE size > 20 ORDER BY time DESC, k LIMIT 12",
    "SELECT a.k AS one, b.k AS other FROM {t} AS a JOIN {t} AS b \
     ON a.user.id = b.user.id AND a.k < b.k WHERE b.k < 12 ORDER BY 1, 2",
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{t}' \
     ORDER BY column_name",
    "SELECT bucket, hits FROM {r}traffic.hourly ORDER BY bucket",
    "SELECT * FROM {r}traffic.daily_documents ORDER BY _id",
];
