SELECT stream, reason, state, count(*) AS items, max(time) AS newest, max(detail) AS example
FROM system.quarantine
GROUP BY stream, reason, state
ORDER BY items DESC, stream, reason, state
LIMIT 100
