//! The events of a stream are on the shards that its key names, and nowhere twice.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{SHARDS, ShardedServers, lines, number, own_events, places, rows};
use crate::support::line;

/// Without a key of their own, access logs are divided by `site, path`, other streams by `batch`.
const KEYS: [(&str, &str); 4] = [
    ("by_host", "host"),
    ("by_salt", "path + hash"),
    ("by_hot", "path + hash if hot"),
    ("by_time", "time"),
];
const REQUESTS: i64 = 3;
const LINES: i64 = 100;

/// Checks that an answer names the parts of a request of which each store has taken `stored`
/// events.
#[track_caller]
fn assert_parts(answer: &Value, stored: &[u64]) {
    assert_eq!(answer["accepted"], stored.iter().sum::<u64>(), "{answer}");
    let items = |told: &Value| {
        let (first, last) = (told["first_seq"].as_u64(), told["last_seq"].as_u64());
        last.expect("a number") - first.expect("a number") + 1
    };
    let taken: Vec<usize> = (0..SHARDS).filter(|shard| stored[*shard] > 0).collect();
    let Some(parts) = answer["parts"].as_array() else {
        assert_eq!(taken.len(), 1, "{answer} of {stored:?}");
        assert_eq!(items(answer), stored[taken[0]], "{answer}");
        return;
    };
    assert!(parts.len() > 1, "{answer}");
    for place in ["first_seq", "last_seq"] {
        assert_eq!(answer[place], Value::Null, "{answer}");
    }
    let mut named = Vec::new();
    for part in parts {
        let shard = part["shard"].as_u64().expect("a shard") as usize;
        assert_eq!(items(part), stored[shard], "{answer} of {stored:?}");
        named.push(shard);
    }
    named.sort_unstable();
    assert_eq!(named, taken, "{answer}");
}

/// Sends a request and checks its answer by the stores.
#[track_caller]
fn add(all: &ShardedServers, gateway: usize, stream: &str, format: &str, body: &str) {
    let before = all.own_events(stream);
    let answer = all
        .at(gateway)
        .ingest(&format!("{stream}?format={format}&j=true"), body);
    assert_eq!(answer["concern"], json!({ "w": 1, "j": true }), "{answer}");
    let after = all.own_events(stream);
    let stored: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    assert_parts(&answer, &stored);
}

/// Checks that the events of each value are on one shard, and those of a `divided` value on
/// several, and that all shards have some.
#[track_caller]
fn assert_placed(all: &ShardedServers, stream: &str, value: &str, divided: &[&str]) {
    let placed = places(all.at(0), stream, value);
    let mut used = [false; SHARDS];
    for (value, shards) in &placed {
        let is_divided = divided.contains(&value.as_str());
        assert_eq!(
            shards.len() > 1,
            is_divided,
            "{value} of {stream}: {shards:?}"
        );
        shards.iter().for_each(|shard| used[*shard] = true);
    }
    assert_eq!(used, [true; SHARDS], "{stream}: {placed:?}");
}

/// Checks that servers tell their shards, and that ids tell the shards of their events.
#[track_caller]
fn assert_told(all: &ShardedServers) {
    let mut stores = Vec::new();
    for shard in 0..SHARDS {
        let told = all
            .at(shard)
            .get("/api/v1/cluster/shard")
            .status(200)
            .json();
        let numbers = (&told["shard"], &told["shards"]);
        assert_eq!(numbers, (&json!(shard), &json!(SHARDS)), "{told}");
        let store = told["store"].as_str().expect("an id").to_owned();
        let is_hex = store.bytes().all(|digit| digit.is_ascii_hexdigit());
        assert!(is_hex && store.len() == 32, "{told}");
        assert!(!stores.contains(&store), "{told}");
        stores.push(store);
        let of_ids =
            format!("SELECT count(*) FROM by_host WHERE substr(_id, 9, 4) = '{shard:04x}'");
        let own = own_events(all.at(shard), "by_host");
        assert_eq!(
            number(all.at((shard + 1) % SHARDS), &of_ids),
            own,
            "shard {shard}"
        );
    }
}

