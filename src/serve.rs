//! A running server: one store, one engine, and a list of services over them.
//!
//! # Invariants
//! * The first signal stops every service, finishes the requests under way, seals and exits 0; the
//!   second stops at once.
//! * A service that fails stops the others; the server ends with its error.

mod arrivals;
mod ask;
mod bulk;
mod catalog;
mod computing;
mod concern;
mod delivery;
pub(crate) mod descriptors;
mod following;
mod memory;
mod parsing;
mod places;
mod scrub;
mod shares;
mod shipper_counts;
mod sources;
mod workers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use query::Engine;
use storage::Store;
use tokio::runtime::Handle;

use crate::access::Access;
use crate::cluster::{Peers, ShardedIntake};
use crate::config::Config;
use crate::failure::{FAILED, Failure, Result};
use crate::intake::Intake;
use crate::tls::Tls;
use crate::wiring;
pub(crate) use arrivals::{ArrivalCounts, Arrivals};
pub(crate) use ask::Client;
pub(crate) use bulk::Turn;
pub(crate) use concern::{NotReached, reached, submitted_concern};
pub(crate) use delivery::{Content, Delivery, ParsedDelivery, Submission};
pub(crate) use following::{CompiledFilter, Positions, StreamOfAll};
pub(crate) use parsing::{Length, Parsing, SHORT_BYTES_MAX, keep_for};
pub(crate) use places::{Connections, Places};
pub(crate) use shares::{ClientPlace, Counted, Exceeded, Resource, Share};
pub(crate) use shipper_counts::ShipperCounts;
pub(crate) use sources::{SourceBoard, SourceReport};

use bulk::Bulk;
use computing::Computing;
use scrub::ScrubState;
use shares::{Parts, Shares};

/// Time that requests under way have to finish when the server stops.
pub(crate) const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// Maximum bytes of bodies that were sent with `w=0` and wait to be parsed.
pub(crate) const UNACKNOWLEDGED_BYTES_MAX: u32 = 64 << 20;

/// Maximum KiB of long commands that are decoded at once, of all clients.
pub(crate) const DECODED_KIB_MAX: usize = 192 << 10;

/// The state that all services share. Listeners submit to `intake`, and ask by its methods; only
/// administration knows the store.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) store: Arc<Store>,
    pub(crate) access: Arc<Access>,
    pub(crate) places: Places,
    pub(crate) connections: Connections,
    /// The certificate of all listeners.
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) shares: Shares,
    pub(crate) intake: Arc<dyn Intake>,
    /// The shards of the cluster, if the server is in one.
    pub(crate) shards: Option<ShardedIntake>,
    /// Only [`ask`] has it, so that no question is asked outside the share of its client.
    engine: Engine,
    /// The servers whose stores take part in the questions of clients.
    peers: Option<Peers>,
    pub(crate) config: Config,
    pub(crate) stop: Stop,
    /// Runs connections and queries.
    pub(crate) runtime: Handle,
    pub(crate) started: Instant,
    pub(crate) started_at: SystemTime,
    pub(crate) scrub: ScrubState,
    pub(crate) parsing: Parsing,
    pub(crate) computing: Computing,
    pub(crate) bulk: Bulk,
    /// Reports of the sources that the server itself reads.
    pub(crate) sources: SourceBoard,
    pub(crate) arrivals: Arrivals,
    pub(crate) shippers: ShipperCounts,
}

/// A part of a running server: a listener, or work beside the listeners.
pub(crate) trait Service: Send {
    /// The name of its thread, and of the service in messages.
    fn name(&self) -> &'static str;

    /// Runs until [`Serving::stop`] is set.
    ///
    /// # Errors
    /// A failure that ends the server.
    fn run(self: Box<Self>) -> Result<()>;
}

/// Opens a service: a listener binds its address here, before any service runs. It returns `None`
/// if the server can do without the service, and goes on without it.
pub(crate) type OpenService = Box<dyn FnOnce(&Arc<Serving>) -> Result<Option<Box<dyn Service>>>>;

