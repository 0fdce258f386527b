//! The real program as a server: started, queried, killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server must answer within this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `logmill serve`; killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// `127.0.0.1:port`
    pub(crate) address: String,
}

impl Server {
    /// Serves a store on a port that the system picks; `environment` carries the configuration.
    /// Returns when `/ready` was answered.
    pub(crate) fn start(logmill: &Path, data: &Path, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(logmill)
            .args(["serve", "--http", "127.0.0.1:0"])
            .arg(data)
            .envs(environment.iter().copied())
            // Requests are made before the server has its port, so they name this host.
            .env("LOGMILL_SERVER__HOSTS", "[\"bench\"]")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut first = String::new();
        let stdout = child.stdout.take().expect("BUG: its output is piped");
        BufReader::new(stdout)
            .read_line(&mut first)
            .expect("a line of the server");
        let address = first.trim_end().trim_end_matches('/').rsplit('/').next();
        let address = address.expect("BUG: a split gives a piece").to_owned();
        let server = Self { child, address };
        let began = Instant::now();
        while server.get("/ready").is_none() {
            assert!(began.elapsed() < PATIENCE, "not ready: {first}");
            std::thread::sleep(Duration::from_millis(1));
        }
        server
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the body of an answer with status 200.
    fn get(&self, path: &str) -> Option<String> {
        let mut socket = TcpStream::connect(&self.address).ok()?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.address
        );
        socket.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    }

    /// Returns a sample of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").expect("metrics");
        let sample = text
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        let sample = sample.unwrap_or_else(|| panic!("no metric {name}"));
        sample.parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("a signal to our own child");
        self.child.wait().expect("it ends");
    }
}
