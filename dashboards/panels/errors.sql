SELECT coalesce(CAST(sum(hits) FILTER (WHERE status >= 500 AND status < 600) AS DOUBLE) / sum(hits), 0) AS server,
  coalesce(CAST(sum(hits) FILTER (WHERE status >= 400 AND status < 500) AS DOUBLE) / sum(hits), 0) AS client
FROM {events(status, hits)}
