//! `a IS DISTINCT FROM b AND c` means `(a IS DISTINCT FROM b) AND c`. The parser takes everything
//! that follows for the right side, `b AND c`
//! (<https://github.com/apache/datafusion/issues/23692>, fixed by
//! <https://github.com/apache/datafusion-sqlparser-rs/pull/2436> after the release in use).
//!
//! The rewrite splits the tree into the operands between AND and OR, in the order in which they
//! were written, and joins them again by precedence. Expressions in parentheses stay as they were
//! parsed.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

/// Corrects the right sides of `IS [NOT] DISTINCT FROM`.
pub(super) struct DistinctFrom;

impl VisitorMut for DistinctFrom {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if holds_too_much(expr) {
            let mut chain = Chain::default();
            chain.take(std::mem::replace(expr, nothing()));
            *expr = chain.put_together();
        }
        ControlFlow::Continue(())
    }
}

fn nothing() -> Expr {
    Expr::Value(Value::Null.into())
}

/// Returns whether one of the operands of this chain of AND and OR includes the terms that follow
/// it.
fn holds_too_much(expr: &Expr) -> bool {
    match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => {
            is_connected(right) || holds_too_much(right)
        }
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => holds_too_much(expr),
        Expr::BinaryOp { left, op, right } if connects(op) => {
            holds_too_much(left) || holds_too_much(right)
        }
        _ => false,
    }
}

fn connects(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or)
}

fn is_connected(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op, .. } if connects(op))
}

/// Operands and the operators between them, as they were written.
#[derive(Default)]
struct Chain {
    operands: Vec<Expr>,
    operators: Vec<BinaryOperator>,
}

impl Chain {
    fn take(&mut self, expr: Expr) {
        match expr {
            Expr::BinaryOp { left, op, right } if connects(&op) => {
                self.take(*left);
                self.operators.push(op);
                self.take(*right);
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } if holds_too_much(&expr) => {
                let first = self.operands.len();
                self.take(*expr);
                self.change(first, |operand| Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(operand),
                });
            }
            Expr::IsDistinctFrom(left, right) => {
                let first = self.operands.len();
                self.take(*right);
                self.change(first, |right| Expr::IsDistinctFrom(left, Box::new(right)));
            }
            Expr::IsNotDistinctFrom(left, right) => {
                let first = self.operands.len();
                self.take(*right);
                self.change(first, |right| {
                    Expr::IsNotDistinctFrom(left, Box::new(right))
                });
            }
            other => self.operands.push(other),
        }
    }

    fn change(&mut self, at: usize, to: impl FnOnce(Expr) -> Expr) {
        let operand = std::mem::replace(&mut self.operands[at], nothing());
        self.operands[at] = to(operand);
    }

    /// Joins the operands: AND before OR, each from the left.
    fn put_together(self) -> Expr {
        let mut operands = self.operands.into_iter();
        let mut sums: Vec<Expr> = operands.next().into_iter().collect();
        for (op, operand) in self.operators.into_iter().zip(operands) {
            match (op, sums.pop()) {
                (BinaryOperator::And, Some(left)) => {
                    sums.push(joined(left, BinaryOperator::And, operand));
                }
                (_, left) => {
                    sums.extend(left);
                    sums.push(operand);
                }
            }
        }
        let joined = |left, right| joined(left, BinaryOperator::Or, right);
        sums.into_iter().reduce(joined).unwrap_or_else(nothing)
    }
}

fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}
