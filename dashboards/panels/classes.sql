SELECT {bucket} AS {t},
  coalesce({hits} FILTER (WHERE status >= 200 AND status < 300), 0) AS s2,
  coalesce({hits} FILTER (WHERE status >= 300 AND status < 400), 0) AS s3,
  coalesce({hits} FILTER (WHERE status >= 400 AND status < 500), 0) AS s4,
  coalesce({hits} FILTER (WHERE status >= 500 AND status < 600), 0) AS s5,
  coalesce({hits} FILTER (WHERE status IS NULL OR status < 200 OR status >= 600), 0) AS other
FROM {events(bucket, status, hits)}
GROUP BY 1
