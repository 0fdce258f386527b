//! `POST /api/v1/sql`: the forms of an answer, errors that help, read only, cancelling.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use serde_json::{Value, json};

use crate::support::{Answer, Home, PAST_S, Server, command, line, run};

#[path = "../../benches/common/statements.rs"]
mod statements;

/// Starts a server with three events, of which two are sealed.
fn server(home: &Home) -> Server {
    let server = Server::start(&home.data);
    server.ingest("access", line("203.0.113.1", PAST_S, "/a,b", 200, 10));
    server.ingest("access", line("203.0.113.2", PAST_S + 60, "/c", 404, 20));
    server.seal();
    server.ingest("access", line("203.0.113.3", PAST_S + 3600, "/d", 500, 30));
    server
}

const QUERY: &str =
    "SELECT host, time, path, query, status, response_size FROM access ORDER BY time";

fn ask(server: &Server, accept: &str, query: &str) -> Answer {
    server.post("/api/v1/sql", &[("Accept", accept)], query.as_bytes())
}

fn rows() -> Vec<Value> {
    vec![
        json!({ "host": "203.0.113.1", "time": "2024-03-01T00:00:00Z", "path": "/a,b", "query": null, "status": 200, "response_size": 10 }),
        json!({ "host": "203.0.113.2", "time": "2024-03-01T00:01:00Z", "path": "/c", "query": null, "status": 404, "response_size": 20 }),
        json!({ "host": "203.0.113.3", "time": "2024-03-01T01:00:00Z", "path": "/d", "query": null, "status": 500, "response_size": 30 }),
    ]
}

#[test]
fn an_answer_comes_in_the_form_that_is_asked_for() {
    let home = Home::new();
    let server = server(&home);
    let answer = ask(&server, "application/json", QUERY).status(200);
    assert_eq!(answer.header("content-type"), "application/json");
    let whole = answer.json();
    assert_eq!(whole["rows"], json!(rows()));
    let names: Vec<&str> = whole["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["host", "time", "path", "query", "status", "response_size"]
    );
    assert!(
        whole["columns"][1]["type"]
            .as_str()
            .is_some_and(|t| t.contains("timestamp")),
        "{whole}"
    );
    assert_eq!(whole["stats"]["rows_returned"], 3, "{whole}");

    let answer = ask(&server, "application/x-ndjson", QUERY).status(200);
    let lines: Vec<Value> = answer
        .text()
        .lines()
        .map(|l| serde_json::from_str(l).expect("a line of JSON"))
        .collect();
    assert_eq!(lines, rows());

    let answer = ask(&server, "text/csv", QUERY).status(200);
    assert!(answer.header("content-type").starts_with("text/csv"));
    assert_eq!(
        answer.text(),
        "host,time,path,query,status,response_size\n\
         203.0.113.1,2024-03-01T00:00:00Z,\"/a,b\",,200,10\n\
         203.0.113.2,2024-03-01T00:01:00Z,/c,,404,20\n\
         203.0.113.3,2024-03-01T01:00:00Z,/d,,500,30\n"
    );

    let arrow_type = "application/vnd.apache.arrow.stream";
    let answer = ask(&server, arrow_type, QUERY).status(200);
    assert_eq!(answer.header("content-type"), arrow_type);
    let reader = arrow::ipc::reader::StreamReader::try_new(answer.body.as_slice(), None);
    let batches: Vec<_> = reader
        .expect("an Arrow stream")
        .map(|b| b.expect("a batch"))
        .collect();
    assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 3);
    assert_eq!(batches[0].schema().field(4).name(), "status");

    ask(&server, "image/png", QUERY).status(406);
    let body = json!({ "sql": "SELECT path FROM access WHERE status = $1", "params": [404] });
    let answer = server.post("/api/v1/sql", &[], body.to_string().as_bytes());
    assert_eq!(answer.status(200).json()["rows"], json!([{ "path": "/c" }]));
}

#[test]
fn the_command_line_gives_the_same_rows_from_a_server_and_from_its_directory() {
    let home = Home::new();
    let server = server(&home);
    for form in ["json", "ndjson", "csv", "table"] {
        let args = ["sql", QUERY, "--output", form];
        let from_server = run(&[&args[..], &["--server", &server.url]].concat()).code(0);
        let from_directory = run(&[&args[..], &["--data", &home.data]].concat()).code(0);
        assert_eq!(from_server.stdout, from_directory.stdout, "{form}");
        assert!(from_server.stdout.contains("/d"), "{form}");
    }
}

