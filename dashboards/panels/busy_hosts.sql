SELECT host, count(*) AS n,
  count(*) FILTER (WHERE status >= 400) AS errors,
  sum(response_size) AS bytes,
  max(time) AS last
FROM {raw} AND strpos(host, ${host:sqlstring}) > 0
GROUP BY host
ORDER BY n DESC, host
LIMIT 20
