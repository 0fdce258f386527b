SELECT count(*) AS items
FROM system.quarantine
WHERE state = 'waiting'
