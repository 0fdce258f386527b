//! Hints: `SELECT /*+ no_rollup */ …`. The hints of any SELECT apply to the whole statement.
//!
//! | hint | effect |
//! |---|---|
//! | `no_rollup` | raw events answer, even where a rollup could |
//! | `no_index` | no index is used |
//! | `top_k`, `no_top_k` | the first rows by time are always (never) found before their columns |
//! | `index(a, b)` | raw events answer, by the indexes of these columns where they have any |
//! | `order(host, time)` | raw events answer, by the order of the parts, which begins like this |

#[cfg(test)]
mod fuzzing;
mod text;

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Select, VisitMut, VisitorMut};
use storage::Snapshot;

use self::text::Hint;
use crate::error::{Error, Result};
use crate::question::Viewer;
use crate::tables::level::RollupUse;

/// The hints of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// When rollups answer, if the statement says so.
    pub(crate) rollup_use: Option<RollupUse>,
    /// Columns whose indexes may be used; `None` when all of them may.
    pub(crate) indexes: Option<Vec<String>>,
    /// True to always find the first rows by time first, false to never do so; `None` without a
    /// hint.
    pub(crate) top_k: Option<bool>,
    /// Columns with which the order of the parts has to begin.
    order: Option<Vec<String>>,
}

impl Hints {
    /// Removes the hints from a statement and returns them.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming an unknown hint: a hint without effect would go unnoticed.
    pub(crate) fn take(statement: &mut Statement) -> Result<Self> {
        let mut found = HintTexts(Vec::new());
        walk(statement, &mut found);
        let mut hints = Self::default();
        for comment in found.0 {
            for hint in text::parse(&comment).map_err(Error::invalid)? {
                hints.add(hint);
            }
        }
        Ok(hints)
    }

    /// Checks that a stream has the order that the hint requires.
    ///
    /// # Errors
    /// [`Error::Invalid`] when no stream has it.
    pub(crate) fn check(&self, snapshot: &Snapshot, viewer: &Viewer) -> Result<()> {
        let Some(order) = &self.order else {
            return Ok(());
        };
        let streams = snapshot.streams().iter();
        let streams = streams.filter(|(name, _)| viewer.sees(name.as_str()));
        if streams
            .clone()
            .any(|(_, meta)| meta.order_by.starts_with(order))
        {
            return Ok(());
        }
        let orders = streams.map(|(name, meta)| format!("{name} by {}", meta.order_by.join(", ")));
        Err(Error::invalid(format!(
            "no stream is sorted by {}; the orders are {}",
            order.join(", "),
            orders.collect::<Vec<_>>().join("; ")
        )))
    }

    fn add(&mut self, hint: Hint) {
        match hint {
            Hint::NoRollup => self.rollup_use = Some(RollupUse::Never),
            Hint::NoIndex => self.indexes = Some(Vec::new()),
            Hint::TopK(first) => self.top_k = Some(first),
            Hint::Index(columns) => {
                self.rollup_use = Some(RollupUse::Never);
                self.indexes = Some(columns);
            }
            Hint::Order(columns) => {
                self.rollup_use = Some(RollupUse::Never);
                self.indexes = Some(Vec::new());
                self.order = Some(columns);
            }
        }
    }
}

fn walk(statement: &mut Statement, found: &mut HintTexts) {
    match statement {
        Statement::Statement(sql) => {
            let _: ControlFlow<()> = VisitMut::visit(&mut **sql, found);
        }
        Statement::Explain(explain) => walk(&mut explain.statement, found),
        _ => {}
    }
}

struct HintTexts(Vec<String>);

impl VisitorMut for HintTexts {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for hint in select.optimizer_hints.drain(..) {
            // A comment with a prefix is meant for other software: `/*abc+ … */`.
            if hint.prefix.is_empty() {
                self.0.push(hint.text);
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;
