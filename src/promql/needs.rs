//! The series that a query reads, and the check that every part of it can be evaluated.

use promql_parser::label::{METRIC_NAME, MatchOp, Matcher};
use promql_parser::parser::token::T_SUM;
use promql_parser::parser::{
    AtModifier, Call, Expr, LabelModifier, MatrixSelector, Offset, SubqueryExpr, VectorSelector,
};

use super::error::{PromqlError, Result};
use super::evaluate::{Steps, ms};
use super::{aggregate, binary, function};

/// The step of a subquery that names none: Prometheus' default interval of evaluation.
const SUBQUERY_STEP_MS: i64 = 60_000;

/// The use that a query makes of a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// The value at each step.
    Instants,
    /// The samples of a window before each step, milliseconds.
    Samples(i64),
    /// The increase over a window before each step, milliseconds.
    Increase(i64),
    /// The last increase within a window before each step, milliseconds.
    LastIncrease(i64),
}

impl Reads {
    /// Returns the length of the windows, milliseconds.
    pub(crate) fn range(self) -> i64 {
        match self {
            Self::Instants => 0,
            Self::Samples(range) | Self::Increase(range) | Self::LastIncrease(range) => range,
        }
    }
}

/// The labels that a query distinguishes.
#[derive(Debug, Clone)]
pub(crate) enum KeptLabels {
    By(Vec<String>),
    Without(Vec<String>),
}

impl KeptLabels {
    /// Returns whether a label is distinguished.
    pub(crate) fn keeps(&self, label: &str) -> bool {
        match self {
            Self::By(labels) => labels.iter().any(|l| l == label),
            Self::Without(labels) => !labels.iter().any(|l| l == label),
        }
    }
}

/// The series of one selector.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    /// The selector.
    pub(super) selector: usize,
    pub(crate) matchers: Vec<Matcher>,
    /// The instants at which it is read.
    pub(crate) steps: Steps,
    pub(crate) reads: Reads,
    /// The labels that the sum around its increase distinguishes; `None` for all.
    pub(crate) keep: Option<KeptLabels>,
}

impl Need {
    /// Returns whether a name of a metric passes.
    pub(crate) fn takes_name(&self, name: &str) -> bool {
        let mut names = self.matchers.iter().filter(|m| m.name == METRIC_NAME);
        names.all(|matcher| matcher.is_match(name))
    }
}

/// Returns the matchers of a selector, with its name as one of them.
pub(crate) fn matchers_of(selector: &VectorSelector) -> Vec<Matcher> {
    let mut matchers = selector.matchers.matchers.clone();
    if let Some(name) = &selector.name {
        matchers.push(Matcher::new(MatchOp::Equal, METRIC_NAME, name));
    }
    matchers
}

pub(super) fn key(selector: &VectorSelector) -> usize {
    std::ptr::from_ref(selector).addr()
}

/// Returns the instant that a selector reads at `t`.
pub(super) fn shifted(
    t: i64,
    at: Option<&AtModifier>,
    offset: Option<&Offset>,
    (start, end): (i64, i64),
) -> i64 {
    let at = match at {
        None => t,
        Some(AtModifier::Start) => start,
        Some(AtModifier::End) => end,
        Some(AtModifier::At(at)) => match at.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => ms(after),
            Err(before) => -ms(before.duration()),
        },
    };
    match offset {
        None => at,
        Some(Offset::Pos(by)) => at.saturating_sub(ms(*by)),
        Some(Offset::Neg(by)) => at.saturating_add(ms(*by)),
    }
}

/// Returns the needs of an expression that is evaluated at `steps`.
pub(super) fn of(expr: &Expr, steps: Steps) -> Result<Vec<Need>> {
    let mut walk = Walk {
        ends: (steps.start, steps.end),
        needs: Vec::new(),
    };
    walk.visit(expr, steps)?;
    Ok(walk.needs)
}

struct Walk {
    ends: (i64, i64),
    needs: Vec<Need>,
}

impl Walk {
    fn shift(&self, steps: Steps, at: Option<&AtModifier>, offset: Option<&Offset>) -> Steps {
        Steps {
            start: shifted(steps.start, at, offset, self.ends),
            end: shifted(steps.end, at, offset, self.ends),
            step: steps.step,
        }
    }

    fn add(&mut self, selector: &VectorSelector, steps: Steps, reads: Reads) {
        self.needs.push(Need {
            selector: key(selector),
            matchers: matchers_of(selector),
            steps: self.shift(steps, selector.at.as_ref(), selector.offset.as_ref()),
            reads,
            keep: None,
        });
    }

