//! Fluent's forward protocol, with a client of the test's own and with Python's `fluent-logger`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{metric, snippet, wait_for_number};
use crate::support::{Home, PATIENCE, Server, finish};

/// Serves the listener, with a rule for the tags of web servers.
fn serve(home: &Home, address: &str) -> (Server, String) {
    let rules = "[fluent]\nrules = [{ tag = \"web.*\", stream = \"web\" }]\n";
    let config = home.file("logmill.toml", rules);
    let mut command = crate::support::command();
    command.args(["--config", &config]);
    let server = Server::try_start(command, &home.data, &[("LOGMILL_FLUENT__LISTEN", address)]);
    let server = server.unwrap_or_else(|told| panic!("{}", told.stderr));
    let address = server.announced("Fluent: ");
    (server, address)
}

/// A text in MessagePack.
fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("a short text");
    [&[0xd9, length], text.as_bytes()].concat()
}

/// A pair of a time, 26 November 2026, 09:00 and so many seconds and 250 ms, and a record.
fn entry(n: u32) -> Vec<u8> {
    let seconds = 1_795_683_600_u32 + n % 3600;
    let mut entry = vec![0x92, 0xd7, 0];
    entry.extend(seconds.to_be_bytes());
    entry.extend(250_000_000_u32.to_be_bytes());
    entry.push(0x82);
    entry.extend(text("n"));
    entry.push(0xce);
    entry.extend(n.to_be_bytes());
    entry.extend(text("text"));
    entry.extend(text(&format!("number {n}")));
    entry
}

fn entries(range: std::ops::Range<u32>) -> Vec<u8> {
    range.flat_map(entry).collect()
}

/// A message of packed entries.
fn packed(tag: &str, entries: &[u8], option: &[(&str, &str)]) -> Vec<u8> {
    let mut message = vec![0x93];
    message.extend(text(tag));
    message.push(0xc6);
    message.extend(
        u32::try_from(entries.len())
            .expect("a length")
            .to_be_bytes(),
    );
    message.extend(entries);
    message.push(0x80 | u8::try_from(option.len()).expect("few"));
    for (name, value) in option {
        message.extend(text(name));
        message.extend(text(value));
    }
    message
}

fn connect(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).expect("the server listens");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket that can wait");
    socket
}

/// Sends a message and reads the acknowledgement of its chunk.
#[track_caller]
fn send_chunk(socket: &mut TcpStream, message: &[u8], chunk: &str) {
    socket.write_all(message).expect("sent");
    let expected = [&[0x81][..], &text("ack"), &text(chunk)].concat();
    let mut answer = vec![0; expected.len()];
    socket.read_exact(&mut answer).expect("an acknowledgement");
    assert_eq!(answer, expected);
}

#[test]
fn each_mode_is_stored_and_a_chunk_acknowledged_once_it_is() {
    let home = Home::new();
    let (server, address) = serve(&home, "127.0.0.1:0");
    let mut socket = connect(&address);
    // Message, and Forward, without an acknowledgement; a sign of life between them.
    let [_, pair @ ..] = &entry(0)[..] else {
        panic!("an entry is an array");
    };
    let message = [&[0x93][..], &text("app.one"), pair].concat();
    socket.write_all(&message).expect("sent");
    let forward = [
        &[0xc0, 0x92][..],
        &text("app.one"),
        &[0xdc, 0, 99],
        &entries(1..100),
    ]
    .concat();
    for byte in forward.chunks(7) {
        socket.write_all(byte).expect("sent");
    }
    let count = "SELECT count(*) FROM fluent";
    wait_for_number(&server, count, 100);
    let chunk = [("chunk", "Y2h1bmsx"), ("size", "900")];
    send_chunk(
        &mut socket,
        &packed("app.one", &entries(100..1000), &chunk),
        "Y2h1bmsx",
    );
    assert_eq!(server.number(count), 1000);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&entries(1000..20_000)).expect("compressed");
    let chunk = [("chunk", "Y2h1bmsy"), ("compressed", "gzip")];
    let compressed = gzip.finish().expect("compressed");
    send_chunk(
        &mut socket,
        &packed("web.shop", &compressed, &chunk),
        "Y2h1bmsy",
    );
    assert_eq!(server.number("SELECT count(*) FROM web"), 19_000);
    let all = "SELECT count(DISTINCT n) FROM (SELECT n FROM fluent UNION ALL SELECT n FROM web)";
    assert_eq!(server.number(all), 20_000);
    let row = &server.sql("SELECT time, tag, n, text FROM fluent WHERE n = 7")[0];
    assert_eq!(
        row.to_string(),
        r#"{"time":"2026-11-26T09:00:07.250Z","tag":"app.one","n":7,"text":"number 7"}"#
    );
    assert_eq!(
        metric(&server, "logmill_events_stored_total{stream=\"web\"}"),
        19_000
    );
}