/// Checks that lines whose time has not come are on the shards of their hosts' events.
#[track_caller]
fn assert_future_placed(all: &ShardedServers, stream: &str) {
    let hour = Duration::from_secs(3600);
    let later = (SystemTime::now() + hour).duration_since(UNIX_EPOCH);
    let later = later.expect("a time after 1970").as_secs() as i64;
    let placed = places(all.at(0), stream, "host");
    let of_host = |host| format!("web:80 {}", line(host, later, "/", 200, 1));
    let body: String = placed.keys().map(|host| of_host(host)).collect();
    let answer = all
        .at(1)
        .ingest(&format!("{stream}?format=vhost_combined"), &body);
    assert_eq!(answer["quarantined"], placed.len(), "{answer}");
    let kept = "SELECT server, arrow_cast(raw, 'Utf8') AS raw FROM system.quarantine";
    let kept = rows(all.at(0), kept);
    assert_eq!(kept.len(), placed.len());
    for row in kept {
        let server = row["server"].as_str().expect("a server");
        let shard = (1..SHARDS).find(|shard| all.url(*shard) == server);
        let line = row["raw"].as_str().expect("a line");
        let host = line.split(' ').nth(1).expect("a host");
        assert_eq!(placed[host], [shard.unwrap_or(0)], "{row}");
    }
}

/// Checks that a question which names a value asks the servers of its shards for rows, and no
/// others, and finds every event.
#[track_caller]
fn assert_asked(all: &ShardedServers, stream: &str, value: &str, named: impl Fn(&str) -> String) {
    for (text, shards) in places(all.at(0), stream, value) {
        for gateway in 0..SHARDS {
            let counted = format!("SELECT count(*) FROM {stream} WHERE");
            let asked = format!("{counted} {}", named(&text));
            let plan = json!(rows(all.at(gateway), &format!("EXPLAIN {asked}"))).to_string();
            let named = (0..SHARDS).filter(|shard| plan.contains(&all.url(*shard)));
            let others = shards.iter().copied().filter(|shard| *shard != gateway);
            assert_eq!(
                named.collect::<Vec<_>>(),
                others.collect::<Vec<_>>(),
                "{asked}: {plan}"
            );
            let of_all = number(all.at(gateway), &format!("{counted} {value} = '{text}'"));
            assert_eq!(number(all.at(gateway), &asked), of_all, "{asked}");
        }
    }
}

#[test]
fn every_event_is_on_the_shard_that_the_key_names() {
    let all = ShardedServers::start(&KEYS);
    let streams = ["web", "by_host", "by_salt", "by_hot", "by_time"];
    for (nth, stream) in streams.into_iter().enumerate() {
        for request in 0..REQUESTS {
            let body = lines(request * LINES..(request + 1) * LINES);
            let gateway = (nth + request as usize) % SHARDS;
            add(&all, gateway, stream, "vhost_combined", &body);
        }
        for gateway in 0..SHARDS {
            let counted = format!("SELECT count(DISTINCT time) FROM {stream}");
            let counted = number(all.at(gateway), &counted);
            assert_eq!(counted, (REQUESTS * LINES) as u64, "{stream}");
        }
        let own: u64 = all.own_events(stream).iter().sum();
        assert_eq!(own, (REQUESTS * LINES) as u64, "{stream}");
    }
    assert_placed(&all, "by_host", "host", &[]);
    assert_future_placed(&all, "by_host");
    assert_placed(&all, "web", "site || ' ' || path", &[]);
    assert_placed(&all, "by_hot", "path", &["/"]);
    assert_placed(&all, "by_time", "date_trunc('hour', time)", &[]);
    let salted = places(all.at(0), "by_salt", "path");
    assert!(salted["/"].len() > 1, "{salted:?}");
    assert_asked(&all, "by_host", "host || ''", |host| {
        format!("host = '{host}'")
    });
    assert_asked(&all, "web", "site || ' ' || path", |both| {
        let (site, path) = both.split_once(' ').expect("both");
        format!("path IN ('{path}') AND site = '{site}'")
    });

    for request in 0..40 {
        let document = format!("{{\"time\":\"2024-03-01T00:00:00Z\",\"request\":\"{request}\"}}\n");
        add(&all, request % SHARDS, "docs", "json", &document.repeat(3));
    }
    assert_placed(&all, "docs", "request", &[]);
    assert_told(&all);
    all.seal();
    assert_told(&all);
    let ids = "SELECT count(*) AS n FROM (SELECT _id FROM docs UNION ALL SELECT _id FROM web) AS i \
               GROUP BY _id HAVING count(*) > 1";
    assert_eq!(rows(all.at(0), ids), Vec::<Value>::new());
}
