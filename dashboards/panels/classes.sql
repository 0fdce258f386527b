SELECT {bucket} AS {t},
  {hits} FILTER (WHERE status >= 200 AND status < 300) AS s2,
  {hits} FILTER (WHERE status >= 300 AND status < 400) AS s3,
  {hits} FILTER (WHERE status >= 400 AND status < 500) AS s4,
  {hits} FILTER (WHERE status >= 500 AND status < 600) AS s5,
  {hits} FILTER (WHERE status IS NULL OR status < 200 OR status >= 600) AS other
FROM {events(bucket, status, hits)}
GROUP BY 1