    fn visit(&mut self, expr: &Expr, steps: Steps) -> Result<()> {
        match expr {
            Expr::Aggregate(aggregate) => {
                if let Some(param) = &aggregate.param {
                    self.visit(param, steps)?;
                }
                let before = self.needs.len();
                self.visit(&aggregate.expr, steps)?;
                if aggregate.op.id() == T_SUM && is_increase(&aggregate.expr) {
                    self.needs[before].keep = Some(match &aggregate.modifier {
                        None => KeptLabels::By(Vec::new()),
                        Some(LabelModifier::Include(by)) => KeptLabels::By(by.labels.clone()),
                        Some(LabelModifier::Exclude(by)) => KeptLabels::Without(by.labels.clone()),
                    });
                }
            }
            Expr::Unary(unary) => self.visit(&unary.expr, steps)?,
            Expr::Binary(binary) => {
                self.visit(&binary.lhs, steps)?;
                self.visit(&binary.rhs, steps)?;
            }
            Expr::Paren(paren) => self.visit(&paren.expr, steps)?,
            Expr::Subquery(subquery) => {
                let inner = subquery_steps(subquery, steps, self.ends)?;
                self.visit(&subquery.expr, inner)?;
            }
            Expr::VectorSelector(selector) => self.add(selector, steps, Reads::Instants),
            Expr::MatrixSelector(matrix) => self.add_matrix(matrix, steps, Reads::Samples),
            Expr::Call(call) => {
                for argument in &call.args.args {
                    match (&**argument, call.func.name) {
                        (Expr::MatrixSelector(matrix), "rate" | "increase") => {
                            self.add_matrix(matrix, steps, Reads::Increase);
                        }
                        (Expr::MatrixSelector(matrix), "irate") => {
                            self.add_matrix(matrix, steps, Reads::LastIncrease);
                        }
                        (argument, _) => self.visit(argument, steps)?,
                    }
                }
            }
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
        }
        Ok(())
    }

    fn add_matrix(&mut self, matrix: &MatrixSelector, steps: Steps, reads: fn(i64) -> Reads) {
        self.add(&matrix.vs, steps, reads(ms(matrix.range)));
    }
}

fn is_increase(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(paren) => is_increase(&paren.expr),
        Expr::Call(Call { func, args }) => {
            matches!(func.name, "rate" | "increase")
                && matches!(
                    args.args.first().map(|a| &**a),
                    Some(Expr::MatrixSelector(_))
                )
        }
        _ => false,
    }
}

/// Returns the instants of a subquery: the multiples of its step in all of its windows.
pub(super) fn subquery_steps(
    subquery: &SubqueryExpr,
    outer: Steps,
    ends: (i64, i64),
) -> Result<Steps> {
    let shift = |t| shifted(t, subquery.at.as_ref(), subquery.offset.as_ref(), ends);
    let step = subquery.step.map_or(SUBQUERY_STEP_MS, ms).max(1);
    let from = shift(outer.start).saturating_sub(ms(subquery.range));
    let steps = Steps {
        start: (from.div_euclid(step) + 1).saturating_mul(step),
        end: shift(outer.end).div_euclid(step).saturating_mul(step),
        step,
    };
    if steps.count() > super::SAMPLES_MAX {
        return Err(PromqlError::execution(format!(
            "a subquery has {} steps; the limit is {}",
            steps.count(),
            super::SAMPLES_MAX
        )));
    }
    Ok(steps)
}

/// Checks that every part can be evaluated.
pub(super) fn check(expr: &Expr) -> Result<()> {
    match expr {
        Expr::Aggregate(a) => {
            aggregate::check(a)?;
            if let Some(param) = &a.param {
                check(param)?;
            }
            check(&a.expr)
        }
        Expr::Unary(unary) => check(&unary.expr),
        Expr::Binary(b) => {
            binary::check(b)?;
            check(&b.lhs)?;
            check(&b.rhs)
        }
        Expr::Paren(paren) => check(&paren.expr),
        Expr::Subquery(subquery) => check(&subquery.expr),
        Expr::Call(call) => {
            function::check(call)?;
            call.args
                .args
                .iter()
                .try_for_each(|argument| check(argument))
        }
        Expr::VectorSelector(selector) => check_selector(selector),
        Expr::MatrixSelector(matrix) => check_selector(&matrix.vs),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Ok(()),
        Expr::Extension(extension) => Err(PromqlError::execution(format!(
            "{} is not supported",
            extension.expr.name()
        ))),
    }
}

fn check_selector(selector: &VectorSelector) -> Result<()> {
    if selector.matchers.or_matchers.is_empty() {
        return Ok(());
    }
    Err(PromqlError::execution(
        "or between matchers is not supported; write two selectors with the operator or",
    ))
}
