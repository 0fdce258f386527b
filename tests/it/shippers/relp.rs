//! RELP, with rsyslog, and with a client of the test's own, of which nothing that was acknowledged
//! is lost when the server is killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::clients::{is_there, rsyslog, with_queue_in_memory};
use super::kills::Way;
use super::{Background, assert_each_once, installed, metric, numbers, snippet, wait_for_number};
use crate::support::{Home, PATIENCE, Server};

const COUNT: &str = "SELECT count(*) FROM syslog";
const OPEN: &str = "1 open 51 relp_version=0\nrelp_software=a test\ncommands=syslog\n";

fn serve(home: &Home, address: &str) -> (Server, String) {
    let server = Server::start_with(&home.data, &[("LOGMILL_RELP__LISTEN", address)]);
    let address = server.announced("RELP: ");
    (server, address)
}

/// A client that sends frames and reads answers.
struct Client(TcpStream);

impl Client {
    fn connect(address: &str) -> Self {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket that can wait");
        Self(socket)
    }

    fn send(&mut self, frames: &str) {
        self.0.write_all(frames.as_bytes()).expect("sent");
    }

    /// Reads so many bytes, or to the end of the connection if there are fewer.
    fn read(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        let read = (&mut self.0).take(bytes as u64).read_to_string(&mut text);
        read.expect("an answer");
        text
    }

    #[track_caller]
    fn expect(&mut self, answer: &str) {
        assert_eq!(self.read(answer.len()), answer);
    }

    fn open(address: &str) -> Self {
        let mut client = Self::connect(address);
        client.send(OPEN);
        let offers = "200 OK\nrelp_version=0\nrelp_software=logmill\ncommands=syslog";
        client.expect(&format!("1 rsp {} {offers}\n", offers.len()));
        client
    }

    #[track_caller]
    fn expect_end(&mut self) {
        assert_eq!(self.read(usize::MAX), "");
    }
}

#[test]
fn a_message_is_acknowledged_when_it_is_stored() {
    let home = Home::new();
    let (server, address) = serve(&home, "127.0.0.1:0");
    let mut client = Client::open(&address);
    for n in 0..3 {
        client.send(&format!("{} syslog 12 <13>number {n}\n", n + 2));
        client.expect(&format!("{} rsp 6 200 OK\n", n + 2));
        assert_eq!(server.number(COUNT), n + 1);
    }
    // Many at once, of which one holds LF, one is too long and one is empty.
    let long = "x".repeat(70 << 10);
    client.send(&format!(
        "5 syslog 8 <13>a\nb\n\n6 syslog {} {long}\n7 syslog 0\n8 nonsense 0\n",
        long.len()
    ));
    let mut answers: Vec<String> = client
        .read(15 * 3 + 29)
        .lines()
        .map(str::to_owned)
        .collect();
    answers.sort_unstable();
    assert_eq!(
        answers,
        [
            "5 rsp 6 200 OK",
            "6 rsp 6 200 OK",
            "7 rsp 6 200 OK",
            "8 rsp 19 500 unknown command"
        ]
    );
    let rows = server.sql("SELECT host, line FROM syslog WHERE line LIKE 'a%'");
    assert_eq!(
        (&rows[0]["host"], &rows[0]["line"]),
        (&"127.0.0.1".into(), &"a\nb".into())
    );
    assert_eq!(
        server.number("SELECT count(*) FROM _quarantine WHERE reason = 'line_too_long'"),
        1
    );
    client.send("9 close 0\n");
    client.expect("9 rsp 0\n0 serverclose 0\n");
    client.expect_end();
}

#[test]
fn a_session_begins_with_its_offers_and_ends_with_the_server() {
    let home = Home::new();
    let (server, address) = serve(&home, "127.0.0.1:0");
    for (frames, answer) in [
        (
            "1 syslog 5 <13>a\n",
            "1 rsp 27 500 the session is not open\n",
        ),
        (
            "1 open 14 relp_version=0\n",
            "1 rsp 48 500 the client does not offer the command syslog\n",
        ),
        ("POST / HTTP/1.1\r\n\r\n", ""),
    ] {
        let mut client = Client::connect(&address);
        client.send(frames);
        client.expect(answer);
        client.expect_end();
    }
    assert_eq!(metric(&server, "logmill_shippers_malformed_total"), 1);
    let mut client = Client::open(&address);
    client.send("2 syslog 5 <13>a\n");
    client.expect("2 rsp 6 200 OK\n");
    server.stop();
    client.expect("0 serverclose 0\n");
    client.expect_end();
    assert_eq!(home.number(COUNT), 1);
}

/// A message that the store does not take, as one that is open for reading, gets no answer, and its
/// connection ends: librelp discards one that is answered with an error.
#[test]
fn a_message_that_is_not_stored_is_not_answered() {
    let home = Home::new();
    let (server, _) = serve(&home, "127.0.0.1:0");
    server.stop();
    let environment = [("LOGMILL_RELP__LISTEN", "127.0.0.1:0")];
    let server = Server::start_reading_with(&home.data, &environment);
    let mut client = Client::open(&server.announced("RELP: "));
    client.send("2 syslog 5 <13>a\n");
    client.expect_end();
    let log = server.log();
    assert!(log.contains("messages were not stored"), "{log}");
}

