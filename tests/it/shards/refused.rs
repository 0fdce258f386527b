//! Configurations that do not fit to each other, or to a store.

use serde_json::json;

use super::{SHARDS, ShardedServers, lines, number, send};
use crate::support::{Home, Output, Server, command, run, sample};

const LINES: &str = "access?format=vhost_combined";

#[test]
fn wrong_shards_and_keys_are_told_with_their_names() {
    let home = Home::new();
    let cluster = "[cluster]\npeers = [\"http://a:1\", \"http://b:1\"]\n";
    for (section, text, said) in [
        (cluster, "shards = 3\nshard = 3", "[cluster] shard: "),
        (cluster, "shards = 3\nshard = 70", "[cluster] shard: "),
        (cluster, "shards = 3", "[cluster] shards: "),
        (cluster, "shard = 0", "[cluster] shard: "),
        (cluster, "shards = 1\nshard = 0", "[cluster] shards: "),
        (cluster, "shards = 4\nshard = 0", "[cluster] peers: "),
        (
            "[stream.web]\n",
            "shard_key = \"site,,path\"",
            "[stream.web] shard_key: ",
        ),
        (
            "[stream.web]\n",
            "shard_key = \"path, path\"",
            "[stream.web] shard_key: ",
        ),
        (
            "[stream.web]\n",
            "shard_key = \"path + hash if hot\"",
            "[stream.web] shard_key: ",
        ),
        (
            "[stream.web]\n",
            "hot_values = [\"/\"]",
            "[stream.web] hot_values: ",
        ),
        (
            "[stream.web]\nshard_key = \"site, path + hash if hot\"\n",
            "hot_values = [\"/\"]",
            "[stream.web] hot_values: ",
        ),
    ] {
        let file = home.file("logmill.toml", format!("{section}{text}\n"));
        let told = run(&["config", "show", "--config", &file]).code(78);
        assert!(told.stderr.contains(said), "{text}: {}", told.stderr);
    }
    let good = format!(
        "{cluster}shards = 3\nshard = 0\n[stream.web]\n\
         shard_key = \"site, path + hash if hot\"\nhot_values = [[\"shop.example\", \"/\"]]\n"
    );
    let file = home.file("logmill.toml", good);
    let shown = run(&["config", "show", "--config", &file]).code(0).stdout;
    for line in ["cluster.shards = 3", "cluster.shard = 0"] {
        assert!(shown.lines().any(|known| known == line), "{line}: {shown}");
    }
}

/// Checks that a store was not opened, and why.
#[track_caller]
fn assert_refused(started: Result<Server, Output>, said: &str) {
    let told = started.err().expect("the server refuses the store");
    assert_eq!(told.code, 1, "{}", told.stderr);
    assert!(told.stderr.contains(said), "{}", told.stderr);
}

#[test]
fn a_store_stays_the_shard_that_it_was_born_as() {
    let mut all = ShardedServers::start(&[]);
    send(all.at(0), LINES, "first", &lines(0..60));
    let own = all.own_events("access")[1];
    // A reader needs no cluster, and reads the store that it is given.
    assert_eq!(all.homes[1].count(), own);
    all.stop(1);
    assert_refused(
        all.try_serve(1, &[], &[("LOGMILL_CLUSTER__SHARD", "2")]),
        "this store is shard 1, and [cluster] names shard 2",
    );
    let data = &all.homes[1].data;
    let said = "this store is shard 1 of a cluster";
    assert_refused(Server::try_start(command(), data, &[]), said);
    let import = ["import", &sample(), "--stream", "access", "--data", data];
    let told = run(&import).code(1);
    assert!(told.stderr.contains(said), "{}", told.stderr);
    all.serve(1, &[]);
    assert_eq!(number(all.at(1), "SELECT count(*) FROM access"), 60);

    let alone = Home::new();
    let server = Server::start(&alone.data);
    server.ingest(LINES, lines(0..3));
    assert_eq!(server.stop(), Some(0));
    // One in 65,536 stores begins its ids as a shard, and is taken for that one.
    let refused = ["0", "1"].map(|shard| {
        let peers = json!([all.url(0), all.url(2)]).to_string();
        let environment = [
            ("LOGMILL_CLUSTER__SHARDS", "3"),
            ("LOGMILL_CLUSTER__SHARD", shard),
            ("LOGMILL_CLUSTER__PEERS", peers.as_str()),
        ];
        Server::try_start_as(&alone.data, &[], &environment).err()
    });
    let refused: Vec<Output> = refused.into_iter().flatten().collect();
    assert!(!refused.is_empty());
    for told in refused {
        let said = "this store is no shard of a cluster";
        assert_eq!(told.code, 1, "{}", told.stderr);
        assert!(told.stderr.contains(said), "{}", told.stderr);
    }
}

#[test]
fn a_server_that_knows_another_number_of_shards_takes_no_events() {
    let mut all = ShardedServers::start(&[]);
    send(all.at(1), LINES, "first", &lines(0..60));
    all.stop(1);
    let peers = json!([all.url(0)]).to_string();
    let other = [
        ("LOGMILL_CLUSTER__SHARDS", "2"),
        ("LOGMILL_CLUSTER__PEERS", peers.as_str()),
    ];
    all.serve(1, &other);
    let before = all.own_events("access");
    for to in [LINES, "new?format=vhost_combined"] {
        let path = format!("/api/v1/ingest/{to}");
        let answer = all.at(1).post(&path, &[], lines(60..120).as_bytes());
        assert!([400, 503].contains(&answer.status), "{}", answer.text());
        let told = answer.json()["error"]["message"].to_string();
        let words: Vec<&str> = told.split(|c: char| !c.is_alphanumeric()).collect();
        for number in ["2", "3"] {
            assert!(words.contains(&number), "{told}");
        }
    }
    assert_eq!(all.own_events("access"), before);
    assert_eq!(all.own_events("new"), [0; SHARDS]);
    all.stop(1);
    all.serve(1, &[]);
    send(all.at(1), LINES, "second", &lines(120..180));
}
