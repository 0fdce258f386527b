//! Blocks of objects, cached in memory and on disk.
//!
//! # Invariants
//! 1. The cache is a copy: whatever fails in it costs a request, and no read fails for it.
//! 2. A block that it returns reaches as far as the read wants, or is asked for again.
//! 3. One process at a time has the folder. A second one caches in memory alone.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, LruConfig, RecoverMode, Spawner,
};
use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;

use super::read::{RemoteRun, fetch, pieces};
use super::{CacheSettings, DepotThreads, RemoteObject};
use crate::env::{Fs, Guard, RealFs};

/// Bytes of a block, as of those with checksums in a file: a lookup of a few rows fetches no more
/// than it reads from a disk. The last one of an object is shorter.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// Blocks that one read looks up at a time.
const PARALLEL: usize = 32;
/// Bytes that a cached block takes on disk: its header, its key, and an index of its own, each in
/// pages of 4 KiB.
const STORED_BYTES: u64 = BLOCK_BYTES + (8 << 10);
/// Bytes that the smallest file of the cache holds. The cache evicts a file at a time.
const FILE_BYTES: u64 = 224 * STORED_BYTES;
/// Bytes of its largest file; offsets in it have 32 bits.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// Files of the cache, each of which keeps a descriptor open, while they are not the largest.
const FILES: u64 = 256;
/// Fewer files would all be in use for writing or eviction.
const FILES_MIN: u64 = 4;
/// Bytes of memory for one lock.
const SHARD_BYTES: u64 = 32 << 20;
const SHARDS_MAX: u64 = 8;
/// Time for blocks that are on their way to the disk when the depot is dropped.
const CLOSE_MAX: Duration = Duration::from_secs(5);
const LOCK: &str = "LOCK";
/// Begin the names of the folder for one layout, and of the files in it.
const LAYOUT: &str = "blocks-";
const FILE: &str = "foyer-storage-direct-fs-";

type CachedBlocks = HybridCache<String, Bytes>;

/// The cache of one depot.
pub(super) struct BlockCache {
    blocks: CachedBlocks,
    /// Distinguishes the objects of several depots.
    url: String,
    /// A random number per forgotten object, which is part of the keys of its blocks from then on.
    /// Blocks under other keys are evicted as time passes.
    forgotten: Mutex<HashMap<String, u64>>,
    /// None while another process has the folder, or none is used.
    _lock: Option<Box<dyn Guard>>,
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").finish_non_exhaustive()
    }
}

impl BlockCache {
    /// Opens the cache. Files that cannot be read are made anew.
    ///
    /// # Errors
    /// A text that names the setting that is wrong and its remedy.
    pub(super) fn open(
        settings: &CacheSettings,
        url: &str,
        requests: &DepotThreads,
    ) -> Result<Self, String> {
        let lock = match settings.disk_bytes {
            0 => None,
            _ => take_folder(&settings.folder)?,
        };
        let disk = match lock {
            Some(_) => Some(CacheLayout::of(settings)?),
            None => None,
        };
        if let Some(layout) = &disk {
            remove_layouts(&settings.folder, Some(&layout.name));
        }
        let folder = &settings.folder;
        let memory = settings.memory_bytes;
        let blocks = build(memory, folder, disk.as_ref(), requests).or_else(|error| {
            tracing::warn!(folder = %folder.display(), %error, "the cache is made anew");
            remove_layouts(folder, None);
            build(memory, folder, disk.as_ref(), requests)
        });
        let blocks = blocks.map_err(|error| {
            format!(
                "cache {}: {error}; correct the folder, or give it another one",
                folder.display()
            )
        })?;
        Ok(Self {
            blocks,
            url: url.into(),
            forgotten: Mutex::default(),
            _lock: lock,
        })
    }

    /// Returns runs that cover the blocks around `ranges`, sorted. Blocks that are missing are
    /// fetched, and cached.
    pub(super) async fn read(
        &self,
        object: &RemoteObject,
        name: &str,
        ranges: &[Range<u64>],
    ) -> io::Result<Vec<RemoteRun>> {
        let generation = self.forgotten.lock().get(name).copied();
        let key = |block| self.key(name, generation, block);
        let lookups = wanted(ranges).into_iter().map(|(block, end)| {
            let key = key(block);
            async move { (block, self.cached(&key, end).await) }
        });
        let lookups: Vec<_> = stream::iter(lookups).buffered(PARALLEL).collect().await;
        let (mut runs, mut missing) = (Vec::new(), Vec::new());
        for (block, found) in lookups {
            let start = block * BLOCK_BYTES;
            match found {
                Some(bytes) => runs.push(RemoteRun { start, bytes }),
                None => missing.push(start..start + BLOCK_BYTES),
            }
        }
        for run in fetch(object, pieces(&missing, 0)).await? {
            for (block, bytes) in (run.start / BLOCK_BYTES..).zip(run.bytes.chunks(BLOCK_LEN)) {
                // A copy, since a slice would hold the whole run in memory.
                let bytes = Bytes::copy_from_slice(bytes);
                self.blocks.insert(key(block), bytes.clone());
                let start = block * BLOCK_BYTES;
                runs.push(RemoteRun { start, bytes });
            }
        }
        runs.sort_unstable_by_key(|run| run.start);
        Ok(runs)
    }

    /// Returns a cached block of at least `end` bytes.
    async fn cached(&self, key: &str, end: u64) -> Option<Bytes> {
        match self.blocks.get(key).await {
            Ok(found) => found
                .map(|entry| entry.value().clone())
                .filter(|bytes| (end..=BLOCK_BYTES).contains(&(bytes.len() as u64))),
            Err(error) => {
                tracing::debug!(%error, "a cached block cannot be read");
                None
            }
        }
    }

