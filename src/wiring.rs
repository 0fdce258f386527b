//! Assembly of the crates: a store with its cascade, an engine, and the data of `system.*`.

mod objects;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use query::{
    AccountInfo, AuditInfo, Engine, EngineOptions, RollupUse, ShardState, SourceInfo, StoreState,
    SystemInfo,
};
use storage::{
    JobEntry, JobLog, Name, Options, ReadOnlyStore, RealFs, Replaces, Replication, RollupHook,
    SharedJournal, Store, SystemClock,
};

use crate::access::Access;
use crate::config::Config;
#[cfg(feature = "kafka")]
use crate::failure::FAILED;
use crate::failure::{DISK, Failure, Result, tell};
#[cfg(feature = "kafka")]
use crate::kafka_journal::{JournalSettings, PartitionJournal};
pub(crate) use objects::{catalog_depot, depot, shard_depots, shard_folder};

/// Opens a store for writing. A disk error that poisons the store ends the process.
pub(crate) fn open_store(data: &Path, config: &Config) -> Result<Store> {
    open_cached(data, config, None)
}

/// Opens a store as [`open_store`] does; `cached` is the data directory if it has a cache of the
/// object store.
fn open_cached(data: &Path, config: &Config, cached: Option<&Path>) -> Result<Store> {
    let options = Options {
        depot: depot(config, cached)?,
        journal: journal(config)?,
        ..store_options(config)?
    };
    let store = Store::open(data, options)?;
    for deviation in config.deviations(store.snapshot().streams()) {
        tell(deviation);
    }
    Ok(store)
}

/// Opens a store for writing, and accepts a new definition of one rollup.
pub(crate) fn redefine(
    data: &Path,
    config: &Config,
    name: Name,
    replaces: Replaces,
) -> Result<Store> {
    let cascade = config.cascade().map_err(Failure::config)?;
    let options = Options {
        depot: depot(config, None)?,
        journal: journal(config)?,
        ..options_of(config, cascade.redefining(name, replaces))
    };
    Ok(Store::open(data, options)?)
}

/// Opens a store for a server: for writing, or for reading only.
pub(crate) fn open_served(data: &Path, config: &Config) -> Result<Store> {
    if config.server.read_only {
        let options = Options {
            depot: depot(config, config.server.is_reader.then_some(data))?,
            ..store_options(config)?
        };
        return Ok(match config.server.is_reader {
            true => Store::open_reader(data, options)?,
            false => Store::open_read_only(data, options)?,
        });
    }
    let store = open_cached(data, config, Some(data)).map_err(|failure| {
        let is_full = |error: &storage::Error| error.kind() == storage::Kind::DiskFull;
        if !failure.storage().is_some_and(is_full) {
            return failure;
        }
        let advice = "free some space; meanwhile, `logmill serve --read-only` answers queries";
        Failure::new(failure.code, format!("{failure}; {advice}"))
    })?;
    // The servers of its shards check what a node cannot give by itself.
    match config.cluster.is_node() {
        true => check_empty(&store)?,
        false => check_concerns(&store, config)?,
    }
    Ok(store)
}

/// Checks that the own store of a node never had events: questions of this node would count them,
/// and those of the others would not.
fn check_empty(store: &Store) -> Result<()> {
    let snapshot = store.snapshot();
    let is_sealed = snapshot.manifest().files().next().is_some();
    let mut names = snapshot.streams().keys();
    if is_sealed || names.any(|name| !snapshot.chunks(name.as_str()).is_empty()) {
        return Err(Failure::config(
            "a node has no events of its own, and this store has: start the node in an empty directory, and name the server of this store in peers of [cluster]",
        ));
    }
    Ok(())
}

/// Checks that the store gives the write concerns of the configuration: only the brokers of a
/// journal in Kafka tell.
fn check_concerns(store: &Store, config: &Config) -> Result<()> {
    for name in config.stream.keys() {
        let concern = config.concern(name).map_err(Failure::config)?;
        store
            .gives(concern)
            .map_err(|e| Failure::config(format!("[stream.{name}] write_concern: {e}")))?;
    }
    Ok(())
}

