SELECT _seq, time, host, method, path, query, request, status, response_size, referrer, user_agent
FROM {raw}
ORDER BY time, _seq
LIMIT 1000
