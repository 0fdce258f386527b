SELECT shard, server, epoch, unsealed, behind, sealed_at, error
FROM system.shards
ORDER BY shard