#[test]
fn errors_say_what_is_wrong_and_what_to_write() {
    let home = Home::new();
    let server = server(&home);
    for (query, named) in [
        ("SELECT statsu FROM access", "status"),
        ("SELECT * FROM acess", "access"),
        ("SELECT size_p50 FROM stats.minutely", "stats.hourly"),
        ("SELECT visitors FROM traffic.minutely", "traffic.hourly"),
        ("SELECT nonsense(path) FROM access", "nonsense"),
        ("SELEC 1", "SELEC"),
        ("", ""),
    ] {
        let answer = ask(&server, "application/json", query).status(400).json();
        let error = &answer["error"];
        let told = format!("{} {}", error["message"], error["hint"]);
        assert!(told.contains(named), "{query}: {answer}");
        assert!(
            error["code"].is_string() && error["message"].is_string(),
            "{answer}"
        );
        assert!(error.get("hint").is_some(), "{answer}");
    }
    let answer = server
        .post("/api/v1/sql", &[], b"\xff\xfe")
        .status(400)
        .json();
    assert!(answer["error"]["message"].is_string());
    server
        .post("/api/v1/sql", &[], b"{\"query\":\"SELECT 1\"}")
        .status(400);
    let long = format!("SELECT 1 -- {}", "x".repeat(3 << 20));
    server.post("/api/v1/sql", &[], long.as_bytes()).status(413);
}

#[test]
fn nothing_can_be_written_with_sql() {
    let home = Home::new();
    let server = server(&home);
    let out = home.path("out.csv");
    for query in [
        "CREATE TABLE t (a INT)".to_owned(),
        "CREATE VIEW v AS SELECT 1".to_owned(),
        format!("CREATE EXTERNAL TABLE passwd STORED AS CSV LOCATION '{out}'"),
        "DROP TABLE access".to_owned(),
        "INSERT INTO access (host) VALUES ('x')".to_owned(),
        "DELETE FROM access".to_owned(),
        "UPDATE access SET host = 'x'".to_owned(),
        format!("COPY (SELECT 1) TO '{out}'"),
        "SET datafusion.execution.batch_size = 1".to_owned(),
        "SELECT 1; DROP TABLE access".to_owned(),
    ] {
        let refused = ask(&server, "application/json", &query).status(400).json();
        assert!(
            refused["error"]["message"].is_string(),
            "{query}: {refused}"
        );
    }
    // A file that is no part of the store cannot be read either.
    let secret = home.file("secret.csv", "a,b\n1,2\n");
    ask(
        &server,
        "application/json",
        &format!("SELECT * FROM '{secret}'"),
    )
    .status(400);
    assert!(!std::path::Path::new(&out).exists());
    assert_eq!(server.number("SELECT count(*) FROM access"), 3);
}

const ARROW: &str = "application/vnd.apache.arrow.stream";

/// Returns the first value of an answer's one column.
fn first(server: &Server, query: &str) -> String {
    let rows = server.sql(query);
    let values = rows.first().and_then(Value::as_object);
    let value = values.and_then(|row| row.values().next());
    let value = value.and_then(Value::as_str);
    value
        .unwrap_or_else(|| panic!("{query}: {rows:?}"))
        .to_owned()
}

/// Returns the bytes of the states of levels in a batch.
fn state_bytes(batch: &RecordBatch) -> usize {
    let schema = batch.schema();
    let named = schema.fields().iter().zip(batch.columns());
    let states = named.filter(|(field, _)| field.metadata().contains_key("logmill.state"));
    let bytes = states.map(|(_, column)| column.as_binary::<i32>().value_data().len());
    bytes.sum()
}

