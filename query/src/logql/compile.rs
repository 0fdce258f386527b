//! The streams that a selector names, with the conditions that a plan can evaluate on columns.

mod function;

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::catalog::CatalogProvider;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use storage::TIME;

pub(super) use function::{EntryFunction, EntryOutput, entry_function};

use super::ast::{Comparison, FilterValue, LabelFilter, LogQuery, MatchOp, Matcher, Named, Stage};
use super::entry::ERROR;
use super::labels::{ColumnKind, Columns, DETECTED_LEVEL, LABELS, STREAM, named};
use super::pattern::anchored;
use super::pipeline::Test;
use crate::error::Error;
use crate::question::Tables;
use crate::tables::catalog::PUBLIC;

/// The events of one stream that pass the selector and the first conditions of a query.
pub(super) struct Source {
    pub(super) columns: Columns,
    pub(super) plan: LogicalPlanBuilder,
}

/// Converts a fault that the parser has excluded.
fn invalid(message: String) -> Error {
    Error::invalid(message)
}

/// Returns the events with `first_us <= time <= last_us` of every stream that a query selects,
/// and the stages that the plans have not evaluated.
pub(super) fn sources(
    tables: &Tables<'_>,
    query: &LogQuery,
    (first_us, last_us): (i64, i64),
) -> Result<(Vec<Source>, LogQuery)> {
    let mut found = Vec::new();
    for stream in streams(tables, query)? {
        let plan = tables.scan(&stream)?;
        let columns = Columns::new(&stream, plan.schema().as_arrow());
        check_labels(&columns, &query.matchers)?;
        if let Some(condition) = selected(&columns, &query.matchers)? {
            let plan = plan.filter(between(first_us, last_us))?;
            let plan = condition
                .into_iter()
                .try_fold(plan, LogicalPlanBuilder::filter)?;
            found.push(Source { columns, plan });
        }
    }
    let mut stages = query.stages.iter().peekable();
    while let Some(stage) = stages.peek() {
        let conditions = found
            .iter()
            .map(|source| condition_of(stage, &source.columns));
        let Some(conditions) = conditions.collect::<Option<Vec<Expr>>>() else {
            break;
        };
        for (source, condition) in found.iter_mut().zip(conditions) {
            if condition != lit(true) {
                source.plan = source.plan.clone().filter(condition)?;
            }
        }
        stages.next();
    }
    let rest = LogQuery {
        matchers: Vec::new(),
        stages: stages.cloned().collect(),
    };
    Ok((found, rest))
}

/// Returns the streams of the client whose name passes.
fn streams(tables: &Tables<'_>, query: &LogQuery) -> Result<Vec<String>> {
    let of_name = query
        .matchers
        .iter()
        .filter(|matcher| matcher.label == STREAM);
    let tests = of_name.map(|matcher| Test::new(matcher.op, &matcher.value));
    let tests: Vec<Test> = tests.collect::<Result<_, String>>().map_err(invalid)?;
    let schema = tables.0.schema(PUBLIC);
    let names = schema
        .map(|schema| schema.table_names())
        .unwrap_or_default();
    let passing = names
        .into_iter()
        .filter(|name| tests.iter().all(|test| test.passes(name)));
    Ok(passing.collect())
}

/// Refuses a selector that names a column which is no label: Loki's answer, that no event has such
/// a label, would be a wrong one.
fn check_labels(columns: &Columns, matchers: &[Matcher]) -> Result<()> {
    let is_metadata = |label: &str| {
        let column = columns.column_of(label);
        label == DETECTED_LEVEL
            || column.is_some_and(|c| columns.kind_of(c) == ColumnKind::Metadata)
    };
    match matchers.iter().find(|matcher| is_metadata(&matcher.label)) {
        None => Ok(()),
        Some(Matcher { label, op, value }) => plan_err!(
            "{label} of {} is no label; the labels are {}; write {{…}} | {label}{op}{value:?}",
            columns.stream,
            LABELS.join(", ")
        ),
    }
}

fn between(first_us: i64, last_us: i64) -> Expr {
    let at = |us| {
        lit(ScalarValue::TimestampMicrosecond(
            Some(us),
            Some("UTC".into()),
        ))
    };
    let time = || named(TIME);
    time().gt_eq(at(first_us)).and(time().lt_eq(at(last_us)))
}

