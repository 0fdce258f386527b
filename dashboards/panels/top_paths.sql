SELECT path, n, b, CAST(n AS DOUBLE) / sum(n) OVER () AS share
FROM (
  SELECT path, {hits} AS n, {bytes} AS b
  FROM {events(path, hits, bytes_exact)}
  GROUP BY path
) AS pages
ORDER BY n DESC, path
LIMIT 20
