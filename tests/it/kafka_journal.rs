//! A store whose journal is in Kafka: the broker Tansu, in a process of its own, with the sealed
//! files in `moto`. A machine that is lost is a data directory that is deleted.

mod faults;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Answer, BINARY, Broker, Home, Moto, Output, PATIENCE, Server, finish, knob, run, seed,
};

const TOPIC: &str = "logmill.journal";
const INGEST: &str = "/api/v1/ingest/hits?format=json";
/// Events of a batch.
const BATCH: u64 = 50;
/// Nothing is sealed unless a test says so.
const UNSEALED: [(&str, &str); 1] = [("LOGMILL_STORAGE__LAG", "1h")];

/// A broker and an object store.
struct Cloud {
    broker: Broker,
    moto: Moto,
}

impl Cloud {
    /// Starts both, if they are installed, with a topic of this configuration.
    fn start(config: &[(&str, &str)]) -> Option<Self> {
        let moto = Moto::start()?;
        let broker = Broker::start()?;
        broker.create_topic(TOPIC, config);
        Some(Self { broker, moto })
    }

    #[track_caller]
    fn serve(&self, data: &str, flags: &[&str], more: &[(&str, &str)]) -> Server {
        match self.try_serve(data, flags, more) {
            Ok(server) => server,
            Err(told) => panic!("the server ends with {}: {}", told.code, told.stderr),
        }
    }

    fn try_serve(
        &self,
        data: &str,
        flags: &[&str],
        more: &[(&str, &str)],
    ) -> Result<Server, Output> {
        try_serve_on(&self.moto, &self.broker.address, data, flags, more)
    }
}

/// Starts a server whose journal is at these brokers.
fn try_serve_on(
    moto: &Moto,
    brokers: &str,
    data: &str,
    flags: &[&str],
    more: &[(&str, &str)],
) -> Result<Server, Output> {
    let options = "{ \"fetch.wait.max.ms\" = 4, \"message.timeout.ms\" = 4000, \"reconnect.backoff.max.ms\" = 200 }";
    let kafka = [
        ("LOGMILL_CLUSTER__KAFKA", brokers),
        ("LOGMILL_CLUSTER__KAFKA_OPTIONS", options),
    ];
    let all = [&kafka[..], &UNSEALED, more].concat();
    moto.try_serve(data, flags, &all)
}

/// Returns the first offset of the journal, and the one behind the last.
fn ends(brokers: &str) -> (i64, i64) {
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .create()
        .expect("a client");
    let ends = client.fetch_watermarks(TOPIC, 0, PATIENCE);
    ends.expect("the ends of the topic")
}

/// Returns a batch of events by its number.
fn batch(number: u64) -> String {
    let line = |n: u64| format!("{{\"time\":\"2024-05-01T10:00:00Z\",\"n\":{n}}}\n");
    (number * BATCH..(number + 1) * BATCH).map(line).collect()
}

/// Sends a batch under its key.
#[track_caller]
fn send(server: &Server, number: u64) -> Answer {
    let key = format!("batch-{number}");
    server.post(
        INGEST,
        &[("Idempotency-Key", &key)],
        batch(number).as_bytes(),
    )
}

/// Returns the numbers of the events, with their sequence numbers.
fn stored(server: &Server) -> BTreeMap<u64, u64> {
    let number = |value: &Value| value.as_u64().expect("a number");
    let rows = server.sql("SELECT n, _seq AS s FROM hits");
    let found: BTreeMap<u64, u64> = rows
        .iter()
        .map(|row| (number(&row["n"]), number(&row["s"])))
        .collect();
    assert_eq!(found.len(), rows.len(), "events are doubled");
    found
}

/// Checks that the store has the events of these batches, each once.
#[track_caller]
fn assert_stored(server: &Server, batches: impl Iterator<Item = u64>) {
    let expected: Vec<u64> = batches
        .flat_map(|number| number * BATCH..(number + 1) * BATCH)
        .collect();
    let found: Vec<u64> = stored(server).into_keys().collect();
    assert_eq!(found, expected, "the log:\n{}", server.log());
}

