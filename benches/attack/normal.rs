//! Normal clients: senders and readers that know nothing of the attack.
//!
//! Half of them keep their connection, the others connect afresh for each request. A time counts
//! from the moment at which the request was due until its answer was there whole; a request that
//! waits still counts with its age, and so does each that a client left out while it waited. A
//! sender repeats a batch with its key until it is acknowledged. A reader that is refused has
//! waited for ever.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bson::doc;

use super::door::{Connection, Door, NORMAL};
use super::driver::Driver;
use super::house::{ADMIN, PASSWORD, Tokens};
use super::http::{self, Answer};

pub(crate) const STREAM: &str = "normal";
const BATCH: u64 = 5;
/// A normal client gives up a request after this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause of a sender before it repeats a batch.
const REPEAT_AFTER: Duration = Duration::from_millis(50);
/// A client that is so late leaves out the requests that were due meanwhile.
const LATE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A batch that is acknowledged when it is written.
    Send,
    /// A batch that is acknowledged when it is synced to the disk.
    Sync,
    Sql,
    Health,
    /// A find of a driver of MongoDB.
    Find,
}

pub(crate) const KINDS: [&str; 5] = ["send", "sync", "sql", "health", "find"];
/// The kinds that wait for the journal.
pub(crate) const SENDS: [&str; 2] = ["send", "sync"];

/// The clients: kind, interval in ms, and whether each request has its own connection.
const CLIENTS: [(Kind, u64, bool); 8] = [
    (Kind::Send, 50, false),
    (Kind::Sync, 50, true),
    (Kind::Sql, 80, false),
    (Kind::Sql, 80, true),
    (Kind::Health, 40, false),
    (Kind::Health, 40, true),
    (Kind::Find, 80, false),
    (Kind::Find, 80, true),
];

#[derive(Default)]
struct Shared {
    times: Mutex<[Vec<f64>; 5]>,
    /// The due times of requests under way, by client.
    waiting: Mutex<BTreeMap<usize, Instant>>,
    refused: Mutex<BTreeMap<String, u64>>,
    acknowledged: AtomicU64,
    stop: AtomicBool,
}

/// Times and refusals of a stretch of time.
pub(crate) struct Taken {
    /// The 99th percentile of each kind, ms.
    pub(crate) p99: [f64; 5],
    pub(crate) refused: BTreeMap<String, u64>,
}

pub(crate) struct Normal {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Normal {
    pub(crate) fn start(door: &Door, tokens: &Tokens) -> Self {
        let shared = Arc::<Shared>::default();
        let (door, tokens, for_thread) = (door.clone(), tokens.clone(), Arc::clone(&shared));
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let all = CLIENTS
                .iter()
                .enumerate()
                .map(|(number, (kind, ms, fresh))| {
                    let client = Client {
                        number,
                        kind: *kind,
                        every: Duration::from_millis(*ms),
                        is_fresh: *fresh,
                        head: head(*kind, *fresh, &tokens),
                        door: door.clone(),
                        shared: Arc::clone(&for_thread),
                        kept: None,
                        kept_driver: None,
                        token: tokens.reader.clone(),
                    };
                    client.run()
                });
            runtime.block_on(futures::future::join_all(all));
        };
        Self {
            shared,
            thread: std::thread::spawn(run),
        }
    }

    /// Returns the figures since the last call.
    pub(crate) fn take(&self) -> Taken {
        let mut times = std::mem::take(&mut *self.shared.times.lock().expect("no panic"));
        for (client, due) in &*self.shared.waiting.lock().expect("no panic") {
            let age = due.elapsed().as_secs_f64() * 1e3;
            times[CLIENTS[*client].0 as usize].push(age);
        }
        let refused = std::mem::take(&mut *self.shared.refused.lock().expect("no panic"));
        Taken {
            p99: times.map(p99),
            refused,
        }
    }

    /// Returns the age of the oldest request that waits for its answer.
    pub(crate) fn longest_wait(&self) -> Duration {
        let waiting = self.shared.waiting.lock().expect("no panic");
        let ages = waiting.values().map(Instant::elapsed);
        ages.max().unwrap_or_default()
    }

    /// Ends the clients once each has its answer; returns the number of acknowledged events.
    pub(crate) fn stop(self) -> u64 {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("normal clients do not panic");
        self.shared.acknowledged.load(Ordering::SeqCst)
    }
}

fn p99(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let at = (times.len() as f64 * 0.99) as usize;
    let found = times.get(at.min(times.len().saturating_sub(1)));
    found.copied().unwrap_or(f64::NAN)
}

/// Returns the headers of a kind of client.
fn head(kind: Kind, is_fresh: bool, tokens: &Tokens) -> String {
    let login = match (kind, is_fresh) {
        (Kind::Send | Kind::Sync, _) => http::bearer(&tokens.shipper),
        (Kind::Sql, true) => http::bearer(&tokens.reader),
        (Kind::Sql, false) => {
            let pair = BASE64_STANDARD.encode(format!("{ADMIN}:{PASSWORD}"));
            format!("Authorization: Basic {pair}\r\n")
        }
        (Kind::Health | Kind::Find, _) => String::new(),
    };
    match is_fresh {
        true => login + "Connection: close\r\n",
        false => login,
    }
}

