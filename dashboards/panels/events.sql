SELECT sum(events) AS events
FROM system.streams
WHERE kind <> 'quarantine'
