//! Counters as documents: `$inc` upserts are events, and a document is their sum.
//!
//! An event has the counter (the `_id` as text), the path of the number in the document, and the
//! increment. The event with an empty path began the counter, and has its fixed fields.
//!
//! # Invariants
//! * Equal `_id`s have equal texts, and each text is that of one `_id`.
//! * The rows of a counter follow each other, and those with its fixed fields come first, in the
//!   order of arrival: the first of them counts.

use arrow::array::RecordBatch;
use bson::{Bson, Document};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, ident, lit};
use serde_json::Value as Json;
use storage::{COUNTER, COUNTER_PATH, INCREMENT, Name, REST, SEQ, StreamKind};

use super::events::{EventDocuments, put};
use super::filter::Filter;
use super::number::NumberTotal;
use super::scan::column_tests;
use super::value::BsonNumber;
use crate::question::{Question, Tables};

/// The column with a number of the document.
const TOTAL: &str = "total";
/// The field of an event with the fixed fields of its counter.
pub const FIXED: &str = "fixed";

/// Returns whether a value can be the `_id` of a counter: arrays cannot, as in MongoDB, nor can
/// decimals, of which many texts are equal.
pub fn is_counter_id(id: &Bson) -> bool {
    match id {
        Bson::Document(fields) => fields.values().all(is_counter_id),
        Bson::Double(number) => !number.is_nan(),
        Bson::String(_)
        | Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::Boolean(_)
        | Bson::Null
        | Bson::ObjectId(_)
        | Bson::DateTime(_)
        | Bson::Binary(_) => true,
        _ => false,
    }
}

/// Returns an `_id` as the text of its counter. Numbers that are equal have the same text, and so
/// have documents whose fields differ in their order alone.
pub fn counter_text(id: &Bson) -> String {
    match id {
        // Only the text of another type begins so.
        Bson::String(text) if !text.starts_with(['{', '"']) => text.clone(),
        Bson::String(text) => Json::from(text.as_str()).to_string(),
        id => {
            let other = normal(id.clone()).into_canonical_extjson();
            Json::Object([("_id".to_owned(), other)].into_iter().collect()).to_string()
        }
    }
}

/// Returns the `_id` of a counter's text.
fn counter_id(text: &str) -> Bson {
    let id = match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).ok().map(Bson::String),
        Some(b'{') => {
            let json = serde_json::from_str::<Json>(text).ok();
            json.and_then(|json| Bson::try_from(json.get("_id")?.clone()).ok())
        }
        _ => None,
    };
    id.unwrap_or_else(|| Bson::String(text.to_owned()))
}

/// Gives equal numbers the same type, and fields the order of their names.
fn normal(value: Bson) -> Bson {
    match value {
        Bson::Document(document) => {
            let fields = document.into_iter();
            let mut fields: Vec<_> = fields.map(|(name, value)| (name, normal(value))).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Bson::Document(fields.into_iter().collect())
        }
        value => match BsonNumber::of(&value).and_then(|number| number.to_integer()) {
            Some(number) => i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32),
            None => value,
        },
    }
}

/// Returns the question for the event that began a counter.
pub fn begun_counter(stream: &Name, counter: &str) -> Question {
    let (table, counter) = (stream.to_string(), counter.to_owned());
    Question::Plan {
        text: format!("the beginning of a counter of {stream}"),
        build: Box::new(move |tables| {
            let rows = tables
                .scan(&table)?
                .filter(ident(COUNTER).eq(lit(counter)))?;
            let begun = rows.filter(ident(COUNTER_PATH).eq(lit("")))?;
            begun.project([ident(COUNTER)])?.limit(0, Some(1))?.build()
        }),
    }
}

/// Returns the question for the counters of a stream that may match a filter.
pub fn scan_counters(stream: &Name, filter: &Filter) -> Question {
    let table = stream.to_string();
    let ids = column_tests(filter).into_iter().find_map(|test| {
        let ids = test.equal_values();
        // Another value may be equal to several `_id`s.
        let is_known = test.path() == storage::ID && ids.iter().all(is_counter_id);
        (is_known && !ids.is_empty()).then(|| ids.iter().map(counter_text).collect())
    });
    Question::Plan {
        text: format!("counters of {stream}"),
        build: Box::new(move |tables| build(&tables, &table, ids)),
    }
}

