//! rsyslog, syslog-ng and logger, configured by the snippets of `docs/shippers/syslog.md`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::kills::Way;
use super::syslog::serve;
use super::{Background, assert_each_once, installed, numbers, snippet, wait_for_numbers};
use crate::support::{Home, Server, finish, run};

/// Records that each client sends.
const SENT: usize = 3000;
const PAGE: &str = "syslog.md";
/// A queue of rsyslog that ends with it, as the page has it.
const MEMORY_QUEUE: &str = r#"queue.type="LinkedList" queue.size="100000""#;

/// Returns a block of the page that sends to this port.
fn snippet_for(contains: &str, address: &str) -> String {
    let (_, port) = address.rsplit_once(':').expect("an address");
    let block = snippet(PAGE, contains);
    assert!(block.contains("5514"), "{block}");
    block.replace("5514", port)
}

/// Gives rsyslog's action a queue in memory. rsyslog 8.2302 may damage one on the disk when it is
/// killed, and loses messages of it (`docs/shippers/syslog.md`).
pub(crate) fn with_queue_in_memory(action: &str) -> String {
    let (action, queue) = action
        .rsplit_once("queue.type=")
        .expect("an action with a queue");
    assert!(queue.contains("queue.filename="), "{queue}");
    let page = snippet(PAGE, MEMORY_QUEUE);
    assert_eq!(page.trim(), MEMORY_QUEUE);
    format!("{action}{MEMORY_QUEUE})\n")
}

/// Starts rsyslog, which reads the file `numbers` and sends its lines as a snippet says.
pub(crate) fn rsyslog(program: &Path, home: &Home, snippet: &str) -> Background {
    let work = home.path("");
    let config = format!(
        "global(workDirectory=\"{work}\")\nmodule(load=\"imfile\")\ninput(type=\"imfile\" File=\"{}\" Tag=\"numbers:\" addMetadata=\"off\")\n{snippet}",
        home.path("numbers"),
    );
    let config = home.file("rsyslog.conf", config);
    let pid = home.path("rsyslog.pid");
    Background::start(
        home,
        Command::new(program).args(["-n", "-f", &config, "-i", &pid]),
    )
}

#[test]
fn rsyslog_sends_over_tcp() {
    let Some(program) = installed("rsyslogd") else {
        return;
    };
    let home = Home::new();
    let (server, _, tcp) = serve(&home, &[]);
    home.file("numbers", numbers(SENT));
    let _running = rsyslog(&program, &home, &snippet_for("# TCP\n", &tcp));
    assert_each_once(&server, "syslog", SENT);
    let row = &server.sql("SELECT DISTINCT app, facility, level FROM syslog")[0];
    assert_eq!(
        row.to_string(),
        r#"{"app":"numbers","facility":"local0","level":"notice"}"#
    );
}

/// A queue of rsyslog holds 1,000 messages, and drops what finds it full for two seconds, unless it
/// has a size as on the page.
#[test]
fn rsyslog_keeps_what_comes_while_the_server_is_away() {
    let Some(program) = installed("rsyslogd") else {
        return;
    };
    let home = Home::new();
    let (server, _, tcp) = serve(&home, &[]);
    server.kill();
    home.file("numbers", numbers(SENT));
    let _running = rsyslog(&program, &home, &snippet_for("# TCP\n", &tcp));
    std::thread::sleep(Duration::from_secs(5));
    let server = Server::start_with(&home.data, &[("LOGMILL_SYSLOG__TCP", &tcp)]);
    // It may send a batch again that failed while there was no connection.
    wait_for_numbers(&server, "syslog", SENT);
}

#[test]
fn rsyslog_sends_over_tls() {
    let Some(program) = installed("rsyslogd") else {
        return;
    };
    if !is_there("rsyslog/lmnsd_gtls.so") {
        println!("skipped: rsyslog-gnutls is not installed");
        return;
    }
    let home = Home::new();
    let out = home.path("certificates");
    run(&["tls", "self-signed", "--out", &out, "--name", "localhost"]).code(0);
    let (cert, key) = (format!("{out}/cert.pem"), format!("{out}/key.pem"));
    let (server, _, tcp) = serve(
        &home,
        &[("LOGMILL_TLS__CERT", &cert), ("LOGMILL_TLS__KEY", &key)],
    );
    home.file("numbers", numbers(SENT));
    let snippet = snippet_for("# TLS\n", &tcp).replace("/etc/rsyslog.d/logmill.pem", &cert);
    let _running = rsyslog(&program, &home, &snippet);
    let ca = ["--ca-file", &cert];
    let query = "SELECT count(*) AS n, count(DISTINCT line) AS lines FROM syslog";
    let url = server.url.replace("127.0.0.1", "localhost");
    super::wait_for(|| {
        let told = run(&[
            &["sql", query, "--server", &url, "--output", "json"][..],
            &ca,
        ]
        .concat());
        told.code == 0 && told.json()[0]["n"] == SENT && told.json()[0]["lines"] == SENT
    });
}

/// Returns whether a library of Debian's is installed.
pub(crate) fn is_there(library: &str) -> bool {
    let folders = std::fs::read_dir("/usr/lib").expect("a folder of libraries");
    folders
        .flatten()
        .any(|folder| folder.path().join(library).exists())
}

