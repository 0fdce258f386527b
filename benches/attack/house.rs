//! A store with accounts, and the real program that serves it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::door::{Door, LISTENERS, NORMAL};
use super::http;

/// A server must answer within this time.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const ADMIN: &str = "ann";
pub(crate) const PASSWORD: &str = "a password of the bench";

/// Tokens of normal clients, and tokens that attackers have got hold of.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    pub(crate) shipper: String,
    pub(crate) reader: String,
    pub(crate) stolen_shipper: String,
    pub(crate) stolen_reader: String,
}

/// A folder with a store, its accounts and a certificate.
pub(crate) struct House {
    logmill: PathBuf,
    folder: PathBuf,
    pub(crate) tokens: Tokens,
}

impl House {
    pub(crate) fn new(logmill: &Path, folder: &Path) -> Self {
        let mut house = Self {
            logmill: logmill.to_owned(),
            folder: folder.to_owned(),
            tokens: Tokens {
                shipper: String::new(),
                reader: String::new(),
                stolen_shipper: String::new(),
                stolen_reader: String::new(),
            },
        };
        std::fs::create_dir_all(house.temp()).expect("a folder");
        house.on_store(&["user", "add", ADMIN, "--role", "admin"]);
        house.tokens = Tokens {
            shipper: house.token("shipper", "ingest"),
            reader: house.token("reader", "read"),
            stolen_shipper: house.token("stolen-shipper", "ingest"),
            stolen_reader: house.token("stolen-reader", "read"),
        };
        let out = house.certificates().display().to_string();
        house.run(&["tls", "self-signed", "--out", &out, "--name", "localhost"]);
        house
    }

    /// The folder for temporary files of the server.
    pub(crate) fn temp(&self) -> PathBuf {
        self.folder.join("temp")
    }

    fn certificates(&self) -> PathBuf {
        self.folder.join("certificates")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("store")
    }

    fn token(&self, name: &str, role: &str) -> String {
        let told = self.on_store(&["token", "create", name, "--role", role, "--output", "json"]);
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        told["token"].as_str().expect("a token").to_owned()
    }

    fn on_store(&self, args: &[&str]) -> String {
        let data = self.data().display().to_string();
        let mut all = args.to_vec();
        all.extend(["--data", &data]);
        self.run(&all)
    }

    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new(&self.logmill);
        command.args(args).current_dir(&self.folder);
        let output = command.env("LOGMILL_PASSWORD", PASSWORD).output();
        let output = output.expect("the program runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {told}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Serves the store on a port that the system picks, with `environment` as its configuration.
    pub(crate) fn serve(&self, has_tls: bool, environment: &[(&str, &str)]) -> Server {
        let (cert, key) = (
            self.certificates().join("cert.pem"),
            self.certificates().join("key.pem"),
        );
        let log = self.folder.join("server.log");
        let mut command = Command::new(&self.logmill);
        command
            .args(["serve", "--http", "127.0.0.1:0"])
            .arg(self.data())
            .current_dir(&self.folder)
            .envs(environment.iter().copied())
            .env("TMPDIR", self.temp())
            .env("LOGMILL_SERVER__HOSTS", "[\"localhost\"]")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).expect("a file"));
        if has_tls {
            command
                .env("LOGMILL_TLS__CERT", &cert)
                .env("LOGMILL_TLS__KEY", &key);
        }
        let token = self.folder.join("stolen-shipper.token");
        std::fs::write(&token, &self.tokens.stolen_shipper).expect("a file");
        for (listens, has_token, _) in LISTENERS {
            command.env(listens, "127.0.0.1:0");
            command.envs(has_token.map(|variable| (variable, &token)));
        }
        let mut child = command.spawn().expect("the server starts");
        let stdout = child.stdout.take().expect("BUG: its output is piped");
        let mut lines = BufReader::new(stdout).lines();
        let mut told: Vec<String> = Vec::new();
        let find = |told: &[String], begins: &str| {
            let mut found = told.iter().filter_map(|line| line.strip_prefix(begins));
            found.next().map(str::to_owned)
        };
        let listeners = loop {
            let found = LISTENERS.map(|(_, _, begins)| find(&told, begins));
            let found: Option<Vec<String>> = found.into_iter().collect();
            if let Some(found) = found {
                break found;
            }
            let line = lines.next().expect("the server tells its addresses");
            told.push(line.expect("a line of the server"));
        };
        let listeners = listeners.iter().map(|told| {
            let mut addresses = told.split('/').filter_map(|piece| piece.parse().ok());
            addresses.next().expect("an address")
        });
        let first = told.first().cloned().expect("BUG: it told addresses");
        let address = first.trim_end().trim_end_matches('/').rsplit('/').next();
        let address = address.expect("BUG: a split gives a piece");
        let door = Door::new(address, listeners.collect(), has_tls.then_some(&*cert));
        let server = Server { child, door, log };
        let began = Instant::now();
        while !server.answers("/ready", PATIENCE) {
            assert!(began.elapsed() < PATIENCE, "not ready: {first}");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) door: Door,
    log: PathBuf,
}

impl Server {
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether a normal client that connects afresh gets 200 in time.
    pub(crate) fn answers(&self, path: &str, within: Duration) -> bool {
        let answer = self.ask(&format!("GET {path}"), "", b"", within);
        answer.is_some_and(|(status, _)| status == 200)
    }

    /// Sends a request of a normal client that connects afresh; returns the status and the body.
    pub(crate) fn ask(
        &self,
        line: &str,
        headers: &str,
        body: &[u8],
        within: Duration,
    ) -> Option<(u16, String)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let asked = async {
            let request = http::request(line, &self.door.host(), headers, body);
            let connection = self.door.connect(NORMAL).await.ok()?;
            http::exchange(connection, &request).await.ok()?.0
        };
        let answer = runtime.block_on(async { tokio::time::timeout(within, asked).await });
        let answer = answer.ok()??;
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        Some((answer.status, body))
    }

    /// Returns the number of its open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.process()));
        open.map_or(0, Iterator::count)
    }

    pub(crate) fn log_mib(&self) -> f64 {
        let log = std::fs::metadata(&self.log).expect("the log");
        log.len() as f64 / f64::from(1 << 20)
    }

    /// Returns the lines of its log that tell of a panic.
    pub(crate) fn panics(&self) -> Vec<String> {
        let log = std::fs::read(&self.log).expect("the log");
        let log = String::from_utf8_lossy(&log);
        let lines = log.lines().filter(|line| line.contains("panicked"));
        lines.map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("a signal to our own child");
        self.child.wait().expect("it ends");
    }
}
