//! Every table and every form of a statement under every role, for own and foreign streams.
//!
//! The tables are those that the server lists for an administrator and the kinds of statements
//! those of the engine's source; the expectations are in `tests/fixtures/statements.txt`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ask, token};
use crate::support::{Home, PAST_S, Server, command, line};

const STATEMENTS: &str = include_str!("../../fixtures/statements.txt");
const ENGINE: &str = include_str!("../../../query/src/plan/statement.rs");
/// The stream of the scoped accounts, and the other one.
const OWN: &str = "web";
const FOREIGN: &str = "vault";
/// A name as long as the foreign one that never was a stream's.
const NEVER: &str = "vaulx";
/// Texts that only the foreign stream has.
const MARKERS: [&str; 3] = [FOREIGN, "203.0.113.77", "hidden-place"];

const CONFIG: &str = r#"
[stream.web]
rollups = []
[stream.vault]
rollups = []
[rollup.web_hits]
stream = "web"
by = ["path"]
levels = ["minute", "day"]
[rollup.web_hits.measures]
hits = "count"
[rollup.vault_hits]
stream = "vault"
by = ["path"]
levels = ["minute", "day"]
[rollup.vault_hits.measures]
hits = "count"
"#;

/// Lines of the fixture that begin with a word, without it: the second word and the rest.
fn entries(first: &str) -> Vec<(&'static str, &'static str)> {
    let lines = STATEMENTS
        .lines()
        .filter_map(|line| line.strip_prefix(first));
    let pairs = lines.filter_map(|line| line.trim_start().split_once(' '));
    pairs.map(|(second, rest)| (second, rest.trim())).collect()
}

/// A table with its class, and the stream of a table of that class.
struct Table {
    name: String,
    class: &'static str,
    stream: Option<&'static str>,
}

fn tables() -> Vec<Table> {
    let mut all = Vec::new();
    for (name, class) in entries("table ") {
        match class {
            "stream" => all.extend([OWN, FOREIGN].map(|stream| Table {
                name: name.replace("{stream}", stream),
                class,
                stream: Some(stream),
            })),
            "rows" | "common" | "store" | "admin" => all.push(Table {
                name: name.to_owned(),
                class,
                stream: None,
            }),
            other => panic!("no such class: {other}"),
        }
    }
    all
}

/// A client: its header, role and whether it is one of the own stream alone.
struct Client {
    header: String,
    role: &'static str,
    is_scoped: bool,
}

struct Statements {
    home: Home,
    server: Server,
}

impl Statements {
    fn start() -> Self {
        let home = Home::new();
        home.file("logmill.toml", CONFIG);
        let mut program = command();
        program.current_dir(home.path(""));
        // The test asks faster than a client of its kind would.
        let unlimited = [("LOGMILL_SERVER__CLIENT_REQUESTS_PER_SECOND", "0")];
        let server = Server::try_start(program, &home.data, &unlimited).expect("it serves");
        for (stream, host, path) in [
            (OWN, "198.51.100.5", "/open"),
            (FOREIGN, "203.0.113.77", "/hidden-place"),
        ] {
            let good = line(host, PAST_S, path, 200, 10);
            let target = format!("{stream}?producer=file:{stream}:log&from=0&to=9");
            server.ingest(&target, good.repeat(2) + "bad hidden-place\n");
        }
        server.seal();
        server
            .post("/api/v1/indexes/vault/path", &[], b"")
            .status(202);
        // Some events stay in memory.
        server.ingest(OWN, line("198.51.100.5", PAST_S, "/open", 200, 10));
        server.ingest(
            FOREIGN,
            line("203.0.113.77", PAST_S, "/hidden-place", 200, 10),
        );
        Self { home, server }
    }

    fn client(&self, role: &'static str, stream: Option<&str>) -> Client {
        let name = format!("{role}-{}", stream.map_or("all", |_| "some"));
        let token = token(&self.home, &name, role, stream);
        Client {
            header: format!("Authorization: Bearer {token}"),
            role,
            is_scoped: stream.is_some(),
        }
    }

