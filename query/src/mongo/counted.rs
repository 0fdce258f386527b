//! Documents with equal fields as one document and their number.
//!
//! A pipeline that counts and adds up reads a few fields of its documents. Events whose columns of
//! these fields are equal are counted by a plan, which rollups may answer, as those of SQL.
//!
//! # Invariants
//! * Each event is in one of the two questions of a [`CountedScan`]: an event with anything in the
//!   overflow column is read as a document, since it may have any field there.
//! * The conditions on columns hold for exactly the other events whose documents match the filter.

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use bson::Document;
use datafusion::common::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, LogicalPlan, ident, lit};
use storage::{ID, Name, REST, SEQ, StreamKind, StreamMeta, TIME, TIME_SOURCE};

use super::events::EventDocuments;
use super::expression::{DateGrain, FieldUses};
use super::filter::Filter;
use super::scan::{ColumnTest, column_tests};
use crate::functions::date_trunc::date_trunc;
use crate::question::{Question, Tables};

/// The column with the number of documents, the last one.
const TIMES: &str = "_times";

/// The questions for the documents of a stream that match a filter.
#[derive(Debug)]
pub struct CountedScan {
    /// Documents and their numbers, as [`CountedDocuments`] reads them.
    pub counted: Question,
    /// The documents with something in the overflow column, and others that do not match; `None` if
    /// the stream has no such column.
    pub others: Option<Question>,
}

impl CountedScan {
    /// Returns the questions for documents of which a pipeline reads some fields; `None` if the
    /// columns do not decide whether a document matches, or if nearly every document differs.
    pub fn new(
        (stream, meta): (&Name, &StreamMeta),
        filter: &Filter,
        uses: &FieldUses,
    ) -> Option<Self> {
        if !matches!(meta.kind, StreamKind::Access | StreamKind::Documents) {
            return None;
        }
        let fields = uses.fields()?.clone();
        let is_id = |path: &String| path == ID || path.starts_with("_id.");
        if fields.keys().any(is_id) {
            return None;
        }
        let tests = column_tests(filter);
        let is_decided = filter.is_conjunction() && filter.conjuncts().len() == tests.len();
        if !is_decided || !tests.iter().all(|test| decides(test, meta)) {
            return None;
        }
        let has = |name: &str| meta.column_type(name).is_some();
        let others = has(REST).then(|| {
            let table = stream.to_string();
            Question::Plan {
                text: format!("documents of {stream}"),
                build: Box::new(move |tables| {
                    let rest = ident(REST).is_not_null();
                    tables.scan(&table)?.filter(rest)?.build()
                }),
            }
        });
        let counting = Counting {
            table: stream.to_string(),
            tests,
            fields,
            has_rest: has(REST),
        };
        let counted = Question::Plan {
            text: format!("counts of {stream}"),
            build: Box::new(move |tables| counting.plan(&tables)),
        };
        Some(Self { counted, others })
    }
}

/// Returns whether a column decides a test, for events with nothing in the overflow column.
fn decides(test: &ColumnTest, meta: &StreamMeta) -> bool {
    let path = test.path();
    // Their columns are not the field.
    if path == ID || path.starts_with("_id.") || [REST, SEQ, TIME_SOURCE].contains(&path) {
        return false;
    }
    let column = meta.column_type(path);
    column.is_some_and(|column| test.condition(&ident(path), &column.arrow()).is_some())
}

/// The plan of counts.
struct Counting {
    table: String,
    tests: Vec<ColumnTest>,
    fields: BTreeMap<String, DateGrain>,
    has_rest: bool,
}

impl Counting {
    fn plan(&self, tables: &Tables<'_>) -> Result<LogicalPlan> {
        let rows = tables.scan(&self.table)?;
        let schema = rows.schema().as_arrow().clone();
        let has_source = schema.column_with_name(TIME_SOURCE).is_some();
        let mut conditions = Vec::new();
        for test in &self.tests {
            let column = schema.column_with_name(test.path());
            let condition = column
                .and_then(|(_, field)| test.condition(&ident(test.path()), field.data_type()));
            // Without the column no document has the field.
            conditions.push(condition.unwrap_or_else(|| lit(false)));
            if test.path() == TIME && has_source {
                conditions.push(ident(TIME_SOURCE).is_null());
            }
        }
        if self.has_rest && schema.column_with_name(REST).is_some() {
            conditions.push(ident(REST).is_null());
        }
        let rows = match conditions.into_iter().reduce(Expr::and) {
            Some(all) => rows.filter(all)?,
            None => rows,
        };
        let mut keys = Vec::new();
        for field in schema.fields() {
            let name = field.name().as_str();
            let is_own = [ID, REST, SEQ, TIME_SOURCE].contains(&name);
            if let (false, Some(grain)) = (is_own, self.grain(name)) {
                keys.push(key(name, field.data_type(), grain));
                if name == TIME && has_source {
                    keys.push(ident(TIME_SOURCE));
                }
            }
        }
        rows.aggregate(keys, [count(lit(1_i64)).alias(TIMES)])?
            .build()
    }

    /// Returns how exactly a column is read; `None` if it is not.
    fn grain(&self, column: &str) -> Option<DateGrain> {
        let is_part_of = |whole: &str, part: &str| {
            let below = part.strip_prefix(whole);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        };
        let fields = self.fields.iter();
        let read = fields.filter(|(path, _)| is_part_of(path, column) || is_part_of(column, path));
        read.map(|(_, grain)| *grain).min()
    }
}

fn key(name: &str, data_type: &DataType, grain: DateGrain) -> Expr {
    let unit = match (data_type, grain) {
        (DataType::Timestamp(..), DateGrain::Second) => "second",
        (DataType::Timestamp(..), DateGrain::Minute) => "minute",
        (DataType::Timestamp(..), DateGrain::Hour) => "hour",
        (DataType::Timestamp(..), DateGrain::Day) => "day",
        _ => return ident(name),
    };
    date_trunc(unit, ident(name)).alias(name)
}

/// Documents with the numbers of those that are equal.
#[derive(Debug)]
pub struct CountedDocuments {
    documents: EventDocuments,
    times: Vec<u64>,
}

impl CountedDocuments {
    /// Prepares the rows of a batch of [`CountedScan::counted`].
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when a column has a type that BSON cannot carry.
    pub fn new(batch: &RecordBatch, kind: StreamKind) -> crate::Result<Self> {
        let last = batch.num_columns().saturating_sub(1);
        let times = batch.column(last).as_primitive::<Int64Type>();
        let times = times.values().iter().map(|times| times.cast_unsigned());
        let fields: Vec<usize> = (0..last).collect();
        let fields = batch
            .project(&fields)
            .map_err(|e| crate::Error::invalid(e.to_string()))?;
        Ok(Self {
            documents: EventDocuments::new(&fields, kind)?,
            times: times.collect(),
        })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Returns the fields of the rows, and the numbers of equal documents.
    pub fn columns(&self) -> (&EventDocuments, &[u64]) {
        (&self.documents, &self.times)
    }

    /// Returns the document of a row, and the number of those that are equal: 0 for the row of no
    /// documents.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when a column cannot be read as a field.
    pub fn document(&self, row: usize) -> crate::Result<(Document, u64)> {
        Ok((self.documents.document(row)?, self.times[row]))
    }
}