#[test]
fn an_answer_as_arrow_is_no_larger_than_as_ndjson() {
    let home = Home::new();
    let log = home.path("access.log");
    let generate = ["demo", "--lines", "12000", "--days", "14", "--out", &log];
    run(&generate).code(0);
    let server = Server::start(&home.data);
    // The events lie in several parts of one partition, and in the memtable. Their stamps are
    // years ago, whatever the clock shows: events stamped ahead of it are quarantined.
    let text = std::fs::read(&log).expect("lines");
    let text = String::from_utf8_lossy(&text).replace("/2026:", "/2024:");
    let lines: Vec<&str> = text.lines().collect();
    for (nth, some) in lines.chunks(4000).enumerate() {
        server.ingest("access", some.join("\n") + "\n");
        server.ingest(
            "documents?format=json",
            format!("{{\"a\":{{\"b c\":[1,\"x\"]}},\"n\":{nth}}}\n").repeat(50),
        );
        if nth < 2 {
            server.seal();
        }
    }
    let host = first(
        &server,
        "SELECT host FROM access GROUP BY host ORDER BY count(*) DESC, host LIMIT 1",
    );
    let paths = "SELECT path FROM access WHERE path IS NOT NULL GROUP BY path ORDER BY count(*) DESC, path LIMIT 1";
    let (hot, path) = (
        first(&server, paths),
        first(&server, &format!("{paths} OFFSET 9")),
    );
    let raw = statements::raw(&host, &path, &hot);
    let rollups = statements::rollups(&hot);
    let of_bench = raw.iter().chain(&rollups);
    let of_bench = of_bench.map(|(_, _, sql)| sql.replace("2026-", "2024-"));
    let others = [
        "SELECT * FROM access",
        "SELECT * FROM access WHERE _seq % 1000 = 7",
        "SELECT * FROM access ORDER BY user_agent, time LIMIT 300",
        "SELECT * FROM documents",
        "SELECT * FROM stats.hourly",
        "SELECT * FROM traffic.daily",
        "SELECT path, array_agg(DISTINCT status) AS statuses FROM access GROUP BY path",
        "SELECT a.path, b.referrer FROM access a JOIN access b USING (host, time)",
        "SELECT host FROM access WHERE host = 'nobody'",
        "SELECT * FROM system.parts",
    ];
    for sql in of_bench.chain(others.map(str::to_owned)) {
        let arrow = ask(&server, ARROW, &sql).status(200).body;
        let ndjson = ask(&server, "application/x-ndjson", &sql).status(200).body;
        let reader = arrow::ipc::reader::StreamReader::try_new(arrow.as_slice(), None);
        let reader = reader.expect("an Arrow stream");
        let columns = reader.schema().fields().len();
        let batches: Vec<_> = reader.map(|b| b.expect("a batch")).collect();
        let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
        assert_eq!(
            rows,
            ndjson.iter().filter(|b| **b == b'\n').count(),
            "{sql}"
        );
        assert!(
            batches.len() <= 1 + rows / 4096,
            "{sql}: {} batches",
            batches.len()
        );
        // Bytes of headers and of states come on top: `query/src/answer/output/arrow_stream.rs`
        // has the rule.
        let states: usize = batches.iter().map(state_bytes).sum();
        let most = ndjson.len() + states + (512 + 256 * columns) * batches.len().max(1);
        assert!(
            arrow.len() <= most,
            "{sql}: {} bytes of Arrow, {} of NDJSON",
            arrow.len(),
            ndjson.len()
        );
    }
    let sql = "SELECT * FROM access WHERE status >= 500";
    let from_server = ask(&server, ARROW, sql).status(200).body.len();
    server.kill();
    let args = ["sql", sql, "--output", "arrow", "--data", &home.data];
    let output = command().args(args).output().expect("the binary runs");
    assert!(output.status.success());
    assert_eq!(
        output.stdout.len(),
        from_server,
        "the command line writes the same"
    );
}

/// A query that runs for longer than any test.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 40000000) AS a, generate_series(1, 40000000) AS b WHERE a.value * 7 % 1000003 = b.value * 11 % 1000033";

fn running(server: &Server) -> Vec<Value> {
    match server.get("/api/v1/queries").status(200).json() {
        Value::Array(queries) => queries,
        other => panic!("queries are not an array: {other}"),
    }
}

/// Waits until so many queries run.
#[track_caller]
fn await_running(server: &Server, count: usize) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let found = running(server);
        if found.len() == count {
            return found;
        }
        assert!(Instant::now() < until, "{count} awaited: {found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn closing_the_connection_cancels_the_query() {
    let home = Home::new();
    let server = server(&home);
    let mut socket = TcpStream::connect(&server.address).expect("the server listens");
    write!(
        socket,
        "POST /api/v1/sql HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{ENDLESS}",
        server.address,
        ENDLESS.len()
    )
    .expect("the server reads");
    let found = await_running(&server, 1);
    assert!(
        found[0]["sql"]
            .as_str()
            .is_some_and(|s| s.contains("generate_series")),
        "{found:?}"
    );
    drop(socket);
    await_running(&server, 0);
    assert_eq!(server.number("SELECT count(*) FROM access"), 3);
}

#[test]
fn a_query_can_be_cancelled_by_its_number() {
    let home = Home::new();
    let server = server(&home);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&server, "application/json", ENDLESS));
        let found = await_running(&server, 1);
        let id = found[0]["id"].as_u64().expect("a number");
        server.delete(&format!("/api/v1/queries/{id}")).status(200);
        let answer = asking.join().expect("the asking thread");
        assert_eq!(answer.status, 409, "{}", answer.text());
        await_running(&server, 0);
        server.delete(&format!("/api/v1/queries/{id}")).status(404);
    });
    await_running(&server, 0);
}

