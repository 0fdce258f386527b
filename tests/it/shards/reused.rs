//! Keys and ranges that come again with another body: they are refused, and nothing of the body is
//! stored on any shard, also on those that had no part of the first.

use std::thread;

use serde_json::Value;

use super::{SHARDS, ShardedServers, lines, number, patiently, post, rows, send};
use crate::support::{Answer, Home, PAST_S, Server, line};

const LINES: &str = "access?format=vhost_combined";
/// Keys that several servers get at once.
const ROUNDS: usize = 10;

/// Returns the status of an answer, and the code of its error.
fn fate(answer: &Answer) -> (u16, Value) {
    (answer.status, answer.json()["error"]["code"].clone())
}

fn key_of(shard: usize) -> String {
    format!("key-{shard}")
}

/// Sends other bodies under the keys, through each server: for another shard alone, and for all.
#[track_caller]
fn assert_refused(all: &ShardedServers, bodies: &[String]) {
    let before = all.own_events("access");
    for first in 0..SHARDS {
        for gateway in 0..SHARDS {
            let others = (0..SHARDS).filter(|other| *other != first);
            let others = others.map(|other| bodies[other].clone());
            for other in others.chain([bodies.concat()]) {
                let answer = patiently(|| post(all.at(gateway), "access", &key_of(first), &other));
                assert_eq!(
                    fate(&answer),
                    (422, "key_reused".into()),
                    "{}",
                    answer.text()
                );
            }
        }
    }
    assert_eq!(all.own_events("access"), before);
    for (shard, body) in bodies.iter().enumerate() {
        let gateway = all.at((shard + 1) % SHARDS);
        let told = send(gateway, "access", &key_of(shard), body);
        assert_eq!(told["duplicate"], true, "{told}");
    }
}

#[test]
fn another_body_under_a_known_key_is_refused_on_every_shard() {
    let mut all = ShardedServers::start(&[("access", "host"), ("places", "host")]);
    let of_host = |hosts: Vec<String>| line(&hosts[0], PAST_S, "/", 200, 10).repeat(2);
    let bodies: Vec<String> = all.hosts().into_iter().map(of_host).collect();
    for (shard, body) in bodies.iter().enumerate() {
        send(all.at(shard), "access", &key_of(shard), body);
    }
    assert_eq!(all.own_events("access"), [2; SHARDS]);
    assert_refused(&all, &bodies);
    all.seal();
    assert_refused(&all, &bodies);
    all.restart();
    assert_refused(&all, &bodies);
    // A key belongs to its own stream only.
    let told = send(all.at(0), "other", &key_of(0), &bodies[1]);
    assert_eq!(told["accepted"], 2, "{told}");
    assert_eq!(
        number(all.at(0), "SELECT count(*) FROM access"),
        2 * SHARDS as u64
    );
}

#[test]
fn another_body_of_a_known_range_is_refused_as_by_one_store() {
    let home = Home::new();
    let one = Server::start(&home.data);
    let all = ShardedServers::start(&[("access", "host")]);
    for (nth, (from, to, content)) in [
        (0, 100, 1),
        (0, 100, 1),
        (0, 100, 2),
        (100, 200, 3),
        (0, 100, 2),
        (150, 250, 4),
        (210, 250, 4),
        (0, 50, 5),
        (100, 200, 3),
        (200, 200, 3),
    ]
    .into_iter()
    .enumerate()
    {
        let path =
            format!("/api/v1/ingest/{LINES}&producer=p&from={from}&to={to}&content={content}");
        let body = lines(from..to);
        let expected = one.post(&path, &[], body.as_bytes());
        let gateway = all.at(nth % SHARDS);
        let found = patiently(|| gateway.post(&path, &[], body.as_bytes()));
        let asked = format!("{path}: {} instead of {}", found.text(), expected.text());
        assert_eq!(fate(&found), fate(&expected), "{asked}");
        let position = |server: &Server| {
            let told = patiently(|| server.get("/api/v1/sources?producer=p")).status(200);
            told.json()["to"].clone()
        };
        assert_eq!(position(gateway), position(&one), "{asked}");
        let counted = "SELECT count(*) FROM access";
        assert_eq!(number(gateway, counted), number(&one, counted), "{asked}");
    }
}

/// Sends bodies under one key at once, each through a server of its own, until each has an answer.
fn at_once(all: &ShardedServers, key: &str, bodies: &[String]) -> Vec<Answer> {
    thread::scope(|scope| {
        let send = |(gateway, body): (usize, &String)| {
            let (server, body) = (all.at(gateway), body.clone());
            scope.spawn(move || patiently(|| post(server, LINES, key, &body)))
        };
        let sent: Vec<_> = bodies.iter().enumerate().map(send).collect();
        let sent = sent.into_iter();
        sent.map(|answer| answer.join().expect("an answer"))
            .collect()
    })
}

#[test]
fn one_key_through_several_servers_at_once_is_one_batch() {
    let all = ShardedServers::start(&[("access", "host")]);
    send(all.at(0), LINES, "first", &lines(0..30));
    let mut wanted = 30;
    for round in 1..=ROUNDS as i64 {
        let body = lines(round * 1000..round * 1000 + 30);
        let answers = at_once(&all, &format!("same-{round}"), &vec![body; SHARDS]);
        for answer in answers {
            assert_eq!(answer.status(200).json()["accepted"], 30);
        }
        wanted += 30;
    }
    let counted = "SELECT count(*) FROM access";
    assert_eq!(number(all.at(1), counted), wanted);
    assert_eq!(
        number(all.at(1), "SELECT count(DISTINCT time) FROM access"),
        wanted
    );

    // Of several bodies one is taken as a whole, and no other in part.
    for round in 1..=ROUNDS as i64 {
        let body = |nth: i64| lines(round * 1000 + nth * 100 + 100..round * 1000 + nth * 100 + 130);
        let answers = at_once(
            &all,
            &format!("other-{round}"),
            &[body(0), body(1), body(2)],
        );
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 422, 422], "round {round}");
        wanted += 30;
        assert_eq!(number(all.at(2), counted), wanted, "round {round}");
    }
    // The numbers of lines are in their queries, but for those of the page `/`.
    let whole = "SELECT CAST(substr(query, 3) AS BIGINT) / 100 AS body, count(*) AS n FROM access \
                 WHERE query IS NOT NULL GROUP BY 1 HAVING count(*) <> 20";
    assert_eq!(rows(all.at(0), whole), Vec::<Value>::new());
}
