//! The syslog listeners with a client of the test's own: framings, datagrams, rights, bounds.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{assert_each_once, metric, numbers, wait_for_number};
use crate::support::{Home, PATIENCE, Server, base64, run};

const COUNT: &str = "SELECT count(*) FROM syslog";

/// Serves both listeners. Returns their addresses: of datagrams, of connections.
pub(super) fn serve(home: &Home, environment: &[(&str, &str)]) -> (Server, String, String) {
    let addresses = [
        ("LOGMILL_SYSLOG__UDP", "127.0.0.1:0"),
        ("LOGMILL_SYSLOG__TCP", "127.0.0.1:0"),
    ];
    let server = Server::start_with(&home.data, &[&addresses[..], environment].concat());
    let udp = server.announced("syslog over UDP: ");
    let tcp = server.announced("syslog over TCP: ");
    (server, udp, tcp)
}

/// Sends bytes and closes the connection.
fn send(address: &str, bytes: &[u8]) {
    let mut socket = TcpStream::connect(address).expect("the server listens");
    // A server that refuses the bytes may close the connection before it has them all.
    let _ignored = socket.write_all(bytes);
}

/// Returns whether the server closes a connection that stays open on this side.
fn is_closed(mut socket: &TcpStream) -> bool {
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket that can wait");
    !matches!(socket.read(&mut [0]), Ok(1..))
}

#[test]
fn both_framings_and_datagrams_store_what_was_sent() {
    let home = Home::new();
    let (server, udp, tcp) = serve(&home, &[]);
    let lines: String = numbers(3000)
        .lines()
        .map(|l| format!("<13>Nov  3 09:23:38 web1 a: {l}\n"))
        .collect();
    send(&tcp, lines.as_bytes());
    assert_each_once(&server, "syslog", 3000);
    // A counted message may hold LF, and the last one of a connection need not end.
    let counted =
        "40 <14>1 2026-11-03T09:23:38Z h b - - - x\ny29 <13>Nov  3 09:23:38 web1 c: z9 <13>tail";
    send(&tcp, counted.as_bytes());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for message in ["<13>Nov  3 09:23:38 d: from a program\n", "<13>text alone"] {
        socket.send_to(message.as_bytes(), &udp).expect("sent");
    }
    wait_for_number(&server, COUNT, 3005);
    let rows = server
        .sql("SELECT host, app, line FROM syslog WHERE line NOT LIKE 'number%' ORDER BY line");
    let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    assert_eq!(
        rows,
        [
            r#"{"host":"127.0.0.1","app":"d","line":"from a program"}"#,
            r#"{"host":"127.0.0.1","app":null,"line":"tail"}"#,
            r#"{"host":"127.0.0.1","app":null,"line":"text alone"}"#,
            r#"{"host":"h","app":"b","line":"x\ny"}"#,
            r#"{"host":"web1","app":"c","line":"z"}"#,
        ]
    );
    assert_eq!(
        metric(&server, "logmill_events_received_total{stream=\"syslog\"}"),
        3005
    );
    assert_eq!(
        metric(&server, "logmill_events_stored_total{stream=\"syslog\"}"),
        3005
    );
    server.stop();
    assert_eq!(home.number(COUNT), 3005);
}

#[test]
fn a_message_is_stored_while_its_connection_stays_open() {
    let home = Home::new();
    let (server, _, tcp) = serve(&home, &[]);
    let mut socket = TcpStream::connect(&tcp).expect("the server listens");
    for n in 0..5 {
        let message = format!("<13>number {n}\n");
        socket.write_all(message.as_bytes()).expect("sent");
        wait_for_number(&server, COUNT, n + 1);
    }
    // The part of a message that has no end yet is not one.
    socket.write_all(b"<13>number 5").expect("sent");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.number(COUNT), 5);
    socket.write_all(b"\n").expect("sent");
    assert_each_once(&server, "syslog", 6);
}

#[test]
fn what_is_no_syslog_is_quarantined_or_ends_its_connection() {
    let home = Home::new();
    let (server, udp, tcp) = serve(&home, &[]);
    let post = "POST / HTTP/1.1\r\nHost: x\r\n\r\n<34>Nov  3 09:23:38 web1 forged: x\n";
    for bytes in [
        post.as_bytes(),
        b"7 <13>one9x <13>two\n",
        b"\x16\x03\x01\x02\x00\x01\x00\n",
    ] {
        let mut socket = TcpStream::connect(&tcp).expect("the server listens");
        socket.write_all(bytes).expect("sent");
        assert!(is_closed(&socket), "{bytes:?}");
    }
    assert_eq!(metric(&server, "logmill_shippers_malformed_total"), 2);
    let long = format!(
        "<13>{}\n<13>behind\nno priority and no time\n",
        "x".repeat(70 << 10)
    );
    send(&tcp, long.as_bytes());
    UdpSocket::bind("127.0.0.1:0")
        .expect("a socket")
        .send_to(b"\xff\xfe", &udp)
        .expect("sent");
    let waiting = "SELECT count(*) FROM _quarantine";
    wait_for_number(&server, waiting, 3);
    let rows = server.sql("SELECT reason, raw FROM _quarantine");
    let mut rows: Vec<(usize, &str)> = rows
        .iter()
        .map(|row| {
            let raw = base64(row["raw"].as_str().expect("bytes"));
            (raw.len(), row["reason"].as_str().expect("a reason"))
        })
        .collect();
    rows.sort_unstable();
    let long = (64 << 10, "line_too_long");
    assert_eq!(rows, [(2, "bad_time"), (23, "bad_time"), long]);
    let stored = server.sql("SELECT line FROM syslog ORDER BY line");
    let stored: Vec<&str> = stored
        .iter()
        .filter_map(|row| row["line"].as_str())
        .collect();
    assert_eq!(stored, ["behind", "one"]);
}

