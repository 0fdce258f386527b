//! Nodes: servers that run the servers of shards, which a consumer group of Kafka assigns to them.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::follow::follow;
use crate::support::{Answer, Broker, Home, Moto, PAST_S, Server, line, only_number};

const SHARDS: u16 = 4;
/// Time after which an answer is not late, but will not come.
const LATE: Duration = Duration::from_secs(400);
const PAUSE: Duration = Duration::from_millis(50);
/// Events of a batch.
const COUNT: u64 = 40;

/// The nodes of a cluster on this machine.
struct Nodes {
    homes: Vec<Home>,
    /// The first port of the shards of each.
    ports: Vec<u16>,
    nodes: Vec<Option<Server>>,
    environment: Vec<(String, String)>,
    // The last to end.
    _broker: Broker,
    _moto: Moto,
}

impl Nodes {
    /// Starts nodes, if what they need is installed.
    fn start(number: usize) -> Option<Self> {
        let moto = Moto::start()?;
        let broker = Broker::start()?;
        broker.create_partitions("logmill.journal", i32::from(SHARDS), &[]);
        let shards = SHARDS.to_string();
        let options = "{ \"fetch.wait.max.ms\" = 4, \"message.timeout.ms\" = 4000 }";
        let cluster = [
            ("LOGMILL_CLUSTER__GROUP", "nodes"),
            ("LOGMILL_CLUSTER__SHARDS", shards.as_str()),
            ("LOGMILL_CLUSTER__KAFKA", broker.address.as_str()),
            ("LOGMILL_CLUSTER__KAFKA_OPTIONS", options),
            ("LOGMILL_STORAGE__LAG", "1h"),
            ("LOGMILL_STREAM__ACCESS__SHARD_KEY", "host"),
        ];
        let environment = moto.environment().into_iter().chain(cluster);
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut all = Self {
            homes: (0..number).map(|_| Home::new()).collect(),
            ports: Vec::new(),
            nodes: Vec::new(),
            environment: environment.collect(),
            _broker: broker,
            _moto: moto,
        };
        for node in 0..number {
            all.ports.push(free_ports(&all.ports));
            let server = all.serve(node);
            all.nodes.push(Some(server));
        }
        Some(all)
    }

    #[track_caller]
    fn serve(&self, node: usize) -> Server {
        self.serve_at(node, "127.0.0.1:0")
    }

    #[track_caller]
    fn serve_at(&self, node: usize, address: &str) -> Server {
        let ports = self.ports[node].to_string();
        let of_all = self.environment.iter();
        let mut environment: Vec<(&str, &str)> = of_all
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        environment.push(("LOGMILL_CLUSTER__SHARD_PORTS", &ports));
        let started =
            Server::try_start_as(&self.homes[node].data, &["--http", address], &environment);
        started.unwrap_or_else(|told| panic!("node {node}: {}", told.stderr))
    }

    fn start_again(&mut self, node: usize) {
        let server = self.serve(node);
        self.nodes[node] = Some(server);
    }

    #[track_caller]
    fn at(&self, node: usize) -> &Server {
        self.nodes[node].as_ref().expect("a node that runs")
    }

    /// Waits until each shard has a server, and these nodes have one each at least, by the status
    /// that a node tells.
    #[track_caller]
    fn wait_for_whole(&self, asked: usize, having: &[usize]) -> Value {
        let until = Instant::now() + LATE;
        loop {
            let status = self.at(asked).get("/api/v1/cluster/status").json();
            let found: BTreeSet<usize> = self.owners(&status).into_iter().flatten().collect();
            let is_whole = status["missing"].as_array().is_some_and(Vec::is_empty);
            if is_whole && having.iter().all(|node| found.contains(node)) {
                return status;
            }
            assert!(Instant::now() < until, "{status}\n{}", self.at(asked).log());
            thread::sleep(PAUSE);
        }
    }

    /// Returns the node of each shard that has one.
    fn owners(&self, status: &Value) -> Vec<Option<usize>> {
        let servers = status["servers"].as_array().expect("servers").iter();
        let of = |server: &Value| {
            server["shard"].as_u64()?;
            let port = server["url"].as_str()?.rsplit(':').next()?;
            let port: u16 = port.parse().ok()?;
            let is_of = |first: &u16| (*first..*first + SHARDS).contains(&port);
            self.ports.iter().position(is_of)
        };
        servers.map(of).collect()
    }
}

