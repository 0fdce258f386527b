//! Many shards: each server of a cluster takes events for all of them, divides a batch by the
//! shard key of its stream, and answers as one store that got the same requests.

mod away;
mod equal;
mod lost_answers;
mod motley;
mod questions;
mod ranges;
mod refused;
mod repeated;
mod replayed;
mod reused;
mod rights;
mod rollups;
mod spread;
mod status;
mod taken_over;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Home, Output, PAST_S, Server, line, only_number};

/// Shards of a cluster; each has a server.
const SHARDS: usize = 3;
/// Starts of a cluster, in case that somebody takes one of its ports meanwhile.
const STARTS_MAX: usize = 5;
/// Time after which an answer is not late, but will not come.
const LATE: Duration = Duration::from_secs(60);
const DAYS: i64 = 3;
const DAY_S: i64 = 86_400;
/// Hosts among which some are of each shard.
const HOSTS: usize = 24;

/// The servers of a cluster by their shards. Each knows the others as its peers.
struct ShardedServers {
    homes: Vec<Home>,
    addresses: Vec<String>,
    /// Variables that are the same for all servers.
    environment: Vec<(String, String)>,
    /// `None` for a server that does not run.
    servers: Vec<Option<Server>>,
}

impl ShardedServers {
    /// Starts a cluster whose streams have these shard keys. The value `/` is hot, where a key
    /// divides hot values.
    #[track_caller]
    fn start(keys: &[(&str, &str)]) -> Self {
        let mut environment = Vec::new();
        for (stream, key) in keys {
            let section = format!("LOGMILL_STREAM__{}", stream.to_uppercase());
            environment.push((format!("{section}__SHARD_KEY"), (*key).to_owned()));
            if key.ends_with("if hot") {
                environment.push((format!("{section}__HOT_VALUES"), "[\"/\"]".to_owned()));
            }
        }
        Self::start_in(&environment)
    }

    /// Starts a cluster with these variables.
    #[track_caller]
    fn start_in(environment: &[(String, String)]) -> Self {
        let mut told = String::new();
        for _ in 0..STARTS_MAX {
            match Self::try_start(environment) {
                Ok(all) => return all,
                Err(failed) => told = failed.stderr,
            }
        }
        panic!("the servers do not start: {told}");
    }

    fn try_start(environment: &[(String, String)]) -> Result<Self, Output> {
        let mut all = Self {
            homes: (0..SHARDS).map(|_| Home::new()).collect(),
            addresses: free_addresses(),
            environment: environment.to_vec(),
            servers: Vec::new(),
        };
        let started: Vec<Result<Server, Output>> = thread::scope(|scope| {
            let all = &all;
            let start = |shard| scope.spawn(move || all.try_serve(shard, &[], &[]));
            let starts: Vec<_> = (0..SHARDS).map(start).collect();
            let starts = starts.into_iter();
            starts.map(|start| start.join().expect("a start")).collect()
        });
        for server in started {
            all.servers.push(Some(server?));
        }
        Ok(all)
    }

    /// Starts the server of a shard with further flags and variables, which replace those of the
    /// cluster.
    fn try_serve(
        &self,
        shard: usize,
        flags: &[&str],
        more: &[(&str, &str)],
    ) -> Result<Server, Output> {
        let (shards, own) = (SHARDS.to_string(), shard.to_string());
        let others = (0..SHARDS).rev().filter(|other| *other != shard);
        let peers: Vec<String> = others.map(|other| self.url(other)).collect();
        let peers = json!(peers).to_string();
        let mut environment = vec![
            ("LOGMILL_CLUSTER__SHARDS", shards.as_str()),
            ("LOGMILL_CLUSTER__SHARD", own.as_str()),
            ("LOGMILL_CLUSTER__PEERS", peers.as_str()),
        ];
        let of_all = self.environment.iter();
        environment.extend(of_all.map(|(name, value)| (name.as_str(), value.as_str())));
        environment.extend(more);
        let flags = [&["--http", self.addresses[shard].as_str()], flags].concat();
        Server::try_start_as(&self.homes[shard].data, &flags, &environment)
    }

    /// Starts a server that was killed or stopped, at its address.
    #[track_caller]
    fn serve(&mut self, shard: usize, more: &[(&str, &str)]) {
        match self.try_serve(shard, &[], more) {
            Ok(server) => self.servers[shard] = Some(server),
            Err(told) => panic!("shard {shard} ends with {}: {}", told.code, told.stderr),
        }
    }

    #[track_caller]
    fn kill(&mut self, shard: usize) {
        self.servers[shard].take().expect("a server").kill();
    }

    #[track_caller]
    fn stop(&mut self, shard: usize) {
        let server = self.servers[shard].take().expect("a server");
        assert_eq!(server.stop(), Some(0), "shard {shard}");
    }

    /// Kills all servers and starts them again.
    #[track_caller]
    fn restart(&mut self) {
        (0..SHARDS).for_each(|shard| self.kill(shard));
        (0..SHARDS).for_each(|shard| self.serve(shard, &[]));
    }

    fn url(&self, shard: usize) -> String {
        format!("http://{}", self.addresses[shard])
    }

    /// Returns the server of a shard.
    #[track_caller]
    fn at(&self, shard: usize) -> &Server {
        self.servers[shard].as_ref().expect("a server that runs")
    }