struct Client {
    number: usize,
    kind: Kind,
    every: Duration,
    is_fresh: bool,
    head: String,
    door: Door,
    shared: Arc<Shared>,
    kept: Option<Connection>,
    kept_driver: Option<Driver>,
    /// The token of a reader.
    token: String,
}

impl Client {
    async fn run(mut self) {
        let mut due = Instant::now();
        for turn in 0_u64.. {
            tokio::time::sleep_until(due.into()).await;
            if self.shared.stop.load(Ordering::SeqCst) {
                return;
            }
            let waiting = || self.shared.waiting.lock().expect("no panic");
            waiting().insert(self.number, due);
            let request = self.request(turn);
            let took = self.answered(&request, due).await;
            let waiting = || self.shared.waiting.lock().expect("no panic");
            waiting().remove(&self.number);
            let mut times = self.shared.times.lock().expect("no panic");
            let times = &mut times[self.kind as usize];
            times.push(took);
            due += self.every;
            if due.elapsed() > LATE {
                let now = Instant::now();
                while due < now {
                    times.push((now - due).as_secs_f64() * 1e3);
                    due += self.every;
                }
            }
        }
    }

    fn sends(&self) -> bool {
        matches!(self.kind, Kind::Send | Kind::Sync)
    }

    fn request(&self, turn: u64) -> Vec<u8> {
        let host = self.door.host();
        match self.kind {
            Kind::Find => Vec::new(),
            Kind::Health => http::request("GET /health", &host, &self.head, b""),
            Kind::Sql => {
                let sql = format!("SELECT count(*) FROM {STREAM}");
                http::request("POST /api/v1/sql", &host, &self.head, sql.as_bytes())
            }
            Kind::Send | Kind::Sync => {
                let concern = if self.kind == Kind::Sync {
                    "j=true"
                } else {
                    "w=1"
                };
                let batch = format!("{}-{turn}", self.number);
                let head = format!("{}Idempotency-Key: {batch}\r\n", self.head);
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now = now.expect("a time after 1970").as_secs();
                let event = |nth| format!("{{\"ts\":{now},\"id\":\"{batch}-{nth}\"}}\n");
                let lines: String = (0..BATCH).map(event).collect();
                let line = format!("POST /api/v1/ingest/{STREAM}?{concern}");
                http::request(&line, &host, &head, lines.as_bytes())
            }
        }
    }

    /// Returns the milliseconds from when a request was due to its answer.
    async fn answered(&mut self, request: &[u8], due: Instant) -> f64 {
        loop {
            let asked = tokio::time::timeout(PATIENCE, self.ask(request)).await;
            let why = match asked {
                Ok(Ok(200)) => break,
                Ok(Ok(status)) => status.to_string(),
                Ok(Err(error)) => format!("{:?}", error.kind()),
                Err(_) => "no answer".to_owned(),
            };
            let refused = &self.shared.refused;
            let why = format!("{} {why}", KINDS[self.kind as usize]);
            *refused.lock().expect("no panic").entry(why).or_default() += 1;
            if !self.sends() {
                return f64::INFINITY;
            }
            tokio::time::sleep(REPEAT_AFTER).await;
        }
        if self.sends() {
            let acknowledged = &self.shared.acknowledged;
            acknowledged.fetch_add(BATCH, Ordering::SeqCst);
        }
        due.elapsed().as_secs_f64() * 1e3
    }

    /// Asks once. Returns the status of HTTP, or the error of MongoDB's protocol.
    async fn ask(&mut self, request: &[u8]) -> io::Result<i32> {
        match self.kind {
            Kind::Find => self.find().await,
            _ => Ok(self.exchange(request).await?.status.into()),
        }
    }

    async fn find(&mut self) -> io::Result<i32> {
        let mut driver = match self.kept_driver.take() {
            Some(driver) => driver,
            None => {
                let mut driver = Driver(self.door.driver(NORMAL).await?);
                driver.log_in("token", &self.token).await?;
                driver
            }
        };
        let find = doc! { "find": STREAM, "limit": 1, "singleBatch": true, "$db": "logmill" };
        let answer = driver.ask(&find).await?;
        if !self.is_fresh {
            self.kept_driver = Some(driver);
        }
        Ok(answer.get_i32("code").unwrap_or(200))
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        let connection = match self.kept.take() {
            Some(kept) => kept,
            None => self.door.connect(NORMAL).await?,
        };
        let (answer, connection) = http::exchange(connection, request).await?;
        let answer = answer.ok_or(io::ErrorKind::ConnectionAborted)?;
        if !self.is_fresh && !answer.closes {
            self.kept = Some(connection);
        }
        Ok(answer)
    }
}
