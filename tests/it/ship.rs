//! `logmill ship`: each line once over kills of both ends and every way of rotation; many files;
//! answers that ask for patience, for less, or for an end.

mod answers;
mod headers;
#[cfg(feature = "kafka")]
mod kafka;
mod records;
mod rotation;
mod web;

use std::fs::OpenOptions;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, PAST_S, PATIENCE, Server, command, ended_within, line, run};

/// The most memory of a shipper that follows a thousand files, in KiB.
const MEMORY_KIB_MAX: u64 = 100 << 10;

/// A running shipper; killed when dropped.
struct Shipper(Child);

/// Returns a command that ships a file or pattern into the stream `access` of a server.
fn shipper(file: &str, url: &str) -> Command {
    let mut shipper = command();
    shipper.args(["ship", file, "--stream", "access", "--format", "combined"]);
    shipper.args(["--server", url]);
    shipper
}

impl Shipper {
    fn start(home: &Home, file: &str, url: &str) -> Self {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(home.path("shipper.log"))
            .expect("the shipper's log");
        let child = shipper(file, url).stdout(Stdio::null()).stderr(log).spawn();
        Self(child.expect("a shipper"))
    }

    /// Starts a shipper of a file into a stream, with more options.
    fn of(log: &str, stream: &str, server: &Server, more: &[&str]) -> Self {
        let mut shipper = command();
        shipper.args(["ship", log, "--stream", stream, "--server", &server.url]);
        Self(shipper.args(more).spawn().expect("a shipper"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("a signal to our own child");
        self.0.wait().expect("the killed shipper ends");
    }

    /// Ends the shipper with SIGTERM; returns its exit code.
    fn stop(mut self) -> i32 {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("a signal to our own child");
        ended_within(&mut self.0, PATIENCE).expect("the shipper ends")
    }

    /// Returns a figure of its state, such as `VmHWM`, in KiB.
    fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.expect("the state of our own child");
        let figure = status.lines().find_map(|line| line.strip_prefix(name));
        let figure = figure.expect("the figure").trim_start_matches(':');
        let number = figure.trim().trim_end_matches(" kB");
        number.parse().expect("a number")
    }

    /// Returns the processor time that it has used, in hundredths of a second.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()));
        let stat = stat.expect("the state of our own child");
        let (_, figures) = stat.rsplit_once(')').expect("a name in parentheses");
        let figures: Vec<&str> = figures.split_whitespace().collect();
        let of = |nth: usize| figures[nth].parse::<u64>().expect("a number");
        of(11) + of(12)
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        // The shipper may have ended already.
        let _ignored = self.0.kill();
        let _ignored = self.0.wait();
    }
}

/// Appends to a log, as a program that writes it does.
fn append(log: &str, text: &str) {
    let mut file = OpenOptions::new().append(true).open(log).expect("a log");
    std::io::Write::write_all(&mut file, text.as_bytes()).expect("a write");
}

/// Waits until the stream `access` has so many events.
#[track_caller]
fn wait_for(server: &Server, events: u64) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let sql = "SELECT count(*) AS n FROM access";
        let answer = server.post("/api/v1/sql", &[], sql.as_bytes());
        // Without an event there is no such stream.
        if answer.status == 200 && answer.json()["rows"][0]["n"] == events {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the events do not come");
}

/// Returns lines that no other call returns.
fn lines(name: &str, count: u64) -> String {
    let lines = (0..count).map(|i| line("203.0.113.9", PAST_S, &format!("/{name}/{i}"), 200, 10));
    lines.collect()
}

#[test]
fn a_thousand_files_need_little_memory_and_no_request_while_idle() {
    let home = Home::new();
    let server = Server::start(&home.data);
    std::fs::create_dir(home.path("logs")).expect("a folder");
    for i in 0..1000 {
        home.file(&format!("logs/{i}.log"), lines(&i.to_string(), 20));
    }
    let shipper = Shipper::start(&home, &home.path("logs"), &server.url);
    wait_for(&server, 20_000);
    for i in (0..1000).step_by(7) {
        let more = line("203.0.113.9", PAST_S, &format!("/more/{i}"), 200, 10);
        append(&home.path(&format!("logs/{i}.log")), &more);
    }
    wait_for(&server, 20_143);
    // The last look at a file after its batch comes within a second.
    std::thread::sleep(Duration::from_secs(2));
    let (requests, ticks) = (requests(&server), shipper.ticks());
    std::thread::sleep(Duration::from_secs(3));
    let idle_ticks = shipper.ticks() - ticks;
    assert_eq!(requests, self::requests(&server), "requests while idle");
    let memory_kib = shipper.status_kib("VmHWM");
    println!("1000 files: {memory_kib} KiB at most, {idle_ticks} ticks in 3 s of idleness");
    assert!(memory_kib < MEMORY_KIB_MAX, "{memory_kib} KiB");
    assert_eq!(shipper.stop(), 0);
    let rows = server.sql("SELECT count(DISTINCT path) AS n FROM access");
    assert_eq!(rows[0]["n"], 20_143);
}

