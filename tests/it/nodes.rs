//! Nodes: servers that run the servers of shards, which a consumer group of Kafka assigns to them.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cluster::follow::follow;
use crate::support::{Answer, Broker, Home, Moto, PAST_S, Server, line, only_number, run};

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
            ("LOGMILL_STREAM__NOTES__SHARD_KEY", "host"),
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
    let answer = send_as(server, &key, "access", &batch(number));
    answer.status(200).json()
}

/// Sends lines under a key until there is an answer other than 503.
#[track_caller]
fn send_as(server: &Server, key: &str, to: &str, lines: &str) -> Answer {
    let until = Instant::now() + LATE;
    loop {
        let headers = [("Idempotency-Key", key)];
        let target = format!("/api/v1/ingest/{to}");
        match server.try_post(&target, &headers, lines.as_bytes()) {
            Ok(answer) if answer.status != 503 => return answer,
            _ => assert!(Instant::now() < until, "{key} is not taken"),
        }
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
    let garbage = send_as(all.at(0), "garbage", "access", "of no format");
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
    // A node has no events itself, and does not pretend that it has saved them.
    let saved = all.at(0).post("/api/v1/backup", &[], b"{}");
    assert!(saved.status(400).text().contains("logmill cluster status"));
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

/// Sends an operator's request. Returns the status and the answer.
#[track_caller]
fn change(node: &Server, target: &str, body: &Value) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let json = [("Content-Type", "application/json")];
    let answer = node.post(target, &json, body.as_bytes());
    (answer.status, answer.json())
}

/// An operator asks any node, and all shards do the work.
#[test]
fn an_operators_request_at_a_node_is_done_by_all_shards() {
    const HOSTS: u64 = 20;
    let Some(all) = Nodes::start(2) else {
        return;
    };
    all.wait_for_whole(0, &[0, 1]);
    let node = all.at(0);
    for number in 0..3 {
        send(node, number);
    }
    let waiting = send_as(node, "of another format", "access?format=common", &batch(3));
    assert_eq!(waiting.status(200).json()["quarantined"], COUNT);
    // A column that one shard alone has.
    let note = |host: u64| match host {
        0 => json!({ "time": "2024-03-01T10:00:00Z", "host": "h0", "user": "ann" }),
        _ => json!({ "time": "2024-03-01T10:00:00Z", "host": format!("h{host}") }),
    };
    let notes =
        |hosts: Range<u64>| -> String { hosts.map(|host| format!("{}\n", note(host))).collect() };
    for (key, hosts) in [("without the column", 1..HOSTS), ("with the column", 0..1)] {
        send_as(node, key, "notes?format=json", &notes(hosts)).status(200);
    }

    let (status, sealed) = change(node, "/api/v1/rollups/run", &Value::Null);
    assert_eq!(status, 200, "{sealed}");
    assert!(
        sealed["events"].as_u64() >= Some(3 * COUNT + HOSTS),
        "{sealed}"
    );
    assert_eq!(sealed["last_run"], Value::Null, "{sealed}");

    let replay = [
        "quarantine",
        "replay",
        "--format",
        "combined",
        "--output",
        "json",
    ];
    for replayed in [COUNT, 0] {
        let told = run(&[&replay[..], &["--server", &node.url]].concat()).code(0);
        assert_eq!(told.json()["replayed"], replayed);
        assert_once(node, 4);
    }

    let is_host = "host = '203.0.113.5'";
    let found = number(
        node,
        &format!("SELECT count(*) FROM access WHERE {is_host}"),
    );
    assert!(found > 0);
    let erase = |stream: &str, condition: &str, dry_run: bool| {
        let request = json!({ "where": condition, "dry_run": dry_run });
        change(node, &format!("/api/v1/streams/{stream}/erase"), &request)
    };
    for (dry_run, left) in [(true, 4 * COUNT), (false, 4 * COUNT - found)] {
        let (status, report) = erase("access", is_host, dry_run);
        assert_eq!(
            (status, &report["events"]),
            (200, &found.into()),
            "{report}"
        );
        assert_eq!(number(node, "SELECT count(*) FROM access"), left);
        assert_eq!(number(node, "SELECT sum(hits) FROM stats.yearly"), left);
    }
    let (_, report) = erase("notes", "user = 'ann' OR host = 'h1'", true);
    assert_eq!(report["events"], 2, "{report}");
    let (_, report) = erase("notes", "user IS NULL", false);
    assert_eq!(report["events"], HOSTS - 1, "{report}");
    assert_eq!(number(node, "SELECT count(*) FROM notes"), 1);
    for (stream, condition, said) in [
        ("nothing", "true", "there is no stream nothing"),
        ("notes", "nobody = 1", "nobody"),
        ("notes", "host", "not true or false"),
    ] {
        let (status, told) = erase(stream, condition, false);
        let message = told["error"]["message"].as_str().expect("a message");
        assert_eq!(status, 400, "{told}");
        assert!(
            message.contains(said) && !message.contains("shard"),
            "{told}"
        );
    }

    let (status, verified) = change(node, "/api/v1/rollups/stats/verify", &Value::Null);
    assert_eq!(
        (status, &verified["events"]),
        (200, &(4 * COUNT - found).into()),
        "{verified}"
    );
    for level in verified["levels"].as_array().expect("levels") {
        assert_eq!(level["differences"], 0, "{verified}");
    }
    assert_eq!(verified["questions"]["differences"], 0, "{verified}");
    let unknown = change(node, "/api/v1/rollups/nothing/verify", &Value::Null);
    assert_eq!(unknown.0, 400, "{unknown:?}");

    let indexes = "SELECT count(*) FROM system.indexes WHERE stream = 'access' AND field = 'path'";
    let (status, created) = change(node, "/api/v1/indexes/access/path", &Value::Null);
    assert_eq!(
        (status, &created["created"]),
        (202, &true.into()),
        "{created}"
    );
    let shards = "SELECT count(DISTINCT server) FROM system.parts WHERE stream = 'access'";
    assert_eq!(number(node, indexes), number(node, shards));
    node.delete("/api/v1/indexes/access/path").status(200);
    assert_eq!(number(node, indexes), 0);
    // Not all shards have the column.
    let (status, created) = change(node, "/api/v1/indexes/notes/user", &Value::Null);
    assert_eq!(
        (status, &created["created"]),
        (202, &true.into()),
        "{created}"
    );
    for (status, said) in [(200, "dropped"), (400, "there is no index")] {
        let dropped = node.delete("/api/v1/indexes/notes/user").status(status);
        assert!(dropped.text().contains(said), "{}", dropped.text());
    }
    let configured = node.delete("/api/v1/rollups/stats").status(400).text();
    assert!(configured.contains("is still configured"), "{configured}");

    let day = "/api/v1/partitions?stream=notes&date=2024-03-01";
    for (dry, left) in [("&dry_run=true", 1), ("", 0)] {
        let dropped = node.delete(&format!("{day}{dry}")).status(200).json();
        assert_eq!(dropped["events"], 1, "{dropped}");
        assert_eq!(number(node, "SELECT count(*) FROM notes"), left);
    }
    for target in [
        "partitions/compact",
        "partitions/retain?stream=access",
        "rollups/compact",
    ] {
        let (status, report) = change(node, &format!("/api/v1/{target}"), &Value::Null);
        assert_eq!(status, 200, "{target}: {report}");
    }
    assert_eq!(
        number(node, "SELECT sum(hits) FROM stats.yearly"),
        4 * COUNT - found
    );
}

/// A node asks all shards, and the first event of a stream may not have come to each.
#[test]
fn a_shard_without_the_stream_has_nothing_to_erase() {
    let home = Home::new();
    let shard = Server::start(&home.data);
    let alone = json!({ "where": "user = 'ann'" });
    let column = json!({ "name": "user", "type": "text" });
    let columns = json!({ "kind": "documents", "columns": [column] });
    let asked = json!({ "where": "user = 'ann'", "columns": columns });
    let target = "/api/v1/streams/notes/erase";
    let (status, told) = change(&shard, target, &alone);
    assert_ne!(status, 200, "{told}");
    let (status, report) = change(&shard, target, &asked);
    assert_eq!((status, &report["events"]), (200, &0.into()), "{report}");
}

/// Posts a request with a token. Returns the status.
#[track_caller]
fn status_as(url: &str, path: &str, token: &str) -> u16 {
    let request =
        ureq::post(format!("{url}{path}")).header("Authorization", format!("Bearer {token}"));
    let request = request.config().http_status_as_error(false).build();
    let answer = request.send_empty().expect("an answer");
    answer.status().as_u16()
}

/// A node has an operator's request done under its own account, which may do nothing else.
#[test]
fn the_server_of_a_shard_does_for_its_peers_what_maintains_the_store() {
    let Some(mut all) = Nodes::start(1) else {
        return;
    };
    all.wait_for_whole(0, &[0]);
    assert_eq!(all.nodes[0].take().expect("a node").stop(), Some(0));
    let tokens = ["admin", "peer", "read", "ingest"].map(|role| {
        let args = ["token", "create", role, "--role", role, "--output", "json"];
        let args = [&args[..], &["--data", &all.homes[0].data]].concat();
        let created = run(&args).code(0).json();
        created["token"].as_str().expect("a token").to_owned()
    });
    let [admin, peer, read, ingest] = &tokens;
    let file = all.homes[0].file("peers", peer);
    let setting = ("LOGMILL_CLUSTER__TOKEN_FILE".to_owned(), file);
    all.environment.push(setting);
    all.start_again(0);
    let seal = "/api/v1/rollups/run";
    let node = all.at(0);
    let until = Instant::now() + LATE;
    while status_as(&node.url, seal, admin) != 200 {
        assert!(Instant::now() < until, "{}", node.log());
        thread::sleep(PAUSE);
    }
    for token in [peer, read, ingest] {
        assert_eq!(status_as(&node.url, seal, token), 403);
    }
    let bearer = format!("Bearer {admin}");
    let status = node.get_with("/api/v1/cluster/status", &[("Authorization", &bearer)]);
    let status = status.status(200).json();
    let shard = status["servers"][0]["url"].as_str().expect("an address");
    for (token, expected) in [(admin, 200), (peer, 200), (read, 403), (ingest, 403)] {
        assert_eq!(status_as(shard, seal, token), expected, "{status}");
    }
    assert_eq!(status_as(shard, "/api/v1/backup", peer), 403);
    assert_eq!(status_as(shard, "/api/v1/tokens/mine", peer), 403);
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
