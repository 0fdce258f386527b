//! Random documents of every type under few names, taken apart by an independent walk.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::support::{Home, Server, knob, run, seed};

/// Names that documents share, some of them the store's own.
const NAMES: [&str; 12] = [
    "a", "b", "c", "a.b", "b.a", "", "_seq", "_rest", "time", "_id", "x y", "\u{e9}",
];
/// Names below arrays, where a path consists of more than names.
const PLAIN_NAMES: [&str; 4] = ["a", "b", "c", ""];

/// A leaf as type and value: numbers that are equal are one.
type Leaf = (&'static str, String);

/// A document as text, and its leaves by their dotted names.
struct Motley {
    text: String,
    leaves: Vec<(String, Leaf)>,
    /// The leaves and arrays outside of arrays: each has a name of its own.
    fields: Vec<String>,
}

fn float(value: f64) -> Leaf {
    if value.trunc() == value && value.abs() <= 9_007_199_254_740_992.0 {
        return ("number", (value as i64).to_string());
    }
    ("number", format!("{value:?}"))
}

impl Motley {
    fn new(random: &mut SmallRng, k: usize) -> Self {
        let mut motley = Self {
            text: format!("{{\"k\":{k}"),
            leaves: vec![("k".into(), ("number", k.to_string()))],
            fields: vec!["k".into()],
        };
        for name in some_names(random, &NAMES, 6) {
            motley.text += &format!(",{}:", Value::from(name));
            let is_time = name == "time";
            motley.value(random, name, 1, false, is_time);
        }
        motley.text.push('}');
        motley
    }

    fn value(
        &mut self,
        random: &mut SmallRng,
        name: &str,
        depth: u32,
        in_array: bool,
        is_time: bool,
    ) {
        let kind = random.random_range(0..if depth < 5 { 12 } else { 9 });
        let (leaves, is_array) = (self.leaves.len(), kind == 9);
        match kind {
            // A date in `time` is the event's time and no leaf of its own.
            1..5 if is_time => self.text(random, name, true),
            0 => {
                self.text += "null";
                if in_array {
                    self.leaf(name, ("null", String::new()));
                }
            }
            1 | 2 => self.integer(random, name),
            3 | 4 => self.float(random, name),
            5 | 6 => {
                let truth = random.random_bool(0.5);
                self.text += &truth.to_string();
                self.leaf(name, ("bool", truth.to_string()));
            }
            7 | 8 => self.text(random, name, is_time),
            9 => {
                self.text.push('[');
                let items = random.random_range(0..4);
                for nth in 0..items {
                    self.text += if nth > 0 { "," } else { "" };
                    self.value(random, &format!("{name}.{nth}"), depth + 1, true, false);
                }
                self.text.push(']');
                if items == 0 {
                    self.leaf(name, ("array", "[]".into()));
                }
            }
            _ => {
                let of: &[&str] = if in_array { &PLAIN_NAMES } else { &NAMES };
                let names = some_names(random, of, 4);
                self.text.push('{');
                for (nth, key) in names.iter().enumerate() {
                    self.text += if nth > 0 { "," } else { "" };
                    self.text += &format!("{}:", Value::from(*key));
                    self.value(random, &format!("{name}.{key}"), depth + 1, in_array, false);
                }
                self.text.push('}');
                if names.is_empty() {
                    self.leaf(name, ("object", "{}".into()));
                }
            }
        }
        let is_leaf = self.leaves.len() > leaves && self.leaves[leaves].0 == name;
        if !in_array && (is_array || is_leaf) {
            self.fields.push(name.to_owned());
        }
    }

    fn leaf(&mut self, name: &str, leaf: Leaf) {
        self.leaves.push((name.to_owned(), leaf));
    }

    fn integer(&mut self, random: &mut SmallRng, name: &str) {
        let edges = [
            "9007199254740992",
            "9007199254740993",
            "-9007199254740993",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "-18446744073709551617",
            "100000000000000000000000000000",
            "1234567890123456789012345678901234",
        ];
        let digits = match random.random_range(0..4) {
            0 => edges[random.random_range(0..edges.len())].to_owned(),
            _ => random.random_range(-300..300).to_string(),
        };
        self.text += &digits;
        self.leaf(name, ("number", digits));
    }

    fn float(&mut self, random: &mut SmallRng, name: &str) {
        // Few digits: the reader of the answer here is no more exact than that.
        let value = match random.random_range(0..5) {
            0 => -0.0,
            1 => 5.0,
            _ => f64::from(random.random_range(-1_000_000..1_000_000)) / 1024.0,
        };
        self.text += &format!("{value:?}");
        self.leaf(name, float(value));
    }

    fn text(&mut self, random: &mut SmallRng, name: &str, is_time: bool) {
        let texts = [
            "",
            "x",
            "1.5",
            "null",
            "a\0b",
            "\"\\\n\u{1f600}",
            "true",
            "{}",
        ];
        let text = match is_time {
            true => "never",
            false => texts[random.random_range(0..texts.len())],
        };
        self.text += &Value::from(text).to_string();
        self.leaf(name, ("text", text.into()));
    }

    /// Returns whether two fields have one dotted name: then the line is refused.
    fn is_ambiguous(&self) -> bool {
        let mut seen = BTreeSet::new();
        !self.fields.iter().all(|name| seen.insert(name))
    }
}

fn some_names<'a>(random: &mut SmallRng, of: &[&'a str], most: usize) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for _ in 0..random.random_range(0..most) {
        let name = of[random.random_range(0..of.len())];
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the leaf of a column's JSON value.
fn of_column(value: &Value) -> Leaf {
    match value {
        Value::Bool(truth) => ("bool", truth.to_string()),
        Value::Number(number) if number.is_f64() => float(number.as_f64().expect("a float")),
        Value::Number(number) => ("number", number.to_string()),
        Value::String(text) => ("text", text.clone()),
        other => panic!("no column holds {other}"),
    }
}

fn of_rest(kind: &str, json: &str) -> Leaf {
    match kind {
        "null" => ("null", String::new()),
        "bool" => ("bool", json.to_owned()),
        "int64" | "decimal" => ("number", json.to_owned()),
        "float64" => float(json.parse().expect("a float")),
        "text" => ("text", serde_json::from_str(json).expect("a text")),
        "array" => ("array", json.to_owned()),
        "object" => ("object", json.to_owned()),
        other => panic!("no leaf is a {other}"),
    }
}

/// Returns the leaves of every document that the store has, by its number.
fn stored(server: &Server) -> BTreeMap<u64, BTreeMap<String, Leaf>> {
    let mut documents: BTreeMap<u64, BTreeMap<String, Leaf>> = BTreeMap::new();
    let mut number_of = BTreeMap::new();
    for row in server.sql("SELECT *, _seq FROM docs") {
        let row = row.as_object().expect("a row");
        let own = |id: &str| id.len() == 24 && id.bytes().all(|b| b.is_ascii_hexdigit());
        let k = row["k"].as_f64().expect("a number") as u64;
        number_of.insert(row["_seq"].as_u64().expect("a number"), k);
        let values = row.iter().filter(|(name, value)| match name.as_str() {
            "_seq" | "_rest" | "time" | "time_source" => false,
            "_id" => !value.as_str().is_some_and(own),
            _ => !value.is_null(),
        });
        let leaves = values.map(|(name, value)| (name.clone(), of_column(value)));
        assert_eq!(
            documents.insert(k, leaves.collect()),
            None,
            "{k} is there twice"
        );
    }
    let listed = "SELECT _seq, name, attr_type(_rest, name) AS kind, attr_json(_rest, name) AS json \
                  FROM (SELECT _seq, _rest, unnest(attr_names(_rest)) AS name FROM docs)";
    for row in server.sql(listed) {
        let text = |name: &str| row[name].as_str().expect("a text");
        let k = number_of[&row["_seq"].as_u64().expect("a number")];
        let leaves = documents.get_mut(&k).expect("a document");
        let before = leaves.insert(text("name").to_owned(), of_rest(text("kind"), text("json")));
        assert_eq!(before, None, "{row} is a column too");
    }
    documents
}

#[test]
fn every_leaf_of_motley_documents_reads_back() {
    let seed = seed();
    for round in 0..knob("LOGMILL_MOTLEY", 3) {
        let mut random = SmallRng::seed_from_u64(seed + round);
        let columns_max = random.random_range(2..30).to_string();
        let environment = [("LOGMILL_INGEST__COLUMNS_MAX", columns_max.as_str())];
        let home = Home::new();
        let mut server = Server::start_with(&home.data, &environment);
        let mut wanted = BTreeMap::new();
        // `k` is a column whatever comes first, and `_rest` is there.
        let mut k = 1;
        server.ingest("docs?format=json", "{\"k\":0,\"_rest\":[]}");
        wanted.insert(
            0,
            BTreeMap::from([
                ("k".to_owned(), ("number", "0".to_owned())),
                ("_rest".to_owned(), ("array", "[]".to_owned())),
            ]),
        );
        for _ in 0..random.random_range(10..40) {
            let batch: Vec<Motley> = (0..random.random_range(1..30))
                .map(|i| Motley::new(&mut random, k + i))
                .collect();
            let count = batch.len();
            let lines: Vec<&str> = batch.iter().map(|m| m.text.as_str()).collect();
            let answer = server.ingest("docs?format=json", lines.join("\n"));
            let bad = batch.iter().filter(|m| m.is_ambiguous());
            let bad: Vec<&str> = bad.map(|m| m.text.as_str()).collect();
            assert_eq!(answer["quarantined"], bad.len(), "{answer}\n{bad:#?}");
            for (i, motley) in batch.into_iter().enumerate() {
                if !motley.is_ambiguous() {
                    wanted.insert((k + i) as u64, motley.leaves.into_iter().collect());
                }
            }
            k += count;
            match random.random_range(0..5) {
                0 | 1 => drop(server.seal()),
                2 => {
                    server.kill();
                    server = Server::start_with(&home.data, &environment);
                }
                _ => {}
            }
        }
        for when in ["with some of it in memory", "sealed"] {
            let found = stored(&server);
            for (k, leaves) in &wanted {
                assert_eq!(
                    found.get(k),
                    Some(leaves),
                    "seed {}, document {k}, {when}",
                    seed + round
                );
            }
            assert_eq!(found.len(), wanted.len());
            server.seal();
        }
        let args = [
            "rollup",
            "verify",
            "--output",
            "json",
            "--server",
            &server.url,
        ];
        let found = run(&args).code(0).json();
        let levels = found[0]["levels"].as_array().expect("levels");
        assert!(
            levels.iter().all(|level| level["differences"] == 0),
            "{found}"
        );
    }
}
