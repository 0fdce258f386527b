//! Statistics of queries: what they read, how far they are and what each stage took. Data only; the
//! plan's nodes are read by `answer/query_stats.rs`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many of a kind there are and how many were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// All that the tables of the query have.
    pub total: u64,
    /// Those that were looked at.
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

/// What answered a query and what was looked at. Complete once the answer's stream has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryStats {
    /// `parts of access`, `memtable of access`, `rollup stats.hourly`; `manifest` when counts kept
    /// there were enough.
    pub answered_by: Vec<String>,
    /// Time partitions.
    pub partitions: Count,
    /// Parts, and for a rollup level its tile files.
    pub parts: Count,
    /// Row groups of the parts examined; for a level the sections of its tiles.
    pub row_groups: Count,
    /// Pages of the row groups whose page index was consulted.
    pub pages: Count,
    /// Rows (or cells of a level) that were read and held against the filters.
    pub rows_examined: u64,
    /// Rows of the answer.
    pub rows_returned: u64,
    /// Bytes read from parts and tiles.
    pub bytes_read: u64,
    /// Since the query was accepted, milliseconds.
    pub elapsed_ms: u64,
    /// What that was spent on, one after the other.
    pub stages: Vec<StageTime>,
    /// What its operators took, those that took most first.
    pub operators: Vec<OperatorTime>,
}

/// A stage of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It waits for a place.
    Queue,
    /// It is parsed and planned; the first rows by time are found.
    Plan,
    /// Until the first rows are there.
    FirstRows,
    /// The others.
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

/// How long a stage took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// Which.
    pub stage: Stage,
    /// Microseconds that passed.
    pub us: u64,
}

/// What all operators of a kind did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorTime {
    /// As the plan names it.
    pub operator: String,
    /// Rows that it gave out.
    pub rows: u64,
    /// Microseconds of the processor, of all threads together, as far as it counts them.
    pub us: u64,
}

/// How far a query is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ScanProgress {
    /// Time partitions in which it looks, of those that there are.
    pub partitions: Count,
    /// Parts that it has looked through, of those in which it looks.
    pub parts: Count,
    /// Rows, or cells of a level, that it has looked at.
    pub rows_examined: u64,
    /// The most that it may look at, of parts and memtable; fewer where pages are passed over.
    pub rows_total: u64,
    /// Bytes read from parts and tiles.
    pub bytes_read: u64,
    /// Of the rows that it may look at; `None` where it looks at none.
    pub percent: Option<f64>,
}

/// Whether a query has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryState {
    /// It waits for a place among those that run.
    Queued,
    /// It is planned or runs.
    Running,
    /// Its answer has ended early, or nobody waits for it any more, and it still computes.
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
    /// Its number, given by this engine.
    pub id: u64,
    /// The client's own tag: two queries may have the same text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Its text, cut when it is long.
    pub sql: String,
    /// Whether it has begun.
    pub state: QueryState,
    /// When it was accepted, microseconds since 1970.
    pub started_us: i64,
    /// Since then, milliseconds.
    pub elapsed_ms: u64,
    /// Rows given out so far.
    pub rows_returned: u64,
    /// What was looked at so far, once it is planned.
    #[serde(flatten)]
    pub done: ScanProgress,
    /// Whether someone cancelled it.
    pub cancelled: bool,
}