#[test]
fn wrong_settings_are_told_with_their_line() {
    let home = Home::new();
    let kafka = "[cluster]\nkafka = \"127.0.0.1:1\"\n";
    let objects = "[storage]\nobjects = \"s3://logs/store\"\n";
    for (text, said) in [
        (
            kafka.to_owned(),
            ":2: [cluster] kafka: a journal in Kafka needs the sealed files in an object store; set objects of [storage]",
        ),
        (
            format!("{objects}{kafka}kafka_topics = \"t\"\n"),
            "did you mean `kafka_topic`?",
        ),
        (
            format!("{objects}[cluster]\nkafka = [\"k:9092\"]\n"),
            ":4: kafka of [cluster] is a text: kafka = \"kafka1:9092,kafka2:9092\"",
        ),
        (
            format!("{objects}{kafka}[cluster.kafka_options]\n\"no.such.option\" = 1\n"),
            "[cluster] kafka_options: no.such.option: ",
        ),
        (
            format!("{objects}{kafka}[cluster.kafka_options]\nacks = 1\n"),
            ":5: [cluster] kafka_options: acks cannot be set",
        ),
        (
            format!("{objects}{kafka}[cluster.kafka_options]\nsasl.password = \"geheim\"\n"),
            ":5: [cluster] kafka_options: sasl.password is a secret",
        ),
    ] {
        let file = home.file("logmill.toml", &text);
        let told = run(&["config", "show", "--config", &file]).code(78);
        assert!(told.stderr.contains(said), "{text}: {}", told.stderr);
        assert!(!told.stderr.contains("geheim"), "{}", told.stderr);
    }
    let text = format!(
        "{objects}{kafka}[cluster.kafka_options]\nsasl.username = {{ env = \"KAFKA_USER\" }}\nfetch.wait.max.ms = 4\n"
    );
    let file = home.file("logmill.toml", text);
    let shown = run(&["config", "show", "--config", &file]).code(0).stdout;
    for line in [
        "cluster.kafka = \"127.0.0.1:1\"",
        "cluster.kafka_topic = logmill.journal",
        "cluster.kafka_options.sasl.username.env = \"KAFKA_USER\"",
        "cluster.kafka_options.fetch.wait.max.ms = 4",
    ] {
        assert!(shown.lines().any(|known| known == line), "{line}: {shown}");
    }
    assert!(!shown.contains("cluster.kafka_options ="), "{shown}");
    // A server reads the secret.
    let told = run(&["serve", &home.data, "--config", &file]).code(78);
    assert!(told.stderr.contains("KAFKA_USER"), "{}", told.stderr);
}

#[test]
fn a_topic_that_does_not_exist_is_told_with_its_remedy() {
    let Some(cloud) = Cloud::start(&[]) else {
        return;
    };
    let home = Home::new();
    let other = [("LOGMILL_CLUSTER__KAFKA_TOPIC", "other")];
    let told = cloud.try_serve(&home.data, &[], &other).err();
    let told = told.expect("it is refused");
    assert_eq!(told.code, 1, "{}", told.stderr);
    let said = "topic other does not exist; create it: kafka-topics.sh";
    assert!(told.stderr.contains(said), "{}", told.stderr);
}

