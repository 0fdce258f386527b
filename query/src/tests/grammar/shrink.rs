//! A shorter query that still differs: clauses are left out, conditions cut down, one after the
//! other.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query,
    SetExpr, UnaryOperator, VisitMut, VisitorMut,
};

use super::compare::{parse, query_of};

/// Trials of one query.
const TRIALS: usize = 400;

/// A query that is made shorter, trial by trial.
pub(super) struct Shrinking {
    pub(super) shortest: String,
    nth: usize,
    trials: usize,
}

impl Shrinking {
    pub(super) fn of(sql: &str) -> Self {
        Self {
            shortest: sql.to_owned(),
            nth: 0,
            trials: 0,
        }
    }

    /// Returns a shorter form to try; `None` when there are no more.
    pub(super) fn shorter(&mut self) -> Option<String> {
        while self.trials < TRIALS {
            self.trials += 1;
            let shorter = without(&self.shortest, self.nth)?;
            if shorter.len() < self.shortest.len() {
                return Some(shorter);
            }
            self.nth += 1;
        }
        None
    }

    /// Keeps a form that was tried if it still differs, else passes on.
    pub(super) fn tried(&mut self, shorter: String, differs: bool) {
        match differs {
            true => self.shortest = shorter,
            false => self.nth += 1,
        }
    }
}

/// Returns the query without its nth removable clause; `None` when there are not so many.
fn without(sql: &str, nth: usize) -> Option<String> {
    let mut statement = parse(sql).ok()?;
    let query = query_of(&mut statement)?;
    let mut cut = Cut { left: nth };
    let done: ControlFlow<()> = VisitMut::visit(query, &mut cut);
    done.is_break().then(|| statement.to_string())
}

struct Cut {
    /// Number of clauses to pass over.
    left: usize,
}

impl Cut {
    /// Returns whether this is the clause to leave out.
    fn is_it(&mut self) -> bool {
        let is_it = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_it
    }

    fn clauses(&mut self, query: &mut Query) -> bool {
        if query.order_by.is_some() && self.is_it() {
            query.order_by = None;
            query.limit_clause = None;
            return true;
        }
        if query.limit_clause.is_some() && self.is_it() {
            query.limit_clause = None;
            return true;
        }
        let body = &mut *query.body;
        if let SetExpr::SetOperation { left, right, .. } = &*body {
            let side = if self.is_it() {
                left
            } else if self.is_it() {
                right
            } else {
                return false;
            };
            *body = (**side).clone();
            return true;
        }
        let SetExpr::Select(select) = body else {
            return false;
        };
        if select.selection.is_some() && self.is_it() {
            select.selection = None;
            return true;
        }
        if select.having.is_some() && self.is_it() {
            select.having = None;
            return true;
        }
        if select.distinct.is_some() && self.is_it() {
            select.distinct = None;
            return true;
        }
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            for at in 0..groups.len() {
                if self.is_it() {
                    groups.remove(at);
                    return true;
                }
            }
        }
        for at in (0..select.projection.len()).rev() {
            if select.projection.len() > 1 && self.is_it() {
                select.projection.remove(at);
                return true;
            }
        }
        for from in &mut select.from {
            if !from.joins.is_empty() && self.is_it() {
                from.joins.pop();
                return true;
            }
        }
        false
    }
}

impl VisitorMut for Cut {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        match self.clauses(query) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let instead: Vec<Expr> = match expr {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And | BinaryOperator::Or,
                right,
            } => vec![(**left).clone(), (**right).clone()],
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => vec![(**expr).clone()],
            Expr::Function(call) if call.filter.is_some() => {
                let mut call = call.clone();
                call.filter = None;
                vec![Expr::Function(call)]
            }
            Expr::Function(call) => match &call.args {
                FunctionArguments::List(list) => list
                    .args
                    .iter()
                    .filter_map(|arg| match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                        _ => None,
                    })
                    .collect(),
                _ => Vec::new(),
            },
            Expr::Case {
                conditions,
                else_result,
                ..
            } => {
                let results = conditions.iter().map(|when| when.result.clone());
                results.chain(else_result.as_deref().cloned()).collect()
            }
            Expr::Cast { expr, .. } | Expr::Nested(expr) => vec![(**expr).clone()],
            _ => Vec::new(),
        };
        for shorter in instead {
            if self.is_it() {
                *expr = shorter;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}
