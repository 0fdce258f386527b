//! Range aggregations: the plan, and its rows as series.
//!
//! The plan groups events by their labels and by the windows that they lie in. Events in the same
//! windows form a *piece*, and a window is made of pieces. So an event is counted once, however
//! many windows contain it.

mod pieces;

pub use pieces::SeriesPieces;

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use datafusion::common::Result as PlanResult;
use datafusion::common::ScalarValue;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions_aggregate::array_agg::array_agg;
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::expr_fn::{first_value, last_value, max, min, sum};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};
use storage::{SEQ, TIME};

use super::ast::{FormatValue, LabelFilter, LogQuery, RangeAggregation, RangeFunction, Stage};
use super::compile::{EntryOutput, Source, entry_function, nothing, sources, united};
use super::evaluate::SeriesLabels;
use super::labels::{DETECTED_LEVEL, LABELS, STATUS_CLASS, named};
use super::matrix::Steps;
use super::pipeline::Pipeline;
use super::template::Template;
use crate::error::Error;
use crate::functions::log_windows::{Windows, window_function};
use crate::question::{Question, Tables};

/// Columns of a plan.
const LABELS_JSON: &str = "labels";
const FIRST: &str = "first_window";
const LAST: &str = "last_window";
const ROWS: &str = "rows";
const VALUE: &str = "value";
/// The time of the first or last value.
const AT: &str = "at";
/// Prefix of a column with one label.
const LABEL: &str = "label_";
const SAMPLE: &str = "sample";
const EVENT_TIME: &str = "event_time";
const EVENT_SEQ: &str = "event_seq";

impl RangeAggregation {
    /// Returns the question for the series of the aggregation, with these labels.
    pub fn question(&self, steps: Steps, labels: &SeriesLabels) -> Question {
        let (range, labels) = (self.clone(), labels.clone());
        Question::Plan {
            text: self.to_string(),
            build: Box::new(move |tables| range.plan(&tables, steps, labels)),
        }
    }

    fn windows(&self, steps: Steps) -> Windows {
        Windows {
            start_ns: steps.start_ns,
            step_ns: steps.step_ns,
            count: steps.count,
            range_ns: self.range_ns,
            offset_ns: self.offset_ns,
        }
    }

    /// Returns whether the value of an entry is the length of its line.
    fn is_bytes(&self) -> bool {
        matches!(
            self.function,
            RangeFunction::Bytes | RangeFunction::BytesRate
        )
    }

    /// Returns the labels of the plan's rows: those of the caller, or of `by`.
    fn labels_of_rows(&self, labels: SeriesLabels) -> SeriesLabels {
        match (&self.grouping, labels) {
            (Some(by), SeriesLabels::With(_)) if !by.is_without => {
                SeriesLabels::Only(by.labels.clone())
            }
            (_, labels) => labels,
        }
    }

    fn plan(
        &self,
        tables: &Tables<'_>,
        steps: Steps,
        labels: SeriesLabels,
    ) -> PlanResult<LogicalPlan> {
        let windows = self.windows(steps);
        let (found, rest) = sources(tables, &self.of, windows.times_us())?;
        let labels = self.labels_of_rows(labels);
        let columns = match &labels {
            SeriesLabels::Only(labels) => labels.clone(),
            SeriesLabels::With(metadata) => {
                let labels = LABELS.iter().map(|label| (*label).to_owned());
                labels.chain(metadata.iter().cloned()).collect()
            }
        };
        // A label may be named twice.
        let columns: BTreeSet<String> = columns.into_iter().collect();
        let is_exact = |source: &Source| columns.iter().all(|label| source.columns.is_exact(label));
        let counts_events = rest.stages.is_empty() && self.unwrap.is_none() && !self.is_bytes();
        let plans: Vec<PlanResult<LogicalPlanBuilder>> =
            match counts_events && found.iter().all(is_exact) {
                true => {
                    let plans = found.into_iter();
                    plans
                        .map(|source| self.counted(source, windows, &columns))
                        .collect()
                }
                false => {
                    let plans = found.into_iter();
                    plans
                        .map(|source| self.sampled(source, windows, &rest, &labels))
                        .collect()
                }
            };
        match united(plans.into_iter())? {
            Some(plan) => plan.build(),
            None => nothing(),
        }
    }

    /// Returns the counts of a stream's events by columns.
    fn counted(
        &self,
        Source { columns, plan }: Source,
        windows: Windows,
        labels: &BTreeSet<String>,
    ) -> PlanResult<LogicalPlanBuilder> {
        let null = || lit(ScalarValue::Utf8(None));
        let text = |label: &String| {
            let text = columns.text(label).unwrap_or_else(null);
            cast(text, DataType::Utf8).alias(format!("{LABEL}{label}"))
        };
        let texts: Vec<Expr> = labels.iter().map(text).collect();
        // There are far fewer groups than events, so their texts are made of the groups.
        let read: BTreeSet<&str> = texts
            .iter()
            .flat_map(Expr::column_refs)
            .map(|column| column.name.as_str())
            .collect();
        let windows = self.window_groups(windows);
        let numbers = windows.iter().map(|e| named(&e.schema_name().to_string()));
        let shown: Vec<Expr> = texts.iter().cloned().chain(numbers).collect();
        let groups = read.into_iter().map(named).chain(windows.iter().cloned());
        let groups: Vec<Expr> = groups.collect();
        // The rows are those of a projection above, whose columns have no table's name.
        let plan = plan.aggregate(groups, [count_all().alias(ROWS)])?;
        plan.project(shown.into_iter().chain([named(ROWS)]))
    }