/// Opens a store for reading beside the process that writes to it.
pub(crate) fn open_beside(data: &Path, config: &Config) -> Result<ReadOnlyStore> {
    let depot = depot(config, None)?;
    Ok(ReadOnlyStore::open_beside(disk(), data, depot)?)
}

/// Connects to the journal in Kafka, if the configuration names one. Only a writer needs it.
#[cfg(feature = "kafka")]
fn journal(config: &Config) -> Result<Option<Arc<dyn SharedJournal>>> {
    if config.cluster.kafka.is_none() || config.cluster.is_node() {
        return Ok(None);
    }
    partition_journal(config).map(Some)
}

#[cfg(feature = "kafka")]
fn partition_journal(config: &Config) -> Result<Arc<dyn SharedJournal>> {
    let settings = JournalSettings::of(&config.cluster)
        .map_err(|why| Failure::config(format!("[cluster] kafka_options: {why}")))?;
    let journal = PartitionJournal::open(settings)
        .map_err(|why| Failure::new(FAILED, format!("[cluster] kafka: {why}")))?;
    Ok(Arc::new(journal))
}

/// Returns the replication of the journals of all shards, which are in one topic.
#[cfg(feature = "kafka")]
pub(crate) fn replication(config: &Config) -> Result<Replication> {
    Ok(partition_journal(config)?.replication())
}

/// Returns no journal: the configuration is refused that names one.
#[cfg(not(feature = "kafka"))]
fn journal(_config: &Config) -> Result<Option<Arc<dyn SharedJournal>>> {
    Ok(None)
}

/// Returns no replication: the configuration is refused that names a journal.
#[cfg(not(feature = "kafka"))]
pub(crate) fn replication(_config: &Config) -> Result<Replication> {
    Err(Failure::config("this program was built without Kafka"))
}

/// Returns the options of a store from the configuration.
pub(crate) fn store_options(config: &Config) -> Result<Options> {
    let cascade = config.cascade().map_err(Failure::config)?;
    Ok(options_of(config, cascade))
}

fn options_of(config: &Config, cascade: aggregator::Cascade) -> Options {
    Options {
        rollup_hook: Arc::new(cascade),
        config: config.store(),
        shard: config.cluster.shard,
        on_poison: Some(Arc::new(|error| {
            // The outcome of pending writes is unknown from now on; recovery at the next start
            // decides it.
            tell(format_args!(
                "{error}; stopping, the store recovers at its next start"
            ));
            std::process::exit(i32::from(DISK));
        })),
        ..Options::default()
    }
}

/// Returns the real disk.
pub(crate) fn disk() -> Arc<RealFs> {
    Arc::new(RealFs)
}

/// Returns the real disk, for callers that share it.
pub(crate) fn shared_disk() -> Arc<dyn storage::Fs> {
    disk()
}

/// Creates the engine of a server.
pub(crate) fn engine(config: &Config) -> Result<Engine> {
    engine_within(config, config.query.limits(), None)
}

/// Creates the engine of a command. Its queries have no limits of time and size, since the user
/// can stop them. Data that does not fit into memory is spilled to `temp`, or to the system's
/// temporary directory.
pub(crate) fn engine_of_one(config: &Config, temp: Option<&Path>) -> Result<Engine> {
    let limits = query::Limits {
        time: None,
        rows: None,
        bytes: None,
        ..config.query.limits()
    };
    engine_within(config, limits, temp.map(Path::to_owned))
}

fn engine_within(
    config: &Config,
    limits: query::Limits,
    temp_dir: Option<PathBuf>,
) -> Result<Engine> {
    let memory_bytes = usize::try_from(config.query.memory_bytes_max.0).unwrap_or(usize::MAX);
    Ok(Engine::new(EngineOptions {
        memory_bytes,
        temp_dir,
        limits,
        rollup_answers: match config.query.rollup_rewrite {
            true => RollupUse::Auto,
            false => RollupUse::Never,
        },
        ..EngineOptions::default()
    })?)
}

