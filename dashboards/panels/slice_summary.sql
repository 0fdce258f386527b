SELECT count(*) AS n, min(time) AS first, max(time) AS last,
  sum(CAST(response_size AS DECIMAL(38, 0))) AS bytes,
  count(*) FILTER (WHERE status >= 200 AND status < 300) AS s2,
  count(*) FILTER (WHERE status >= 300 AND status < 400) AS s3,
  count(*) FILTER (WHERE status >= 400 AND status < 500) AS s4,
  count(*) FILTER (WHERE status >= 500 AND status < 600) AS s5,
  count(*) FILTER (WHERE status IS NULL OR status < 200 OR status >= 600) AS other,
  max(_seq) AS cut
FROM {raw}
