SELECT host, count(*) AS n,
  count(*) FILTER (WHERE status >= 400) AS errors,
  sum(response_size) AS bytes,
  min(time) AS first, max(time) AS last
FROM "${stream}"
WHERE host LIKE ${network:sqlstring} AND $__timeFilter(time)
GROUP BY host
ORDER BY n DESC, host
LIMIT 50
