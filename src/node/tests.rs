use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::processes::{ShardCommand, ShardProcesses};
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the servers of a node as scripts; `$1` is the number of a shard.
fn processes(script: &str, dir: &Path) -> ShardProcesses {
    let script = format!("cd '{}'; {script}", dir.display());
    let command = ShardCommand {
        program: "/bin/sh".into(),
        arguments: ["-c", &script, "server"].map(Into::into).to_vec(),
    };
    ShardProcesses::new(command, PATIENCE / 2)
}

/// Tends servers until something holds.
#[track_caller]
fn tend_until(processes: &ShardProcesses, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "it does not happen");
        processes.tend(Instant::now());
        sleep(Duration::from_millis(5));
    }
}

fn lines(dir: &Path, name: &str) -> usize {
    let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
    text.lines().count()
}

#[test]
fn a_server_that_ends_is_started_again_and_the_others_go_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    // The first shard's ends at once.
    let all = processes("echo >> started-$1; [ $1 = 0 ] || read wait", dir);
    all.take(&[0, 1]);
    all.take(&[1]);
    tend_until(&all, || lines(dir, "started-0") > 2);
    assert_eq!(lines(dir, "started-1"), 1);
    all.give_up_all();
}

#[test]
fn a_shard_is_given_up_when_its_server_has_sealed_and_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let seals =
        "trap 'sleep 0.3; echo >> sealed-$1; exit 0' TERM; echo > ready-$1; read wait; exit 1";
    let all = processes(seals, dir);
    all.take(&[0, 1, 2]);
    tend_until(&all, || {
        [0, 1, 2]
            .iter()
            .all(|n| lines(dir, &format!("ready-{n}")) > 0)
    });
    all.give_up(&[0, 2]);
    assert_eq!(
        [0, 1, 2].map(|n| lines(dir, &format!("sealed-{n}"))),
        [1, 0, 1]
    );
    // The server of a shard that was given up is not started again.
    fs::remove_file(dir.join("ready-0")).expect("it was there");
    for _ in 0..50 {
        all.tend(Instant::now() + PATIENCE);
    }
    sleep(Duration::from_millis(200));
    assert_eq!(lines(dir, "ready-0"), 0);
    all.give_up_all();
    assert_eq!(lines(dir, "sealed-1"), 1);
}

/// Started at once, it would take the shard back from the node to which the group has moved it.
#[test]
fn a_server_that_was_taken_over_waits_until_the_group_has_told_who_has_the_shard() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let all = processes("echo >> started-$1; exit 74", dir);
    all.take(&[5]);
    tend_until(&all, || lines(dir, "started-5") == 1);
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        all.tend(Instant::now());
        sleep(Duration::from_millis(20));
    }
    assert_eq!(lines(dir, "started-5"), 1);
    all.tend(Instant::now() + PATIENCE);
    tend_until(&all, || lines(dir, "started-5") == 2);
    all.give_up_all();
}

#[test]
fn the_server_of_a_shard_listens_for_other_nodes_alone() {
    let shard_of = |http: &str, address: Option<&str>| {
        let mut config = Config::default();
        config.server.http = http.to_owned();
        config.server.mongo = "127.0.0.1:27017".to_owned();
        config.syslog.udp = "127.0.0.1:514".to_owned();
        config.cluster.group = Some("g".to_owned());
        config.cluster.shards = 8;
        config.cluster.address = address.map(str::to_owned);
        become_shard(&mut config, Path::new("/node"), 3).map(|()| config)
    };
    let config = shard_of("127.0.0.1:7070", None).expect("reached");
    assert_eq!(config.cluster.url.as_deref(), Some("http://127.0.0.1:7103"));
    assert_eq!(config.server.http, "127.0.0.1:7103");
    let off = [
        &config.server.postgres,
        &config.server.mongo,
        &config.syslog.udp,
    ];
    assert_eq!(off, ["off"; 3]);
    assert!(!config.cluster.is_node() && config.cluster.finds_shards());
    let config = shard_of("0.0.0.0:7070", Some("n1")).expect("reached");
    assert_eq!(config.cluster.url.as_deref(), Some("http://n1:7103"));
    assert_eq!(config.server.http, "0.0.0.0:7103");
    let config = shard_of("[::1]:7070", None).expect("reached");
    assert_eq!(config.cluster.url.as_deref(), Some("http://[::1]:7103"));
    let refused = shard_of("0.0.0.0:7070", None).expect_err("nobody reaches it");
    assert!(refused.to_string().contains("set address"), "{refused}");
    shard_of("off", None).expect_err("nobody reaches it");
}