#[test]
fn acknowledged_events_outlive_the_machine() {
    let Some(cloud) = Cloud::start(&[]) else {
        return;
    };
    let (home, elsewhere) = (Home::new(), Home::new());
    let server = cloud.serve(&home.data, &[], &[]);
    let mut last_seq = None;
    for number in 0..40 {
        let answer = send(&server, number).status(200).json();
        assert_eq!(answer["accepted"], BATCH, "{answer}");
        assert_eq!(answer["duplicate"], false, "{answer}");
        last_seq = answer["last_seq"].as_u64();
        // One part is sealed, the rest is in Kafka alone.
        if number == 9 {
            server.seal();
        }
    }
    // It reads what it wrote.
    let before = stored(&server);
    assert_eq!(before.len() as u64, 40 * BATCH);
    server.kill();
    std::fs::remove_dir_all(&home.data).expect("the machine is lost");

    let server = cloud.serve(&elsewhere.data, &["--take-over"], &[]);
    assert_eq!(stored(&server), before, "{}", server.log());
    for number in [0, 9, 10, 39] {
        let answer = send(&server, number).status(200).json();
        assert_eq!(answer["duplicate"], true, "{answer}");
    }
    let other = server.post(
        INGEST,
        &[("Idempotency-Key", "batch-39")],
        batch(40).as_bytes(),
    );
    other.status(422);
    let answer = send(&server, 40).status(200).json();
    let first_seq = answer["first_seq"].as_u64();
    assert_eq!(first_seq, last_seq.map(|seq| seq + 1), "{answer}");
    assert_eq!(server.stop(), Some(0));

    // Closed and opened again, in the same place and in a third one.
    let server = cloud.serve(&elsewhere.data, &[], &[]);
    assert_stored(&server, 0..=40);
    server.kill();
    let third = Home::new();
    let server = cloud.serve(&third.data, &["--take-over"], &[]);
    assert_stored(&server, 0..=40);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_writer_that_was_taken_over_acknowledges_nothing_that_is_not_there() {
    let Some(cloud) = Cloud::start(&[]) else {
        return;
    };
    let (old, new) = (Home::new(), Home::new());
    let mut zombie = cloud.serve(&old.data, &[], &[]);
    for number in 0..20 {
        send(&zombie, number).status(200);
    }
    zombie.signal(Signal::STOP);
    let told = cloud.try_serve(&new.data, &[], &[]).err();
    let told = told.expect("it is refused").stderr;
    assert!(told.contains("--take-over"), "{told}");
    let owner = cloud.serve(&new.data, &["--take-over"], &[]);
    assert_stored(&owner, 0..20);
    for number in 20..30 {
        send(&owner, number).status(200);
    }
    zombie.signal(Signal::CONT);
    // The process may end before it can answer.
    let key = [("Idempotency-Key", "batch-90")];
    let late = zombie.try_post(INGEST, &key, batch(90).as_bytes());
    assert!(!late.is_ok_and(|answer| answer.status == 200));
    let code = zombie.ended(PATIENCE);
    let log = zombie.log();
    assert_eq!(code, 74, "{log}");
    send(&owner, 30).status(200);
    assert_stored(&owner, 0..=30);
    assert_eq!(owner.stop(), Some(0));
    let again = Home::new();
    let owner = cloud.serve(&again.data, &[], &[]);
    assert_stored(&owner, 0..=30);
}

#[test]
fn a_write_concern_is_given_or_refused_by_the_topic() {
    let refuses = |server: &Server, concern: &str, why: &str| {
        let path = format!("{INGEST}&{concern}");
        let answer = server.post(&path, &[], batch(0).as_bytes()).status(400);
        assert!(answer.text().contains(why), "{concern}: {}", answer.text());
    };
    let gives = |server: &Server, concern: &str, given: Value| {
        let path = format!("{INGEST}&{concern}");
        let answer = server.post(&path, &[], batch(0).as_bytes()).status(200);
        assert_eq!(answer.json()["concern"], given, "{concern}");
    };
    let (written, synced) = (json!({"w": 1, "j": false}), json!({"w": 1, "j": true}));
    let Some(cloud) = Cloud::start(&[]) else {
        return;
    };
    let home = Home::new();
    let server = cloud.serve(&home.data, &[], &[]);
    refuses(&server, "w=2", "do not tell min.insync.replicas");
    refuses(&server, "j=true", "flush.messages=1");
    gives(&server, "w=1", written.clone());
    // Of one replica.
    gives(&server, "w=majority", written.clone());
    assert_eq!(server.stop(), Some(0));
    let told = [
        ("LOGMILL_CLUSTER__KAFKA_MIN_INSYNC_REPLICAS", "2"),
        ("LOGMILL_CLUSTER__KAFKA_SYNCS", "true"),
    ];
    let server = cloud.serve(&home.data, &[], &told);
    gives(&server, "w=2", written.clone());
    gives(&server, "w=majority", written.clone());
    gives(&server, "j=true", synced.clone());
    gives(&server, "w=2&j=true", synced.clone());
    refuses(&server, "w=3", "min.insync.replicas");
    assert_eq!(server.stop(), Some(0));

    // The topic has the last word.
    let of_topic = [("min.insync.replicas", "2"), ("flush.messages", "1")];
    let Some(cloud) = Cloud::start(&of_topic) else {
        return;
    };
    let home = Home::new();
    let other = [("LOGMILL_CLUSTER__KAFKA_MIN_INSYNC_REPLICAS", "3")];
    let server = cloud.serve(&home.data, &[], &other);
    gives(&server, "w=2", written);
    gives(&server, "j=true", synced);
    refuses(
        &server,
        "w=3",
        "min.insync.replicas of the journal's topic is 2",
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_compacted_topic_is_refused() {
    let Some(cloud) = Cloud::start(&[("cleanup.policy", "compact")]) else {
        return;
    };
    let home = Home::new();
    let told = cloud.try_serve(&home.data, &[], &[]).err();
    let told = told.expect("it is refused").stderr;
    assert!(told.contains("is compacted"), "{told}");
}

#[test]
fn what_is_acknowledged_is_there_once_whatever_is_killed_or_stopped() {
    let (Ok(python), Ok(broker)) = (
        std::env::var("LOGMILL_CLIENTS_PYTHON"),
        std::env::var("LOGMILL_KAFKA_BROKER"),
    ) else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON or LOGMILL_KAFKA_BROKER is not set");
        return;
    };
    if Moto::start().is_none() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/journal.py");
    let (acts, seed) = (knob("LOGMILL_KILLS", 4).to_string(), seed().to_string());
    let mut client = Command::new(python);
    client.arg("-B").arg(script).args([BINARY, &broker]);
    client.args(["--acts", &acts, "--seed", &seed]);
    let told = finish(&mut client, &[]).code(0).stdout;
    println!("{told}");
    assert!(told.contains("lost 0, doubled 0, moved 0"), "{told}");
}
