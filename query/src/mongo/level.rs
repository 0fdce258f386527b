//! Levels of rollups as documents.
//!
//! A level has a document for each key and bucket: `{_id: {site, path, d}, value: {hits, …}}`,
//! where `d` is the beginning of the bucket (`bucket` if a key has that name). The days and the
//! months of a rollup by minutes are the documents of its pages instead:
//! `{_id, metadata: {date, site, page}, daily, hourly, …}`.
//!
//! # Invariants
//! * A condition on columns holds for each row whose document matches; the filter decides.

use bson::Bson;
use chrono::{Days, NaiveDate, NaiveTime};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions::regex::expr_fn::regexp_replace;
use datafusion::functions::string::expr_fn::starts_with;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlanBuilder, ident, lit, when};
use storage::ID;

use super::filter::Filter;
use super::scan::{ColumnTest, column_tests};
use crate::question::{Question, Tables};

/// The column with the date and the keys of a page.
const METADATA: &str = "metadata";
/// The names of a bucket's beginning among the fields of `_id`: the first that no key has.
const BUCKET_NAMES: [&str; 2] = ["d", "bucket"];
/// The columns with the beginning and the end of a bucket.
const BUCKET: [&str; 2] = ["bucket", "bucket_end"];
/// The table whose rollup has the documents of pages.
const PAGES: &str = "daily_documents";
/// The levels of which there are documents of pages.
const PAGE_LEVELS: [&str; 2] = ["daily", "monthly"];

/// Returns the question for the documents of a level that may match a filter.
pub fn scan_level(rollup: &str, level: &str, filter: &Filter) -> Question {
    let (rollup, level) = (rollup.to_owned(), level.to_owned());
    let tests = column_tests(filter);
    Question::Plan {
        text: format!("documents of {rollup}.{level}"),
        build: Box::new(move |tables| {
            let rows = LevelRows::of(&tables, &rollup, &level)?;
            let conditions = tests.iter().flat_map(|test| rows.conditions(test));
            let all = conditions.reduce(Expr::and);
            let fields = rows.fields.into_iter();
            let fields = fields.map(|(name, value)| value.alias(name));
            let plan = match all {
                Some(all) => rows.plan.filter(all)?,
                None => rows.plan,
            };
            plan.project(fields)?.build()
        }),
    }
}

/// The rows of a level, and its fields with the values of their columns.
struct LevelRows {
    plan: LogicalPlanBuilder,
    fields: Vec<(String, Expr)>,
    /// They are documents of pages.
    is_pages: bool,
}

impl LevelRows {
    fn of(tables: &Tables<'_>, rollup: &str, level: &str) -> Result<Self> {
        let Some(keys) = tables.keys_of(rollup) else {
            return plan_err!("rollup '{rollup}' not found");
        };
        let has_pages =
            PAGE_LEVELS.contains(&level) && tables.scan(&format!("{rollup}.{PAGES}")).is_ok();
        let pages = tables.scan(&format!("{rollup}.{level}_documents"));
        if let Some(plan) = pages.ok().filter(|_| has_pages) {
            let fields = page_fields(&plan, &keys)?;
            return Ok(Self {
                plan,
                fields,
                is_pages: true,
            });
        }
        let plan = tables.scan(&format!("{rollup}.{level}"))?;
        let keyed = keys.iter().map(|key| (format!("{ID}.{key}"), ident(key)));
        let mut names = BUCKET_NAMES.into_iter();
        let name = names.find(|name| !keys.iter().any(|key| key == name));
        let [begin, _] = BUCKET;
        let bucket = (format!("{ID}.{}", name.unwrap_or(begin)), ident(begin));
        let mut fields: Vec<_> = keyed.chain([bucket]).collect();
        for field in plan.schema().fields() {
            let name = field.name();
            let is_measure = !keys.contains(name) && !BUCKET.contains(&name.as_str());
            if is_measure && !field.data_type().is_binary() {
                fields.push((format!("value.{name}"), ident(name)));
            }
        }
        Ok(Self {
            plan,
            fields,
            is_pages: false,
        })
    }

