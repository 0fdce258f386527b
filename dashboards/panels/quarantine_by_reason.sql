SELECT $__timeGroup(time, $__interval) AS {t}, reason AS metric, count(*) AS items
FROM system.quarantine
WHERE $__timeFilter(time)
GROUP BY 1, 2
