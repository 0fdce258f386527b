SELECT started, client, state, elapsed_ms, rows_examined, bytes_read, sql
FROM system.queries
ORDER BY started