/// An acknowledgement that is lost makes the client send its chunk again, also to a server that
/// was killed meanwhile: it is stored once.
#[test]
fn a_chunk_that_is_sent_again_is_stored_once() {
    let home = Home::new();
    let (server, address) = serve(&home, "127.0.0.1:0");
    let message = packed("a", &entries(0..500), &[("chunk", "c-1")]);
    for _ in 0..2 {
        send_chunk(&mut connect(&address), &message, "c-1");
    }
    server.kill();
    let (server, _) = serve(&home, &address);
    send_chunk(&mut connect(&address), &message, "c-1");
    assert_eq!(server.number("SELECT count(*) FROM fluent"), 500);
    let duplicate = metric(&server, "logmill_events_duplicate_total{stream=\"fluent\"}");
    assert_eq!(duplicate, 500);
    send_chunk(
        &mut connect(&address),
        &packed("a", &entries(0..500), &[("chunk", "c-2")]),
        "c-2",
    );
    assert_eq!(server.number("SELECT count(*) FROM fluent"), 1000);
    // The same name with other entries is a mistake that must not pass for a success.
    let mut socket = connect(&address);
    socket
        .write_all(&packed("a", &entries(0..5), &[("chunk", "c-2")]))
        .expect("sent");
    assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn what_cannot_be_read_is_quarantined_or_ends_its_connection() {
    let home = Home::new();
    let (server, address) = serve(&home, "127.0.0.1:0");
    let mut socket = connect(&address);
    let bad = [&entry(1)[..], &[0x92, 1, 2], &entry(2)].concat();
    send_chunk(&mut socket, &packed("a", &bad, &[("chunk", "1")]), "1");
    let option = [("chunk", "2"), ("compressed", "gzip")];
    send_chunk(&mut socket, &packed("a", b"no gzip", &option), "2");
    assert_eq!(server.number("SELECT count(*) FROM fluent"), 2);
    assert_eq!(server.number("SELECT count(*) FROM _quarantine"), 2);
    let long = [&[0x93][..], &text("a"), &[0xc6, 0x7f, 0xff, 0xff, 0xff]].concat();
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[0x92, 1, 2], &long, &[0xc1]] {
        let mut socket = connect(&address);
        socket.write_all(bytes).expect("sent");
        assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0, "{bytes:x?}");
    }
    assert_eq!(metric(&server, "logmill_shippers_malformed_total"), 4);
}

/// Returns a Python that has fluent-logger.
fn python() -> Option<String> {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with fluent-logger");
        return None;
    };
    let probe = ["-c", "import fluent.sender"];
    if finish(Command::new(&python).args(probe), &[]).code != 0 {
        println!("skipped: fluent-logger is not installed");
        return None;
    }
    Some(python)
}

#[test]
fn pythons_logger_sends_by_the_snippet_of_the_page() {
    let Some(python) = python() else { return };
    let home = Home::new();
    let (server, address) = serve(&home, "127.0.0.1:0");
    let (_, port) = address.rsplit_once(':').expect("an address");
    let page = snippet("fluent.md", "fluent.sender");
    let line = page
        .lines()
        .find(|line| line.contains("emit"))
        .expect("an event");
    let (_, record) = line.split_once(", ").expect("a record");
    assert_eq!(record, "{\"user\": \"ann\", \"seconds\": 1.5})", "{line}");
    let many = "for n in range(3000):\n    logger.emit(\"login\", {\"n\": n, \"text\": \"number %d\" % n})";
    let script = page
        .replace("24224", port)
        .replace(line, &format!("{line}\n{many}"));
    finish(Command::new(&python).args(["-c", &script]), &[]).code(0);
    wait_for_number(&server, "SELECT count(DISTINCT n) FROM fluent", 3000);
    assert_eq!(server.number("SELECT count(*) FROM fluent"), 3001);
    let row = &server.sql("SELECT tag, \"user\", seconds FROM fluent WHERE n IS NULL")[0];
    assert_eq!(
        row.to_string(),
        r#"{"tag":"shop.login","user":"ann","seconds":1.5}"#
    );
}

/// It asks for no acknowledgement, so a kill of the server comes while nothing is on its way.
#[test]
fn pythons_logger_goes_on_behind_kills_of_both_ends() {
    let Some(python) = python() else { return };
    let home = Home::new();
    let (mut server, address) = serve(&home, "127.0.0.1:0");
    let (_, port) = address.rsplit_once(':').expect("an address");
    let script = "import sys, fluent.sender\n\
        logger = fluent.sender.FluentSender('shop', port=int(sys.argv[1]))\n\
        for n in range(int(sys.argv[2]), int(sys.argv[2]) + 3000):\n    \
            if n % 300 == 0: print(n, flush=True); input()\n    \
            logger.emit('login', {'n': n})\n\
        logger.close()";
    let start = |from: u64| {
        Command::new(&python)
            .args(["-c", script, port, &from.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts")
    };
    let (count, last) = ("SELECT count(*) FROM fluent", "SELECT max(n) FROM fluent");
    let mut sent = 0;
    for is_killed in [true, false] {
        let mut child = start(sent);
        let mut go = child.stdin.take().expect("its input");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        for (pause, line) in (0..).zip(lines) {
            let at = line.expect("a line").parse().expect("a number");
            if at > 0 {
                wait_for_number(&server, count, at);
            }
            if pause % 4 == 2 {
                server.kill();
                (server, _) = serve(&home, &address);
            }
            go.write_all(b"\n").expect("a word");
            if is_killed && pause == 7 {
                std::thread::sleep(Duration::from_millis(3));
                child.kill().expect("a signal to our own child");
                break;
            }
        }
        assert_eq!(child.wait().expect("the client ends").success(), !is_killed);
        // Of a client that was killed, the server reads what had left it.
        drop(go);
        sent = match is_killed {
            true => settled(&server, count),
            false => sent + 3000,
        };
        wait_for_number(&server, count, sent);
        assert_eq!(server.number(last) + 1, sent);
        assert_eq!(server.number("SELECT count(DISTINCT n) FROM fluent"), sent);
    }
}

/// Returns the number that a query counts once it has stayed the same for two seconds.
fn settled(server: &Server, query: &str) -> u64 {
    loop {
        let before = server.number(query);
        std::thread::sleep(Duration::from_secs(2));
        if server.number(query) == before {
            return before;
        }
    }
}