/// Returns the conditions of a selector on a stream; `None` if no event of it passes.
fn selected(columns: &Columns, matchers: &[Matcher]) -> Result<Option<Vec<Expr>>> {
    let labels = columns.labels();
    let mut conditions = Vec::new();
    for matcher in matchers.iter().filter(|matcher| matcher.label != STREAM) {
        let test = Test::new(matcher.op, &matcher.value).map_err(invalid)?;
        let is_label = labels.contains(&matcher.label.as_str());
        match columns.text(&matcher.label).filter(|_| is_label) {
            Some(text) => conditions.push(text_condition(text, matcher, test.passes(""))),
            None if test.passes("") => {}
            None => return Ok(None),
        }
    }
    Ok(Some(conditions))
}

/// Returns the condition of a stage on the columns of a stream; `None` if the stage needs the
/// line, or labels that a plan does not have.
fn condition_of(stage: &Stage, columns: &Columns) -> Option<Expr> {
    match stage {
        Stage::Label(filter) => filter_condition(filter, columns),
        // No condition on columns fails.
        Stage::Drop(all) if all.iter().all(is_error) => Some(lit(true)),
        _ => None,
    }
}

fn is_error(named: &Named) -> bool {
    [ERROR, super::entry::ERROR_DETAILS].contains(&named.label.as_str())
}

fn filter_condition(filter: &LabelFilter, columns: &Columns) -> Option<Expr> {
    match filter {
        LabelFilter::Text(Matcher { label, .. }) if !columns.is_exact(label) => None,
        LabelFilter::And(left, right) => {
            Some(filter_condition(left, columns)?.and(filter_condition(right, columns)?))
        }
        LabelFilter::Or(left, right) => {
            Some(filter_condition(left, columns)?.or(filter_condition(right, columns)?))
        }
        LabelFilter::Text(matcher) => {
            let passes = Test::new(matcher.op, &matcher.value).ok()?.passes("");
            Some(match columns.text(&matcher.label) {
                Some(text) => text_condition(text, matcher, passes),
                None => lit(passes),
            })
        }
        LabelFilter::Compare {
            label,
            op,
            value: FilterValue::Number(number),
        } => match numeric(columns, label) {
            Some((column, of_type)) => {
                let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
                let number = match is_whole && of_type.is_integer() {
                    true => lit(*number as i64),
                    false => lit(*number),
                };
                Some(binary(named(column), operator(*op), number))
            }
            None => columns.text(label).is_none().then(|| lit(false)),
        },
        LabelFilter::Compare { label, .. } => columns.text(label).is_none().then(|| lit(false)),
    }
}

/// Returns the column of a label and its type, if it holds numbers.
fn numeric<'a>(columns: &'a Columns, label: &str) -> Option<(&'a str, &'a DataType)> {
    let column = columns.column_of(label)?;
    let of_type = columns.type_of(column)?;
    let is_numeric = of_type.is_numeric() && columns.kind_of(column) != ColumnKind::Hidden;
    is_numeric.then_some((column, of_type))
}

fn operator(op: Comparison) -> Operator {
    match op {
        Comparison::Equal => Operator::Eq,
        Comparison::NotEqual => Operator::NotEq,
        Comparison::Above => Operator::Gt,
        Comparison::AtLeast => Operator::GtEq,
        Comparison::Below => Operator::Lt,
        Comparison::AtMost => Operator::LtEq,
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Returns the condition of a comparison with a text. Null is the empty text, which passes if
/// `empty_passes`.
fn text_condition(text: Expr, matcher: &Matcher, empty_passes: bool) -> Expr {
    let Matcher { op, value, .. } = matcher;
    let condition = match op {
        MatchOp::Equal => text.clone().eq(lit(value.clone())),
        MatchOp::NotEqual => text.clone().not_eq(lit(value.clone())),
        MatchOp::Matches => binary(text.clone(), Operator::RegexMatch, lit(anchored(value))),
        MatchOp::NotMatches => binary(text.clone(), Operator::RegexNotMatch, lit(anchored(value))),
    };
    match empty_passes {
        true => condition.or(text.is_null()),
        false => condition,
    }
}

/// Returns the rows of all plans; `None` if there are none.
pub(super) fn united(
    plans: impl Iterator<Item = Result<LogicalPlanBuilder>>,
) -> Result<Option<LogicalPlanBuilder>> {
    let mut all: Option<LogicalPlanBuilder> = None;
    for plan in plans {
        let plan = plan?;
        all = Some(match all {
            None => plan,
            Some(before) => before.union(plan.build()?)?,
        });
    }
    Ok(all)
}

/// Returns a plan without rows.
pub(super) fn nothing() -> Result<LogicalPlan> {
    LogicalPlanBuilder::empty(false).build()
}

/// Returns the text of a row, if the array has one there.
pub(super) fn text_at(texts: &arrow::array::StringArray, row: usize) -> Option<&str> {
    texts.is_valid(row).then(|| texts.value(row))
}
