SELECT stream, name, level, last_run, last_run_at, waiting, rows, bytes, last_ms, complete_from,
  last_error, note
FROM system.rollups
ORDER BY stream, name, rows DESC
