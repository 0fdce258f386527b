//! The PostgreSQL listener with real clients: psql, pgbench, JDBC and drivers of Python. Each is
//! skipped where it is not installed.

mod conversations;
mod jdbc;
mod pgbench;
mod protocol;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::questions::{DOCUMENTS, Draw};
use crate::support::{Home, Output, PAST_S, Server, finish, knob, line, run_with_input, seed};

const EVENTS: u64 = 3_000;

/// Starts a server with an access log, most of it sealed.
fn served(home: &Home) -> Server {
    let server = Server::start_postgres(&home.data, &[]);
    let lines = |range: std::ops::Range<u64>| -> String {
        let line = |n: u64| {
            let (host, status) = (n % 97, [200, 200, 200, 304, 404, 500][n as usize % 6]);
            let at_s = PAST_S + i64::try_from(n).expect("small") * 7;
            line(
                &format!("203.0.113.{host}"),
                at_s,
                &format!("/page/{}", n % 31),
                status,
                n * 11,
            )
        };
        range.map(line).collect()
    };
    server.ingest("access", lines(0..EVENTS - 100));
    server.seal();
    server.ingest("access", lines(EVENTS - 100..EVENTS));
    server
}

/// Runs psql; `None` where it is not installed.
fn psql(server: &Server, environment: &[(&str, &str)], commands: &[&str]) -> Option<Output> {
    if Command::new("psql")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        println!("skipped: psql is not installed");
        return None;
    }
    let (host, port) = server.postgres.split_once(':').expect("host and port");
    let mut psql = Command::new("psql");
    psql.args(["--no-psqlrc", "--quiet", "-v", "VERBOSITY=verbose"])
        .env("PGHOST", host)
        .env("PGPORT", port)
        .env("PGUSER", "ann")
        .env("PGDATABASE", "logmill")
        .env("PGCONNECT_TIMEOUT", "20")
        .envs(environment.iter().copied());
    for command in commands {
        psql.args(["-c", command]);
    }
    Some(finish(&mut psql, &[]))
}

#[test]
fn psql_describes_streams_levels_and_columns() {
    let home = Home::new();
    let server = served(&home);
    let shown = |command: &str| psql(&server, &[], &[command]).map(|told| told.code(0).stdout);
    let Some(tables) = shown("\\dt") else { return };
    assert!(tables.contains("| access | table | logmill"), "{tables}");
    for (command, lines) in [
        (
            "\\d access",
            &[
                "time | timestamp with time zone | | not null",
                "status | smallint",
            ][..],
        ),
        (
            "\\dt stats.*",
            &["stats | hourly | table", "stats | yearly | table"],
        ),
        (
            "\\d+ stats.daily",
            &[
                "hits | bigint | | not null",
                "Number of events",
                "size_p99 | bigint",
            ],
        ),
        ("\\dn", &["public", "stats", "system", "traffic"]),
        ("\\df hist_q*", &["pg_catalog | hist_quantile"]),
        ("\\du", &["ann"]),
        ("\\l", &["logmill | logmill | UTF8"]),
        ("\\dt+", &["Events of the stream access, an access log"]),
        ("\\conninfo", &["database \"logmill\" as user \"ann\""]),
    ] {
        let shown = shown(command).expect("psql is there");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in lines {
            assert!(words(&shown).contains(line), "{command}: {line}\n{shown}");
        }
    }
}