/// Returns syslog-ng, installed or unpacked: Debian has it and rsyslog at the same place.
fn syslog_ng() -> Option<(Command, Option<PathBuf>)> {
    let Some(root) = std::env::var_os("LOGMILL_SYSLOG_NG").map(PathBuf::from) else {
        return installed("syslog-ng").map(|program| (Command::new(program), None));
    };
    let libraries = root.join("usr/lib/syslog-ng");
    let mut command = Command::new(root.join("usr/sbin/syslog-ng"));
    command.env("LD_LIBRARY_PATH", &libraries);
    let modules = std::fs::read_dir(&libraries)
        .expect("its libraries")
        .flatten();
    let modules = modules
        .map(|folder| folder.path())
        .find(|folder| folder.is_dir());
    Some((command, modules))
}

/// Starts syslog-ng, which reads the file `numbers` and sends its lines to a destination that a
/// snippet defines. Returns nothing where it, or a module of it, is not installed.
pub(crate) fn run_syslog_ng(
    home: &Home,
    destination: &str,
    snippet: &str,
    module: Option<&str>,
) -> Option<Background> {
    let (mut command, modules) = syslog_ng()?;
    if let (Some(module), Some(folder)) = (module, &modules)
        && !folder.join(module).exists()
    {
        println!("skipped: syslog-ng has no {module}");
        return None;
    }
    let config = format!(
        "@version: 3.35\noptions {{ time-reopen(1); }};\nsource s_numbers {{ file(\"{}\" flags(no-parse) follow-freq(0.1) program-override(\"numbers\") log-iw-size(5000)); }};\n{snippet}log {{ source(s_numbers); destination({destination}); flags(flow-control); }};\n",
        home.path("numbers"),
    );
    let config = home.file("syslog-ng.conf", config);
    command.args(["-F", "--no-caps", "--stderr", "-f", &config]);
    for (option, name) in [("-R", "persist"), ("-p", "pid"), ("-c", "control")] {
        command.args([option, &home.path(name)]);
    }
    command.args(
        modules
            .iter()
            .map(|folder| format!("--module-path={}", folder.display())),
    );
    Some(Background::start(home, &mut command))
}

fn syslog_ng_sends(destination: &str) {
    let home = Home::new();
    let (server, _, tcp) = serve(&home, &[]);
    home.file("numbers", numbers(SENT));
    let snippet = snippet_for(destination, &tcp);
    let Some(_running) = run_syslog_ng(&home, destination, &snippet, None) else {
        return;
    };
    assert_each_once(&server, "syslog", SENT);
    assert_eq!(
        server.sql("SELECT DISTINCT app FROM syslog")[0]["app"],
        "numbers"
    );
}

#[test]
fn syslog_ng_sends_with_octet_counting() {
    syslog_ng_sends("d_counted");
}

#[test]
fn syslog_ng_sends_lines() {
    syslog_ng_sends("d_lines");
}

/// Serves syslog over TCP at an address.
fn serve_at(home: &Home, address: &str) -> (Server, String) {
    let server = Server::start_with(&home.data, &[("LOGMILL_SYSLOG__TCP", address)]);
    let address = server.announced("syslog over TCP: ");
    (server, address)
}

fn start_rsyslog(home: &Home, address: &str) -> Option<Background> {
    let program = installed("rsyslogd")?;
    Some(rsyslog(&program, home, &snippet_for("# TCP\n", address)))
}

fn start_rsyslog_without_disk(home: &Home, address: &str) -> Option<Background> {
    let program = installed("rsyslogd")?;
    let snippet = with_queue_in_memory(&snippet_for("# TCP\n", address));
    Some(rsyslog(&program, home, &snippet))
}

fn start_syslog_ng(home: &Home, address: &str) -> Option<Background> {
    run_syslog_ng(home, "d_counted", &snippet_for("d_counted", address), None)
}

fn over_tcp(start: &dyn Fn(&Home, &str) -> Option<Background>) -> Way<'_> {
    Way {
        stream: "syslog",
        serve: &serve_at,
        start,
    }
}

#[test]
fn rsyslog_goes_on_over_tcp_behind_a_kill_of_the_server() {
    over_tcp(&start_rsyslog).goes_on_behind_a_kill_of_the_server(1024);
}

#[test]
fn syslog_ng_goes_on_over_tcp_behind_a_kill_of_the_server() {
    over_tcp(&start_syslog_ng).goes_on_behind_a_kill_of_the_server(1024);
}

#[test]
fn rsyslog_loses_nothing_over_tcp_when_it_is_killed() {
    over_tcp(&start_rsyslog_without_disk).through_a_kill_of_the_sender();
}

#[test]
fn syslog_ng_loses_nothing_over_tcp_when_it_is_killed() {
    over_tcp(&start_syslog_ng).through_a_kill_of_the_sender();
}

#[test]
fn logger_sends_over_tcp_and_udp() {
    let Some(program) = installed("logger") else {
        return;
    };
    let page = snippet(PAGE, "-t backup");
    for (option, count) in [("-T", SENT), ("-d", 500)] {
        let home = Home::new();
        let (server, udp, tcp) = serve(&home, &[]);
        let address = if option == "-T" { tcp } else { udp };
        let (_, port) = address.rsplit_once(':').expect("an address");
        let line = page
            .lines()
            .find(|line| line.contains(option))
            .expect("a line for it");
        let line = line.replace("5514", port);
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["logger", options @ .., "\"finished\""] = &words[..] else {
            panic!("{line}");
        };
        let file = home.file("numbers", numbers(count));
        let mut command = Command::new(&program);
        command.args(options).args(["-f", &file]);
        finish(&mut command, &[]).code(0);
        assert_each_once(&server, "syslog", count);
        assert_eq!(
            server.sql("SELECT DISTINCT app FROM syslog")[0]["app"],
            "backup"
        );
    }
}
