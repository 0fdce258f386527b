SELECT sum(unsynced) AS unsynced, sum(memtable_events) AS memtable_events,
  extract(epoch FROM now() - min(sealed_at)) AS seal_age_s,
  min(disk_free_bytes) AS disk_free_bytes, min(disk_full_days) AS disk_full_days
FROM system.store
