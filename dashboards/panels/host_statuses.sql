SELECT coalesce(CAST(status AS TEXT), '(none)') AS status, count(*) AS n
FROM {raw}
GROUP BY status
ORDER BY n DESC, 1