#[test]
fn psql_runs_statements_copies_and_sets_its_session() {
    let home = Home::new();
    let server = served(&home);
    let count = format!("{EVENTS}\n");
    let run = |environment: &[(&str, &str)], commands: &[&str]| {
        let mut all = vec!["\\pset format unaligned", "\\pset tuples_only on"];
        all.extend(commands);
        psql(&server, environment, &all).map(|told| told.code(0).stdout)
    };
    let Some(counted) = run(&[], &["SELECT count(*) FROM access"]) else {
        return;
    };
    assert_eq!(counted, count);
    let out = |commands: &[&str]| run(&[], commands).expect("psql is there");
    assert_eq!(out(&["SELECT 1; SELECT 2", "-- ping", ";"]), "1\n2\n");
    assert_eq!(
        out(&["SET timezone = 'Asia/Kolkata'", "SHOW timezone"]),
        "Asia/Kolkata\n"
    );
    let zoned = "SELECT time FROM access ORDER BY time LIMIT 1";
    assert_eq!(
        out(&["SET timezone = 'Asia/Kolkata'", zoned]),
        "2024-03-01 05:30:00+05:30\n"
    );
    assert_eq!(
        out(&[
            "SELECT timezone('Asia/Tokyo', time), status, status, to_char(time, 'DD Mon') \
               FROM access ORDER BY time LIMIT 1"
        ]),
        "2024-03-01 09:00:00|200|200|01 Mar\n"
    );
    assert_eq!(
        out(&[
            "SET timezone = 'America/New_York'",
            "SELECT count(*), max(time::date), 1::float / 3 FROM access WHERE time < '2024-02-29 20:00:00'",
        ]),
        "515|2024-02-29|0.3333333333333333\n"
    );
    let file = home.path("copied.csv");
    let copy = format!(
        "\\copy (SELECT host, path FROM access ORDER BY time) TO '{file}' WITH (FORMAT csv, HEADER)"
    );
    out(&[&copy]);
    let copied = std::fs::read_to_string(&file).expect("the copy");
    assert_eq!(copied.lines().count() as u64, EVENTS + 1);
    assert!(copied.starts_with("host,path\n203.0.113.0,/page/0\n"));
    let fetched = run(&[], &["\\set FETCH_COUNT 100", "SELECT host FROM access"]);
    assert_eq!(
        fetched.map(|rows| rows.lines().count() as u64),
        Some(EVENTS)
    );
    let watched = out(&["\\timing on", "SELECT 7"]);
    assert!(watched.starts_with("7\nTime: "), "{watched}");
    for (statement, state) in [
        ("SELEC", "42601"),
        ("SELECT * FROM nothing", "42P01"),
        ("DELETE FROM access", "25006"),
        (
            "SET statement_timeout = 1; SELECT count(*) FROM access a, access b, access c WHERE a.path || b.path < c.path || a.host",
            "57014",
        ),
    ] {
        let told = psql(&server, &[], &[statement])
            .expect("psql is there")
            .code(1);
        assert!(
            told.stderr.contains(&format!("ERROR:  {state}: ")),
            "{statement}: {}",
            told.stderr
        );
    }
}

#[test]
fn psql_repeats_a_statement_until_it_is_interrupted() {
    let home = Home::new();
    let server = served(&home);
    let Some(_) = psql(&server, &[], &["SELECT 1"]) else {
        return;
    };
    let (host, port) = server.postgres.split_once(':').expect("host and port");
    let mut watching = Command::new("psql")
        .args([
            "--no-psqlrc",
            "-h",
            host,
            "-p",
            port,
            "-U",
            "ann",
            "-d",
            "logmill",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("psql starts");
    let mut input = watching.stdin.take().expect("its input");
    input
        .write_all(b"SELECT count(*) AS all_events FROM access \\watch 0.05\n")
        .expect("sent");
    let output = BufReader::new(watching.stdout.take().expect("its output"));
    let counted = output.lines().map_while(Result::ok);
    let counted = counted.filter(|line| line.trim() == EVENTS.to_string());
    assert_eq!(counted.take(3).count(), 3);
    watching.kill().expect("a signal to our own child");
    watching.wait().expect("it ends");
}

/// The functions of these are those that the query editor of Grafana's PostgreSQL data source uses
/// (its `postgresMetaQuery.ts`).
#[test]
fn the_query_editor_of_grafana_finds_tables_and_columns() {
    let home = Home::new();
    let server = served(&home);
    let path = "string_to_array(current_setting('search_path'), ',')";
    let schemas = format!(
        "SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END \
         FROM generate_series(array_lower({path}, 1), array_upper({path}, 1)) AS i, {path} s"
    );
    let tables = format!(
        "SELECT CASE WHEN quote_ident(table_schema) IN ({schemas}) THEN quote_ident(table_name) \
         ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" \
         FROM information_schema.tables \
         WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', 'system') \
         ORDER BY 1"
    );
    let columns = |table: &str| {
        format!(
            "SELECT quote_ident(column_name) AS \"column\", data_type AS \"type\" \
             FROM information_schema.columns WHERE CASE \
             WHEN array_length(parse_ident('{table}'), 1) = 2 \
             THEN quote_ident(table_schema) = (parse_ident('{table}'))[1] \
             AND quote_ident(table_name) = (parse_ident('{table}'))[2] \
             ELSE quote_ident(table_name) = (parse_ident('{table}'))[1] \
             AND quote_ident(table_schema) IN ({schemas}) END"
        )
    };
    let ask = |statement: &str| {
        let plain = [
            "\\pset format unaligned",
            "\\pset tuples_only on",
            statement,
        ];
        psql(&server, &[], &plain).map(|told| told.code(0).stdout)
    };
    let Some(version) = ask("SELECT current_setting('server_version_num')::int/100 AS version")
    else {
        return;
    };
    assert_eq!(version, "1500\n");
    let asked = |statement: &str| ask(statement).expect("psql is there");
    let extension = "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'";
    assert_eq!(asked(extension), "");
    let found = asked(&tables);
    assert!(found.starts_with("access\nstats.daily\n"), "{found}");
    for (table, expected) in [
        ("access", "\"time\"|timestamp with time zone\n"),
        ("access", "status|smallint\n"),
        ("stats.hourly", "size_mean|double precision\n"),
        ("stats.hourly", "bucket|timestamp with time zone\n"),
    ] {
        let found = asked(&columns(table));
        assert!(found.contains(expected), "{table}: {found}");
    }
    // The newer editor prepares its statements.
    let prepared = "PREPARE c AS SELECT column_name, udt_name, numeric_precision, ordinal_position \
                    FROM information_schema.columns \
                    WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position";
    let run = "EXECUTE c ('public', 'access')";
    let plain = [
        "\\pset format unaligned",
        "\\pset tuples_only on",
        prepared,
        run,
    ];
    let told = psql(&server, &[], &plain).expect("psql is there").code(0);
    assert!(told.stdout.starts_with("_id|text||1\n"), "{}", told.stdout);
    assert!(told.stdout.contains("status|int2|16|"), "{}", told.stdout);
}

#[test]
fn pythons_drivers_read_values_errors_and_cursors() {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with psycopg");
        return;
    };
    let home = Home::new();
    let server = served(&home);
    let (host, port) = server.postgres.split_once(':').expect("host and port");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/postgres.py");
    let mut drivers = Command::new(python);
    drivers.arg(script).args([host, port, &EVENTS.to_string()]);
    let told = finish(&mut drivers, &[]).code(0);
    assert!(!told.stdout.contains("FAILED"), "{}", told.stdout);
    assert!(told.stdout.contains("ok psycopg_values"), "{}", told.stdout);
}

#[test]
fn random_questions_have_the_answers_of_http() {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with psycopg");
        return;
    };
    let home = Home::new();
    let server = served(&home);
    server.ingest("documents?format=json", DOCUMENTS);
    let (host, port) = server.postgres.split_once(':').expect("host and port");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/questions.py");
    let count = usize::try_from(knob("LOGMILL_WIRE_QUESTIONS", 60)).expect("few");
    let questions = Draw(seed()).questions(count).join("\n");
    let mut compared = Command::new(python);
    compared.arg(script).args([host, port, &server.url]);
    let told = finish(&mut compared, questions.as_bytes()).code(0);
    assert!(told.stdout.starts_with("ok "), "{}", told.stdout);
}

