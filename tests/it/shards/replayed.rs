//! Lines that a shard has quarantined and replays: their fields get the columns of all shards.

use serde_json::Value;

use super::{SHARDS, ShardedServers, number, send};
use crate::support::Server;

const TO: &str = "docs?format=json";
/// Requests with a bad line. Their homes are different shards.
const REQUESTS: u64 = 8;

/// Returns the type of a column in the store of one server, which may lack it.
#[track_caller]
fn type_of(server: &Server, column: &str) -> Option<Value> {
    let schema = server.get("/api/v1/streams/docs/schema").status(200).json();
    let fields = schema["fields"].as_array().expect("fields");
    let is_it = |field: &&Value| field["name"] == column && field["in_rest"] == false;
    fields.iter().find(is_it).map(|known| known["type"].clone())
}

#[test]
fn a_replayed_line_has_the_columns_of_all_shards() {
    let all = ShardedServers::start(&[("docs", "k")]);
    let text = "{\"time\":\"2024-03-01T00:00:00Z\",\"k\":1,\"n\":\"a text\"}\n";
    send(all.at(0), TO, "a text", text);
    for request in 0..REQUESTS {
        let told = send(all.at(1), TO, &format!("bad-{request}"), "n=5 k=7\n");
        assert_eq!(told["quarantined"], 1, "{told}");
    }
    let replay = "/api/v1/quarantine/replay?stream=docs&format=logfmt";
    let replayed = |shard| {
        let told = all.at(shard).post(replay, &[], b"").status(200).json();
        told["replayed"].as_u64().expect("a number")
    };
    let replayed: Vec<u64> = (0..SHARDS).map(replayed).collect();
    assert_eq!(replayed.iter().sum::<u64>(), REQUESTS, "{replayed:?}");
    assert!(
        replayed.iter().filter(|n| **n > 0).count() > 1,
        "{replayed:?}"
    );
    let of_n = (0..SHARDS).filter_map(|shard| type_of(all.at(shard), "n"));
    let of_n: Vec<Value> = of_n.collect();
    assert!(
        !of_n.is_empty() && of_n.iter().all(|of_n| of_n == "text"),
        "{of_n:?}"
    );
    for gateway in 0..SHARDS {
        let counted = "SELECT count(*) FROM docs WHERE k = 7 AND attr(_rest, 'n') = '5'";
        assert_eq!(number(all.at(gateway), counted), REQUESTS);
    }
}
