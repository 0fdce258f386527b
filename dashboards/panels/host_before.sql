SELECT time, status, method, path, response_size
FROM "${stream}"
WHERE host = ${shown:sqlstring}
  AND time >= TIMESTAMP $__timeFrom() - INTERVAL '30 days'
  AND time < TIMESTAMP $__timeFrom()
ORDER BY time DESC, _seq DESC
LIMIT 25
