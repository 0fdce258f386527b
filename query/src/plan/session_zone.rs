//! The calendar of a session with a time zone, as in PostgreSQL: a time without a zone is a local
//! time of that zone, and days, hours and their parts are those of its clocks.
//!
//! | part of a statement | read or cut in the session's zone |
//! |---|---|
//! | `time < '2024-03-31'` and other texts where an instant is wanted | yes |
//! | `TIMESTAMP '…'`, `DATE '…'` and columns of these types, beside an instant | yes |
//! | `date_trunc`, `extract`, `date_part`, `to_char` of an instant | yes |
//! | `time::date`, `time::timestamp` | yes |
//! | `AT TIME ZONE '…'`, `time_bucket`, a text with an offset | no: they name theirs |
//!
//! DataFusion takes UTC for all of these. Two steps change that: [`bind`] runs once, while a cast
//! that the statement contains can still be told from the casts of DataFusion's type coercion;
//! [`SessionZone`] runs after the coercion, and therefore sees every implicit cast.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::functions::datetime::to_local_time;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast,
};
use datafusion::optimizer::AnalyzerRule;

use super::rewrite;

const UTC: &str = "UTC";
/// A name for UTC in types that the statement asks for. The two are equal for DataFusion, and this
/// module can tell them apart.
const NAMED_UTC: &str = "+00:00";

/// Returns the zone of a session if its calendar differs from that of UTC.
fn zone(options: &ConfigOptions) -> Option<Arc<str>> {
    let zone = options.execution.time_zone.as_deref()?;
    (!matches!(zone, UTC | NAMED_UTC)).then(|| zone.into())
}

fn is_utc(of: &DataType) -> bool {
    matches!(of, DataType::Timestamp(_, Some(zone)) if &**zone == UTC)
}

fn is_date(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Date64)
}

fn cast(expr: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), to))
}

/// Prepares the plan of a statement that has just been bound, if its session has a zone.
///
/// # Errors
/// If a plan cannot be built again from its changed expressions.
pub(crate) fn bind(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    match zone(options) {
        Some(zone) => rewrite::expressions(plan, &|expr, schema| {
            expr.transform_up(|expr| bound(expr, schema, &zone))
        }),
        None => Ok(plan),
    }
}

/// Marks the casts to UTC that the statement contains, turns dates beside instants into
/// timestamps, and gives the functions of the calendar local times.
fn bound(expr: Expr, schema: &DFSchema, zone: &Arc<str>) -> Result<Transformed<Expr>> {
    let type_of = |expr: &Expr| expr.get_type(schema).ok();
    let is_instant = |expr: &Expr| type_of(expr).is_some_and(|of| is_utc(&of));
    // Beside a date, DataFusion would make a date of the instant.
    let dated = |expr: Expr| match type_of(&expr) {
        Some(of) if is_date(&of) => cast(expr, DataType::Timestamp(TimeUnit::Microsecond, None)),
        _ => expr,
    };
    Ok(Transformed::yes(match expr {
        Expr::Cast(Cast { expr, field }) if is_utc(field.data_type()) => {
            cast(*expr, named(field.data_type()))
        }
        Expr::TryCast(TryCast { expr, field }) if is_utc(field.data_type()) => {
            Expr::TryCast(TryCast::new(expr, named(field.data_type())))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(op) && (is_instant(&left) || is_instant(&right)) =>
        {
            let (left, right) = (Box::new(dated(*left)), Box::new(dated(*right)));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::Between(mut between)
            if [&between.expr, &between.low, &between.high]
                .map(|side| is_instant(side))
                .contains(&true) =>
        {
            for side in [&mut between.expr, &mut between.low, &mut between.high] {
                **side = dated(std::mem::take(&mut **side));
            }
            Expr::Between(between)
        }
        Expr::InList(mut list) if is_instant(&list.expr) => {
            list.list = list.list.into_iter().map(dated).collect();
            Expr::InList(list)
        }
        Expr::ScalarFunction(mut call)
            if call.func.name() == "to_char" && call.args.first().is_some_and(is_instant) =>
        {
            let of = call.args[0].get_type(schema)?;
            call.args[0] = cast(std::mem::take(&mut call.args[0]), local(&of, zone));
            Expr::ScalarFunction(call)
        }
        Expr::ScalarFunction(mut call) if cuts_time(&call) && is_instant(&call.args[1]) => {
            let of = call.args[1].get_type(schema)?;
            let is_part = call.func.name() == "date_part";
            call.args[1] = cast(std::mem::take(&mut call.args[1]), local(&of, zone));
            let call = Expr::ScalarFunction(call);
            if is_part { call } else { cast(call, of) }
        }
        other => return Ok(Transformed::no(other)),
    }))
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
    )
}

/// Returns whether a call computes something of the calendar from its second argument. The seconds
/// of an epoch are those of every zone.
fn cuts_time(call: &ScalarFunction) -> bool {
    let is_epoch = |part: &Expr| match part {
        Expr::Literal(part, _) => part
            .try_as_str()
            .flatten()
            .is_some_and(|part| part.eq_ignore_ascii_case("epoch")),
        _ => false,
    };
    matches!(call.func.name(), "date_trunc" | "date_part")
        && call.args.len() == 2
        && !is_epoch(&call.args[0])
}

/// Returns the type of a timestamp in the session's zone.
fn local(of: &DataType, zone: &Arc<str>) -> DataType {
    match of {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, Some(Arc::clone(zone))),
        other => other.clone(),
    }
}

