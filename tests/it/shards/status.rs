//! `logmill cluster status`.

use std::time::Instant;

use super::{LATE, SHARDS, ShardedServers, lines, send};
use crate::support::{Output, run};

fn status(url: &str, more: &[&str]) -> Output {
    run(&[&["cluster", "status", "--server", url], more].concat())
}

#[test]
fn the_shards_are_shown_with_their_servers_and_one_without_a_server_is_named() {
    let mut all = ShardedServers::start(&[("access", "host")]);
    send(
        all.at(1),
        "access?format=vhost_combined",
        "k",
        &lines(0..300),
    );
    // On a busy machine a peer may be late.
    let until = Instant::now() + LATE;
    let told = loop {
        let told = status(&all.url(1), &["--output", "json"]);
        if told.code == 0 || Instant::now() > until {
            break told.code(0).json();
        }
    };
    assert_eq!(told["shards"], SHARDS, "{told}");
    assert_eq!(told["missing"].as_array().map(Vec::len), Some(0), "{told}");
    let servers = told["servers"].as_array().expect("servers");
    assert_eq!(servers.len(), SHARDS);
    let unsealed = servers.iter().map(|server| server["unsealed"].as_u64());
    assert_eq!(unsealed.map(Option::unwrap_or_default).sum::<u64>(), 300);
    for (shard, server) in servers.iter().enumerate() {
        assert_eq!(server["shard"], shard, "{told}");
        let url = if shard == 1 {
            "this server".to_owned()
        } else {
            all.url(shard)
        };
        assert_eq!(server["url"], url, "{told}");
    }

    all.kill(2);
    let told = status(&all.url(0), &[]).code(1);
    assert!(
        told.stdout.contains("shard 2 has no server"),
        "{}",
        told.stdout
    );
    assert!(told.stdout.contains(&all.url(2)), "{}", told.stdout);
    assert!(told.stdout.contains("this server"), "{}", told.stdout);
}