    fn seal(&self) {
        for server in self.servers.iter().flatten() {
            server.seal();
        }
    }

    /// Returns the events of a stream in the store of each server that runs.
    #[track_caller]
    fn own_events(&self, stream: &str) -> Vec<u64> {
        let of = |server: &Option<Server>| server.as_ref().map_or(0, |s| own_events(s, stream));
        self.servers.iter().map(of).collect()
    }

    /// Returns hosts whose events the key `host` sends to each shard. It must be the key of the
    /// stream `places`.
    #[track_caller]
    fn hosts(&self) -> Vec<Vec<String>> {
        let document =
            |n| format!("{{\"time\":\"2024-03-01T00:00:00Z\",\"host\":\"192.0.2.{n}\"}}\n");
        let documents: String = (0..HOSTS).map(document).collect();
        send(self.at(0), "places?format=json", "places", &documents);
        let mut hosts = vec![Vec::new(); SHARDS];
        for (host, shards) in places(self.at(0), "places", "host") {
            let [shard] = shards[..] else {
                panic!("{host} is on several shards: {shards:?}");
            };
            hosts[shard].push(host);
        }
        assert!(hosts.iter().all(|some| some.len() > 2), "{hosts:?}");
        hosts
    }
}

/// Returns addresses of this machine at which nobody listens.
fn free_addresses() -> Vec<String> {
    let listeners: Vec<TcpListener> = (0..SHARDS)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
        .collect();
    let addresses = listeners.iter().map(TcpListener::local_addr);
    addresses
        .map(|address| address.expect("an address").to_string())
        .collect()
}

/// Returns lines of two sites and several hosts, with a third of them of the page `/`. Each is at
/// a time of its own.
fn lines(numbers: Range<i64>) -> String {
    let one = |n: i64| {
        let at = PAST_S + n * 7919 % (DAYS * DAY_S);
        let path = match n % 3 {
            0 => "/".to_owned(),
            _ => format!("/p{}?x={n}", n % 37),
        };
        let status = [200, 200, 304, 404, 500][(n % 5) as usize];
        let host = format!("203.0.113.{}", n % 23);
        let size = (n * 131 % 5000) as u64;
        let line = line(&host, at, &path, status, size);
        format!("site-{}.example:80 {line}", n % 2)
    };
    numbers.map(one).collect()
}

/// Returns the first answer other than 503: on a busy machine a peer may be late.
#[track_caller]
fn patiently(ask: impl Fn() -> Answer) -> Answer {
    let until = Instant::now() + LATE;
    loop {
        let answer = ask();
        if answer.status != 503 || Instant::now() > until {
            return answer;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends events under a key; returns the answer, whatever it is.
#[track_caller]
fn post(server: &Server, to: &str, key: &str, events: &str) -> Answer {
    let path = format!("/api/v1/ingest/{to}");
    server.post(&path, &[("Idempotency-Key", key)], events.as_bytes())
}

/// Sends events under a key until they are taken.
#[track_caller]
fn send(server: &Server, to: &str, key: &str, events: &str) -> Value {
    let answer = patiently(|| post(server, to, key, events));
    answer.status(200).json()
}

/// Checks that events were not taken, or not all of them, because a server is away.
#[track_caller]
fn assert_away(answer: Answer) {
    let told = answer.status(503).json();
    let code = told["error"]["code"].as_str().unwrap_or_default();
    let known = ["overloaded", "unknown", "unavailable"];
    assert!(known.contains(&code), "{told}");
}

/// Returns the answer to a question, with its columns.
#[track_caller]
fn ask(server: &Server, question: &str) -> Value {
    let answer = patiently(|| server.post("/api/v1/sql", &[], question.as_bytes()));
    assert_eq!(answer.status, 200, "{question}: {}", answer.text());
    answer.json()
}

/// Returns the rows of a question.
#[track_caller]
fn rows(server: &Server, question: &str) -> Vec<Value> {
    match ask(server, question)["rows"].take() {
        Value::Array(rows) => rows,
        other => panic!("rows are not an array: {other}"),
    }
}

/// Returns the one number of a question.
#[track_caller]
fn number(server: &Server, question: &str) -> u64 {
    only_number(&rows(server, question))
}

/// Returns the events of a stream in the server's own store.
#[track_caller]
fn own_events(server: &Server, stream: &str) -> u64 {
    // Others may be away.
    let question = format!(
        "SELECT coalesce(sum(events), 0) AS n FROM system.streams \
         WHERE name = '{stream}' AND server = 'this server'"
    );
    let told = server.post("/api/v1/sql?partial=1", &[], question.as_bytes());
    let told = told.status(200).json();
    told["rows"][0]["n"].as_u64().expect("a count")
}

/// Returns the shards of the events of each value, by the digits in their ids.
#[track_caller]
fn places(server: &Server, stream: &str, value: &str) -> BTreeMap<String, Vec<usize>> {
    let question = format!(
        "SELECT DISTINCT {value} AS v, substr(_id, 9, 4) AS digits FROM {stream} ORDER BY v, digits"
    );
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for row in rows(server, &question) {
        let value = row["v"].as_str();
        let value = value.map_or_else(|| row["v"].to_string(), str::to_owned);
        let digits = row["digits"].as_str().expect("digits");
        let shard = usize::from_str_radix(digits, 16).expect("a number");
        places.entry(value).or_default().push(shard);
    }
    places
}