/// Returns the first of several ports in a row at which nobody listens, below those that the kernel
/// gives to clients: a server of a shard binds its port some seconds later.
fn free_ports(taken: &[u16]) -> u16 {
    for _ in 0..1000 {
        let first = rand::random_range(10_000..32_000);
        let end = first + SHARDS;
        let is_apart = |other: &u16| end <= *other || *other + SHARDS <= first;
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if taken.iter().all(is_apart) && (first..end).all(is_free) {
            return first;
        }
    }
    panic!("no {SHARDS} ports in a row are free");
}

/// Returns the processes that a node has started.
fn servers_of(node: &Server) -> Vec<Pid> {
    let mut found = Vec::new();
    let tasks = format!("/proc/{}/task", node.pid());
    for task in std::fs::read_dir(tasks).expect("a process") {
        let children = task.expect("a thread").path().join("children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let pids = children.split_whitespace();
        let pids = pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        found.extend(pids);
    }
    found
}

/// Returns whether a process runs. One that has ended has no command line, until it is waited for.
fn is_running(pid: Pid) -> bool {
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    line.is_ok_and(|line| !line.is_empty())
}

/// Returns lines of many hosts, each at a time of its own.
fn batch(number: u64) -> String {
    let numbers = number * COUNT..(number + 1) * COUNT;
    let one = |n: u64| {
        let at = PAST_S + i64::try_from(n).expect("a few");
        line(&format!("203.0.113.{}", n % 97), at, "/", 200, n)
    };
    numbers.map(one).collect()
}

/// Sends a batch until it is acknowledged. Returns the answer.
#[track_caller]
fn send(server: &Server, number: u64) -> Value {
    let key = format!("batch-{number}");
    let until = Instant::now() + LATE;
    loop {
        let headers = [("Idempotency-Key", key.as_str())];
        let answer = server.try_post("/api/v1/ingest/access", &headers, batch(number).as_bytes());
        match answer {
            Ok(answer) if answer.status == 200 => return answer.json(),
            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
            Err(_) => {}
        }
        assert!(Instant::now() < until, "batch {number} is not taken");
        thread::sleep(PAUSE);
    }
}

/// Asks until there is an answer other than 503.
#[track_caller]
fn number(server: &Server, question: &str) -> u64 {
    let until = Instant::now() + LATE;
    let ask = || -> Answer { server.post("/api/v1/sql", &[], question.as_bytes()) };
    loop {
        let answer = ask();
        if answer.status == 200 {
            let rows = answer.json()["rows"].take();
            return only_number(rows.as_array().expect("rows"));
        }
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(Instant::now() < until, "{}", answer.text());
        thread::sleep(PAUSE);
    }
}

/// Checks that so many batches are there, each event once.
#[track_caller]
fn assert_once(server: &Server, batches: u64) {
    for counted in ["count(*)", "count(DISTINCT time)"] {
        let question = format!("SELECT {counted} FROM access");
        assert_eq!(number(server, &question), batches * COUNT, "{counted}");
    }
    let hits = "SELECT sum(hits) FROM stats.yearly";
    assert_eq!(number(server, hits), batches * COUNT);
}

#[test]
fn shards_move_to_a_node_that_joins_and_away_from_one_that_stops() {
    let Some(mut all) = Nodes::start(1) else {
        return;
    };
    all.wait_for_whole(0, &[0]);
    let told = send(all.at(0), 0);
    assert!(
        told["parts"].as_array().is_some_and(|p| p.len() > 1),
        "{told}"
    );
    all.homes.push(Home::new());
    all.ports.push(free_ports(&all.ports));
    let second = all.serve(1);
    all.nodes.push(Some(second));
    let status = all.wait_for_whole(1, &[0, 1]);
    // Shards that stay where they are have not been started again.
    let epochs = |status: &Value| -> Vec<u64> {
        let servers = status["servers"].as_array().expect("servers").iter();
        servers.filter_map(|s| s["epoch"].as_u64()).collect()
    };
    assert!(epochs(&status).contains(&1), "{status}");
    for node in [0, 1] {
        assert_eq!(send(all.at(node), 0)["duplicate"], true);
        assert_once(all.at(node), 1);
    }
    send(all.at(1), 1);
    // A node looks at the shards every five seconds.
    let shards = "SELECT count(*) FROM system.shards WHERE error IS NULL";
    let until = Instant::now() + LATE;
    while number(all.at(0), shards) < u64::from(SHARDS) {
        assert!(
            Instant::now() < until,
            "{:?}",
            all.at(0).sql("SELECT * FROM system.shards")
        );
        thread::sleep(PAUSE);
    }
    let metrics = all.at(0).get("/metrics").text();
    assert!(
        metrics.contains("logmill_cluster_shard_up{shard=\"3\"} 1"),
        "{metrics}"
    );
    // The state of all servers is that of the cluster: an alert on it would never fire otherwise.
    let garbage = all
        .at(0)
        .post("/api/v1/ingest/access", &[], b"of no format");
    assert_eq!(garbage.status(400).json()["quarantined"], 1);
    for (question, expected) in [
        (
            "SELECT count(*) FROM system.quarantine WHERE state = 'waiting'",
            1,
        ),
        (
            "SELECT sum(events) FROM system.streams WHERE name = 'access'",
            2 * COUNT,
        ),
        (
            "SELECT count(DISTINCT server) - 1 FROM system.store",
            u64::from(SHARDS),
        ),
    ] {
        for node in [0, 1] {
            assert_eq!(number(all.at(node), question), expected, "{question}");
        }
    }
    let listed = all.at(0).get("/api/v1/streams").status(200).json();
    assert_eq!(listed[0]["events"], 2 * COUNT, "{listed}");
    for list in ["rollups", "partitions", "quarantine", "indexes"] {
        all.at(1).get(&format!("/api/v1/{list}")).status(200);
    }
    // A node has no events itself, and does not pretend that an erasure found none.
    let erased = all.at(0).post("/api/v1/streams/access/erase", &[], b"true");
    assert!(erased.status(400).text().contains("logmill cluster status"));
    // The same batch again makes no new events.
    let mut tail = follow(all.at(0), "stream=access");
    send(all.at(1), 1);
    send(all.at(1), 2);
    for _ in 0..COUNT {
        let (kind, event) = tail.next().expect("an event");
        assert_eq!(kind, "event", "{event}");
        let bytes = event["response_size"].as_u64().expect("a number");
        assert!((2 * COUNT..3 * COUNT).contains(&bytes), "{event}");
    }

    let stopped = all.nodes[0].take().expect("a node");
    assert_eq!(stopped.stop(), Some(0));
    all.wait_for_whole(1, &[1]);
    assert_eq!(send(all.at(1), 1)["duplicate"], true);
    assert_once(all.at(1), 3);

    // The servers of a node end with it, and free their shards and their ports.
    let servers = servers_of(all.at(1));
    assert!(servers.len() >= usize::from(SHARDS), "{servers:?}");
    all.nodes[1].take().expect("a node").kill();
    let until = Instant::now() + LATE;
    while servers.iter().any(|pid| is_running(*pid)) {
        assert!(Instant::now() < until, "a server outlives its node");
        thread::sleep(PAUSE);
    }
}

/// Questions of this node would count its events, and those of the others would not.
#[test]
fn a_node_refuses_to_begin_with_events_of_its_own() {
    let home = Home::new();
    let alone = Server::start(&home.data);
    alone.ingest("access", batch(0));
    assert_eq!(alone.stop(), Some(0));
    let node = [
        ("LOGMILL_CLUSTER__GROUP", "nodes"),
        ("LOGMILL_CLUSTER__SHARDS", "2"),
        ("LOGMILL_CLUSTER__KAFKA", "127.0.0.1:9"),
        ("LOGMILL_STORAGE__OBJECTS", "s3://logs/store"),
    ];
    for (flags, said) in [
        (&[][..], "a node has no events of its own"),
        (&["--read-only"], "are about one store"),
    ] {
        let refused = Server::try_start_as(&home.data, flags, &node);
        let refused = refused.err().expect("it is refused");
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}

/// A node and its servers are killed, or stand still until others have their shards.
#[test]
fn what_a_lost_node_has_acknowledged_is_there_and_is_there_once() {
    let Some(mut all) = Nodes::start(2) else {
        return;
    };
    all.wait_for_whole(0, &[0, 1]);
    for number in 0..4 {
        send(all.at(number as usize % 2), number);
    }
    let signal_all = |node: &Server, signal: Signal| {
        let servers = servers_of(node);
        assert!(!servers.is_empty(), "the node has no servers");
        node.signal(signal);
        for pid in servers {
            kill_process(pid, signal).expect("a server of the node");
        }
    };
    signal_all(all.at(1), Signal::KILL);
    all.nodes[1].take();
    // By then the group knows that the other node has gone.
    for number in 0..4 {
        assert_eq!(send(all.at(0), number)["duplicate"], true, "{number}");
    }
    send(all.at(0), 4);
    assert_once(all.at(0), 5);

    all.start_again(1);
    all.wait_for_whole(0, &[0, 1]);
    send(all.at(1), 5);
    // So that the other one knows its servers.
    send(all.at(0), 5);
    signal_all(all.at(1), Signal::STOP);
    send(all.at(0), 6);
    all.wait_for_whole(0, &[0]);
    signal_all(all.at(1), Signal::CONT);
    for number in 0..8 {
        send(all.at(1), number);
        send(all.at(0), number);
    }
    all.wait_for_whole(1, &[0, 1]);
    for node in [0, 1] {
        assert_once(all.at(node), 8);
    }
}

/// Nodes are stopped and started one after the other, while batches and questions come.
#[test]
fn a_rolling_restart_loses_nothing() {
    let Some(mut all) = Nodes::start(3) else {
        return;
    };
    all.wait_for_whole(0, &[0, 1, 2]);
    let urls: Vec<String> = (0..3).map(|node| all.at(node).url.clone()).collect();
    let is_over = AtomicBool::new(false);
    let acknowledged = AtomicU64::new(0);
    let (sent, longest) = thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let (mut answers, mut refusals, mut longest) = (0, 0, Duration::ZERO);
            while !is_over.load(Ordering::SeqCst) {
                let (began, least) = (Instant::now(), acknowledged.load(Ordering::SeqCst));
                for url in urls.iter().cycle().skip(answers % 3) {
                    let asked = ureq::post(format!("{url}/api/v1/sql"))
                        .send("SELECT count(*) AS n FROM access");
                    let answer = asked.and_then(|mut answer| answer.body_mut().read_to_string());
                    if let Ok(text) = answer {
                        let answer: Value = serde_json::from_str(&text).expect("JSON");
                        let seen = answer["rows"][0]["n"].as_u64().expect("a count");
                        assert!(seen >= least * COUNT, "{seen} of {least} batches");
                        break;
                    }
                    refusals += u64::from(matches!(answer, Err(ureq::Error::StatusCode(_))));
                    assert!(began.elapsed() < LATE, "no answer");
                    thread::sleep(PAUSE);
                }
                longest = longest.max(began.elapsed());
                answers += 1;
            }
            println!("{answers} answers, {refusals} refusals, the longest took {longest:?}");
        });
        let sender = scope.spawn(|| {
            let (mut sent, mut longest) = (0, Duration::ZERO);
            while !is_over.load(Ordering::SeqCst) {
                let began = Instant::now();
                let key = format!("batch-{sent}");
                // Another node is tried when one does not answer.
                for url in urls.iter().cycle().skip(sent as usize % 3) {
                    let answer = ureq::post(format!("{url}/api/v1/ingest/access"))
                        .header("Idempotency-Key", &key)
                        .send(batch(sent).as_bytes());
                    if answer.is_ok() {
                        break;
                    }
                    assert!(began.elapsed() < LATE, "batch {sent} is not taken");
                    thread::sleep(PAUSE);
                }
                longest = longest.max(began.elapsed());
                sent += 1;
                acknowledged.store(sent, Ordering::SeqCst);
            }
            (sent, longest)
        });
        for node in 0..3 {
            let stopped = all.nodes[node].take().expect("a node");
            let address = stopped.address.clone();
            assert_eq!(stopped.stop(), Some(0), "node {node}");
            let server = all.serve_at(node, &address);
            all.nodes[node] = Some(server);
            all.wait_for_whole(node, &[0, 1, 2]);
        }
        is_over.store(true, Ordering::SeqCst);
        asker.join().expect("an asker");
        sender.join().expect("a sender")
    });
    println!("{sent} batches, the longest took {longest:?}");
    for node in 0..3 {
        assert_once(all.at(node), sent);
    }
}