    fn sql(&self, client: &Client, sql: &str) -> (u16, String) {
        let params = match sql.contains("$1") {
            true => json!([5]),
            false => json!([]),
        };
        let body = json!({ "sql": sql, "params": params }).to_string();
        let (status, body) = ask(&self.server, "POST", "/api/v1/sql", &client.header, &body);
        let mut answer: Value = serde_json::from_str(&body).unwrap_or(Value::String(body));
        // Times and counts of what was read differ from run to run.
        if let Some(answer) = answer.as_object_mut() {
            answer.remove("stats");
            // Parts and memory are read side by side.
            if let Some(rows) = answer.get_mut("rows").and_then(Value::as_array_mut) {
                rows.sort_by_key(Value::to_string);
            }
        }
        (status, answer.to_string())
    }

    /// Checks a form over a table as a reader of some streams asks for it.
    fn check_scoped(&self, client: &Client, form: &str, table: &Table, whole: &(u16, String)) {
        let sql = form.replace("{t}", &table.name);
        let (status, answer) = self.sql(client, &sql);
        let exists = match table.class {
            "stream" => table.stream == Some(OWN),
            "store" | "admin" => false,
            _ => true,
        };
        if exists {
            assert_eq!(status, whole.0, "{sql}: {answer}");
            for marker in MARKERS {
                assert!(!answer.contains(marker), "{sql}: {answer}");
            }
            return;
        }
        let never = match table.stream {
            Some(stream) => table.name.replace(stream, NEVER),
            None => never_of(&table.name),
        };
        let unknown = self.sql(client, &form.replace("{t}", &never));
        assert!((400..500).contains(&status), "{sql}: {status} {answer}");
        let expected = unknown.1.replace(&never, &table.name);
        match table.stream {
            Some(stream) => {
                let expected = expected.replace(NEVER, stream);
                assert_eq!((status, &answer), (unknown.0, &expected), "{sql}");
            }
            None => assert_eq!(
                (status, unhinted(&answer)),
                (unknown.0, unhinted(&expected)),
                "{sql}"
            ),
        }
        assert!(!answer.contains(MARKERS[1]) && !answer.contains(MARKERS[2]));
    }
}

/// Returns an error without its hint: the nearest name depends on the letters of the asked one.
fn unhinted(answer: &str) -> String {
    let mut answer: Value = serde_json::from_str(answer).expect("JSON");
    answer["error"]["hint"].take();
    answer.to_string()
}

/// Returns a name that no table has, as long as the table's.
fn never_of(name: &str) -> String {
    let mut never = name.to_owned();
    never.pop();
    never + "x"
}

#[test]
fn the_fixture_has_every_kind_of_statement_that_the_engine_accepts() {
    let (_, after) = ENGINE
        .split_once("pub(crate) fn only_reads")
        .expect("the list");
    let (list, _) = after.split_once("\n}\n").expect("its end");
    let words = |list: &'static str, prefix: &str| -> BTreeSet<&'static str> {
        let words = list.split(|c: char| !c.is_alphanumeric() && c != ':');
        let kinds = words.filter_map(|word| word.strip_prefix(prefix));
        kinds.collect()
    };
    let mut accepted = words(list, "SqlStatement::");
    accepted.extend(words(list, "Statement::"));
    // The parser's own wrapper of the others.
    accepted.remove("Statement");
    let known: BTreeSet<&str> = entries("form ").into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(accepted, known);
}

