SELECT name, kind, events, memtable_events, parts, bytes, first_time, last_time
FROM system.streams
ORDER BY name
