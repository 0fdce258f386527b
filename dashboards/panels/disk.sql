SELECT coalesce(stream || ': ', '') || kind AS what, sum(bytes) AS bytes
FROM system.disk
GROUP BY 1
ORDER BY bytes DESC
LIMIT 12