/// Serves `data` until the stop signal.
///
/// # Errors
/// When the store cannot be opened, a service cannot be opened, or a service fails.
pub(crate) fn run(config: &Config, data: &Path, services: Vec<OpenService>) -> Result<ExitCode> {
    descriptors::raise_limit();
    let store = Arc::new(wiring::open_served(data, config)?);
    let stop = Stop::default();
    listen_for_signals(&stop)?;
    let runtime = wiring::runtime()?;
    let places = Places::within(config.server.connections_max, descriptors::limit());
    if places.connections < config.server.connections_max {
        tracing::warn!(
            "the limit is {} connections instead of server.connections_max = {}: connections use at most half of the file descriptors; raise `ulimit -n`",
            places.connections,
            config.server.connections_max
        );
    }
    let tls = Tls::of(&config.tls)?;
    if let Some(tls) = &tls {
        runtime.spawn(Arc::clone(tls).follow());
    }
    let peers = Peers::of(config, runtime.handle())?;
    let shards = ShardedIntake::of(config, &store, peers.as_ref(), runtime.handle())?;
    let intake: Arc<dyn Intake> = match &shards {
        Some(shards) => Arc::new(shards.clone()),
        None => Arc::clone(&store) as _,
    };
    let serving = Arc::new(Serving {
        store: Arc::clone(&store),
        access: Arc::new(Access::of(&store)?),
        places,
        connections: Connections::within(places),
        tls,
        shares: Shares::new(Parts::of(config, places), &config.server.proxies),
        intake,
        shards,
        engine: wiring::engine(config)?,
        peers,
        config: config.clone(),
        stop: stop.clone(),
        runtime: runtime.handle().clone(),
        started: Instant::now(),
        started_at: SystemTime::now(),
        scrub: ScrubState::default(),
        parsing: Parsing::start()?,
        computing: Computing::start()?,
        bulk: Bulk::start()?,
        sources: SourceBoard::default(),
        arrivals: Arrivals::default(),
        shippers: ShipperCounts::default(),
    });
    let mut opened: Vec<Box<dyn Service>> = Vec::new();
    for open in services {
        opened.extend(open(&serving)?);
    }
    opened.push(Box::new(scrub::Scrub(Arc::clone(&serving))));
    opened.push(Box::new(memory::GiveBack(Arc::clone(&serving))));
    opened.push(Box::new(catalog::FollowCatalog(Arc::clone(&serving))));
    drop(serving);
    let outcome = run_all(opened, &stop);
    runtime.shutdown_timeout(FINISH_WITHIN);
    match Arc::into_inner(store) {
        Some(store) => store.close()?,
        // A query that does not stop still holds the store. Nothing is lost: acknowledged events
        // are in the journal.
        None => tracing::warn!(
            "a request did not end in time; the store is not closed and recovers at its next start, acknowledged events are in the journal"
        ),
    }
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Runs every service on a thread of its own until all have ended. Returns the first failure.
fn run_all(services: Vec<Box<dyn Service>>, stop: &Stop) -> Result<()> {
    std::thread::scope(|scope| {
        let mut outcome = Ok(());
        let mut running: Vec<ScopedJoinHandle<'_, Result<()>>> = Vec::new();
        for service in services {
            let name = format!("logmill-{}", service.name());
            let on_failure = stop.clone();
            let run = move || {
                let ended = catch_unwind(AssertUnwindSafe(|| service.run()));
                let ended = ended.unwrap_or_else(|_| {
                    Err(Failure::new(FAILED, "a service of the server panicked"))
                });
                if ended.is_err() {
                    on_failure.set();
                }
                ended
            };
            match std::thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, run)
            {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    outcome = Err(Failure::from(error));
                    stop.set();
                    break;
                }
            }
        }
        for thread in running {
            let ended = thread.join().expect("BUG: its panics are caught");
            outcome = outcome.and(ended);
        }
        outcome
    })
}

/// The stop signal of a server: set once, visible to every service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<(Mutex<bool>, Condvar, tokio::sync::Notify)>);

impl Stop {
    /// Stops the server.
    pub(crate) fn set(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
        self.0.2.notify_waiters();
    }

    /// Returns whether the server is stopping.
    pub(crate) fn is_set(&self) -> bool {
        *self.0.0.lock()
    }

    /// Waits for at most `time`; returns whether the server is stopping.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut set = self.0.0.lock();
        if !*set {
            self.0.1.wait_for(&mut set, time);
        }
        *set
    }

    /// Waits until the server is stopping.
    pub(crate) async fn heard(&self) {
        let notified = self.0.2.notified();
        if !self.is_set() {
            notified.await;
        }
    }
}

fn listen_for_signals(stop: &Stop) -> Result<()> {
    let stop = stop.clone();
    let heard = AtomicUsize::new(0);
    ctrlc::set_handler(move || {
        if heard.fetch_add(1, Ordering::SeqCst) > 0 {
            std::process::exit(130);
        }
        stop.set();
    })
    .map_err(|e| Failure::new(FAILED, format!("cannot listen for signals: {e}")))
}
