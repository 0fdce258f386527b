SELECT unsynced, memtable_events, extract(epoch FROM now() - sealed_at) AS seal_age_s,
  disk_free_bytes, disk_full_days
FROM system.store
