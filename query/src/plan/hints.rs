//! Hints: `SELECT /*+ no_rollup */ …`. Those of any SELECT hold for the whole statement.
//!
//! | hint | what it does |
//! |---|---|
//! | `no_rollup` | raw events answer, also where a rollup could |
//! | `no_index` | no index is used |
//! | `plan/top_k`, `no_top_k` | the first rows by time are found before their columns are read, or never so |
//! | `index(a, b)` | raw events answer, by the indexes of these columns where there are any |
//! | `order(host, time)` | raw events answer, by the order of the parts, which begins so |

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Select, VisitMut, VisitorMut};
use storage::Snapshot;

use crate::error::{Error, Result};
use crate::tables::level::RollupUse;

const KNOWN: &str = "no_rollup, no_index, index(COLUMN, …), order(COLUMN, …), top_k and no_top_k";

/// What a statement's hints say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// When rollups answer, if the statement says so.
    pub(crate) rollup_use: Option<RollupUse>,
    /// The columns whose indexes may be used; `None` when every one may.
    pub(crate) indexes: Option<Vec<String>>,
    /// Whether the first rows by time are found first, if the statement says so.
    pub(crate) top_k: Option<bool>,
    /// How the order of the parts is to begin.
    order: Option<Vec<String>>,
}

impl Hints {
    /// Takes the hints out of a statement.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming one that is not known: a hint that does nothing would go unnoticed.
    pub(crate) fn take(statement: &mut Statement) -> Result<Self> {
        let mut found = Found(Vec::new());
        walk(statement, &mut found);
        let mut hints = Self::default();
        for hint in found.0 {
            hints.add(&hint)?;
        }
        Ok(hints)
    }

    /// # Errors
    /// [`Error::Invalid`] when no stream has the order that is asked for.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<()> {
        let Some(order) = &self.order else {
            return Ok(());
        };
        let streams = snapshot.streams();
        if streams
            .values()
            .any(|meta| meta.order_by.starts_with(order))
        {
            return Ok(());
        }
        let orders = streams
            .iter()
            .map(|(name, meta)| format!("{name} by {}", meta.order_by.join(", ")));
        Err(Error::invalid(format!(
            "no stream is in the order {}; there are {}",
            order.join(", "),
            orders.collect::<Vec<_>>().join("; ")
        )))
    }

    fn add(&mut self, hint: &str) -> Result<()> {
        let (name, columns) = match hint.strip_suffix(')').and_then(|h| h.split_once('(')) {
            Some((name, columns)) => {
                let columns = columns.split(',').filter(|c| !c.is_empty());
                (
                    name,
                    columns.map(|c| c.trim_matches('"').to_owned()).collect(),
                )
            }
            None => (hint, Vec::new()),
        };
        match (name.to_ascii_lowercase().as_str(), columns.is_empty()) {
            ("no_rollup", true) => self.rollup_use = Some(RollupUse::Never),
            ("no_index", true) => self.indexes = Some(Vec::new()),
            ("top_k", true) => self.top_k = Some(true),
            ("no_top_k", true) => self.top_k = Some(false),
            ("index", false) => {
                self.rollup_use = Some(RollupUse::Never);
                self.indexes = Some(columns);
            }
            ("order", false) => {
                self.rollup_use = Some(RollupUse::Never);
                self.indexes = Some(Vec::new());
                self.order = Some(columns);
            }
            _ => {
                return Err(Error::invalid(format!(
                    "there is no hint {hint:?}; known are {KNOWN}"
                )));
            }
        }
        Ok(())
    }
}

fn walk(statement: &mut Statement, found: &mut Found) {
    match statement {
        Statement::Statement(sql) => {
            let _: ControlFlow<()> = VisitMut::visit(&mut **sql, found);
        }
        Statement::Explain(explain) => walk(&mut explain.statement, found),
        _ => {}
    }
}

struct Found(Vec<String>);

impl VisitorMut for Found {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for hint in select.optimizer_hints.drain(..) {
            // Others are comments to somebody else: `/*abc+ … */`.
            if hint.prefix.is_empty() {
                self.0.extend(split(&hint.text));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The hints in one comment: words, each perhaps with something in parentheses.
fn split(text: &str) -> Vec<String> {
    let mut hints = Vec::new();
    let (mut hint, mut depth) = (String::new(), 0_u32);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c.is_whitespace() || c == ',') {
            hints.extend(Some(std::mem::take(&mut hint)).filter(|h| !h.is_empty()));
        } else if !c.is_whitespace() {
            hint.push(c);
        }
    }
    hints.extend(Some(hint).filter(|h| !h.is_empty()));
    hints
}