fn build(
    tables: &Tables<'_>,
    table: &str,
    ids: Option<Vec<String>>,
) -> Result<datafusion::logical_expr::LogicalPlan> {
    // Events of other sources may be in the stream, too.
    let wanted = |rows: LogicalPlanBuilder| {
        let rows = rows.filter(ident(COUNTER).is_not_null())?;
        match &ids {
            Some(ids) => {
                let ids = ids.iter().map(lit);
                rows.filter(ident(COUNTER).in_list(ids.collect(), false))
            }
            None => Ok(rows),
        }
    };
    let begun = wanted(tables.scan(table)?)?.filter(ident(COUNTER_PATH).eq(lit("")))?;
    let schema = begun.schema().as_arrow().clone();
    let fixed = schema.fields().iter().filter(|field| {
        let name = field.name();
        name == REST || name.strip_prefix(FIXED).is_some_and(|n| n.starts_with('.'))
    });
    let fixed: Vec<_> = fixed.collect();
    let number = |value: Expr| cast(value, arrow::datatypes::DataType::Int64);
    let of_begun = [
        ident(COUNTER),
        ident(COUNTER_PATH),
        number(lit(0)).alias(TOTAL),
        ident(SEQ),
    ];
    let of_begun = of_begun.into_iter();
    let of_begun = of_begun.chain(fixed.iter().map(|field| ident(field.name())));
    let begun = begun.project(of_begun)?;

    let sums = wanted(tables.scan(table)?)?.filter(ident(COUNTER_PATH).not_eq(lit("")))?;
    let sums = sums.aggregate(
        [ident(COUNTER), ident(COUNTER_PATH)],
        [sum(ident(INCREMENT)).alias(TOTAL)],
    )?;
    let of_sums = [
        ident(COUNTER),
        ident(COUNTER_PATH),
        number(ident(TOTAL)).alias(TOTAL),
        lit(ScalarValue::UInt64(Some(u64::MAX))).alias(SEQ),
    ];
    let nulls = fixed.iter().map(|field| {
        let null = ScalarValue::try_from(field.data_type())?;
        Ok(lit(null).alias(field.name()))
    });
    let nulls = nulls.collect::<Result<Vec<_>>>()?;
    let sums = sums.project(of_sums.into_iter().chain(nulls))?;
    let order = [COUNTER, COUNTER_PATH, SEQ].map(|column| ident(column).sort(true, true));
    begun.union(sums.build()?)?.sort(order)?.build()
}

/// Makes documents of the rows of counters, batch by batch.
#[derive(Debug, Default)]
pub struct CounterDocuments {
    /// The counter whose rows may go on.
    current: Option<(String, Document)>,
}

impl CounterDocuments {
    /// Takes the rows of a batch, and appends the documents that are complete.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when a column has a type that BSON cannot carry.
    pub fn push(&mut self, batch: &RecordBatch, out: &mut Vec<Document>) -> crate::Result<()> {
        let rows = EventDocuments::new(batch, StreamKind::Documents)?;
        for row in 0..rows.len() {
            let mut row = rows.document(row)?;
            let text = |row: &Document, column: &str| row.get_str(column).unwrap_or("").to_owned();
            let (counter, path) = (text(&row, COUNTER), text(&row, COUNTER_PATH));
            if self.current.as_ref().is_none_or(|(of, _)| *of != counter) {
                out.extend(self.finish());
                let mut document = Document::new();
                document.insert(storage::ID, counter_id(&counter));
                if let Some(Bson::Document(fixed)) = row.remove(FIXED) {
                    document.extend(fixed);
                }
                self.current = Some((counter, document));
            }
            if let (Some((_, document)), false) = (&mut self.current, path.is_empty()) {
                let path: Vec<String> = path.split('.').map(str::to_owned).collect();
                let mut total = NumberTotal::default();
                for number in [number_at(document, &path), row.get(TOTAL)] {
                    total.add(number.unwrap_or(&Bson::Null));
                }
                put(document, &path, total.finish());
            }
        }
        Ok(())
    }

    /// Returns the last document.
    pub fn finish(&mut self) -> Option<Document> {
        self.current.take().map(|(_, document)| document)
    }
}

/// Returns the value at a path, to which increments are added if it is a number.
fn number_at<'a>(document: &'a Document, path: &[String]) -> Option<&'a Bson> {
    let (last, above) = path.split_last()?;
    let mut at = document;
    for name in above {
        at = at.get_document(name).ok()?;
    }
    at.get(last)
}

#[cfg(test)]
mod tests;