/// Returns the number of requests of a shipper that the server has answered.
fn requests(server: &Server) -> u64 {
    let metrics = server.get("/metrics").text();
    let of_shippers = metrics.lines().filter(|line| {
        let is_count = line.starts_with("logmill_http_requests_total");
        is_count && (line.contains("ingest") || line.contains("sources"))
    });
    let counts = of_shippers.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    let requests = counts.sum();
    assert!(requests > 0, "no such count: {metrics}");
    requests
}

#[test]
fn once_sends_what_is_there_and_an_import_of_the_same_file_adds_nothing() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let log = home.file("a.log", lines("a", 3000) + "203.0.113.9 - - [");
    let once = |more: &[&str]| {
        let output =
            crate::support::finish(shipper(&log, &server.url).arg("--once").args(more), &[]);
        output.code(0)
    };
    once(&[]);
    wait_for(&server, 3000);
    assert!(
        once(&[]).stdout.starts_with("0 lines"),
        "the second run adds nothing"
    );
    let import = [
        "import",
        &log,
        "--stream",
        "access",
        "--server",
        &server.url,
    ];
    let again = run(&import).code(0);
    assert!(again.stdout.contains("nothing new"), "{}", again.stdout);
    let rotated = home.path("a.log.1");
    std::fs::rename(&log, &rotated).expect("a rename");
    home.file("a.log", lines("b", 10));
    once(&[]);
    wait_for(&server, 3010);
    assert_eq!(
        server.number("SELECT count(DISTINCT path) AS n FROM access"),
        3010
    );
}

#[test]
fn from_the_end_passes_over_what_is_there_at_the_first_start_alone() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let log = home.file("a.log", lines("old", 500));
    let once = || {
        let mut shipper = shipper(&log, &server.url);
        crate::support::finish(shipper.args(["--once", "--from-end"]), &[]).code(0);
    };
    once();
    std::fs::write(&log, lines("old", 500) + &lines("new", 3)).expect("a file");
    once();
    wait_for(&server, 3);
    // Files that come while no shipper runs are sent from their beginnings.
    std::fs::rename(&log, home.path("a.log.1")).expect("a rename");
    home.file("a.log", lines("newer", 4));
    once();
    wait_for(&server, 7);
}

#[test]
fn wrong_usage_says_what_to_do_and_a_unit_is_printed() {
    for (args, message) in [
        (
            &["ship", "a.log", "--stream", "access"][..],
            "name it with --server",
        ),
        (
            &[
                "ship",
                "a.log",
                "--stream",
                "access",
                "--server",
                "http://127.0.0.1:1",
                "--w",
                "0",
            ],
            "needs acknowledgements",
        ),
        (
            &[
                "ship",
                "-",
                "--stream",
                "access",
                "--server",
                "http://127.0.0.1:1",
            ],
            "logmill import",
        ),
    ] {
        let output = run(args).code(2);
        assert!(output.stderr.contains(message), "{}", output.stderr);
    }
    let here = env!("CARGO_TARGET_TMPDIR");
    std::fs::write(format!("{here}/ship.token"), "a token").expect("a file");
    let unit = run(&[
        "ship",
        "logs/*.log",
        "--stream",
        "access",
        "--server",
        "http://127.0.0.1:7070",
        "--token-file",
        "ship.token",
        "--print-unit",
    ]);
    let unit = unit.code(0).stdout;
    let command = format!(
        " ship \"{here}/logs/*.log\" --stream access --server http://127.0.0.1:7070 --token-file {here}/ship.token\n"
    );
    assert!(unit.contains(&command), "{unit}");
    // The stream has the name of the file, which alone becomes a path.
    let words = ["ship", "--from-beginning", "web", "--stream", "web"];
    let server = ["--server", "http://127.0.0.1:7070", "--print-unit"];
    let unit = run(&[&words[..], &server].concat()).code(0).stdout;
    let command = format!(" ship --from-beginning {here}/web --stream web --server ");
    assert!(unit.contains(&command), "{unit}");
}

#[test]
fn from_the_end_takes_all_of_a_log_that_is_cut_off_later() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let log = home.file("a.log", lines("old", 500));
    let mut command = shipper(&log, &server.url);
    command.arg("--from-end").stdout(Stdio::null());
    let shipper = Shipper(command.spawn().expect("a shipper"));
    let patience = Instant::now() + PATIENCE;
    // The server knows the file once its lines are passed over.
    while server.get("/api/v1/sources?prefix=file:").text() == "[]" {
        assert!(Instant::now() < patience, "the file is not recognised");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::write(&log, lines("new", 20)).expect("a file");
    wait_for(&server, 20);
    assert_eq!(shipper.stop(), 0);
}
