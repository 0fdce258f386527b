//! Group commit: clients that each wait until their one event is synced, in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use storage::{Batch, Options, Store, WriteConcern};

use crate::append::unsealed;
use crate::counted::{CountedFs, Counts};
use crate::machine::{Account, Spent, median, quantile_us};
use crate::{Settings, events};

/// Clients at once; the first two are compared, so they follow one another.
pub(crate) const CLIENTS: [usize; 4] = [1, 64, 8, 256];
const EVENTS: usize = 4096;

/// Latencies of some clients, and the CPU that was spent.
pub(crate) struct Served {
    pub(crate) clients: usize,
    /// Times from request to acknowledgement, of all clients.
    pub(crate) times: Vec<Duration>,
    pub(crate) spent: Spent,
}

impl Served {
    /// Returns the acknowledgements per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.spent.seconds
    }

    /// Returns the columns that every table of group commit begins with.
    pub(crate) fn columns(&mut self) -> String {
        self.times.sort();
        format!(
            "  {:>7} {:>8.0} {:>8.0} {:>8.0} {:>8.0}",
            self.clients,
            self.per_second(),
            quantile_us(&self.times, 0.5),
            quantile_us(&self.times, 0.99),
            quantile_us(&self.times, 1.0),
        )
    }
}

pub(crate) const HEADER: &str = "  clients   acks/s   p50 us   p99 us   max us";

/// Prints 64 clients against one, round by round.
pub(crate) fn print_ratios(rounds: &[Vec<f64>]) {
    let ratios: Vec<f64> = rounds.iter().map(|round| round[1] / round[0]).collect();
    let each: Vec<String> = ratios.iter().map(|r| format!("{r:.1}")).collect();
    println!(
        "  64 clients : 1 client = {}; median {:.1}",
        each.join(", "),
        median(ratios)
    );
    for (i, clients) in CLIENTS.into_iter().enumerate() {
        let speed = median(rounds.iter().map(|round| round[i]).collect());
        println!("  {clients:>7} clients: median {speed:.0} acks/s");
    }
}

/// Runs the rounds.
pub(crate) fn measure(s: &Settings) {
    let lines = events::lines(&s.logmill, EVENTS);
    let batches = events::batches(&lines, 1);
    println!("{HEADER}  syncs/s acks/sync us/sync writes/s  cores: clients log sync all");
    let mut rounds = Vec::new();
    for _ in 0..s.rounds {
        let round = CLIENTS.map(|clients| {
            let (mut served, counts) = commit(s, &batches, clients);
            let seconds = served.spent.seconds;
            let syncs = counts.syncs.max(1) as f64;
            println!(
                "{} {:>8.0} {:>9.1} {:>7.0} {:>8.0} {:>16.2} {:.2} {:.2} {:.2}",
                served.columns(),
                syncs / seconds,
                served.times.len() as f64 / syncs,
                counts.sync_time.as_secs_f64() * 1e6 / syncs,
                counts.writes as f64 / seconds,
                served.spent.of("client"),
                served.spent.of("logmill-log"),
                served.spent.of("logmill-sync"),
                served.spent.cores,
            );
            served.per_second()
        });
        rounds.push(round.to_vec());
    }
    print_ratios(&rounds);
}

fn commit(s: &Settings, batches: &[Batch], clients: usize) -> (Served, Counts) {
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let fs = CountedFs::default();
    let options = unsealed(Options {
        fs: Arc::new(fs.clone()),
        ..Options::default()
    });
    let store = Store::open(temporary.path(), options).expect("a new store");
    // The first write makes the stream, which costs syncs of its own.
    let first = store.write(batches[0].clone(), WriteConcern::JOURNALED);
    first.expect("acknowledged");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let before = fs.all_counts();
        let began = Instant::now();
        let threads: Vec<_> = (0..clients)
            .map(|i| {
                let (store, stop) = (&store, &stop);
                let client = std::thread::Builder::new().name("client".into());
                client
                    .spawn_scoped(scope, move || write_until(store, batches, i, stop))
                    .expect("a thread")
            })
            .collect();
        let account = Account::open("self");
        std::thread::sleep(s.time.saturating_sub(began.elapsed()));
        // The accounts of a thread end with it, so they are read before.
        let spent = account.close();
        stop.store(true, Relaxed);
        let counts = fs.all_counts() - before;
        let times = threads
            .into_iter()
            .flat_map(|t| t.join().expect("times"))
            .collect();
        (
            Served {
                clients,
                times,
                spent,
            },
            counts,
        )
    })
}

fn write_until(store: &Store, batches: &[Batch], first: usize, stop: &AtomicBool) -> Vec<Duration> {
    let mut times = Vec::new();
    for batch in batches.iter().cycle().skip(first) {
        if stop.load(Relaxed) {
            break;
        }
        let began = Instant::now();
        let ack = store.write(batch.clone(), WriteConcern::JOURNALED);
        ack.expect("acknowledged");
        times.push(began.elapsed());
    }
    times
}
