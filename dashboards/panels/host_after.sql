SELECT time, status, method, path, response_size
FROM "${stream}"
WHERE host = ${shown:sqlstring}
  AND time > TIMESTAMP $__timeTo()
  AND time < TIMESTAMP $__timeTo() + INTERVAL '30 days'
ORDER BY time, _seq
LIMIT 25
