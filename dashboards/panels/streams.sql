SELECT name, kind, sum(events) AS events, sum(memtable_events) AS memtable_events,
  sum(parts) AS parts, sum(bytes) AS bytes, min(first_time) AS first_time,
  max(last_time) AS last_time
FROM system.streams
GROUP BY name, kind
ORDER BY name