#[test]
fn queries_of_the_same_text_are_told_apart_by_their_tags() {
    let home = Home::new();
    let server = server(&home);
    let asking: Vec<TcpStream> = ["one", "other"]
        .into_iter()
        .map(|tag| {
            let mut socket = TcpStream::connect(&server.address).expect("the server listens");
            let length = ENDLESS.len();
            write!(
                socket,
                "POST /api/v1/sql HTTP/1.1\r\nHost: {}\r\nX-Logmill-Tag: {tag}\r\nContent-Length: {length}\r\n\r\n{ENDLESS}",
                server.address
            )
            .expect("the server reads");
            socket
        })
        .collect();
    let found = await_running(&server, 2);
    let mut tags: Vec<&str> = found.iter().filter_map(|q| q["tag"].as_str()).collect();
    tags.sort_unstable();
    assert_eq!(tags, ["one", "other"], "{found:?}");
    assert_eq!(found[0]["sql"], found[1]["sql"]);
    drop(asking);
    await_running(&server, 0);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = Home::new();
    server(&home).kill();
    let mut child = command()
        .args([
            "sql",
            "SELECT value FROM generate_series(1, 10000000)",
            "--output",
            "csv",
        ])
        .args(["--data", &home.data])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdout = child.stdout.take().expect("BUG: its output is piped");
    let mut some = [0; 64];
    stdout.read_exact(&mut some).expect("some rows");
    drop(stdout);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn explain_says_what_was_looked_at() {
    let home = Home::new();
    let server = server(&home);
    server.seal();
    let explain = |query: &str| {
        let args = [
            "sql",
            query,
            "--explain",
            "--output",
            "json",
            "--data",
            &home.data,
        ];
        run(&args).code(0).json()
    };
    let figures = explain("SELECT * FROM access WHERE host = '203.0.113.2'");
    assert_eq!(figures["rows_returned"], 1, "{figures}");
    for member in ["partitions", "parts", "row_groups", "pages"] {
        assert!(
            figures[member]["total"].is_u64() && figures[member]["examined"].is_u64(),
            "{figures}"
        );
    }
    assert!(
        figures["bytes_read"].as_u64() > Some(0) && figures["elapsed_ms"].is_u64(),
        "{figures}"
    );
    let stages = figures["stages"].as_array().expect("stages");
    let names: Vec<_> = stages.iter().map(|s| s["stage"].as_str()).collect();
    assert_eq!(
        names,
        ["queue", "plan", "first_rows", "rows"].map(Some),
        "{figures}"
    );
    let took: u64 = stages.iter().filter_map(|s| s["us"].as_u64()).sum();
    let elapsed = figures["elapsed_ms"].as_u64().expect("a number");
    assert!(
        (elapsed * 1000..=elapsed * 1000 + 1010).contains(&(took + 5)),
        "{figures}"
    );
    let operators = figures["operators"].as_array().expect("operators");
    assert!(
        operators.iter().any(|o| o["us"].as_u64() > Some(0)),
        "{figures}"
    );
    let none = explain("SELECT * FROM access WHERE time >= '2025-01-01' AND time < '2025-01-02'");
    assert_eq!(
        (&none["rows_returned"], &none["parts"]["examined"]),
        (&json!(0), &json!(0)),
        "{none}"
    );
    let level = explain("SELECT sum(hits) FROM stats.daily");
    let by = level["answered_by"].to_string();
    assert!(by.contains("stats.daily"), "{level}");
}

const FORMS: [&str; 4] = [
    "application/json",
    "application/x-ndjson",
    "text/csv",
    ARROW,
];

#[test]
fn a_query_beyond_its_limits_is_refused_in_every_form_and_the_server_serves_on() {
    let home = Home::new();
    let endless = "SELECT count(*) FROM generate_series(1, 9000000000)";
    let server = Server::start_with(&home.data, &[("LOGMILL_QUERY__TIME_MAX", "300ms")]);
    for form in FORMS {
        let answer = ask(&server, form, endless).status(422);
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains("query.time_max"), "{form}: {message}");
    }
    server.stop();
    let server = Server::start_with(&home.data, &[("LOGMILL_QUERY__ROWS_MAX", "1000")]);
    server.ingest("access", line("203.0.113.1", PAST_S, "/a", 200, 10));
    let chain = format!("SELECT {}", vec!["1"; 20_000].join(" + "));
    let hostile = [
        (
            "SELECT value FROM generate_series(1, 9000000000)",
            422,
            "query.rows_max",
        ),
        (
            "SELECT length(repeat('x', 1000000000))",
            400,
            "repeat would produce",
        ),
        (&chain, 400, "19999 operators"),
        (
            "SELECT host FROM access WHERE repeat(path, 1000000000) LIKE '%x'",
            400,
            "repeat would produce",
        ),
    ];
    for (sql, status, why) in hostile {
        for form in FORMS {
            // Rows that came before the limit was met cannot be taken back.
            if why == "query.rows_max" && form != "application/json" {
                continue;
            }
            let answer = ask(&server, form, sql).status(status);
            let message = answer.json()["error"]["message"].to_string();
            assert!(message.contains(why), "{form}: {message}");
        }
    }
    assert_eq!(server.sql("SELECT host FROM access").len(), 1);
}
