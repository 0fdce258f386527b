//! Rollups by their default names: `stats` belongs to one stream in the whole cluster, whichever
//! stream a shard or a server saw first.

use std::collections::BTreeMap;
use std::thread;

use serde_json::{Value, json};

use super::{SHARDS, ShardedServers, number, patiently, send};
use crate::support::{PAST_S, Server, line};

const KEYS: [(&str, &str); 3] = [("web", "host"), ("shop", "host"), ("places", "host")];

/// Returns the rollups of each access log in the server's own store, sorted.
fn rollups(server: &Server) -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    let streams = server.get("/api/v1/streams").status(200).json();
    let streams = streams.as_array().expect("streams").iter();
    let logs = streams.filter(|stream| stream["name"] != "places");
    let of = |stream: &Value| {
        let rollups = stream["rollups"].as_array().expect("rollups").iter();
        let mut rollups: Vec<String> = rollups.map(text).collect();
        rollups.sort_unstable();
        (text(&stream["name"]), rollups)
    };
    logs.map(of).collect()
}

/// Returns an event of each host.
fn events(hosts: &[&String]) -> String {
    let of = |host: &&String| line(host, PAST_S, "/", 200, 10);
    hosts.iter().map(of).collect()
}

/// Checks that every shard has the same rollups of both streams, and that their levels count the
/// events of their own stream.
#[track_caller]
fn assert_alike(all: &ShardedServers, counts: [(&str, u64); 2]) {
    let known = rollups(all.at(0));
    assert_eq!(known.len(), 2, "{known:?}");
    for shard in 1..SHARDS {
        assert_eq!(rollups(all.at(shard)), known, "shard {shard}");
    }
    let mut names: Vec<&String> = known.values().flatten().collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4, "{known:?}");
    assert!(names.iter().any(|name| *name == "stats"), "{known:?}");
    for (stream, count) in counts {
        for rollup in &known[stream] {
            for gateway in 0..SHARDS {
                let hits = format!("SELECT sum(hits) FROM {rollup}.daily");
                assert_eq!(
                    number(all.at(gateway), &hits),
                    count,
                    "{rollup} of {stream}"
                );
            }
        }
    }
}

#[test]
fn the_first_stream_of_the_cluster_has_the_short_names_on_every_shard() {
    let all = ShardedServers::start(&KEYS);
    let hosts = all.hosts();
    let of_shard = |shard: usize| events(&[&hosts[shard][0], &hosts[shard][1]]);
    let of_all: String = (0..SHARDS).map(of_shard).collect();
    // The first events of the one stream are on shard 1, those of the other on shard 2.
    send(all.at(1), "web", "first", &of_shard(1));
    send(all.at(2), "shop", "first", &of_shard(2));
    send(all.at(2), "web", "all", &of_all);
    send(all.at(1), "shop", "all", &of_all);
    send(all.at(0), "shop", "again", &of_all);
    assert_eq!(rollups(all.at(2))["web"], ["stats", "traffic"]);
    assert_eq!(rollups(all.at(2))["shop"], ["shop_stats", "shop_traffic"]);
    assert_alike(&all, [("web", 8), ("shop", 14)]);
    all.seal();
    assert_alike(&all, [("web", 8), ("shop", 14)]);
    let daily = "SELECT * FROM stats.daily_documents";
    let documents = patiently(|| all.at(0).post("/api/v1/sql", &[], daily.as_bytes()));
    let documents = documents.status(200).json();
    assert_eq!(documents["rows"][0]["daily"], json!(8), "{documents}");
}

#[test]
fn streams_that_appear_at_one_moment_have_rollups_alike_on_every_shard() {
    let all = ShardedServers::start(&KEYS);
    let hosts = all.hosts();
    let hosts: Vec<&String> = hosts.iter().flatten().collect();
    let body = events(&hosts);
    thread::scope(|scope| {
        for gateway in 0..SHARDS {
            for stream in ["web", "shop"] {
                let (server, body) = (all.at(gateway), &body);
                scope.spawn(move || send(server, stream, &gateway.to_string(), body));
            }
        }
    });
    let count = (SHARDS * hosts.len()) as u64;
    assert_alike(&all, [("web", count), ("shop", count)]);
}
