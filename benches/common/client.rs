//! The real program as a server, queried as a client does it: over HTTP on loopback, each answer
//! read whole.
//!
//! An answer is read as Arrow. Its bytes are compared with those of the same answer as NDJSON:
//! `query/src/answer/output/arrow_stream.rs` has the rule, and a bench that meets an answer
//! beyond it ends.

use std::path::Path;
use std::time::Instant;

use arrow::ipc::reader::StreamReader;
use ureq::Agent;

use super::program::Server;

const LOGMILL: &str = env!("CARGO_BIN_EXE_logmill");
const ARROW: &str = "application/vnd.apache.arrow.stream";
const NDJSON: &str = "application/x-ndjson";
/// The conditions of in-process figures: no limits, and no other work on the store.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("LOGMILL_QUERY__TIME_MAX", "0s"),
    ("LOGMILL_QUERY__ROWS_MAX", "0"),
    ("LOGMILL_QUERY__RESULT_BYTES_MAX", "0"),
    ("LOGMILL_STORAGE__SCRUB_SHARE", "0"),
];
/// Header bytes of each message of an Arrow answer, and of each column in it. A message has 8,192
/// rows or 4 MiB.
const HEADER_BYTES: usize = 512;
const HEADER_COLUMN_BYTES: usize = 256;

pub(crate) struct Client {
    server: Server,
    agent: Agent,
}

/// An answer as the client received it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// The median of several, from the question to the last byte, decoded.
    pub(crate) ms: f64,
    pub(crate) arrow_bytes: usize,
    pub(crate) ndjson_bytes: usize,
}

/// The heads of the columns of [`Taken::columns`].
pub(crate) const COLUMNS: &str = "client ms    arrow KB   ndjson KB";

impl Taken {
    pub(crate) fn columns(&self) -> String {
        let kilobytes = |bytes: usize| bytes as f64 / 1e3;
        format!(
            "{:>9.2} {:>11.1} {:>11.1}",
            self.ms,
            kilobytes(self.arrow_bytes),
            kilobytes(self.ndjson_bytes)
        )
    }
}

impl Client {
    /// Serves a store on a port that the system picks. Maintenance runs if `tends`.
    pub(crate) fn start(data: &Path, tends: bool) -> Self {
        Self::start_with(data, &[("LOGMILL_STORAGE__TENDS", &tends.to_string())])
    }

    /// Serves a store with this configuration, on a port that the system picks.
    pub(crate) fn start_with(data: &Path, more: &[(&str, &str)]) -> Self {
        let environment = ENVIRONMENT.into_iter();
        let environment: Vec<_> = environment.chain(more.iter().copied()).collect();
        Self {
            server: Server::start(Path::new(LOGMILL), data, &environment),
            agent: Agent::config_builder().build().into(),
        }
    }

    /// Returns the address of the server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Returns the rows of an answer, a JSON object each.
    pub(crate) fn rows(&self, sql: &str) -> Vec<serde_json::Value> {
        let text = self.body("/api/v1/sql", NDJSON, sql.as_bytes());
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .collect()
    }

    fn body(&self, path: &str, accept: &str, body: &[u8]) -> Vec<u8> {
        let request = self
            .agent
            .post(format!("http://{}{path}", self.server.address));
        let answer = request.header("Accept", accept).send(body);
        let mut answer = answer.unwrap_or_else(|e| panic!("{path}: {e}"));
        let body = answer.body_mut().with_config().limit(u64::MAX);
        body.read_to_vec().expect("the whole answer")
    }

    /// Runs a query once; returns milliseconds, bytes, rows and messages.
    pub(crate) fn once(&self, sql: &str) -> (f64, usize, usize, usize) {
        let began = Instant::now();
        let body = self.body("/api/v1/sql", ARROW, sql.as_bytes());
        let batches = StreamReader::try_new(body.as_slice(), None).expect("Arrow");
        let (mut rows, mut messages) = (0, 0);
        for batch in batches {
            rows += batch.expect("a batch").num_rows();
            messages += 1;
        }
        let ms = began.elapsed().as_secs_f64() * 1e3;
        (ms, body.len(), rows, messages)
    }

    /// Runs a query once and then `runs` times, and checks the bytes against the rule.
    pub(crate) fn ask(&self, sql: &str, runs: usize) -> Taken {
        let (_, arrow_bytes, rows, messages) = self.once(sql);
        let mut times: Vec<f64> = (0..runs.max(1)).map(|_| self.once(sql).0).collect();
        times.sort_by(f64::total_cmp);
        let ndjson = self.body("/api/v1/sql", NDJSON, sql.as_bytes());
        let first = ndjson.split(|byte| *byte == b'\n').next();
        let columns = match serde_json::from_slice(first.unwrap_or_default()) {
            Ok(serde_json::Value::Object(row)) => row.len(),
            // An answer without rows.
            _ => arrow_bytes / HEADER_COLUMN_BYTES,
        };
        let headers = (HEADER_BYTES + HEADER_COLUMN_BYTES * columns) * messages.max(1);
        assert!(
            arrow_bytes <= ndjson.len() + headers,
            "{arrow_bytes} bytes of Arrow for {} of NDJSON, {rows} rows: {sql}",
            ndjson.len()
        );
        Taken {
            ms: times[times.len() / 2],
            arrow_bytes,
            ndjson_bytes: ndjson.len(),
        }
    }

    /// Sends lines to a stream.
    #[allow(dead_code, reason = "one bench needs it")]
    pub(crate) fn send(&self, stream: &str, lines: &[u8]) {
        self.body(
            &format!("/api/v1/ingest/{stream}?format=combined"),
            "*/*",
            lines,
        );
    }
}
