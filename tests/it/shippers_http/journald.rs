//! The upload of systemd's journal: bodies in its export format, and `systemd-journal-upload`.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Answer, Home, PATIENCE, Server, finish, run};

const REMOTE: &str = "/usr/lib/systemd/systemd-journal-remote";
const UPLOAD: &str = "/usr/lib/systemd/systemd-journal-upload";

/// Returns entries of these numbers, as `journalctl -o export` writes them.
fn export(numbers: std::ops::Range<u64>) -> String {
    let mut export = String::new();
    let boot = "0123456789abcdef0123456789abcdef";
    for n in numbers {
        let at_us = 1_700_000_000_000_000 + n;
        let cursor = format!("s={boot};i={n:x};b={boot};m={n:x};t={at_us:x};x={n:x}");
        write!(
            export,
            "__CURSOR={cursor}\n__REALTIME_TIMESTAMP={at_us}\n__MONOTONIC_TIMESTAMP={n}\n\
             _BOOT_ID={boot}\n_HOSTNAME=web1\nPRIORITY=6\nSYSLOG_IDENTIFIER=app\nMESSAGE={n}\n\n"
        )
        .expect("text");
    }
    export
}

fn upload(server: &Server, to: &str, body: &str) -> Answer {
    let export = ("Content-Type", "application/vnd.fdo.journal");
    server.post(to, &[export], body.as_bytes())
}

/// Asserts that entries of the numbers from 1 are stored, each once.
fn assert_stored(server: &Server, last: u64) {
    let rows = server.sql(
        r#"SELECT count(*) AS n, count(DISTINCT "MESSAGE") AS different, sum("MESSAGE"::bigint) AS total, max(time) AS latest FROM journald"#,
    );
    let figure = |name: &str| rows[0][name].as_u64().expect("a number");
    assert_eq!(
        (figure("n"), figure("different"), figure("total")),
        (last, last, last * (last + 1) / 2)
    );
    assert!(
        rows[0]["latest"]
            .as_str()
            .is_some_and(|at| at.starts_with("2023-11-14T22:13:20."))
    );
}

#[test]
fn entries_that_come_again_with_more_behind_them_are_stored_once() {
    let home = Home::new();
    let server = Server::start(&home.data);
    // Each body is that of a client whose last answer was lost; the larger ones have pieces.
    for last in [3, 3, 5, 9_000, 9_000, 9_007, 20_000] {
        let answer = upload(&server, "/upload?j=true", &export(1..last + 1)).status(200);
        assert_eq!(answer.text(), "OK.\n");
        assert_stored(&server, last);
    }
    // The next one begins behind the last cursor, or at it when the client was started again.
    upload(&server, "/upload", &export(20_001..20_011)).status(200);
    upload(&server, "/upload", &export(20_010..20_011)).status(200);
    upload(&server, "/upload", &export(20_010..20_013)).status(200);
    assert_stored(&server, 20_012);
    // Two of these entries are a piece: the request ends where a piece does.
    let long = |numbers: std::ops::Range<u64>| {
        let message = "x".repeat(600_000);
        let entry = |n: u64| format!("__CURSOR=long;i={n}\nMESSAGE={n}{message}\n\n");
        numbers.map(entry).collect::<String>()
    };
    upload(&server, "/upload?stream=long", &long(0..4)).status(200);
    upload(&server, "/upload?stream=long", &long(3..6)).status(200);
    assert_eq!(server.number("SELECT count(*) AS n FROM long"), 6);
    assert_eq!(
        server.number("SELECT count(*) AS n FROM system.quarantine"),
        0
    );
    // Another client leaves an entry out: that is no reason to refuse it for ever.
    let some = export(1..2) + &export(3..4);
    for (body, stored) in [(&export(1..4), 3), (&some, 4), (&some, 4)] {
        upload(&server, "/upload?stream=filtered", body).status(200);
        let count = server.number("SELECT count(*) AS n FROM filtered");
        assert_eq!(count, stored);
    }
    for (body, reason) in [
        ("MESSAGE=a", "ends within an entry"),
        (
            "MESSAGE\n\x01\0\0\0\0\0\0\0abc",
            "does not end where its length says",
        ),
    ] {
        let refused = upload(&server, "/upload?stream=other", body).status(400);
        assert!(refused.text().contains(reason), "{}", refused.text());
    }
    let lines = server.post("/upload", &[], b"a line").status(415);
    assert!(lines.text().contains("vnd.fdo.journal"), "{}", lines.text());
}