#[test]
fn every_statement_over_every_table_follows_the_role_and_the_streams() {
    let store = Statements::start();
    let admin = store.client("admin", None);
    let reader = store.client("read", None);
    let scoped = store.client("read", Some("web*"));
    let listed = store.server.sql_as(
        &admin.header,
        "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables",
    );
    let listed = listed.as_array().expect("rows");
    let listed: BTreeSet<String> = listed
        .iter()
        .map(|row| row["name"].as_str().expect("a name").to_owned())
        .collect();
    let tables = tables();
    let known: BTreeSet<String> = tables.iter().map(|table| table.name.clone()).collect();
    assert_eq!(
        listed, known,
        "tests/fixtures/statements.txt lists other tables"
    );
    let mut asked = 0;
    for (kind, form) in entries("form ") {
        if !form.contains("{t}") {
            let (status, answer) = store.sql(&scoped, form);
            assert_eq!(status, 200, "{form}: {answer}");
            let leaks = MARKERS.iter().any(|marker| answer.contains(marker));
            assert!(!leaks, "{form}: {answer}");
            continue;
        }
        for table in &tables {
            let sql = form.replace("{t}", &table.name);
            let whole = store.sql(&admin, &sql);
            assert_eq!(whole.0, 200, "{sql}: {}", whole.1);
            let (status, answer) = store.sql(&reader, &sql);
            let is_equal = kind == "Query" && table.class == "stream";
            match table.class {
                "admin" => {
                    let never = never_of(&table.name);
                    let unknown = store.sql(&reader, &form.replace("{t}", &never));
                    let expected = unknown.1.replace(&never, &table.name);
                    let expected = (unknown.0, unhinted(&expected));
                    assert_eq!((status, unhinted(&answer)), expected, "{sql}");
                }
                _ => assert!(
                    status == 200 && (!is_equal || answer == whole.1),
                    "{sql}: {answer}"
                ),
            }
            // The search for markers finds them where they may be.
            if form == "SELECT * FROM {t}" && table.class == "rows" {
                let finds = MARKERS.iter().any(|marker| whole.1.contains(marker));
                let is_empty = whole.1.contains("\"rows\":[]");
                assert!(finds || is_empty, "{sql}: {}", whole.1);
            }
            store.check_scoped(&scoped, form, table, &whole);
            asked += 1;
        }
    }
    println!("{asked} pairs of a statement and a table");
    assert!(asked > 500, "{asked}");
}

#[test]
fn nobody_writes_by_sql_and_senders_do_not_read_by_it() {
    let store = Statements::start();
    let clients = [
        store.client("admin", None),
        store.client("read", None),
        store.client("read", Some("web*")),
        store.client("ingest", None),
        store.client("ingest", Some("web*")),
        Client {
            header: "Accept: */*".to_owned(),
            role: "nobody",
            is_scoped: false,
        },
    ];
    for client in &clients {
        let refusal = match client.role {
            "nobody" => Some(401),
            "ingest" => Some(403),
            _ => None,
        };
        for table in tables() {
            for (_, form) in entries("refused ") {
                let sql = form.replace("{t}", &table.name);
                let (status, answer) = store.sql(client, &sql);
                assert_eq!(status, refusal.unwrap_or(400), "{sql}: {answer}");
            }
            for (_, form) in entries("form ") {
                let Some(refusal) = refusal else { break };
                let sql = form.replace("{t}", &table.name);
                let (status, answer) = store.sql(client, &sql);
                assert_eq!(status, refusal, "{sql}: {answer}");
            }
        }
    }
    // A condition of a tail is SQL as well.
    let scoped = clients.iter().find(|c| c.role == "read" && c.is_scoped);
    let scoped = scoped.expect("a reader of some streams");
    for condition in [
        "path IN (SELECT path FROM @)",
        "EXISTS (SELECT 1 FROM @_hits.daily)",
        "path = (SELECT max(path) FROM logmill.public.@)",
    ] {
        let follow = |stream: &str| {
            let condition = condition.replace('@', stream);
            let encoded: String = condition.bytes().map(|b| format!("%{b:02X}")).collect();
            let target = format!("/api/v1/tail?stream=web&last=1&where={encoded}");
            ask(&store.server, "GET", &target, &scoped.header, "")
        };
        let (foreign, never) = (follow(FOREIGN), follow(NEVER));
        assert!((400..500).contains(&foreign.0), "{condition}: {foreign:?}");
        assert_eq!(foreign.1, never.1.replace(NEVER, FOREIGN), "{condition}");
    }
}
