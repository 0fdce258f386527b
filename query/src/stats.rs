//! Statistics of queries: the data that they read, their progress, and the duration of each stage.
//! These are data types only; `answer/query_stats.rs` reads the nodes of the plan.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of items of one kind, and the number of them that were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// All items in the tables of the query.
    pub total: u64,
    /// Items that were read.
    pub examined: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.total += other.total;
        self.examined += other.examined;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.examined, self.total)
    }
}

/// Sources of an answer and the data that was read. Complete once the answer's stream has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryStats {
    /// Sources of the answer: `parts of access`, `memtable of access`, `rollup stats.hourly`;
    /// `manifest` when the counts kept there were enough.
    pub answered_by: Vec<String>,
    /// Peers without whose stores the answer is; empty for a whole answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
    /// Time partitions.
    pub partitions: Count,
    /// Parts, and for a rollup level its tile files.
    pub parts: Count,
    /// Row groups of the parts examined; for a level the sections of its tiles.
    pub row_groups: Count,
    /// Pages of the row groups whose page index was consulted.
    pub pages: Count,
    /// Rows (or cells of a level) that were read and compared with the filters.
    pub rows_examined: u64,
    /// Rows of the answer.
    pub rows_returned: u64,
    /// Bytes read from parts and tiles.
    pub bytes_read: u64,
    /// Time since the query was accepted, milliseconds.
    pub elapsed_ms: u64,
    /// Stages of that time, one after the other.
    pub stages: Vec<StageTime>,
    /// Time of the operators, the longest first.
    pub operators: Vec<OperatorTime>,
}

impl QueryStats {
    /// Adds the data that another question of the same request read.
    pub fn add_read(&mut self, other: &Self) {
        for by in &other.answered_by {
            if !self.answered_by.contains(by) {
                self.answered_by.push(by.clone());
            }
        }
        for peer in &other.incomplete {
            if !self.incomplete.contains(peer) {
                self.incomplete.push(peer.clone());
            }
        }
        self.partitions += other.partitions;
        self.parts += other.parts;
        self.row_groups += other.row_groups;
        self.pages += other.pages;
        self.rows_examined += other.rows_examined;
        self.rows_returned += other.rows_returned;
        self.bytes_read += other.bytes_read;
    }
}

/// A stage of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The query waits for a place among running queries.
    Queue,
    /// The query is parsed and planned; the first rows by time are found.
    Plan,
    /// From the end of planning to the first rows.
    FirstRows,
    /// From the first rows to the last.
    Rows,
}

impl Stage {
    pub(crate) const ALL: [Self; 4] = [Self::Queue, Self::Plan, Self::FirstRows, Self::Rows];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Plan => "plan",
            Self::FirstRows => "first rows",
            Self::Rows => "rows",
        })
    }
}

/// Duration of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Duration, microseconds.
    pub us: u64,
}

/// Work of all operators of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorTime {
    /// Name of the operator in the plan.
    pub operator: String,
    /// Rows that the operators have returned.
    pub rows: u64,
    /// Processor time of all threads together, microseconds, as far as the operator counts it.
    pub us: u64,
}

/// Progress of a running query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ScanProgress {
    /// Time partitions that the query reads, of all partitions.
    pub partitions: Count,
    /// Parts that the query has read, of the parts that it has to read.
    pub parts: Count,
    /// Rows, or cells of a level, that the query has read.
    pub rows_examined: u64,
    /// Maximum rows of parts and memtable that the query may read; it reads fewer where pages are
    /// pruned.
    pub rows_total: u64,
    /// Bytes read from parts and tiles.
    pub bytes_read: u64,
    /// Percent of `rows_total` that the query has read; `None` where it reads no rows.
    pub percent: Option<f64>,
}

/// State of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryState {
    /// The query waits for its turn.
    Queued,
    /// The query is planned or runs.
    Running,
    /// The answer has ended early, or its client has gone, and tasks of the query still run.
    Stopping,
}

impl fmt::Display for QueryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Stopping => "stopping",
        })
    }
}

/// A query that waits or runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryInfo {
    /// Number of the query in this engine.
    pub id: u64,
    /// The client's own tag: two queries may have the same text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The client that asked, where it has logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Text of the query, cut when it is long.
    pub sql: String,
    /// State of the query.
    pub state: QueryState,
    /// Time of acceptance, microseconds since 1970.
    pub started_us: i64,
    /// Time since then, milliseconds.
    pub elapsed_ms: u64,
    /// Rows returned so far.
    pub rows_returned: u64,
    /// Progress of the scan, once the query is planned.
    #[serde(flatten)]
    pub done: ScanProgress,
    /// True once a client has cancelled the query.
    pub cancelled: bool,
}