    /// Returns the conditions on columns of a test of a field.
    fn conditions(&self, test: &ColumnTest) -> Vec<Expr> {
        if let [Bson::Document(fields)] = test.equal_values() {
            // Equal documents have equal fields.
            let fields = fields.iter().flat_map(|(name, value)| {
                let path = format!("{}.{name}", test.path());
                self.conditions(&ColumnTest::equal(path, value.clone()))
            });
            return fields.collect();
        }
        if test.path() == ID && self.is_pages {
            return self.dates_of_ids(test.equal_values()).into_iter().collect();
        }
        let found = self.fields.iter().find(|(name, _)| name == test.path());
        let condition = found.and_then(|(_, value)| {
            let data_type = value.get_type(self.plan.schema().as_ref()).ok()?;
            test.condition(value, &data_type)
        });
        condition.into_iter().collect()
    }

    /// Returns the condition on the dates of documents with these `_id`s.
    fn dates_of_ids(&self, ids: &[Bson]) -> Option<Expr> {
        let dates = ids.iter().map(|id| date_of(id.as_str()?));
        let dates = dates.collect::<Option<Vec<NaiveDate>>>()?;
        // A zone is at most a day away from UTC.
        let from = dates.iter().min()?.checked_sub_days(Days::new(1))?;
        let to = dates.iter().max()?.checked_add_days(Days::new(2))?;
        let us = |date: NaiveDate| date.and_time(NaiveTime::MIN).and_utc().timestamp_micros();
        let literal = |date| {
            let us = ScalarValue::TimestampMicrosecond(Some(us(date)), Some("UTC".into()));
            lit(us)
        };
        let (_, date) = self
            .fields
            .iter()
            .find(|(name, _)| name == "metadata.date")?;
        Some(
            date.clone()
                .gt_eq(literal(from))
                .and(date.clone().lt(literal(to))),
        )
    }
}

/// Returns the date at the beginning of an `_id`: a day, or the first of a month.
fn date_of(id: &str) -> Option<NaiveDate> {
    let (date, _) = id.split_once('/')?;
    match date.len() {
        8 => NaiveDate::parse_from_str(date, "%Y%m%d").ok(),
        6 => NaiveDate::parse_from_str(&format!("{date}01"), "%Y%m%d").ok(),
        _ => None,
    }
}

/// Returns the `_id` of a document of a page, whose path follows its site without another slash.
fn page_id(last_key: &Expr) -> Result<Expr> {
    let (id, path) = (ident(ID), last_key.clone());
    let once = regexp_replace(id.clone(), lit("//"), lit("/"), None);
    when(starts_with(path, lit("/")), once).otherwise(id)
}

/// Returns the fields of documents of pages. The key `path` has the name `page` there.
fn page_fields(plan: &LogicalPlanBuilder, keys: &[String]) -> Result<Vec<(String, Expr)>> {
    let has_page = keys.iter().any(|key| key == "page");
    let member = |name: &str| get_field(ident(METADATA), name);
    let mut fields = Vec::new();
    for field in plan.schema().fields() {
        let column = field.name();
        if column == ID {
            let last = keys.last().map(|key| member(key));
            let is_text = |last: &Expr| {
                let data_type = last.get_type(plan.schema().as_ref());
                data_type.is_ok_and(|data_type| data_type.is_string())
            };
            let id = match last.filter(is_text) {
                Some(last) => page_id(&last)?,
                None => ident(ID),
            };
            fields.push((column.clone(), id));
        } else if column == METADATA {
            let members = std::iter::once("date").chain(keys.iter().map(String::as_str));
            fields.extend(members.map(|key| {
                let name = match key {
                    "path" if !has_page => "page",
                    other => other,
                };
                (format!("{METADATA}.{name}"), member(key))
            }));
        } else {
            fields.push((column.clone(), ident(column)));
        }
    }
    Ok(fields)
}