    /// Makes the next reads of an object ask the object store.
    pub(super) fn forget(&self, name: &str) {
        self.forgotten.lock().insert(name.into(), rand::random());
    }

    /// Notes that objects were deleted. Their blocks are evicted as time passes.
    pub(super) fn deleted(&self, names: &[String]) {
        let mut forgotten = self.forgotten.lock();
        for name in names {
            forgotten.remove(name);
        }
    }

    /// Waits a bounded time for blocks that are on their way to the disk.
    pub(super) fn close(&self, requests: &DepotThreads) {
        let blocks = self.blocks.clone();
        let closed = requests.start_one(async move { blocks.close().await });
        if let Ok(Err(error)) = closed.recv_timeout(CLOSE_MAX) {
            tracing::debug!(%error, "the cache was not closed");
        }
    }

    fn key(&self, name: &str, generation: Option<u64>, block: u64) -> String {
        let url = &self.url;
        match generation {
            None => format!("{url}/{name} {block}"),
            Some(generation) => format!("{url}/{name} {block} {generation:x}"),
        }
    }
}

const BLOCK_LEN: usize = BLOCK_BYTES as usize;

/// Returns the blocks that `ranges` touch, and the end of the bytes that are wanted of each.
fn wanted(ranges: &[Range<u64>]) -> BTreeMap<u64, u64> {
    let mut wanted = BTreeMap::new();
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        for block in range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES) {
            let end = wanted.entry(block).or_insert(0);
            *end = BLOCK_BYTES.min(range.end - block * BLOCK_BYTES).max(*end);
        }
    }
    wanted
}

/// The files of the cache. Another capacity has others, in a folder of another name.
#[derive(Debug)]
struct CacheLayout {
    name: String,
    file_bytes: u64,
    files: u64,
}

impl CacheLayout {
    fn of(settings: &CacheSettings) -> Result<Self, String> {
        let per_file = settings.disk_bytes / FILES / FILE_BYTES;
        let file_bytes = (per_file * FILE_BYTES).clamp(FILE_BYTES, FILE_BYTES_MAX);
        let files = settings.disk_bytes / file_bytes;
        if files < FILES_MIN {
            return Err(format!(
                "cache {}: {} bytes on disk are too few; give it {} or more, or 0 for memory alone",
                settings.folder.display(),
                settings.disk_bytes,
                FILES_MIN * FILE_BYTES
            ));
        }
        Ok(Self {
            name: format!("{LAYOUT}{files}x{file_bytes}"),
            file_bytes,
            files,
        })
    }
}

/// Locks the folder; `None` while another process has it.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing in a cache needs to be durable"
)]
fn take_folder(folder: &Path) -> Result<Option<Box<dyn Guard>>, String> {
    let failed = |e| format!("cache {}: {e}; correct the folder", folder.display());
    RealFs.create_dir_all(folder).map_err(failed)?;
    let lock = RealFs.try_lock(&folder.join(LOCK)).map_err(failed)?;
    if lock.is_none() {
        tracing::warn!(folder = %folder.display(), "another process has the cache's folder; this one caches in memory alone");
    }
    Ok(lock)
}

/// Removes the files of all layouts but `keep`.
fn remove_layouts(folder: &Path, keep: Option<&str>) {
    let remove = |layout: &Path| {
        for file in RealFs.list(layout)? {
            if file.starts_with(FILE) {
                RealFs.remove(&layout.join(file))?;
            }
        }
        RealFs.remove_dir(layout)
    };
    for name in RealFs.list(folder).unwrap_or_default() {
        if !name.starts_with(LAYOUT) || Some(name.as_str()) == keep {
            continue;
        }
        if let Err(error) = remove(&folder.join(&name)) {
            tracing::warn!(folder = %folder.join(&name).display(), %error, "an old cache cannot be removed");
        }
    }
}

fn build(
    memory_bytes: u64,
    folder: &Path,
    disk: Option<&CacheLayout>,
    requests: &DepotThreads,
) -> Result<CachedBlocks, String> {
    let bytes = |count: u64| usize::try_from(count).map_err(|e| format!("{count} bytes: {e}"));
    let shards = (memory_bytes / SHARD_BYTES).clamp(1, SHARDS_MAX);
    let builder = HybridCacheBuilder::new()
        // Eviction from memory writes nothing: a block is on disk since it was read.
        .with_policy(HybridCachePolicy::WriteOnInsertion)
        .with_flush_on_close(false)
        .memory(bytes(memory_bytes)?)
        .with_shards(bytes(shards)?)
        .with_eviction_config(LruConfig::default())
        .with_weighter(|key: &String, block: &Bytes| key.len() + block.len())
        .storage()
        .with_spawner(Spawner::from(requests.handle().clone()))
        .with_recover_mode(RecoverMode::Quiet);
    let builder = match disk {
        None => builder,
        Some(layout) => {
            let device = FsDeviceBuilder::new(folder.join(&layout.name))
                .with_capacity(bytes(layout.files * layout.file_bytes)?)
                .build()
                .map_err(|e| e.to_string())?;
            let file_bytes = bytes(layout.file_bytes)?;
            builder.with_engine_config(BlockEngineConfig::new(device).with_block_size(file_bytes))
        }
    };
    let built = requests.run(async move { builder.build().await });
    built.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}