/// Sends numbered messages until the connection breaks, the first of them `next`: as librelp does,
/// 128 of them are not answered at most times. `answered` is told of the first answer. Returns the
/// number behind the last one, and those that were acknowledged.
fn send_until_broken(address: &str, mut next: usize, answered: &Sender<()>) -> (usize, Vec<usize>) {
    const WINDOW: usize = 128;
    let Client(mut socket) = Client::open(address);
    let answers = BufReader::new(socket.try_clone().expect("a socket"));
    // The last line of a broken connection may be a part of one.
    let mut answers = answers.split(b'\n').map_while(Result::ok);
    // The first frame was `open`.
    let (first, mut acknowledged) = (next, Vec::new());
    loop {
        while next < first + acknowledged.len() + WINDOW {
            let message = format!("<13>number {next}");
            let frame = next - first + 2;
            let frame = format!("{frame} syslog {} {message}\n", message.len());
            if socket.write_all(frame.as_bytes()).is_err() {
                return (next + 1, acknowledged);
            }
            next += 1;
        }
        let answer = answers.next().and_then(|line| String::from_utf8(line).ok());
        let answer = answer
            .as_deref()
            .and_then(|line| line.split_once(" rsp 6 "));
        let Some((frame, "200 OK")) = answer else {
            return (next, acknowledged);
        };
        let frame: usize = frame.parse().expect("the number of a frame");
        acknowledged.push(first + frame - 2);
        // The killer may not wait any more.
        let _ignored = answered.send(());
    }
}

#[test]
fn no_acknowledged_message_is_lost_when_the_server_is_killed() {
    let home = Home::new();
    let (mut server, address) = serve(&home, "127.0.0.1:0");
    let (mut sent, mut acknowledged) = (0, Vec::new());
    for kill in 0..4 {
        let (answered, first_answer) = channel();
        let killed = &server;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                first_answer.recv_timeout(PATIENCE).expect("an answer");
                std::thread::sleep(Duration::from_millis(7 + 190 * kill));
                killed.kill_now();
            });
            let (next, more) = send_until_broken(&address, sent, &answered);
            sent = next;
            acknowledged.extend(more);
        });
        server.kill();
        server = serve(&home, &address).0;
    }
    let rows = server.sql("SELECT line, count(*) AS n FROM syslog GROUP BY line");
    let stored: BTreeMap<&str, u64> = rows
        .iter()
        .filter_map(|row| Some((row["line"].as_str()?, row["n"].as_u64()?)))
        .collect();
    for n in &acknowledged {
        let line = format!("number {n}");
        assert_eq!(stored.get(line.as_str()), Some(&1), "{line}");
    }
    assert!(
        stored.values().all(|times| *times == 1),
        "each was sent once"
    );
    assert!(
        acknowledged.len() >= 4 && sent > acknowledged.len(),
        "{sent}"
    );
    println!(
        "{} of {sent} messages were acknowledged through four kills",
        acknowledged.len()
    );
}

/// Starts rsyslog, if it and its module are installed.
fn start_rsyslog(home: &Home, address: &str) -> Option<Background> {
    start_rsyslog_as(home, &snippet("syslog.md", "# RELP\n"), address)
}

fn start_rsyslog_without_disk(home: &Home, address: &str) -> Option<Background> {
    let snippet = with_queue_in_memory(&snippet("syslog.md", "# RELP\n"));
    start_rsyslog_as(home, &snippet, address)
}

fn start_rsyslog_as(home: &Home, snippet: &str, address: &str) -> Option<Background> {
    let program = installed("rsyslogd").filter(|_| is_there("rsyslog/omrelp.so"))?;
    let (_, port) = address.rsplit_once(':').expect("an address");
    Some(rsyslog(&program, home, &snippet.replace("2514", port)))
}

#[test]
fn rsyslog_is_acknowledged_and_nothing_is_doubled() {
    let home = Home::new();
    let (server, address) = serve(&home, "127.0.0.1:0");
    home.file("numbers", numbers(5000));
    let Some(running) = start_rsyslog(&home, &address) else {
        return;
    };
    assert_each_once(&server, "syslog", 5000);
    drop(running);
    wait_for_number(&server, COUNT, 5000);
}

const RSYSLOG: Way<'_> = Way {
    stream: "syslog",
    serve: &serve,
    start: &start_rsyslog,
};

#[test]
fn rsyslog_sends_again_what_was_not_acknowledged_by_a_server_that_was_killed() {
    // The window of librelp.
    RSYSLOG.through_a_kill_of_the_server(128);
}

#[test]
fn rsyslog_loses_nothing_over_relp_when_it_is_killed() {
    Way {
        start: &start_rsyslog_without_disk,
        ..RSYSLOG
    }
    .through_a_kill_of_the_sender();
}
