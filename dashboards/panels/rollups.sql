SELECT stream, name, level, max(last_run) AS last_run, min(last_run_at) AS last_run_at,
  sum(waiting) AS waiting, sum(rows) AS rows, sum(bytes) AS bytes, max(last_ms) AS last_ms,
  max(complete_from) AS complete_from, max(last_error) AS last_error, max(note) AS note
FROM system.rollups
GROUP BY stream, name, level
ORDER BY stream, name, rows DESC
