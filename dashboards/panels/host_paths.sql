SELECT path, count(*) AS n,
  count(*) FILTER (WHERE status >= 400) AS errors,
  sum(response_size) AS bytes
FROM {raw}
GROUP BY path
ORDER BY n DESC, path
LIMIT 20
