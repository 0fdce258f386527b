//! A cluster without the server of one shard: nothing waits for it that does not need it, and what
//! needs it is refused and stored nowhere.

use std::time::Instant;

use super::{LATE, SHARDS, ShardedServers, assert_away, number, own_events, post, send};
use crate::support::{PAST_S, line};

/// Returns a document of a host, perhaps with further fields.
fn document(host: &str, more: &str) -> String {
    format!("{{\"time\":\"2024-03-01T00:00:00Z\",\"host\":\"{host}\"{more}}}\n")
}

/// Streams and fields are kept by the server of the first shard. The others know those that were
/// used.
#[test]
fn without_the_first_shard_known_streams_and_fields_are_taken_and_no_others() {
    const TO: &str = "docs?format=json";
    let mut all = ShardedServers::start(&[("docs", "host"), ("places", "host")]);
    let hosts = all.hosts();
    let of_all: String = hosts.iter().map(|some| document(&some[0], "")).collect();
    for gateway in 0..SHARDS {
        all.at(gateway).ingest(TO, &of_all);
    }
    assert_eq!(all.own_events("docs"), [3; SHARDS]);

    all.kill(0);
    let began = Instant::now();
    for gateway in 1..SHARDS {
        for of_shard in &hosts[1..] {
            all.at(gateway).ingest(TO, document(&of_shard[1], ""));
        }
    }
    let refused = [
        (TO, "its own", document(&hosts[0][0], "")),
        (TO, "a field", document(&hosts[1][0], ",\"added\":1")),
        ("other?format=json", "a stream", document(&hosts[1][0], "")),
        (TO, "all", of_all),
    ];
    for (to, key, body) in &refused[..3] {
        for gateway in 1..SHARDS {
            let path = format!("/api/v1/ingest/{to}");
            assert_away(all.at(gateway).post(&path, &[], body.as_bytes()));
            assert_away(post(all.at(gateway), to, key, body));
        }
    }
    let (to, key, body) = &refused[3];
    assert_away(post(all.at(1), to, key, body));
    assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
    let own = all.own_events("docs");
    assert!(
        own[1..].iter().all(|events| [5, 6].contains(events)),
        "{own:?}"
    );
    assert_eq!(all.own_events("other"), [0; SHARDS]);

    all.serve(0, &[]);
    for (nth, (to, key, body)) in refused.iter().enumerate() {
        send(all.at((nth + 1) % SHARDS), to, key, body);
    }
    for gateway in 0..SHARDS {
        let counted = number(all.at(gateway), "SELECT count(*) FROM docs");
        assert_eq!(counted, 9 + 4 + 2 + 3, "shard {gateway}");
        assert_eq!(number(all.at(gateway), "SELECT sum(added) FROM docs"), 1);
        assert_eq!(number(all.at(gateway), "SELECT count(*) FROM other"), 1);
    }
}

#[test]
fn without_another_shard_its_own_events_are_refused_and_no_others() {
    let streams = ["access", "places", "fresh_0", "fresh_1"];
    let mut all = ShardedServers::start(&streams.map(|stream| (stream, "host")));
    let hosts = all.hosts();
    let of = |shard: usize| line(&hosts[shard][0], PAST_S, "/", 200, 10).repeat(2);
    let of_all = of(0) + &of(1) + &of(2);
    all.at(2).ingest("access", &of_all);
    all.kill(2);
    let began = Instant::now();
    for gateway in 0..2 {
        for shard in 0..2 {
            all.at(gateway).ingest("access", of(shard));
        }
        let answer = all
            .at(gateway)
            .post("/api/v1/ingest/access", &[], of(2).as_bytes());
        assert_away(answer);
        // The first shard alone is needed for a new stream.
        all.at(gateway)
            .ingest(&format!("fresh_{gateway}"), of(gateway));
    }
    let key = "of all";
    assert_away(post(all.at(0), "access", key, &of_all));
    assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
    all.serve(2, &[]);
    send(all.at(2), "access", key, &of_all);
    assert_eq!(own_events(all.at(2), "access"), 4);
    for gateway in 0..SHARDS {
        let counted = number(all.at(gateway), "SELECT count(*) FROM access");
        assert_eq!(counted, 6 + 8 + 6, "shard {gateway}");
    }
}
