//! The object store of the configuration: that of a store, of a cluster's shards, of its catalog.

use std::path::Path;
use std::sync::Arc;

use storage::{CacheSettings, Depot, S3Depot, S3Settings};

use crate::config::Config;
use crate::failure::{Failure, Result};

/// Connects to the object store of the configuration, if there is one. A server caches blocks of it
/// in its data directory, `cached`; a command, which may run beside the server, caches none.
pub(crate) fn depot(config: &Config, cached: Option<&Path>) -> Result<Option<Arc<dyn Depot>>> {
    /// Folder of the cache in a data directory.
    const FOLDER: &str = "cache";
    /// Bytes of the cache in memory.
    const MEMORY_BYTES: u64 = 64 << 20;
    let Some(url) = &config.storage.objects else {
        return Ok(None);
    };
    // A node keeps accounts and sessions in its own store, and no events.
    if config.cluster.is_node() {
        return Ok(None);
    }
    let cache = cached.map(|data| CacheSettings {
        folder: data.join(FOLDER),
        memory_bytes: MEMORY_BYTES,
        disk_bytes: config.storage.cache_bytes_max.0,
    });
    let url = match config.cluster.shard {
        Some(shard) => format!("{}/{}", url.trim_end_matches('/'), shard_folder(shard)),
        None => url.clone(),
    };
    s3(S3Settings { url, cache }).map(Some)
}

/// Returns the folder of a shard in the object store of its cluster, and in the directory of a
/// node.
pub(crate) fn shard_folder(shard: u16) -> String {
    format!("shards/{shard:04}")
}

/// Connects to the places of all shards of a cluster in the object store of the configuration.
pub(crate) fn shard_depots(config: &Config) -> Result<Vec<Arc<dyn Depot>>> {
    let Some(url) = &config.storage.objects else {
        return Ok(Vec::new());
    };
    let url = url.trim_end_matches('/').to_owned();
    let cluster = S3Depot::open(S3Settings { url, cache: None }).map_err(wrong_objects)?;
    let shards = 0..config.cluster.shards;
    let depots = shards.map(|shard| Arc::new(cluster.below(&shard_folder(shard))) as _);
    Ok(depots.collect())
}

/// Connects to the place of the catalog of a cluster in the object store of the configuration, if
/// there is one.
pub(crate) fn catalog_depot(config: &Config) -> Result<Option<Arc<dyn Depot>>> {
    let url = config.storage.objects.as_ref();
    let settings = url.map(|url| S3Settings {
        url: format!("{}/cluster", url.trim_end_matches('/')),
        cache: None,
    });
    settings.map(s3).transpose()
}

fn s3(settings: S3Settings) -> Result<Arc<dyn Depot>> {
    let depot = S3Depot::open(settings).map_err(wrong_objects)?;
    Ok(Arc::new(depot))
}

fn wrong_objects(why: String) -> Failure {
    Failure::config(format!("[storage] objects: {why}"))
}
