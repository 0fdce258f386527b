SELECT started, job, stream, what, why, state, ms, bytes_read, bytes_written, last_error
FROM system.maintenance
ORDER BY started DESC
LIMIT 50
