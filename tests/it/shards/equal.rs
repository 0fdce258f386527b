//! One store and a cluster that got the same requests in the same order give the same answers,
//! whatever the shard key, in memory and sealed.
//!
//! Each question goes to the servers in turn, and with `LOGMILL_FULL` to each of them.

use std::ops::Range;

use serde_json::{Value, json};

use super::questions::{ACCESS, DOCUMENTS};
use super::{DAY_S, DAYS, SHARDS, ShardedServers, ask, lines, send};
use crate::support::{Home, PAST_S, Server};

const OF_LINES: [(&str, &str); 6] = [
    ("by_batch", "batch"),
    ("by_host", "host"),
    ("by_page", "site, path"),
    ("by_salt", "path + hash"),
    ("by_hot", "path + hash if hot"),
    ("by_time", "time"),
];
const OF_DOCUMENTS: [(&str, &str); 4] = [
    ("docs_batch", "batch"),
    ("docs_user", "user.name"),
    ("docs_size", "size + hash"),
    ("docs_time", "time"),
];
/// The first access logs: the names of their rollups are short.
const FIRST: [&str; 2] = ["access", "by_batch"];
const REQUESTS: i64 = 6;
const LINES: i64 = 300;
const COUNT: i64 = 60;
/// The figures of an answer that do not tell where its events are.
const FIGURES: [&str; 5] = [
    "accepted",
    "quarantined",
    "quarantined_by_reason",
    "empty",
    "errors",
];

/// A store with a stream, and a cluster with streams that get the same.
struct BesideOne {
    one: Server,
    all: ShardedServers,
    stream: &'static str,
    streams: Vec<&'static str>,
    /// The format of the requests.
    format: &'static str,
    _home: Home,
}

impl BesideOne {
    fn start(
        stream: &'static str,
        keys: &[(&'static str, &'static str)],
        format: &'static str,
    ) -> Self {
        let home = Home::new();
        Self {
            one: Server::start(&home.data),
            all: ShardedServers::start(keys),
            stream,
            streams: keys.iter().map(|(stream, _)| *stream).collect(),
            format,
            _home: home,
        }
    }

    /// Sends a request to all streams, each time through another server of the cluster.
    #[track_caller]
    fn add(&self, request: i64, body: &str) {
        let key = format!("request-{request}");
        let to = |stream: &str| format!("{stream}?format={}", self.format);
        let expected = send(&self.one, &to(self.stream), &key, body);
        for (nth, stream) in self.streams.iter().enumerate() {
            let gateway = self.all.at((nth + request as usize) % SHARDS);
            let told = send(gateway, &to(stream), &key, body);
            for figure in FIGURES {
                assert_eq!(
                    told[figure], expected[figure],
                    "{figure} of {stream}: {told}"
                );
            }
        }
    }

    fn seal(&self) {
        self.one.seal();
        self.all.seal();
    }

    /// Compares the answers about these streams with those about the stream of the one store.
    #[track_caller]
    fn compare(&self, questions: &[&str], streams: &[&str], turn: usize) {
        for (nth, question) in questions.iter().enumerate() {
            let expected = ask(&self.one, &about(question, self.stream));
            assert_ne!(expected["rows"], json!([]), "{question} finds nothing");
            for (of_key, stream) in streams.iter().enumerate() {
                let question = about(question, stream);
                for gateway in gateways(turn + nth + of_key) {
                    let found = ask(self.all.at(gateway), &question);
                    assert_same(&found, &expected, &format!("shard {gateway}: {question}"));
                }
            }
        }
    }
}

/// Returns the servers that are asked in a turn.
fn gateways(turn: usize) -> Range<usize> {
    match std::env::var_os("LOGMILL_FULL") {
        Some(_) => 0..SHARDS,
        None => turn % SHARDS..turn % SHARDS + 1,
    }
}

/// Returns a question about a stream and its rollups.
fn about(question: &str, stream: &str) -> String {
    let rollups = match FIRST.contains(&stream) {
        true => String::new(),
        false => format!("{stream}_"),
    };
    question.replace("{t}", stream).replace("{r}", &rollups)
}

