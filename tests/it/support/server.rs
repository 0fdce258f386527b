//! A server as a child process, and its answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use ureq::Agent;

use super::{Output, command, ended_within, only_number};

/// Nothing that a test waits for takes longer, however busy the machine is: a bound on a program
/// that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// A running `logmill serve`; killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// `http://127.0.0.1:port`
    pub(crate) url: String,
    /// `127.0.0.1:port`
    pub(crate) address: String,
    /// Host and port of the listener for PostgreSQL clients; empty without it.
    pub(crate) postgres: String,
    /// URI of the listener for Flight SQL clients; empty without it.
    pub(crate) flight: String,
    log: PathBuf,
    /// Lines of the standard output that were not read yet.
    output: Mutex<Receiver<String>>,
    agent: Agent,
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: ureq::http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the answer, after making sure of its status.
    #[track_caller]
    pub(crate) fn status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("not JSON ({e}): {}", self.text()))
    }

    /// Returns a header; empty where it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or("")
    }
}

impl Server {
    /// Serves a store on a port that the system picks.
    #[track_caller]
    pub(crate) fn start(data: &str) -> Self {
        Self::start_with(data, &[])
    }

    /// Does the same with variables of the environment, which carry the configuration.
    #[track_caller]
    pub(crate) fn start_with(data: &str, environment: &[(&str, &str)]) -> Self {
        match Self::try_start(command(), data, environment) {
            Ok(server) => server,
            Err(told) => panic!(
                "the server ends with {} and says no address; its log:\n{}",
                told.code, told.stderr
            ),
        }
    }

    /// Starts a server at an address.
    #[track_caller]
    pub(crate) fn start_at(data: &str, address: &str, environment: &[(&str, &str)]) -> Self {
        let args = ["serve", data, "--http", address];
        match Self::try_start_with(command(), &args, data, environment) {
            Ok(server) => server,
            Err(told) => panic!("the server ends with {}: {}", told.code, told.stderr),
        }
    }

