//! Accounts: the servers of a cluster need tokens of the role `peer`, of each other's own stores.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::{LATE, SHARDS, ShardedServers, lines, patiently};
use crate::support::{Answer, Home, Server, run};

const LINES: &str = "/api/v1/ingest/access?format=vhost_combined";
const ROLES: [&str; 3] = ["peer", "ingest", "read"];

/// The tokens of a store by their roles.
type RoleTokens = BTreeMap<&'static str, String>;

fn tokens(home: &Home) -> RoleTokens {
    let create = |role: &'static str| {
        let args = ["token", "create", role, "--role", role, "--output", "json"];
        let args = [&args[..], &["--data", &home.data]].concat();
        let created = run(&args).code(0).json();
        (role, created["token"].as_str().expect("a token").to_owned())
    };
    ROLES.map(create).into()
}

/// Starts a server anew that has, for each of its peers, the token of a role there.
#[track_caller]
fn serve_as(all: &mut ShardedServers, shard: usize, role: &str, tokens: &[RoleTokens]) {
    let others = (0..SHARDS).filter(|other| *other != shard);
    let token = |other: usize| format!("{} {}\n", all.url(other), tokens[other][role]);
    let file: String = others.map(token).collect();
    let file = all.homes[shard].file("tokens", file);
    all.stop(shard);
    all.serve(shard, &[("LOGMILL_CLUSTER__TOKEN_FILE", &file)]);
}

/// Sends lines as a client with a token.
#[track_caller]
fn post_as(server: &Server, to: &str, token: &str, lines: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", &*bearer), ("Idempotency-Key", "lines")];
    server.post(to, &headers, lines.as_bytes())
}

#[track_caller]
fn count_as(server: &Server, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let count = b"SELECT count(*) AS n FROM access";
    server.post("/api/v1/sql", &[("Authorization", &bearer)], count)
}

/// Checks that a request fails for a reason, and that a peer of the first server is named. On a
/// busy machine a peer may be late, which is a reason, too.
#[track_caller]
fn assert_told(all: &ShardedServers, said: &str, ask: impl Fn() -> Answer) {
    let until = Instant::now() + LATE;
    loop {
        let told = ask().status(503).text();
        let is_named = (1..SHARDS).any(|peer| told.contains(&all.url(peer)));
        if is_named && told.contains(said) {
            return;
        }
        assert!(Instant::now() < until, "{said}: {told}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn servers_of_a_cluster_with_accounts_need_tokens_of_the_role_peer() {
    let mut all = ShardedServers::start(&[("access", "host")]);
    let tokens: Vec<RoleTokens> = all.homes.iter().map(tokens).collect();
    let (sender, reader) = (&tokens[0]["ingest"], &tokens[0]["read"]);
    let body = lines(0..60);
    let post = |all: &ShardedServers| post_as(all.at(0), LINES, sender, &body);
    assert_told(&all, "401 Unauthorized", || post(&all));
    assert_told(&all, "401 Unauthorized", || count_as(all.at(0), reader));
    serve_as(&mut all, 0, "read", &tokens);
    assert_told(&all, "403 Forbidden", || post(&all));
    serve_as(&mut all, 0, "ingest", &tokens);
    assert_told(&all, "403 Forbidden", || count_as(all.at(0), reader));

    // Each shard reads the catalog at the first one's server before it creates a stream.
    for shard in 0..SHARDS {
        serve_as(&mut all, shard, "peer", &tokens);
    }
    let told = patiently(|| post(&all)).status(200).json();
    assert_eq!(told["accepted"], 60, "{told}");
    let counted = patiently(|| count_as(all.at(0), reader)).status(200);
    assert_eq!(counted.json()["rows"][0]["n"], 60);
    let new = LINES.replace("access", "other");
    let told = patiently(|| post_as(all.at(1), &new, &tokens[1]["ingest"], &body));
    assert_eq!(told.status(200).json()["accepted"], 60);

    // A peer reads and sends, and does nothing else.
    let peer = &tokens[0]["peer"];
    assert_eq!(patiently(|| count_as(all.at(0), peer)).status, 200);
    let again = patiently(|| post_as(all.at(0), LINES, peer, &body)).status(200);
    assert_eq!(again.json()["duplicate"], true);
    let bearer = format!("Bearer {peer}");
    let headers = [("Authorization", bearer.as_str())];
    all.at(0).get_with("/api/v1/users", &headers).status(403);
    let seal = all.at(0).post("/api/v1/rollups/run", &headers, b"");
    seal.status(403);

    // The parts of many clients come under one account, which has no share of a client.
    let others = [0, 2].map(|other| format!("{} {}\n", all.url(other), tokens[other]["peer"]));
    let file = all.homes[1].file("tokens", others.concat());
    all.stop(1);
    let limits = [
        ("LOGMILL_CLUSTER__TOKEN_FILE", file.as_str()),
        ("LOGMILL_SERVER__CLIENT_REQUESTS_PER_SECOND", "1"),
    ];
    all.serve(1, &limits);
    patiently(|| count_as(all.at(0), reader)).status(200);
    for _ in 0..10 {
        let again = patiently(|| post_as(all.at(0), LINES, sender, &body)).status(200);
        assert_eq!(again.json()["duplicate"], true);
    }
    let bearer = format!("Bearer {}", tokens[1]["read"]);
    let headers = [("Authorization", bearer.as_str())];
    let metrics = all.at(1).get_with("/metrics", &headers).status(200).text();
    let parts = metrics
        .lines()
        .filter(|line| line.contains("cluster/batches"));
    let statuses: Vec<&str> = parts.filter(|line| line.contains("status=")).collect();
    assert!(!statuses.is_empty(), "{metrics}");
    assert!(
        !statuses.iter().any(|line| line.contains("\"429\"")),
        "{statuses:?}"
    );

    for shard in 0..SHARDS {
        let log = all.at(shard).log();
        let mut secrets = tokens.iter().flat_map(BTreeMap::values);
        assert!(!secrets.any(|secret| log.contains(secret)), "{log}");
    }
}
