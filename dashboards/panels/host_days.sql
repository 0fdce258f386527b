SELECT to_char(time_bucket('1 day', time), '%Y-%m-%d') AS day,
  count(*) FILTER (WHERE status < 400) AS answered,
  count(*) FILTER (WHERE status >= 400) AS errors
FROM "${stream}"
WHERE host = ${shown:sqlstring}
  AND time >= TIMESTAMP $__timeFrom() - INTERVAL '15 days'
  AND time < TIMESTAMP $__timeTo() + INTERVAL '15 days'
GROUP BY 1
ORDER BY 1