/// Checks that two answers have the same columns and rows; sums of floats may differ by their
/// order.
#[track_caller]
pub(super) fn assert_same(found: &Value, expected: &Value, asked: &str) {
    assert_eq!(found["columns"], expected["columns"], "{asked}");
    let rows = |answer: &Value| answer["rows"].as_array().expect("rows").clone();
    let (found, expected) = (rows(found), rows(expected));
    let mut pairs = found.iter().zip(&expected);
    if let Some((found, expected)) = pairs.find(|(found, expected)| !is_near(found, expected)) {
        panic!("{asked}:\n{found}\ninstead of\n{expected}");
    }
    assert_eq!(found.len(), expected.len(), "{asked}");
}

fn is_near(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) if found.is_f64() && expected.is_f64() => {
            let of = |number: &serde_json::Number| number.as_f64().expect("a float");
            let (found, expected) = (of(found), of(expected));
            let most = found.abs().max(expected.abs()).max(1.0);
            (found - expected).abs() <= 1e-9 * most
        }
        (Value::Array(found), Value::Array(expected)) => {
            let mut pairs = found.iter().zip(expected);
            found.len() == expected.len() && pairs.all(|(found, expected)| is_near(found, expected))
        }
        (Value::Object(found), Value::Object(expected)) => {
            let mut members = expected.iter();
            let are_near = members.all(|(name, expected)| {
                let found = found.get(name);
                found.is_some_and(|found| is_near(found, expected))
            });
            found.len() == expected.len() && are_near
        }
        (found, expected) => found == expected,
    }
}

/// Returns the lines of a request, with some that are none.
fn with_bad_lines(request: i64) -> String {
    let first = request * LINES;
    let pieces = [
        first..first + 17,
        first + 17..first + 170,
        first + 170..first + LINES,
    ];
    pieces.map(lines).join("no line of an access log\n")
}

/// Returns the documents of a request: later ones have further fields, and other types.
fn documents(request: i64) -> String {
    let document = |k: i64| {
        let at = PAST_S + k * 7919 % (DAYS * DAY_S);
        let at = chrono::DateTime::from_timestamp(at, 0).expect("a time of the calendar");
        let size = match k % 7 {
            0..=3 => k.to_string(),
            4 => format!("{k}.25"),
            5 => "\"large\"".to_owned(),
            _ if request > 2 => "9007199254740993".to_owned(),
            _ => "null".to_owned(),
        };
        format!(
            "{{\"time\":\"{}\",\"k\":{k},\"size\":{size},\"user\":{{\"name\":\"u{}\",\"id\":{}}},\
             \"ok\":{},\"tags\":[\"a\",\"t{}\"],\"late{}\":{k}}}\n",
            at.format("%Y-%m-%dT%H:%M:%SZ"),
            k % 7,
            k % 5,
            k % 2 == 0,
            k % 3,
            request % 3,
        )
    };
    let first = request * COUNT;
    (first..first + COUNT).map(document).collect()
}

#[test]
fn lines_are_answered_for_as_by_one_store_under_every_key() {
    let both = BesideOne::start("access", &OF_LINES, "vhost_combined");
    let last = REQUESTS - 1;
    for request in 0..last {
        both.add(request, &with_bad_lines(request));
    }
    both.compare(&ACCESS, &both.streams, 0);
    both.seal();
    both.compare(&ACCESS, &both.streams, 1);
    both.add(last, &with_bad_lines(last));
    both.compare(&ACCESS, &["by_salt"], 2);
}

#[test]
fn documents_are_answered_for_as_by_one_store_under_every_key() {
    let both = BesideOne::start("docs", &OF_DOCUMENTS, "json");
    let last = REQUESTS - 1;
    for request in 0..last {
        both.add(request, &documents(request));
    }
    both.compare(&DOCUMENTS, &both.streams, 0);
    both.seal();
    both.compare(&DOCUMENTS, &both.streams, 1);
    both.add(last, &documents(last));
    both.compare(&DOCUMENTS, &["docs_size"], 2);
}
