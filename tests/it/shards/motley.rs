//! Fields of every type, through all servers in turn: a field has the type that it has in one store
//! which got the same requests, and its other values are in `_rest` there and here.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use super::equal::assert_same;
use super::{SHARDS, ShardedServers, ask, rows, send};
use crate::support::{Home, Server, seed};

const KEYS: [(&str, &str); 4] = [
    ("by_k", "k"),
    ("by_field", "f0"),
    ("by_salt", "f1 + hash"),
    ("by_batch", "batch"),
];
const REQUESTS: usize = 24;
const FIELDS: usize = 6;
/// Integers that floats, or columns of integers, cannot hold.
const LARGE: [&str; 5] = [
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "100000000000000000000000000000",
];

/// Returns a value of any type.
fn value(random: &mut SmallRng) -> String {
    match random.random_range(0..10) {
        0..=2 => random.random_range(-300..300).to_string(),
        3 | 4 => {
            let eighths: i32 = random.random_range(-4000..4000);
            format!("{:?}", f64::from(eighths) / 8.0)
        }
        5 => LARGE[random.random_range(0..LARGE.len())].to_owned(),
        6 => format!("\"text {}\"", random.random_range(0..5)),
        7 => random.random_bool(0.5).to_string(),
        8 => format!("[1,\"a\",{}]", random.random_range(0..5)),
        _ => format!("{{\"a\":{},\"b\":null}}", random.random_range(0..5)),
    }
}

fn document(random: &mut SmallRng, k: usize) -> String {
    let mut text = format!("{{\"time\":\"2024-03-01T00:00:00Z\",\"k\":{k}");
    for field in 0..FIELDS {
        if random.random_bool(0.6) {
            text += &format!(",\"f{field}\":{}", value(random));
        }
    }
    text + "}\n"
}

/// Returns a question about all columns of the one store, and about values beside them.
fn question(one: &Server) -> String {
    let known = "SELECT column_name AS c FROM information_schema.columns \
                 WHERE table_name = 'docs' AND column_name NOT IN ('_id', '_rest') ORDER BY 1";
    let known = rows(one, known);
    let columns = known.iter().map(|row| row["c"].as_str().expect("a name"));
    let mut listed: Vec<String> = columns.map(|name| format!("\"{name}\"")).collect();
    assert!(listed.len() > FIELDS, "{listed:?}");
    for field in 0..FIELDS {
        listed.push(format!("attr_type(_rest, 'f{field}') AS type{field}"));
        listed.push(format!("attr_json(_rest, 'f{field}') AS json{field}"));
    }
    format!("SELECT {}, _rest FROM {{t}} ORDER BY k", listed.join(", "))
}

#[track_caller]
fn compare(one: &Server, all: &ShardedServers) {
    let columns = "SELECT column_name, data_type FROM information_schema.columns \
                   WHERE table_name = '{t}' ORDER BY column_name";
    for question in [columns, &question(one)] {
        let expected = ask(one, &question.replace("{t}", "docs"));
        for (nth, (stream, _)) in KEYS.iter().enumerate() {
            let found = ask(all.at(nth % SHARDS), &question.replace("{t}", stream));
            assert_same(&found, &expected, &format!("{stream}: {question}"));
        }
    }
}

#[test]
fn a_motley_field_has_the_type_that_it_has_in_one_store() {
    let mut random = SmallRng::seed_from_u64(seed());
    let home = Home::new();
    let one = Server::start(&home.data);
    let mut all = ShardedServers::start(&KEYS);
    let mut k = 0;
    for request in 0..REQUESTS {
        if request == REQUESTS / 2 {
            compare(&one, &all);
            // The types that were agreed upon outlive the server that keeps them.
            all.kill(0);
            all.serve(0, &[]);
        }
        // The first document makes `k` a column, and `_rest` another, whatever comes first.
        let mut documents = match request {
            0 => "{\"time\":\"2024-03-01T00:00:00Z\",\"k\":0,\"_rest\":[]}\n".to_owned(),
            _ => String::new(),
        };
        for _ in 0..random.random_range(1..16) {
            k += 1;
            documents += &document(&mut random, k);
        }
        let key = request.to_string();
        let expected = send(&one, "docs?format=json", &key, &documents);
        for (nth, (stream, _)) in KEYS.iter().enumerate() {
            let gateway = all.at((nth + request) % SHARDS);
            let told = send(gateway, &format!("{stream}?format=json"), &key, &documents);
            let taken = |told: &Value| (told["accepted"].clone(), told["quarantined"].clone());
            assert_eq!(taken(&told), taken(&expected), "{stream}: {told}");
        }
    }
    compare(&one, &all);
    one.seal();
    all.seal();
    compare(&one, &all);
}