/// Returns a type in UTC under the name that marks it.
fn named(of: &DataType) -> DataType {
    match of {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, Some(NAMED_UTC.into())),
        other => other.clone(),
    }
}

/// Converts between instants and local times by the session's zone in all casts that name no zone.
/// Applied twice, it changes a plan as if applied once: no cast of its own is one that it changes.
#[derive(Debug)]
pub(crate) struct SessionZone;

impl AnalyzerRule for SessionZone {
    fn name(&self) -> &str {
        "session_zone"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        match zone(options) {
            Some(zone) => rewrite::expressions(plan, &|expr, schema| {
                expr.transform_up(|expr| coerced(expr, schema, &zone))
            }),
            None => Ok(plan),
        }
    }
}

/// Changes one cast between an instant and a time without a zone.
fn coerced(expr: Expr, schema: &DFSchema, zone: &Arc<str>) -> Result<Transformed<Expr>> {
    let (inner, to, is_strict) = match &expr {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), true),
        Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), false),
        _ => return Ok(Transformed::no(expr)),
    };
    let Ok(from) = inner.get_type(schema) else {
        return Ok(Transformed::no(expr));
    };
    let inner = || Expr::clone(inner);
    let again = |expr: Expr, to: &DataType| match is_strict {
        true => cast(expr, to.clone()),
        false => Expr::TryCast(TryCast::new(Box::new(expr), to.clone())),
    };
    let changed = match (&from, to) {
        (date, DataType::Timestamp(unit, _)) if is_utc(to) && is_date(date) => {
            let midnight = again(inner(), &DataType::Timestamp(*unit, None));
            again(again(midnight, &local(to, zone)), to)
        }
        (from, _) if is_utc(to) && has_no_zone(from) => again(again(inner(), &local(to, zone)), to),
        (_, to) if is_utc(&from) && is_date(to) => again(cast(inner(), local(&from, zone)), to),
        (_, DataType::Timestamp(_, None)) if is_utc(&from) => {
            let local = cast(inner(), local(&from, zone));
            again(to_local_time().call(vec![local]), to)
        }
        _ => return Ok(Transformed::no(expr)),
    };
    Ok(Transformed::yes(changed))
}

/// Returns whether values of a type are local times, or may be.
fn has_no_zone(of: &DataType) -> bool {
    of.is_string() || matches!(of, DataType::Timestamp(_, None))
}
