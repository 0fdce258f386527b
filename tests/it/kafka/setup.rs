//! The configuration of sources, and clusters that cannot be reached.

use std::time::{Duration, Instant};

use super::{Cluster, start, wait_for};
use crate::support::{Home, run};

/// Returns what `config show` says of a file.
fn show(home: &Home, text: &str) -> crate::support::Output {
    let file = home.file("logmill.toml", text);
    run(&["--config", &file, "config", "show"])
}

#[test]
fn secrets_are_no_part_of_the_configuration_and_wrong_options_are_named() {
    let home = Home::new();
    let source = "[kafka.web]\nbrokers = [\"k:9092\"]\ntopics = [\"t\"]\nstream = \"web\"\n[kafka.web.options]\n";
    let told = show(
        &home,
        &format!("{source}sasl.password = {{ file = \"/run/secret\" }}\n"),
    );
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert!(
        told.stdout
            .contains("kafka.web.options.sasl.password.file = \"/run/secret\""),
        "{}",
        told.stdout
    );
    for (option, named) in [
        (
            "sasl.password = \"geheim\"",
            "logmill.toml:5: [kafka.web] options: sasl.password is a secret",
        ),
        ("\"ssl.key.pem\" = \"geheim\"", "ssl.key.pem is a secret"),
        ("group.id = \"g\"", "group.id cannot be set"),
        (
            "\"fetch.waits.max.ms\" = 4",
            "fetch.waits.max.ms: No such configuration property",
        ),
        (
            "\"fetch.wait.max.ms\" = \"soon\"",
            "fetch.wait.max.ms: Invalid value",
        ),
    ] {
        let told = show(&home, &format!("{source}{option}\n"));
        assert_eq!(told.code, 78, "{option}: {}", told.stdout);
        assert!(told.stderr.contains(named), "{option}: {}", told.stderr);
        assert!(!told.stderr.contains("geheim"), "{}", told.stderr);
    }
    // A server needs the secret, and says which.
    let file = home.file(
        "logmill.toml",
        format!("{source}sasl.password = {{ env = \"LM_ABSENT\" }}\n"),
    );
    let told = run(&[
        "--config",
        &file,
        "serve",
        &home.data,
        "--http",
        "127.0.0.1:0",
    ]);
    assert_eq!(told.code, 78);
    assert!(
        told.stderr
            .contains("sasl.password: the environment has no variable LM_ABSENT"),
        "{}",
        told.stderr
    );
}

#[test]
fn a_server_serves_and_stops_while_no_broker_answers() {
    let cluster = Cluster::new(1);
    let home = Home::new();
    let server = start(
        &home.data,
        &[cluster.source("logs", &[("brokers", "[\"127.0.0.1:1\"]")])],
    );
    wait_for(&server, "the source waits", || {
        let waiting = "SELECT count(*) FROM system.sources WHERE producer = 'kafka/logs' AND state = 'waiting'";
        server.number(waiting) == 1
    });
    assert!(
        server.log().contains("no broker of 127.0.0.1:1 answers"),
        "{}",
        server.log()
    );
    let began = Instant::now();
    assert_eq!(server.stop(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(30));

    // Brokers that go down under it.
    let server = start(&home.data, &[cluster.source("logs", &[])]);
    wait_for(&server, "the source reads", || {
        let reading = "SELECT count(*) FROM system.sources WHERE state = 'reading'";
        server.number(reading) == 2
    });
    cluster.mock.broker_down(-1).expect("brokers");
    let began = Instant::now();
    assert_eq!(server.stop(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(30));
}