/// Every datagram is stored or counted as dropped, also those that the kernel drops while the
/// server does not get the processor.
#[test]
fn datagrams_are_stored_or_counted_as_dropped() {
    const SENT: u64 = 30_000;
    let home = Home::new();
    let (server, udp, _) = serve(&home, &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    server.signal(Signal::STOP);
    for n in 0..SENT {
        let message = format!("<13>number {n} {}", "x".repeat(900));
        socket.send_to(message.as_bytes(), &udp).expect("sent");
    }
    server.signal(Signal::CONT);
    let dropped = |queue: &str| {
        metric(
            &server,
            &format!("logmill_syslog_dropped_total{{queue=\"{queue}\"}}"),
        )
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let stored = metric(&server, "logmill_events_stored_total{stream=\"syslog\"}");
        let (kernel, listener) = (dropped("kernel"), dropped("listener"));
        if kernel > 0 && stored + kernel + listener == SENT {
            assert!(stored > 100, "{stored}");
            break;
        }
        let sum = (stored, kernel, listener);
        assert!(
            Instant::now() < until && stored + kernel + listener <= SENT,
            "{sum:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        server.log().contains("syslog datagrams were dropped"),
        "{}",
        server.log()
    );
}

/// Creates an account of the store. Returns the file with its token.
fn token(home: &Home, name: &str, more: &[&str]) -> String {
    let create = ["token", "create", name, "--data", &home.data];
    let token = run(&[&create[..], more].concat()).code(0).stdout;
    home.file(&format!("{name}.token"), token)
}

#[test]
fn a_store_with_accounts_takes_the_messages_of_an_account_only() {
    let home = Home::new();
    let (server, udp, tcp) = serve(&home, &[]);
    send(&tcp, b"<13>while it was open\n");
    wait_for_number(&server, COUNT, 1);
    let socket = TcpStream::connect(&tcp).expect("the server listens");
    let admin = token(&home, "root", &["--role", "admin"]);
    // The connection began in the open store, and its rights are gone.
    (&socket).write_all(b"<13>too late\n").expect("sent");
    assert!(is_closed(&socket));
    UdpSocket::bind("127.0.0.1:0")
        .expect("a socket")
        .send_to(b"<13>too late", &udp)
        .expect("sent");
    let header = std::fs::read_to_string(&admin).expect("a token");
    let header = format!("Authorization: Bearer {}", header.trim());
    let refused = || {
        let (_, text) = server.raw(&format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\n{header}\r\nConnection: close\r\n\r\n",
            server.address
        ));
        text.contains("logmill_shippers_refused_total 2")
    };
    let until = Instant::now() + PATIENCE;
    while !refused() {
        assert!(Instant::now() < until, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.sql_as(&header, COUNT)[0]["count(*)"], 1);
    server.stop();

    // Such a server does not start without a token, nor with one that may not write there.
    let reader = token(&home, "reader", &["--role", "read"]);
    let other = token(&home, "other", &["--role", "ingest", "--stream", "web_*"]);
    let serve_with = |file: Option<&str>| {
        let mut environment = vec![("LOGMILL_SYSLOG__TCP", "127.0.0.1:0")];
        environment.extend(file.map(|file| ("LOGMILL_SYSLOG__TOKEN_FILE", file)));
        Server::try_start(crate::support::command(), &home.data, &environment)
    };
    for (file, why) in [
        (None, "set token_file of [syslog]"),
        (Some(&*reader), "token reader may not write into syslog"),
        (Some(&*other), "token other may not write into syslog"),
    ] {
        // The first line of the output comes before this listener is opened.
        let outcome = serve_with(file).map(|mut server| server.ended(PATIENCE));
        let log = std::fs::read_to_string(format!("{}.log", home.data)).expect("a log");
        assert!(outcome.is_ok_and(|code| code == 78), "{log}");
        assert!(log.contains(why), "{why}: {log}");
    }
    let shipper = token(&home, "shipper", &["--role", "ingest", "--stream", "sys*"]);
    let server = serve_with(Some(&shipper)).unwrap_or_else(|told| panic!("{}", told.stderr));
    let tcp = server.announced("syslog over TCP: ");
    let socket = TcpStream::connect(&tcp).expect("the server listens");
    (&socket).write_all(b"<13>with its token\n").expect("sent");
    let until = Instant::now() + PATIENCE;
    while server.sql_as(&header, COUNT)[0]["count(*)"] != 2 {
        assert!(Instant::now() < until, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    run(&["token", "revoke", "shipper", "--data", &home.data]).code(0);
    (&socket)
        .write_all(b"<13>after it was revoked\n")
        .expect("sent");
    assert!(is_closed(&socket));
    assert_eq!(server.sql_as(&header, COUNT)[0]["count(*)"], 2);
}

#[test]
fn senders_beyond_this_machine_need_an_account_and_encryption() {
    let home = Home::new();
    for (option, address) in [
        ("--syslog-udp", "0.0.0.0:0"),
        ("--syslog-tcp", "0.0.0.0:0"),
        ("--syslog", "[::]:0"),
    ] {
        let told = run(&[
            "serve",
            &home.data,
            "--http",
            "off",
            "--postgres",
            "off",
            option,
            address,
        ]);
        assert_eq!(told.code, 78, "{}", told.stderr);
        assert!(
            told.stderr.contains("the store has no users"),
            "{}",
            told.stderr
        );
        assert!(
            told.stderr.contains("--insecure-plaintext"),
            "{}",
            told.stderr
        );
    }
    let told = run(&[
        "serve",
        &home.data,
        "--syslog",
        "off",
        "--syslog-udp",
        "off",
    ]);
    assert_eq!(told.code, 2, "{}", told.stderr);
}
