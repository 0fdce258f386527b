//! Statements of a thoughtless or a hostile client.

/// Returns statements with the class that each stands for.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    let one = |class, sql: &str| (class, sql.to_owned());
    let mut all = vec![
        one(
            "cross join",
            "SELECT count(*) FROM access a, access b, access c WHERE a.path < b.path AND b.path < c.path",
        ),
        one(
            "cross join",
            "SELECT a.path, b.host FROM access a CROSS JOIN access b ORDER BY a.response_size + b.response_size",
        ),
        one(
            "cross join",
            "SELECT max(a.value + b.value) FROM generate_series(1, 100000000) a, generate_series(1, 100000000) b",
        ),
        one(
            "join without a match",
            "SELECT count(*) FROM access a JOIN access b ON a.response_size * 7 = b.response_size * b.response_size + 3 AND a.path > b.user_agent",
        ),
        one(
            "join without a match",
            "SELECT count(*) FROM access a JOIN access b ON a.status = b.status AND a.response_size + b.response_size < 0",
        ),
        one(
            "join, many matches",
            "SELECT count(DISTINCT a.path || b.path) FROM access a JOIN access b ON a.status = b.status",
        ),
        one(
            "join, wide and sorted",
            "SELECT * FROM access a JOIN access b ON a.method = b.method ORDER BY a.user_agent, b.path LIMIT 1000 OFFSET 500000",
        ),
        one(
            "series",
            "SELECT count(*) FROM generate_series(1, 9000000000)",
        ),
        one("series", "SELECT * FROM generate_series(1, 9000000000)"),
        one(
            "series",
            "SELECT array_length(generate_series(1, 9000000000))",
        ),
        one(
            "series",
            "SELECT range(TIMESTAMP '1970-01-01', TIMESTAMP '2100-01-01', INTERVAL '1 microsecond')",
        ),
        one(
            "series, sorted",
            "SELECT value FROM generate_series(1, 9000000000) ORDER BY value * 7919 % 1000003 LIMIT 5 OFFSET 100000000",
        ),
        one("repeat", "SELECT repeat('x', 1000000000)"),
        one("repeat", "SELECT repeat(path, 1000000) FROM access"),
        one(
            "repeat",
            "SELECT sum(length(repeat(path, 100))) FROM access",
        ),
        one(
            "long constant",
            "SELECT repeat('x', 60000000) AS x FROM generate_series(1, 100000)",
        ),
        one(
            "long constant",
            "SELECT max(length(CASE WHEN value % 2 = 0 THEN repeat('x', 60000000) ELSE 'y' END)) FROM generate_series(1, 100000)",
        ),
        one(
            "long constant joined",
            "SELECT max(length(t || value)) FROM (SELECT repeat('x', 60000000) AS t), generate_series(1, 100000)",
        ),
        one("padding", "SELECT lpad(path, 1000000, 'x') FROM access"),
        one(
            "replace",
            "SELECT length(replace(repeat('x', 1000000), 'x', repeat('y', 1000000)))",
        ),
        one(
            "replace",
            "SELECT max(length(regexp_replace(user_agent, '', repeat('y', 100000), 'g'))) FROM access",
        ),
        one("arrays", "SELECT array_repeat(1, 1000000000)"),
        one(
            "arrays",
            "SELECT array_to_string(range(0, 1000000), repeat('x', 1000000))",
        ),
        one(
            "arrays",
            "SELECT array_length(array_resize([1], 1000000000))",
        ),
        one(
            "recursion",
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
        ),
        one("set", "SET datafusion.execution.batch_size = 1"),
        one(
            "copy",
            "COPY (SELECT * FROM access) TO '/tmp/hostile.parquet'",
        ),
        one(
            "external table",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        ),
        one("file", "SELECT * FROM '/etc/passwd'"),
        one("insert", "INSERT INTO access SELECT * FROM access"),
        one("drop", "DROP TABLE access"),
        one("two statements", "SELECT 1; SELECT 2"),
        one(
            "array_agg",
            "SELECT array_agg(user_agent || path || referrer || _id) FROM access",
        ),
        one(
            "array_agg",
            "SELECT array_length(array_agg(value)) FROM generate_series(1, 9000000000)",
        ),
        one(
            "array_agg, distinct",
            "SELECT array_length(array_agg(DISTINCT value)) FROM generate_series(1, 9000000000)",
        ),
        one(
            "array_agg, sorted",
            "SELECT array_length(array_agg(a.path || a._id ORDER BY b.value)) FROM access a, generate_series(1, 100) b",
        ),
        one(
            "array_agg by group",
            "SELECT host, array_agg(user_agent || value) FROM access, generate_series(1, 100) GROUP BY 1",
        ),
        one(
            "string_agg",
            "SELECT length(string_agg(user_agent || path || _id, ',')) FROM access",
        ),
        one(
            "string_agg",
            "SELECT length(string_agg(repeat('x', 1000) || value, ',')) FROM generate_series(1, 9000000000)",
        ),
        one(
            "string_agg by group",
            "SELECT value % 10, length(string_agg(repeat('x', 1000) || value, ',')) FROM generate_series(1, 9000000000) GROUP BY 1",
        ),
        one(
            "groups",
            "SELECT value, count(*) FROM generate_series(1, 9000000000) GROUP BY 1",
        ),
        one(
            "groups",
            "SELECT max(c) FROM (SELECT a.path || b.value AS p, count(*) AS c FROM access a, generate_series(1, 1000) b GROUP BY 1)",
        ),
        one(
            "distinct",
            "SELECT count(DISTINCT value) FROM generate_series(1, 9000000000)",
        ),
        one(
            "distinct",
            "SELECT DISTINCT path || value FROM access, generate_series(1, 1000)",
        ),
        one(
            "median",
            "SELECT median(value) FROM generate_series(1, 9000000000)",
        ),
        one(
            "percentiles",
            "SELECT approx_percentile_cont(value, 0.99), median(value * 2) FROM generate_series(1, 9000000000)",
        ),
        one(
            "sort of everything",
            "SELECT * FROM access ORDER BY user_agent, referrer, path, _id",
        ),
        one(
            "sort of everything, wide",
            "SELECT a.*, repeat('x', 2000) || a.path FROM access a, generate_series(1, 20) ORDER BY a.user_agent, a._id",
        ),
        one(
            "regular expression",
            "SELECT count(*) FROM access WHERE regexp_like(user_agent, '(a+)+$|(.*)*x|(.|.)*y')",
        ),
        one(
            "regular expression",
            "SELECT count(*) FROM access WHERE regexp_like(user_agent, '((((a{1,100}){1,100}){1,100}){1,100})')",
        ),
        one(
            "pattern",
            "SELECT count(*) FROM access a, access b WHERE a.user_agent LIKE '%' || b.path || '%'",
        ),
        one(
            "window",
            "SELECT max(m) FROM (SELECT min(response_size) OVER (ORDER BY time ROWS BETWEEN 100000 PRECEDING AND 100000 FOLLOWING) AS m FROM access)",
        ),
        one(
            "window of all",
            "SELECT max(n) FROM (SELECT array_length(array_agg(path) OVER (ORDER BY time)) AS n FROM access)",
        ),
        one(
            "window of all",
            "SELECT max(n) FROM (SELECT array_length(array_agg(path) OVER ()) AS n FROM access)",
        ),
        one(
            "window of texts",
            "SELECT max(length(t)) FROM (SELECT string_agg(path, ',') OVER (ORDER BY time) AS t FROM access)",
        ),
        one(
            "unnest",
            "SELECT max(x) FROM (SELECT unnest(range(0, 1000000)) AS x, path FROM access)",
        ),
        one(
            "unnest",
            "SELECT count(*) FROM (SELECT unnest(range(0, 100000)) AS x, user_agent, path FROM access ORDER BY user_agent)",
        ),
        one(
            "correlated",
            "SELECT count(*) FROM access a WHERE EXISTS (SELECT 1 FROM access b WHERE b.path > a.path AND b.host < a.host AND b.response_size = -1)",
        ),
        one(
            "levels",
            "SELECT count(*) FROM stats.hourly a, stats.hourly b, stats.hourly c WHERE a.hits + b.hits + c.hits < 0",
        ),
        one(
            "attributes",
            "SELECT count(DISTINCT attr(_rest, path)) FROM access, generate_series(1, 10000)",
        ),
    ];
    let list = |n: usize, each: &dyn Fn(usize) -> String, between: &str| {
        (0..n).map(each).collect::<Vec<_>>().join(between)
    };
    let doubled = |n: usize, inner: &str, twice: &str| {
        (0..n).fold(inner.to_owned(), |sql, _| {
            format!("SELECT {twice} AS t FROM ({sql})")
        })
    };
    let from = "SELECT path AS t FROM access";
    all.extend([
        ("doubled texts", format!("SELECT max(length(t)) FROM ({})", doubled(30, from, "t || t"))),
        ("doubled texts", format!("SELECT max(length(t)) FROM ({})", doubled(30, from, "concat(t, t)"))),
        ("doubled lists", format!("SELECT max(array_length(t)) FROM ({})", doubled(30, "SELECT [path] AS t FROM access", "array_concat(t, t)"))),
        ("doubled structs", doubled(16, from, "struct(t, t)")),
        ("texts in one another", format!("SELECT {}", (0..40).fold("path".to_owned(), |t, _| format!("replace({t}, '/', '//')")) + " FROM access")),
        ("many long columns", format!("SELECT {} FROM generate_series(1, 100000)", list(300, &|i| format!("repeat('x', 7000) || (value + {i}) AS c{i}"), ", "))),
        ("5,000 OR", format!("SELECT count(*) FROM access WHERE {}", list(5000, &|i| format!("path = '/{i}'"), " OR "))),
        ("1,000 UNION", list(1000, &|i| format!("SELECT {i}"), " UNION ALL ")),
        ("90 UNION of everything", format!("SELECT * FROM ({}) ORDER BY user_agent", list(90, &|_| "SELECT * FROM access".to_owned(), " UNION ALL "))),
        ("100,000 IN", format!("SELECT count(*) FROM access WHERE response_size IN ({})", list(100_000, &|i| (i * 7).to_string(), ","))),
        ("deep CASE", format!("SELECT {} 1 {}", "CASE WHEN true THEN ".repeat(2000), " ELSE 2 END".repeat(2000))),
        ("deep CASE", format!("SELECT sum({} 1 {}) FROM access", "CASE WHEN status > 1 THEN ".repeat(30), " ELSE 2 END".repeat(30))),
        ("parentheses", format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000))),
        ("subqueries", doubled(200, "SELECT 1 AS t", "t")),
        ("a sum of 20,000", format!("SELECT {}", vec!["1"; 20_000].join("+"))),
        ("50 joins", format!("SELECT count(*) FROM access a0 {}", list(50, &|i| format!("JOIN access a{} ON a{}.status = a{i}.status", i + 1, i + 1), " "))),
        ("a text of 3 MiB", format!("SELECT '{}'", "x".repeat(3 << 20))),
        ("nested aggregates", format!("SELECT max(t) FROM ({})", (0..30).fold("SELECT value AS t FROM generate_series(1, 9000000000)".to_owned(), |sql, _| format!("SELECT sum(t) OVER (ORDER BY t) AS t FROM ({sql})")))),
        ("cube", format!("SELECT count(*) FROM (SELECT {0} FROM access GROUP BY CUBE({0}))", "host, path, status, method, referrer, user_agent, protocol, response_size, query, time")),
        ("20 aggregates", format!("SELECT {} FROM access, generate_series(1, 10000)", list(20, &|i| format!("count(DISTINCT path || (value % {}))", i + 2), ", "))),
    ]);
    all
}
