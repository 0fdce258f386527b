SELECT CAST(sum(hits) FILTER (WHERE status >= 500) AS DOUBLE) / sum(hits) AS server,
  CAST(sum(hits) FILTER (WHERE status >= 400 AND status < 500) AS DOUBLE) / sum(hits) AS client
FROM {events(status, hits)}