/// Data of `system.*` from a store or a reader.
#[derive(Debug, Default)]
pub(crate) struct StoreInfo {
    pub(crate) sources: Vec<SourceInfo>,
    pub(crate) last_error: Option<String>,
    unwanted: Vec<Name>,
    maintenance: Option<JobLog>,
    access: Option<Arc<Access>>,
    shards: Vec<ShardState>,
    /// Empty for a reader. A query that still runs does not keep a store open.
    store: Weak<Store>,
}

impl StoreInfo {
    /// Collects the data of an open store; `found` is the last error of the scrub.
    pub(crate) fn of_store(store: &Arc<Store>, found: Option<String>) -> Self {
        let status = store.status();
        let refused = status.journal.and_then(|journal| journal.error);
        let error = status.poisoned.or(refused).or(status.seal_error);
        let error = error.or(status.tend_error);
        Self {
            sources: sources(store.positions()),
            last_error: error.or(found),
            unwanted: store.unwanted_rollups(),
            maintenance: Some(store.maintenance().clone()),
            store: Arc::downgrade(store),
            ..Self::default()
        }
    }

    /// Adds the shards of the cluster.
    pub(crate) fn with_shards(self, shards: Vec<ShardState>) -> Self {
        Self { shards, ..self }
    }

    /// Adds the users and tokens, and the audit.
    pub(crate) fn with_access(self, access: &Arc<Access>) -> Self {
        let access = Some(Arc::clone(access));
        Self { access, ..self }
    }

    /// Collects the data of a reader; `config` decides which rollups are still configured.
    pub(crate) fn of_reader_with(reader: &ReadOnlyStore, config: &Config) -> Self {
        let mut info = Self::of_reader(reader);
        // A wrong setting is ignored here: the code that uses the setting reports it.
        if let Ok(cascade) = config.cascade() {
            let snapshot = reader.snapshot();
            let manifest = snapshot.manifest();
            let unwanted = manifest.rollups.iter().filter(|r| {
                let kind = manifest.streams.get(&r.stream).map(|s| s.kind);
                kind.is_some_and(|kind| !cascade.wants(r, kind, &manifest.rollups))
            });
            info.unwanted = unwanted.map(|r| r.name.clone()).collect();
        }
        info
    }

    pub(crate) fn of_reader(reader: &ReadOnlyStore) -> Self {
        Self {
            sources: sources(reader.positions()),
            last_error: None,
            unwanted: Vec::new(),
            maintenance: Some(maintenance(reader.snapshot().data_dir())),
            ..Self::default()
        }
    }
}

fn sources(positions: Vec<(String, storage::SourcePosition)>) -> Vec<SourceInfo> {
    positions
        .into_iter()
        .map(|(producer, at)| SourceInfo {
            producer,
            position: Some(at.to),
            ..SourceInfo::default()
        })
        .collect()
}

/// Opens the log of maintenance of a store for reading; another process may have the store open.
fn maintenance(data: &Path) -> JobLog {
    JobLog::of(shared_disk(), Arc::new(SystemClock), data, false)
}

impl SystemInfo for StoreInfo {
    fn sources(&self) -> Vec<SourceInfo> {
        self.sources.clone()
    }
    fn shards(&self) -> Vec<ShardState> {
        self.shards.clone()
    }
    fn last_error(&self) -> Option<String> {
        self.last_error.clone()
    }
    fn unwanted_rollups(&self) -> Vec<Name> {
        self.unwanted.clone()
    }
    fn store(&self) -> Option<StoreState> {
        let store = self.store.upgrade()?;
        Some(StoreState {
            durable_seq: store.status().durable_seq,
            disk: store.disk_forecast(),
        })
    }
    fn accounts(&self) -> Vec<AccountInfo> {
        let access = self.access.as_ref();
        access.map(|a| a.accounts().infos()).unwrap_or_default()
    }
    fn audit(&self) -> Vec<AuditInfo> {
        let access = self.access.as_ref();
        access.map(|a| a.audit().infos()).unwrap_or_default()
    }
    fn maintenance(&self) -> Vec<JobEntry> {
        let log = self.maintenance.as_ref();
        log.map(JobLog::entries).unwrap_or_default()
    }
}

/// Creates a runtime for queries and connections. Its stacks are large because the planner
/// recurses deeply.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(8 << 20)
        .build()
        .map_err(Failure::from)
}