    fn window_groups(&self, windows: Windows) -> Vec<Expr> {
        let mut groups = vec![window_function(windows, false).alias(FIRST)];
        // Windows that neither overlap nor leave gaps contain an event once.
        if self.range_ns != windows.step_ns || windows.count == 1 {
            groups.push(window_function(windows, true).alias(LAST));
        }
        groups
    }

    /// Returns the aggregates of a stream's entries.
    fn sampled(
        &self,
        Source { columns, plan }: Source,
        windows: Windows,
        rest: &LogQuery,
        labels: &SeriesLabels,
    ) -> PlanResult<LogicalPlanBuilder> {
        let reads = Reads::of(self, rest, labels);
        let pipeline = Pipeline::new(rest, self.unwrap.as_ref()).map_err(Error::invalid)?;
        let output = EntryOutput::Sample {
            labels: labels.clone(),
            is_bytes: self.is_bytes(),
        };
        let compiled = (pipeline, self.to_string());
        let sample = entry_function(
            &columns,
            reads.columns.as_deref(),
            reads.line,
            compiled,
            output,
        );
        let mut shown = self.window_groups(windows);
        let groups = shown.iter().map(|e| named(&e.schema_name().to_string()));
        let mut groups: Vec<Expr> = groups.collect();
        shown.push(sample.alias(SAMPLE));
        let has_order = matches!(self.function, RangeFunction::First | RangeFunction::Last);
        if has_order {
            // With the name of a column of the table, a name would be ambiguous.
            shown.extend([named(TIME).alias(EVENT_TIME), named(SEQ).alias(EVENT_SEQ)]);
        }
        let plan = plan.project(shown)?.filter(named(SAMPLE).is_not_null())?;
        groups.push(get_field(named(SAMPLE), LABELS_JSON).alias(LABELS_JSON));
        let value = || get_field(named(SAMPLE), VALUE);
        let in_order = || {
            [EVENT_TIME, EVENT_SEQ]
                .map(|key| named(key).sort(true, false))
                .to_vec()
        };
        let mut values = vec![count_all().alias(ROWS)];
        values.extend(
            match self.function {
                RangeFunction::Count | RangeFunction::Absent => None,
                RangeFunction::Min => Some(min(value())),
                RangeFunction::Max => Some(max(value())),
                RangeFunction::Quantile => Some(array_agg(value())),
                RangeFunction::First => Some(first_value(value(), in_order())),
                RangeFunction::Last => Some(last_value(value(), in_order())),
                _ => Some(sum(value())),
            }
            .map(|value| value.alias(VALUE)),
        );
        match self.function {
            RangeFunction::First => values.push(min(named(EVENT_TIME)).alias(AT)),
            RangeFunction::Last => values.push(max(named(EVENT_TIME)).alias(AT)),
            _ => {}
        }
        plan.aggregate(groups, values)
    }
}

/// The parts of an event that stages read.
struct Reads {
    line: bool,
    /// Names of columns; `None` for all.
    columns: Option<Vec<String>>,
}

impl Reads {
    fn of(range: &RangeAggregation, rest: &LogQuery, labels: &SeriesLabels) -> Self {
        let mut line = range.is_bytes();
        let mut is_all = false;
        let (SeriesLabels::Only(of_series) | SeriesLabels::With(of_series)) = labels;
        let mut names: BTreeSet<String> = of_series.iter().cloned().collect();
        if matches!(labels, SeriesLabels::With(_)) {
            names.extend(LABELS.map(str::to_owned));
        }
        let mut template = |text: &str, names: &mut BTreeSet<String>| {
            let Ok(template) = Template::parse(text) else {
                return;
            };
            let (labels, reads_line) = template.reads();
            names.extend(labels.into_iter().map(str::to_owned));
            line |= reads_line;
        };
        for stage in &rest.stages {
            match stage {
                Stage::Label(filter) => names_of(filter, &mut names),
                Stage::LineFormat(text) => template(text, &mut names),
                Stage::LabelFormat(formats) => {
                    for (_, value) in formats {
                        match value {
                            FormatValue::Rename(from) => {
                                names.insert(from.clone());
                            }
                            FormatValue::Template(text) => template(text, &mut names),
                        }
                    }
                }
                _ => {}
            }
        }
        for stage in &rest.stages {
            line |= matches!(stage, Stage::Line { .. });
            if let Stage::Json(_) | Stage::Logfmt(_) | Stage::Pattern(_) | Stage::Regexp(_) = stage
            {
                (line, is_all) = (true, true);
            }
        }
        if let Some(unwrap) = &range.unwrap {
            names.insert(unwrap.label.clone());
            unwrap
                .filters
                .iter()
                .for_each(|filter| names_of(filter, &mut names));
        }
        if names.contains(STATUS_CLASS) {
            names.insert("status".to_owned());
        }
        if names.contains(DETECTED_LEVEL) {
            names.insert("level".to_owned());
        }
        Self {
            line,
            columns: (!is_all).then(|| names.into_iter().collect()),
        }
    }
}

fn names_of(filter: &LabelFilter, names: &mut BTreeSet<String>) {
    match filter {
        LabelFilter::Text(matcher) => {
            names.insert(matcher.label.clone());
        }
        LabelFilter::Compare { label, .. } => {
            names.insert(label.clone());
        }
        LabelFilter::And(left, right) | LabelFilter::Or(left, right) => {
            names_of(left, names);
            names_of(right, names);
        }
    }
}
