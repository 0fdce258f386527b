//! The `.slt` files of `tests/slt`, each run on a server over HTTP: once while its events lie in
//! the memtable and once when they are sealed. `tests/slt/README.md` describes how to read and
//! write them.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sqllogictest::{ColumnType, DB, DBOutput, Runner, parse_file, strict_column_validator};

use crate::support::{Home, Server};

/// Six events and a line that is none.
const ACCESS: &str = r#"192.0.2.1 - - [28/Feb/2024:23:59:59 +0000] "GET /cart?id=7 HTTP/1.1" 200 100 "-" "Mozilla/5.0"
192.0.2.1 - - [29/Feb/2024:08:00:00 +0000] "GET /cart HTTP/1.1" 200 40 "https://example.com/" "Mozilla/5.0"
192.0.2.2 - anna [29/Feb/2024:08:04:59 +0000] "POST /login HTTP/1.1" 302 - "-" "curl/8.5.0"
192.0.2.3 - - [29/Feb/2024:10:05:00 +0200] "GET /cart HTTP/1.0" 500 60 "-" "-"
2001:db8::4 - - [01/Mar/2024:00:00:00 +0000] "\x16\x03\x01" 400 0 "-" "-"
192.0.2.1 - - [31/Mar/2024:01:30:00 +0000] "GET /cart HTTP/1.1" 200 120 "-" "Mozilla/5.0"
this is no line of an access log
"#;

/// Three documents that do not look alike.
const DOCS: &str = r#"{"time":"2024-03-01T10:00:00Z","user":{"id":7,"name":"anna"},"ok":true,"n":1,"tags":["a","b"]}
{"time":"2024-03-01T10:00:01Z","user":{"id":8},"n":2.5,"x":"text"}
{"time":"2024-03-01T10:00:02Z","n":"three","x":{"deep":[1,{"y":2}]}}
"#;

#[test]
fn every_file_holds_before_and_after_a_seal() {
    let home = Home::new();
    let server = Server::start_with(&home.data, &[("LOGMILL_QUERY__ROWS_MAX", "1000")]);
    let taken = server.ingest("access?format=combined", ACCESS);
    assert_eq!(
        (&taken["accepted"], &taken["quarantined"]),
        (&6.into(), &1.into())
    );
    assert_eq!(server.ingest("docs?format=json", DOCS)["accepted"], 3);
    let files = files();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for sealed in [false, true] {
        if sealed {
            server.seal();
        }
        for file in &files {
            let mut runner = Runner::new(|| async { Ok(Client(&server)) });
            runner.with_column_validator(strict_column_validator);
            for record in parse_file::<Letter>(file).expect("a file of tests") {
                if let Err(error) = runner.run(record) {
                    wrong.push(format!("sealed: {sealed}\n{error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let entries = std::fs::read_dir(folder).expect("the folder of files");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    files.sort();
    files
}

/// A client of the server as the runner sees it.
struct Client<'a>(&'a Server);

/// An answer that is no result: `status code: message`, and the hint when there is one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

impl DB for Client<'_> {
    type Error = Refused;
    type ColumnType = Letter;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, Refused> {
        let answer = self.0.post(
            "/api/v1/sql",
            &[("Accept", "application/json")],
            sql.as_bytes(),
        );
        let (status, answer) = (answer.status, answer.json());
        if status != 200 {
            let error = &answer["error"];
            // Patterns of the files match within a line.
            let of = |name: &str| error[name].as_str().unwrap_or_default().replace('\n', " ");
            return Err(Refused(format!(
                "{status} {}: {} ({})",
                of("code"),
                of("message"),
                of("hint")
            )));
        }
        let columns = answer["columns"].as_array().expect("columns");
        let rows = answer["rows"].as_array().expect("rows");
        let row = |row: &Value| {
            let cells = columns
                .iter()
                .map(|c| cell(&row[c["name"].as_str().expect("a name")]));
            cells.collect()
        };
        Ok(DBOutput::Rows {
            types: columns.iter().map(|c| Letter::of(&c["type"])).collect(),
            rows: rows.iter().map(row).collect(),
        })
    }
}

/// A value as the files spell it: as in JSON, texts without their quotes.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) if text.is_empty() => "(empty)".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The letter of a column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter(char);

impl Letter {
    fn of(type_name: &Value) -> Self {
        Self(match type_name.as_str().expect("a type") {
            "boolean" => 'B',
            "smallint" | "integer" | "bigint" => 'I',
            "real" | "double precision" | "numeric" => 'R',
            "text" => 'T',
            "timestamp with time zone" => 'P',
            _ => '?',
        })
    }
}

impl ColumnType for Letter {
    fn from_char(letter: char) -> Option<Self> {
        "BIRTP?".contains(letter).then_some(Self(letter))
    }
    fn to_char(&self) -> char {
        self.0
    }
}