/// Begins an upload with a chunk that is not its last.
fn begin(server: &Server, header: &str, chunk: &str) -> TcpStream {
    let mut connection = TcpStream::connect(&server.address).expect("a connection");
    let address = &server.address;
    let head = format!(
        "POST /upload HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\n{header}\
         Content-Type: application/vnd.fdo.journal\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).expect("a head");
    send_chunk(&mut connection, chunk);
    connection
}

fn send_chunk(connection: &mut TcpStream, chunk: &str) {
    write!(connection, "{:x}\r\n{chunk}\r\n", chunk.len()).expect("a chunk");
}

/// Waits until the stream has more events.
fn wait_for_more_than(count: u64, server: &Server, authorization: &str) {
    let sql = format!("SELECT count(*) > {count} AS most FROM journald");
    let until = Instant::now() + PATIENCE;
    let headers = [("Authorization", authorization)];
    let headers = if authorization.is_empty() {
        &headers[..0]
    } else {
        &headers
    };
    while server.post("/api/v1/sql", headers, sql.as_bytes()).json()["rows"][0]["most"] != true {
        assert!(Instant::now() < until, "the entries do not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_upload_ends_when_its_token_is_revoked() {
    let home = Home::new();
    let token = |name: &str, role: &str| {
        let args = [
            "token", "create", name, "--role", role, "--data", &home.data, "--output", "json",
        ];
        let made = run(&args).code(0).json();
        format!("Bearer {}", made["token"].as_str().expect("a token"))
    };
    let (sender, reader) = (token("sender", "ingest"), token("reader", "read"));
    let server = Server::start(&home.data);
    let header = format!("Authorization: {sender}\r\n");
    let mut connection = begin(&server, &header, &export(1..10_001));
    wait_for_more_than(3_000, &server, &reader);
    run(&["token", "revoke", "sender", "--data", &home.data]).code(0);
    send_chunk(&mut connection, &export(10_001..20_001));
    connection
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket that can wait");
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 403");
    let authorization = format!("Authorization: {reader}");
    let count = server.sql_as(&authorization, "SELECT count(*) AS n FROM journald");
    let stored = count[0]["n"].as_u64().expect("a number");
    assert!(stored <= 10_000, "{stored}");
}

#[test]
fn a_body_without_an_end_is_stored_while_it_comes_and_not_held() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let chunk = export(1..30_001);
    let connection = begin(&server, "", &chunk);
    // All but the piece that may go on.
    wait_for_more_than(20_000, &server, "");
    let metrics = server.get("/metrics").text();
    let held = metrics
        .lines()
        .find_map(|line| line.strip_prefix("logmill_http_body_bytes "));
    let held: usize = held.expect("the metric").parse().expect("a number");
    assert!(
        held < 3 << 20 && held > 0,
        "{held} of {} bytes are held",
        chunk.len()
    );
    // The last piece is that of an upload that broke off; the rest comes with it.
    drop(connection);
    upload(&server, "/upload", &export(1..30_003)).status(200);
    assert_stored(&server, 30_002);
}

/// Returns a command that uploads a journal and remembers how far it came.
fn client(home: &Home, journal: &str, url: &str) -> Command {
    let mut client = Command::new(UPLOAD);
    client.args(["--url", url, "--file", journal, "--follow=no"]);
    client.arg(format!("--save-state={}", home.path("state")));
    client
}

#[test]
fn systemd_journal_upload_sends_each_entry_once_over_a_kill_of_the_server() {
    uploads_over_a_kill(false);
}

#[test]
fn systemd_journal_upload_sends_each_entry_once_over_a_kill_of_its_own() {
    uploads_over_a_kill(true);
}

/// Kills the client, or else the server, when the first entries are stored.
fn uploads_over_a_kill(of_client: bool) {
    if !Path::new(REMOTE).exists() || !Path::new(UPLOAD).exists() {
        println!("skipped: systemd-journal-remote is not installed");
        return;
    }
    let home = Home::new();
    let journal = home.path("all.journal");
    let append = |numbers: std::ops::Range<u64>| {
        let mut remote = Command::new(REMOTE);
        remote.args(["--compress=no", "--output", &journal, "-"]);
        remote.stdin(Stdio::piped());
        finish(&mut remote, export(numbers).as_bytes()).code(0);
    };
    append(1..60_001);
    let server = Server::start(&home.data);
    let address = server.address.clone();
    let mut uploading = client(&home, &journal, &server.url);
    let uploading = uploading
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut uploading = uploading.expect("a client");
    let until = Instant::now() + PATIENCE;
    let mut stored = 0;
    while stored == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
        let count = server.post("/api/v1/sql", &[], b"SELECT count(*) AS n FROM journald");
        stored = count.json()["rows"][0]["n"].as_u64().unwrap_or_default();
    }
    let server = if of_client {
        uploading.kill().expect("a signal to our own child");
        server
    } else {
        server.kill();
        Server::start_at(&home.data, &address, &[])
    };
    uploading.wait().expect("the client ends");
    println!("{stored} of 60,000 entries were there at the kill");
    assert!(stored > 0, "nothing came");
    finish(&mut client(&home, &journal, &server.url), &[]).code(0);
    assert_stored(&server, 60_000);
    append(60_001..60_101);
    finish(&mut client(&home, &journal, &server.url), &[]).code(0);
    assert_stored(&server, 60_100);
}