#[test]
fn a_client_logs_in_by_scram_or_by_a_token_and_sees_its_streams_alone() {
    let home = Home::new();
    let server = served(&home);
    server.ingest("other", line("203.0.113.1", PAST_S, "/", 200, 1));
    let account = |args: &[&str], input: &[u8]| {
        let all = [args, &["--data", &home.data]].concat();
        run_with_input(&all, input).code(0)
    };
    account(
        &[
            "user",
            "add",
            "ann",
            "--role",
            "read",
            "--stream",
            "acc*",
            "--password-file",
            "-",
        ],
        b"right horse\n",
    );
    let token = account(
        &[
            "token", "create", "grafana", "--role", "read", "--output", "json",
        ],
        b"",
    );
    let token = token.json()["token"].as_str().expect("a token").to_owned();
    account(&["token", "create", "sender", "--role", "ingest"], b"");
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
    let ask = |user: &str, password: &str, statement: &str| {
        let environment = [("PGUSER", user), ("PGPASSWORD", password)];
        psql(
            &server,
            &environment,
            &[
                "\\pset format unaligned",
                "\\pset tuples_only on",
                statement,
            ],
        )
    };
    let Some(own) = ask("ann", "right horse", tables) else {
        return;
    };
    assert_eq!(own.code(0).stdout, "access\n");
    let asked = |user, password, statement| ask(user, password, statement).expect("psql is there");
    let other = asked("ann", "right horse", "SELECT * FROM other").code(1);
    assert!(other.stderr.contains("42P01"), "{}", other.stderr);
    assert_eq!(
        asked("token", &token, "SELECT count(*) FROM other")
            .code(0)
            .stdout,
        "1\n"
    );
    for (user, password) in [
        ("ann", "wrong"),
        ("nobody", "wrong"),
        ("token", "wrong"),
        ("ann", ""),
    ] {
        let refused = asked(user, password, "SELECT 1").code(2);
        let is_told = refused.stderr.contains("password authentication failed")
            || refused.stderr.contains("no password supplied");
        assert!(is_told, "{user}: {}", refused.stderr);
        assert!(!refused.stderr.contains("right horse"));
    }
}