    /// Starts a server with further arguments; returns its output when it serves nothing.
    pub(crate) fn try_start_as(
        data: &str,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, Output> {
        let args: Vec<&str> = ["serve", data].iter().chain(flags).copied().collect();
        Self::try_start_with(command(), &args, data, environment)
    }

    /// Starts a server whose questions read the stores of these peers, too.
    #[track_caller]
    pub(crate) fn start_over(data: &str, peers: &[&str]) -> Self {
        let peers = peers.iter().flat_map(|url| ["--peer", *url]);
        let args: Vec<&str> = ["serve", data].into_iter().chain(peers).collect();
        match Self::try_start_with(command(), &args, data, &[]) {
            Ok(server) => server,
            Err(told) => panic!("the server ends with {}: {}", told.code, told.stderr),
        }
    }

    /// Starts a server that PostgreSQL clients reach too, at [`Server::postgres`].
    #[track_caller]
    pub(crate) fn start_postgres(data: &str, environment: &[(&str, &str)]) -> Self {
        let args = ["serve", data, "--postgres", "127.0.0.1:0"];
        match Self::try_start_with(command(), &args, data, environment) {
            Ok(server) => server,
            Err(told) => panic!("the server ends with {}: {}", told.code, told.stderr),
        }
    }

    /// Starts a server that Flight SQL clients reach too, at [`Server::flight`].
    #[track_caller]
    pub(crate) fn start_flight(data: &str, environment: &[(&str, &str)]) -> Self {
        let args = ["serve", data, "--flight", "127.0.0.1:0"];
        match Self::try_start_with(command(), &args, data, environment) {
            Ok(server) => server,
            Err(told) => panic!("the server ends with {}: {}", told.code, told.stderr),
        }
    }

    /// Starts a server that only reads the store.
    #[track_caller]
    pub(crate) fn start_reading(data: &str) -> Self {
        Self::start_reading_with(data, &[])
    }

    /// Does the same with variables of the environment.
    #[track_caller]
    pub(crate) fn start_reading_with(data: &str, environment: &[(&str, &str)]) -> Self {
        let args = ["serve", data, "--read-only"];
        match Self::try_start_with(command(), &args, data, environment) {
            Ok(server) => server,
            Err(told) => panic!("the server ends with {}: {}", told.code, told.stderr),
        }
    }

    /// Starts `program`, the binary or something that runs it; returns its output when it serves
    /// nothing.
    pub(crate) fn try_start(
        program: Command,
        data: &str,
        environment: &[(&str, &str)],
    ) -> Result<Self, Output> {
        Self::try_start_with(program, &["serve", data], data, environment)
    }

    fn try_start_with(
        mut program: Command,
        args: &[&str],
        data: &str,
        environment: &[(&str, &str)],
    ) -> Result<Self, Output> {
        let log = PathBuf::from(format!("{data}.log"));
        let stderr = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the server's log");
        let mut child = program
            .args(args)
            .args(match args.contains(&"--http") {
                true => &[][..],
                false => &["--http", "127.0.0.1:0"],
            })
            .args(match args.contains(&"--postgres") {
                true => &[][..],
                false => &["--postgres", "off"],
            })
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the server starts");
        let stdout = child.stdout.take().expect("BUG: its output is piped");
        let (send, receive) = channel();
        // The thread reads on to the end, so that the server never writes into a closed pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ignored = send.send(line);
            }
        });
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        let mut server = Self {
            output: Mutex::new(receive),
            child,
            url: String::new(),
            address: String::new(),
            postgres: String::new(),
            flight: String::new(),
            log,
            agent,
        };
        let Some(first) = server.output_line() else {
            return Err(Output {
                code: server.ended(PATIENCE),
                stdout: String::new(),
                stderr: server.log(),
            });
        };
        let (_, url) = first
            .split_once(" at ")
            .unwrap_or_else(|| panic!("the first line names no address: {first:?}"));
        server.url = url.trim_end_matches('/').to_owned();
        server.address = server
            .url
            .split_once("://")
            .map(|(_, address)| address)
            .unwrap_or_else(|| panic!("the first line names no URL: {first:?}"))
            .to_owned();
        if args.contains(&"--postgres") {
            let second = server.output_line().expect("a second address");
            let words: Vec<&str> = second.split_whitespace().collect();
            let [
                "PostgreSQL",
                "clients:",
                "psql",
                "-h",
                host,
                "-p",
                port,
                "logmill",
            ] = words[..]
            else {
                panic!("the second line is no command: {second:?}");
            };
            server.postgres = format!("{host}:{port}");
        }
        if args.contains(&"--flight") {
            let line = server.output_line().expect("a third address");
            let uri = line.strip_prefix("Flight SQL clients: ");
            server.flight = uri.expect("the address of Flight SQL").to_owned();
        }
        Ok(server)
    }

    /// Returns the next line of the standard output; `None` at its end.
    fn output_line(&self) -> Option<String> {
        let output = self.output.lock().expect("no test panics with it");
        output.recv_timeout(PATIENCE).ok()
    }

    /// Returns the rest of the next line of the standard output that begins so.
    #[track_caller]
    pub(crate) fn announced(&self, begins: &str) -> String {
        while let Some(line) = self.output_line() {
            if let Some(rest) = line.strip_prefix(begins) {
                return rest.to_owned();
            }
        }
        panic!("no line begins with {begins:?}; the log:\n{}", self.log());
    }

    /// Returns the server's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a request that a server which is being killed may not answer.
    pub(crate) fn try_post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.post(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(request.send(body)?)
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        match self.try_post(path, headers, body) {
            Ok(answer) => answer,
            Err(e) => panic!("POST {path}: {e}; the server's log:\n{}", self.log()),
        }
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        match self.agent.get(format!("{}{path}", self.url)).call() {
            Ok(response) => answer(response).expect("a body"),
            Err(e) => panic!("GET {path}: {e}; the server's log:\n{}", self.log()),
        }
    }

    /// Does the same with headers.
    #[track_caller]
    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(request.call().expect("an answer")).expect("a body")
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        let response = self.agent.delete(format!("{}{path}", self.url)).call();
        answer(response.expect("an answer")).expect("a body")
    }

    /// Sends a request byte by byte as it is written here, and reads until the server closes the
    /// connection; returns the status and the body as it came.
    #[track_caller]
    pub(crate) fn raw(&self, request: &str) -> (u16, String) {
        let answer = self.raw_whole(request);
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer to {request:?}: {answer}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    /// Returns the rows of a query of a client that sends a header.
    #[track_caller]
    pub(crate) fn sql_as(&self, header: &str, sql: &str) -> Value {
        let (status, body) = self.raw(&format!(
            "POST /api/v1/sql HTTP/1.1\r\nHost: {}\r\n{header}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{sql}",
            self.address,
            sql.len()
        ));
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        answer["rows"].clone()
    }

    /// Sends bytes. Returns the whole answer, with its head.
    pub(crate) fn raw_whole(&self, request: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).expect("the server listens");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket that can wait");
        // A request that is refused need not be read to its end.
        let _ignored = socket.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let read = socket.read_to_end(&mut answer);
        assert!(!answer.is_empty(), "no answer ({read:?}) to {request:?}");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends lines; `to` is a stream, perhaps with parameters: `access?format=json`.
    #[track_caller]
    pub(crate) fn ingest(&self, to: &str, lines: impl AsRef<[u8]>) -> Value {
        let path = format!("/api/v1/ingest/{to}");
        self.post(&path, &[], lines.as_ref()).status(200).json()
    }

    /// Returns the rows of a query.
    #[track_caller]
    pub(crate) fn sql(&self, query: &str) -> Vec<Value> {
        let answer = self.post("/api/v1/sql", &[], query.as_bytes()).status(200);
        match answer.json()["rows"].take() {
            Value::Array(rows) => rows,
            other => panic!("rows are not an array: {other}"),
        }
    }

    /// Returns the one number of a query.
    #[track_caller]
    pub(crate) fn number(&self, query: &str) -> u64 {
        only_number(&self.sql(query))
    }

    /// Seals; returns the report.
    #[track_caller]
    pub(crate) fn seal(&self) -> Value {
        self.post("/api/v1/rollups/run", &[], b"")
            .status(200)
            .json()
    }

    /// Ends the server with SIGKILL, as the out-of-memory killer would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a signal to our own child");
        self.child.wait().expect("the killed server ends");
    }

    /// Kills the server while others still send requests; the process is waited for when this is
    /// dropped.
    pub(crate) fn kill_now(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal to our own child");
    }

    /// Returns the id of the server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the server with SIGTERM; returns its exit code.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        Some(self.ended(PATIENCE))
    }

    /// Waits until the server has ended; returns its exit code, or minus the signal that ended it.
    #[track_caller]
    pub(crate) fn ended(&mut self, within: Duration) -> i32 {
        ended_within(&mut self.child, within)
            .unwrap_or_else(|| panic!("the server does not end; its log:\n{}", self.log()))
    }

    /// Returns whether the server has ended; the process remains to be waited for.
    pub(crate) fn is_gone(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.child)), options);
        ended.expect("the state of our own child").is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ignored = self.child.kill();
        let _ignored = self.child.wait();
    }
}

fn answer(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer, ureq::Error> {
    let body = response
        .body_mut()
        .with_config()
        .limit(u64::MAX)
        .read_to_vec()?;
    Ok(Answer {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body,
    })
}
