//! Limits of one query, and the lines before the running queries.
//!
//! # Invariants
//! * At most [`Limits::running`] queries run at once, and at most [`Limits::queued`] wait in the
//!   order of arrival. A query releases its place when it ends, when its answer is dropped, and at
//!   the latest at its time limit, even if no client reads its answer.
//! * A client with a [`Line`] has at most that many places among them. The rest of its queries
//!   wait in its line, not in the line of all.

pub(crate) mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::error::{Error, Fault, LineFull, Result};

/// Default of [`Limits::sql_bytes`]: the parser never sees a longer text.
const SQL_BYTES_MAX: usize = 1 << 20;
/// Maximum operators of one query: each may add a level to a tree.
const OPERATORS_MAX: usize = 1000;
/// Maximum set operations and joins of one query.
const TABLES_MAX: usize = 100;
/// Default of [`Limits::temp_bytes`].
const TEMP_BYTES_MAX: u64 = 8 << 30;

/// Limits of queries; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time of a query from its turn to its last row.
    pub time: Option<Duration>,
    /// Rows of an answer.
    pub rows: Option<u64>,
    /// Bytes of an answer, in memory.
    pub bytes: Option<u64>,
    /// Bytes of a query's text.
    pub sql_bytes: usize,
    /// Queries that run at once.
    pub running: usize,
    /// Queries that wait for those that run.
    pub queued: usize,
    /// Spilled data of all queries together, bytes.
    pub temp_bytes: u64,
}

impl Limits {
    /// The setting of the time of a query.
    pub const TIME: &str = "query.time_max";

    /// Returns the same limits with a time of at most `time`, if that is given.
    pub(crate) fn within(self, time: Option<Duration>) -> Self {
        let time = self.time.into_iter().chain(time).min();
        Self { time, ..self }
    }

    pub(crate) fn check_text(&self, sql: &str) -> Result<()> {
        if sql.len() > self.sql_bytes {
            return Err(Error::Limit {
                limit: "query.sql_bytes_max",
                message: format!(
                    "the query's text has {} bytes; the limit is {}",
                    sql.len(),
                    self.sql_bytes
                ),
                hint: "write long lists as a range, or split the query",
            });
        }
        Ok(())
    }

    pub(crate) fn check_rows(&self, rows: u64) -> Result<()> {
        let hint = "narrow its time range, add LIMIT, or group";
        within(rows, self.rows, ("rows", "query.rows_max"), hint)
    }

    pub(crate) fn check_bytes(&self, bytes: u64) -> Result<()> {
        let hint = "narrow its time range, select fewer columns, or group";
        within(bytes, self.bytes, ("bytes", "query.result_bytes_max"), hint)
    }

    pub(crate) fn too_long(&self) -> Error {
        let most = self.time.unwrap_or_default();
        Error::Limit {
            limit: Self::TIME,
            message: format!("the query took more than {most:?}"),
            hint: "narrow its time range, or query a rollup",
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            time: Some(Duration::from_secs(60)),
            rows: Some(1_000_000),
            bytes: Some(256 << 20),
            sql_bytes: SQL_BYTES_MAX,
            running: (2 * cores).max(4),
            queued: 64,
            temp_bytes: TEMP_BYTES_MAX,
        }
    }
}

fn within(
    found: u64,
    most: Option<u64>,
    (what, limit): (&str, &'static str),
    hint: &'static str,
) -> Result<()> {
    match most {
        Some(most) if found > most => Err(Error::Limit {
            limit,
            message: format!("the answer has more than {most} {what}"),
            hint,
        }),
        _ => Ok(()),
    }
}

/// Limits the shape of a query. A chain of operators becomes a tree as deep as the chain is long,
/// and every visitor needs a stack as deep. The parser itself limits parentheses and subqueries.
/// Each set operation and join adds planning time. Runs on the query's threads: a megabyte takes
/// many milliseconds.
pub(crate) fn check_shape(sql: &str) -> Result<()> {
    let (mut operators, mut tables) = (0, 0);
    // A text that cannot be split into tokens passes: the parser's message about it is better.
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize();
    for token in tokens.unwrap_or_default() {
        match token {
            Token::Word(word) => match word.keyword {
                Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::WHEN | Keyword::LIKE => {
                    operators += 1;
                }
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::JOIN => {
                    tables += 1;
                }
                _ => {}
            },
            Token::Comma
            | Token::Period
            | Token::LParen
            | Token::RParen
            | Token::LBracket
            | Token::RBracket
            | Token::SemiColon
            | Token::EOF
            | Token::Whitespace(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_) => {}
            _ => operators += 1,
        }
    }
    for (count, most, what, hint) in [
        (operators, OPERATORS_MAX, "operators", "write OR as IN (…)"),
        (tables, TABLES_MAX, "sets and joins", "split the query"),
    ] {
        if count > most {
            return Err(Error::Invalid {
                message: format!("the query has {count} {what}; the limit is {most}"),
                hint: Some(hint.to_owned()),
                fault: Fault::Other,
            });
        }
    }
    Ok(())
}

/// A number of places, and a line of bounded length before them. Clones share both.
#[derive(Debug, Clone)]
pub struct Line {
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    running_max: usize,
    queued_max: usize,
}

/// A place behind a [`Line`], given back when it is dropped.
#[derive(Debug)]
pub struct LinePlace {
    _permit: OwnedSemaphorePermit,
}

/// The places of running queries, and the line before them.
#[derive(Debug)]
pub(crate) struct Queue {
    all: Line,
    pub(crate) limits: Limits,
}

/// A place among the running queries.
#[derive(Debug)]
pub(crate) struct QueryPlace {
    _of_all: LinePlace,
    _of_client: Option<LinePlace>,
    /// Time limit of the query.
    pub(crate) until: Option<Instant>,
}

/// Counts a waiting query until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Line {
    /// Returns a line for places of `running_max`, at least one, in which `queued_max` may wait.
    pub fn new(running_max: usize, queued_max: usize) -> Self {
        let running_max = running_max.max(1);
        Self {
            places: Arc::new(Semaphore::new(running_max)),
            waiting: Arc::default(),
            running_max,
            queued_max,
        }
    }

    /// Returns whether a place is taken.
    pub fn is_used(&self) -> bool {
        self.places.available_permits() < self.running_max
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Waits for a place. Dropping the future leaves the line.
    ///
    /// # Errors
    /// If as many wait as may.
    pub async fn place(&self) -> Result<LinePlace, LineFull> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(LinePlace { _permit: permit });
        }
        let queued = self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        if queued >= self.queued_max {
            return Err(LineFull {
                running: self.running_max,
                queued,
            });
        }
        let permit = Arc::clone(&self.places).acquire_owned().await;
        let permit = permit.expect("BUG: the places are never closed");
        Ok(LinePlace { _permit: permit })
    }
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            all: Line::new(limits.running, limits.queued),
            limits,
        }
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.all.waiting()
    }

    /// Waits for a place, first in the line of the client, if it has one. Dropping the future
    /// leaves the lines.
    pub(crate) async fn place(
        &self,
        time: Option<Duration>,
        of_client: Option<Line>,
    ) -> Result<QueryPlace> {
        let of_client = match of_client {
            Some(line) => Some(line.place().await.map_err(Error::ShareBusy)?),
            None => None,
        };
        Ok(QueryPlace {
            _of_all: self.all.place().await.map_err(Error::Busy)?,
            _of_client: of_client,
            until: time.map(|time| Instant::now() + time),
        })
    }
}

/// Waits until that moment; for ever, if there is none.
pub(crate) async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
