//! Users and tokens over HTTP and on the command line: who may do what, and what a client of some
//! streams sees of the others.

mod statements;

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, command, line};

/// A store with the streams `web` and `db`, of two events each and one quarantined line.
fn served(home: &Home) -> Server {
    let server = Server::start(&home.data);
    for stream in ["web", "db"] {
        let good = line("203.0.113.1", PAST_S, &format!("/{stream}"), 200, 10);
        server.ingest(stream, good.repeat(2) + "bad\n");
    }
    server.seal();
    server
}

/// Runs a command on the store that the server holds; returns its standard output.
#[track_caller]
fn run(home: &Home, args: &[&str], password: Option<&str>) -> String {
    let mut command = command();
    command.args(args).args(["--data", &home.data]);
    if let Some(password) = password {
        command.env("LOGMILL_PASSWORD", password);
    }
    let output = command.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn token(home: &Home, name: &str, role: &str, stream: Option<&str>) -> String {
    let mut args = vec!["token", "create", name, "--role", role, "--output", "json"];
    args.extend(stream.iter().flat_map(|stream| ["--stream", *stream]));
    let created: Value = serde_json::from_str(&run(home, &args, None)).expect("JSON");
    assert_eq!(created["name"], name);
    created["token"].as_str().expect("a token").to_owned()
}

/// Sends a request with a header of credentials. Returns the status and the body.
fn ask(server: &Server, method: &str, target: &str, header: &str, body: &str) -> (u16, String) {
    let header = match header {
        "" => String::new(),
        some => format!("{some}\r\n"),
    };
    server.raw(&format!(
        "{method} {target} HTTP/1.1\r\nHost: {}\r\n{header}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    ))
}

fn sql(server: &Server, header: &str, statement: &str) -> (u16, String) {
    ask(server, "POST", "/api/v1/sql", header, statement)
}

/// Every route under every role, for an own and a foreign stream: the table is the router's
/// (`every_route_needs_the_right_of_the_written_table`), the rule is written here once more.
#[test]
fn every_route_admits_the_roles_of_the_table_and_no_other() {
    let home = Home::new();
    let server = served(&home);
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    // Header, role, and the streams that it may use: all, or those beginning with `web`.
    let mut clients = vec![(String::new(), "nobody", false)];
    for (role, stream) in [
        ("admin", None),
        ("ingest", None),
        ("read", None),
        ("peer", None),
        ("ingest", Some("web*")),
        ("read", Some("web*")),
    ] {
        let name = format!("{role}{}", stream.map_or("", |_| "-web"));
        let token = token(&home, &name, role, stream);
        clients.push((bearer(&token), role, stream.is_some()));
    }
    clients.push((bearer("lm_wrong"), "nobody", false));
    let table = include_str!("../fixtures/rights.txt");
    let mut asked = 0;
    for route in table.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = route.split_whitespace().collect();
        let [method, path, needs, target] = words[..] else {
            panic!("four words: {route}");
        };
        for stream in ["web", "db"] {
            let at = match target {
                "parameter" => format!("{path}?stream={stream}&last=x"),
                // A route that changes something is asked for what does not exist.
                _ if needs == "admin" => path.replace("{name}", "nothing").replace("{id}", "0"),
                _ => path.replace("{id}", "0"),
            };
            let at = at.replace("{stream}", stream).replace("{name}", stream);
            let at = at.replace("{index}", stream);
            for (header, role, is_scoped) in &clients {
                let has_both = *role == "peer" && needs != "admin";
                let allowed = needs == "public" || *role == "admin" || *role == needs || has_both;
                let in_scope =
                    !is_scoped || target == "visible" || (stream == "web" && target != "store");
                let expected = match () {
                    () if needs == "public" || (allowed && in_scope) => None,
                    () if *role == "nobody" => Some(401),
                    () => Some(403),
                };
                // Other tests do what an administrator may do.
                if expected.is_none() && needs == "admin" {
                    continue;
                }
                let (status, body) = ask(&server, method, &at, header, "");
                let refused = matches!(status, 401 | 403).then_some(status);
                // A login without a body is refused for that.
                assert_eq!(
                    refused, expected,
                    "{method} {at} as {role} {is_scoped}: {body}"
                );
                asked += 1;
            }
        }
    }
    assert!(asked > 300, "{asked}");
}

#[test]
fn a_client_of_some_streams_finds_nothing_of_the_others() {
    let home = Home::new();
    let server = served(&home);
    let own = format!("X-API-Key: {}", token(&home, "own", "read", Some("web")));
    let all = format!(
        "Authorization: Splunk {}",
        token(&home, "all", "read", None)
    );
    token(&home, "admin", "admin", None);
    let (status, body) = sql(&server, &own, "SELECT count(*) AS n FROM web");
    assert_eq!(status, 200, "{body}");
    for statement in [
        "SELECT sum(hits) FROM web_stats.minutely",
        "SELECT sum(hits) FROM stats.minutely",
        "SELECT path FROM web JOIN db USING (path)",
        "SELECT (SELECT max(path) FROM db) FROM web",
        "WITH d AS (SELECT * FROM db) SELECT * FROM d",
        "SELECT path FROM web UNION ALL SELECT path FROM db",
        "SELECT * FROM logmill.public.db",
        "SELECT * FROM \"db\"",
        "EXPLAIN SELECT * FROM db",
        "SELECT count(*) FROM db",
        "SELECT sum(hits) FROM db_stats.minutely",
        "SELECT * FROM db_traffic.daily",
        "SELECT * FROM db_stats.daily_documents",
        "SELECT /*+ order(nothing) */ path FROM web",
        "SELECT nothing FROM web",
        "SELECT * FROM wep",
        "SELECT * FROM system.quarantine",
        "SELECT * FROM system.sources",
        "SELECT * FROM system.maintenance",
        "SELECT * FROM system.disk",
        "SELECT * FROM system.store",
        "SELECT * FROM system.users",
        "SELECT * FROM system.audit",
    ] {
        let (seen, answer) = sql(&server, &own, statement);
        let (reads, _) = sql(&server, &all, statement);
        let is_foreign = statement.contains("db") || statement.contains("system");
        assert_eq!(
            seen == 200,
            reads == 200 && !is_foreign,
            "{statement}: {answer}"
        );
        // A stream of others is answered as one that does not exist.
        if statement.contains("db") {
            let (_, unknown) = sql(&server, &own, &statement.replace("db", "dx"));
            assert_eq!(answer.replace("db", "dx"), unknown, "{statement}");
        }
        // The hint of an unknown name lists no foreign table.
        if !statement.contains("db") {
            assert!(!answer.contains("db"), "{statement}: {answer}");
        }
    }
    for statement in [
        "SELECT * FROM system.streams",
        "SELECT * FROM system.partitions",
        "SELECT * FROM system.parts",
        "SELECT * FROM system.tiles",
        "SELECT * FROM system.rollups",
        "SELECT * FROM system.indexes",
        "SELECT table_schema, table_name FROM information_schema.tables",
        "SELECT column_name, table_name, table_schema FROM information_schema.columns",
        "SHOW TABLES",
    ] {
        let (status, body) = sql(&server, &own, statement);
        let (_, whole) = sql(&server, &all, statement);
        // Numbers of bytes and hexadecimal names may hold these letters by chance.
        // PostgreSQL has a table of such a name.
        let names = |text: &str| {
            let text = text.replace("pg_db_role_setting", "");
            text.contains("\"db\"") || text.contains("db_")
        };
        assert!(!names(&body), "{statement}: {body}");
        let lists = status == 200 && !statement.contains("indexes");
        assert!(
            !lists || names(&whole),
            "{statement}: the other client finds it: {whole}"
        );
    }
    let (_, streams) = ask(&server, "GET", "/api/v1/streams", &own, "");
    assert!(
        streams.contains("\"web\"") && !streams.contains("\"db\""),
        "{streams}"
    );
    for path in ["/api/v1/partitions", "/api/v1/rollups", "/api/v1/queries"] {
        let (status, body) = ask(&server, "GET", path, &own, "");
        assert_eq!(status, 200, "{body}");
        assert!(!body.contains("\"db"), "{path}: {body}");
    }
}

#[test]
fn a_scoped_sender_cannot_use_the_names_of_others() {
    let home = Home::new();
    let server = served(&home);
    let web = format!(
        "Authorization: Bearer {}",
        token(&home, "web", "ingest", Some("web"))
    );
    let good = line("203.0.113.2", PAST_S, "/", 200, 10);
    let send = |target: &str| ask(&server, "POST", target, &web, &good).0;
    assert_eq!(send("/api/v1/ingest/web"), 200);
    assert_eq!(
        send("/api/v1/ingest/web?producer=file:web:a&from=0&to=1"),
        200
    );
    for foreign in ["file:db:a", "kafka", "web", "file:webb:a"] {
        let target = format!("/api/v1/ingest/web?producer={foreign}&from=0&to=1");
        assert_eq!(send(&target), 403, "{foreign}");
        let target = format!("/api/v1/sources?producer={foreign}");
        assert_eq!(ask(&server, "GET", &target, &web, "").0, 403, "{foreign}");
        let target = format!("/api/v1/sources?prefix={foreign}");
        assert_eq!(ask(&server, "GET", &target, &web, "").0, 403, "{foreign}");
    }
    assert_eq!(send("/api/v1/ingest/w%65b"), 200);
    assert_eq!(send("/api/v1/ingest/d%62"), 403);
}

#[test]
fn accounts_live_on_the_command_line_through_the_server_and_without() {
    let home = Home::new();
    // Without a server first.
    run(
        &home,
        &["user", "add", "ann", "--role", "admin"],
        Some("secret-of-ann"),
    );
    let server = Server::start(&home.data);
    let basic = |pair: &str| format!("Authorization: Basic {pair}");
    // printf 'ann:secret-of-ann' | base64, and 'ann:another'
    let (right, other) = ("YW5uOnNlY3JldC1vZi1hbm4=", "YW5uOmFub3RoZXI=");
    let streams = |header: &str| ask(&server, "GET", "/api/v1/streams", header, "").0;
    assert_eq!(streams(""), 401);
    assert_eq!(streams(&basic(right)), 200);
    assert_eq!(streams(&basic(other)), 401);
    // The command finds the server, which recognises it by the store's directory.
    run(&home, &["user", "passwd", "ann"], Some("another"));
    assert_eq!((streams(&basic(right)), streams(&basic(other))), (401, 200));
    let listed = run(&home, &["user", "list", "--output", "json"], None);
    assert!(
        listed.contains("\"ann\"") && !listed.contains("SCRAM"),
        "{listed}"
    );
    let made = token(&home, "short", "read", None);
    // A client of another machine has a token, in a file or in the environment.
    let file = format!("{}.token", home.data);
    std::fs::write(&file, format!("{made}\n")).expect("written");
    let remote = |args: &[&str], variable: Option<&str>| {
        let mut command = command();
        command
            .args(["sql", "SELECT 1 AS one", "--server", &server.url])
            .args(args);
        command.envs(variable.map(|token| ("LOGMILL_TOKEN", token)));
        command.output().expect("runs")
    };
    assert!(remote(&["--token-file", &file], None).status.success());
    assert!(remote(&[], Some(&made)).status.success());
    let refused = remote(&[], None);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("must carry one"),
        "{said}"
    );
    run(&home, &["token", "revoke", "short"], None);
    let refused = remote(&[], Some(&made));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("not valid"),
        "{said}"
    );
    // A password from standard input; names that are none.
    let mut child = command()
        .args([
            "user",
            "add",
            "bob",
            "--role",
            "read",
            "--password-file",
            "-",
            "--data",
            &home.data,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("runs");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"another\n").expect("read");
    drop(input);
    assert!(child.wait().expect("ends").success());
    let rows = server.sql_as(
        &basic(other),
        "SELECT name, role FROM system.users ORDER BY name",
    );
    assert_eq!(
        rows,
        json!([{"name": "ann", "role": "admin"}, {"name": "bob", "role": "read"}])
    );
    let audit = server.sql_as(&basic(other), "SELECT event, who FROM system.audit");
    let audit = audit.to_string();
    assert!(
        audit.contains("login failed") && audit.contains("operator"),
        "{audit}"
    );
    for secret in ["secret-of-ann", "another", right, other, &made] {
        assert!(!server.log().contains(secret), "{secret} in the log");
        assert!(!audit.contains(secret), "{secret} in the audit");
    }
}

#[test]
fn the_page_logs_in_with_a_cookie() {
    let home = Home::new();
    run(
        &home,
        &["user", "add", "ann", "--role", "read"],
        Some("secret"),
    );
    let server = Server::start(&home.data);
    let page = ask(&server, "GET", "/", "", "");
    assert_eq!(page.0, 200, "the page has the login");
    let browser = "Sec-Fetch-Site: same-origin";
    let refused = server.raw_whole(&format!(
        "GET /api/v1/streams HTTP/1.1\r\nHost: {}\r\n{browser}\r\nConnection: close\r\n\r\n",
        server.address
    ));
    assert!(
        refused.contains("401") && !refused.to_lowercase().contains("basic realm"),
        "{refused}"
    );
    let login = |body: &str| {
        server.raw_whole(&format!(
            "POST /api/v1/login HTTP/1.1\r\nHost: {}\r\n{browser}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        ))
    };
    let unknown = login(r#"{"user":"bob","password":"secret"}"#);
    let wrong = login(r#"{"user":"ann","password":"Secret"}"#);
    let body = |response: &str| {
        response
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
    };
    assert_eq!(
        body(&unknown),
        body(&wrong),
        "the reason does not tell whether a user exists"
    );
    assert!(unknown.starts_with("HTTP/1.1 401"), "{unknown}");
    let admitted = login(r#"{"user":"ann","password":"secret"}"#);
    let cookie = admitted
        .lines()
        .find(|l| l.to_lowercase().starts_with("set-cookie: "));
    let cookie = cookie.unwrap_or_else(|| panic!("no cookie: {admitted}"));
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let pair = cookie["set-cookie: ".len()..]
        .split(';')
        .next()
        .expect("a pair");
    let with = format!("Cookie: {pair}");
    assert_eq!(ask(&server, "GET", "/api/v1/streams", &with, "").0, 200);
    let (_, session) = ask(&server, "GET", "/api/v1/session", &with, "");
    assert!(session.contains("user ann"), "{session}");
    assert_eq!(ask(&server, "POST", "/api/v1/logout", &with, "").0, 200);
    assert_eq!(ask(&server, "GET", "/api/v1/streams", &with, "").0, 401);
}

/// Creates a certificate in a folder of its own. Returns the paths of certificate and key.
fn certificate(home: &Home, name: &str) -> (String, String) {
    let folder = format!("{}.{name}", home.data);
    let made = command()
        .args(["tls", "self-signed", "--out", &folder])
        .output()
        .expect("runs");
    assert!(made.status.success(), "{made:?}");
    (format!("{folder}/cert.pem"), format!("{folder}/key.pem"))
}

#[test]
fn tls_serves_a_changed_certificate_and_tells_plain_clients_to_use_it() {
    let home = Home::new();
    let (cert, key) = certificate(&home, "first");
    let environment = [
        ("LOGMILL_TLS__CERT", cert.as_str()),
        ("LOGMILL_TLS__KEY", &key),
    ];
    let server = Server::start_with(&home.data, &environment);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let asks = |ca: &str| {
        let mut command = command();
        command.args(["sql", "SELECT 1", "--server", &server.url, "--ca-file", ca]);
        command.output().expect("runs").status.success()
    };
    assert!(asks(&cert));
    let plain = ask(&server, "GET", "/health", "", "");
    assert_eq!(plain.0, 400);
    assert!(plain.1.contains("https://"), "{}", plain.1);
    // The first certificate is kept under another name, as what a client trusts.
    let (old, (new_cert, new_key)) = (format!("{cert}.old"), certificate(&home, "second"));
    std::fs::copy(&cert, &old).expect("copied");
    assert!(!asks(&new_cert));
    std::fs::copy(&new_cert, &cert).expect("replaced");
    std::fs::copy(&new_key, &key).expect("replaced");
    let changed = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        asks(&new_cert)
    });
    assert!(changed && !asks(&old), "{}", server.log());
    // Files that cannot be used leave the certificate in force.
    std::fs::write(&key, "nonsense").expect("written");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(asks(&new_cert), "{}", server.log());
    // Commands with the directory find the server, whatever its certificate is for.
    run(&home, &["token", "create", "t", "--role", "read"], None);
}

#[test]
fn beyond_this_machine_a_store_stays_closed() {
    let home = Home::new();
    run(
        &home,
        &["user", "add", "ann", "--role", "admin"],
        Some("secret"),
    );
    let environment = [("LOGMILL_SERVER__INSECURE_PLAINTEXT", "true")];
    let server = Server::start_at(&home.data, "0.0.0.0:0", &environment);
    let local = server.address.replace("0.0.0.0", "127.0.0.1");
    let status = |method: &str, path: &str, header: &str| {
        use std::io::Read;
        let mut socket = std::net::TcpStream::connect(&local).expect("it listens");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {local}\r\n{header}Connection: close\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        let _ignored = socket.read_to_string(&mut answer);
        answer.get(9..12).map(str::to_owned)
    };
    let basic = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
    assert_eq!(
        status("GET", "/api/v1/streams", basic).as_deref(),
        Some("200")
    );
    assert_eq!(
        status("DELETE", "/api/v1/users/ann", basic).as_deref(),
        Some("200")
    );
    assert_eq!(
        status("GET", "/api/v1/streams", basic).as_deref(),
        Some("401")
    );
    assert_eq!(status("GET", "/api/v1/streams", "").as_deref(), Some("401"));
}

#[test]
fn a_server_that_only_reads_follows_the_changes_of_the_writer() {
    let home = Home::new();
    let writer = served(&home);
    let reader = Server::start_reading(&home.data);
    let status = |header: &str| ask(&reader, "GET", "/api/v1/streams", header, "").0;
    assert_eq!(status(""), 200);
    let made = token(&home, "t", "read", None);
    let header = format!("Authorization: Bearer {made}");
    let becomes = |header: &str, expected: u16| {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            status(header) == expected
        })
    };
    assert!(becomes("", 401) && becomes(&header, 200));
    token(&home, "other", "read", None);
    run(&home, &["token", "revoke", "t"], None);
    assert!(becomes(&header, 401), "{}", reader.log());
    drop(writer);
}

#[test]
fn a_tail_ends_with_its_account() {
    let home = Home::new();
    let server = served(&home);
    let of = |name: &str, role: &str| {
        let token = token(&home, name, role, None);
        format!("Authorization: Bearer {token}")
    };
    let (admin, reader, writer) = (
        of("chief", "admin"),
        of("reader", "read"),
        of("writer", "ingest"),
    );
    let has_tails = |tails: u32| {
        (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let metrics = ask(&server, "GET", "/metrics", &admin, "").1;
            metrics.contains(&format!("logmill_tails {tails}\n"))
        })
    };
    std::thread::scope(|scope| {
        let target = "/api/v1/tail?stream=web&last=1";
        let tail = scope.spawn(|| ask(&server, "GET", target, &reader, ""));
        let has_begun = has_tails(1);
        run(&home, &["token", "revoke", "reader"], None);
        let event = line("203.0.113.1", PAST_S, "/secret", 200, 10);
        let sent = ask(&server, "POST", "/api/v1/ingest/web", &writer, &event);
        let has_ended = has_tails(0);
        // Whatever has happened, the tail ends now.
        server.signal(rustix::process::Signal::TERM);
        let (status, told) = tail.join().expect("the tail ends");
        assert!(has_begun && has_ended, "{told}");
        assert_eq!((sent.0, status), (200, 200));
        assert!(told.contains("event: error"), "{told}");
        assert!(!told.contains("/secret"), "{told}");
    });
}
