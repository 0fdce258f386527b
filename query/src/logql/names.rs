//! Questions about the labels of a selector: the values of one, all sets of them, and how many
//! events they have.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};

use super::ast::LogQuery;
use super::compile::{Source, nothing, sources, text_at, united};
use super::entry::Labels;
use super::labels::{LABELS, named};
use crate::error::{Error, Result};
use crate::question::{Question, Tables};

/// Prefix of a column with one label.
const LABEL: &str = "label_";
const ROWS: &str = "rows";

impl LogQuery {
    /// Returns the question for the different values of some labels, with the number of events of
    /// each, among events of `[start_ns, end_ns)`: the first `limit` of them in order.
    pub fn label_sets(
        &self,
        labels: &[&str],
        (start_ns, end_ns): (i64, i64),
        limit: usize,
    ) -> Question {
        let query = self.clone();
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        Question::Plan {
            text: format!("labels {} of {query}", labels.join(", ")),
            build: Box::new(move |tables| {
                plan(&tables, &query, &labels, (start_ns, end_ns), limit)
            }),
        }
    }

    /// Returns the question for the labels that the streams of the selector have.
    pub fn label_names(&self) -> Question {
        let query = self.clone();
        Question::Plan {
            text: format!("labels of {query}"),
            build: Box::new(move |tables| {
                let (found, _) = sources(&tables, &query, (i64::MIN, i64::MAX))?;
                let has = |label: &&str| found.iter().any(|s| s.columns.labels().contains(label));
                let names = LABELS.into_iter().filter(has);
                let rows: Vec<Vec<Expr>> = names.map(|label| vec![lit(label)]).collect();
                match rows.is_empty() {
                    true => nothing(),
                    false => LogicalPlanBuilder::values(rows)?.build(),
                }
            }),
        }
    }
}

/// Returns the bounds in microseconds, both included, of `[start_ns, end_ns)`.
pub(super) fn bounds_us((start_ns, end_ns): (i64, i64)) -> (i64, i64) {
    let limited = |us: i128| i64::try_from(us).unwrap_or(if us < 0 { i64::MIN } else { i64::MAX });
    let first_us = (i128::from(start_ns) + 999).div_euclid(1000);
    let last_us = (i128::from(end_ns) - 1).div_euclid(1000);
    (limited(first_us), limited(last_us))
}

fn plan(
    tables: &Tables<'_>,
    query: &LogQuery,
    labels: &[String],
    range: (i64, i64),
    limit: usize,
) -> PlanResult<LogicalPlan> {
    let (found, rest) = sources(tables, query, bounds_us(range))?;
    if !rest.stages.is_empty() {
        return Err(Error::invalid("labels are those of a selector: write {…} alone").into());
    }
    let plans = found.into_iter().map(|Source { columns, plan }| {
        let of_label = |label: &String| {
            let text = columns.text(label);
            let text = text.unwrap_or_else(|| lit(ScalarValue::Utf8(None)));
            cast(text, DataType::Utf8).alias(format!("{LABEL}{label}"))
        };
        let groups: Vec<Expr> = labels.iter().map(of_label).collect();
        let names = groups
            .iter()
            .map(|group| named(&group.schema_name().to_string()));
        let shown: Vec<Expr> = names.chain([named(ROWS)]).collect();
        let plan = plan.aggregate(groups, [count_all().alias(ROWS)])?;
        plan.project(shown)
    });
    let Some(all) = united(plans)? else {
        return nothing();
    };
    let keys = labels
        .iter()
        .map(|label| named(&format!("{LABEL}{label}")).sort(true, true));
    all.sort(keys.collect::<Vec<_>>())?
        .limit(0, Some(limit))?
        .build()
}

/// Returns the sets of labels of an answer to [`LogQuery::label_sets`], each with its number of
/// events. Different streams may have the same set.
///
/// # Errors
/// When the rows are of another question.
pub fn label_sets(batches: &[RecordBatch]) -> Result<Vec<(Labels, u64)>> {
    let wrong = || Error::invalid("the rows are no sets of labels");
    let mut found = Vec::new();
    for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
        let rows = batch.column_by_name(ROWS).ok_or_else(wrong)?;
        let rows = rows.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
        let schema = batch.schema_ref();
        let mut columns = Vec::new();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            if let Some(label) = field.name().strip_prefix(LABEL) {
                columns.push((label, column.as_string_opt::<i32>().ok_or_else(wrong)?));
            }
        }
        for row in 0..batch.num_rows() {
            let texts = columns.iter().filter_map(|(label, texts)| {
                let text = text_at(texts, row).filter(|text| !text.is_empty())?;
                Some(((*label).to_owned(), text.to_owned()))
            });
            found.push((texts.collect(), u64::try_from(rows.value(row)).unwrap_or(0)));
        }
    }
    Ok(found)
}

/// Returns the names of an answer to [`LogQuery::label_names`].
pub fn label_names(batches: &[RecordBatch]) -> Vec<String> {
    let of = |batch: &RecordBatch| -> Vec<String> {
        let texts = batch.columns().first();
        let texts = texts.and_then(|texts| {
            let texts = arrow::compute::cast(texts, &DataType::Utf8).ok()?;
            let texts = texts.as_string::<i32>().iter().flatten();
            Some(texts.map(str::to_owned).collect())
        });
        texts.unwrap_or_default()
    };
    batches.iter().flat_map(of).collect()
}
