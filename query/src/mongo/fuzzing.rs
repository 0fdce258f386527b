//! Target of the fuzzer: queries of MongoDB's language as a stranger may write them.
//!
//! `tests/fuzz` includes this file and the modules beside it that need nothing of DataFusion. The
//! tests of this crate replay the corpus.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::{RawBsonRef, RawDocumentBuf};
use bson::{Bson, DateTime, Document, RawDocument, doc};

use crate::mongo::error::Result;
use crate::mongo::expression::{DateGrain, ExpressionContext, ExpressionScope, FieldUses};
use crate::mongo::filter::{Conjunct, ConjunctTest};
use crate::mongo::pipeline::columns::documents::group_documents;
use crate::mongo::value::{compare, put_key};
use crate::mongo::{
    DistinctValues, Filter, KeptBytes, Pipeline, PipelineContext, PipelineSink, Projection, Sort,
    StageFlow, TopK, WhenMatched, encoded_bytes,
};

/// Longest input.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Maximum levels of an input, as the listener has it for commands.
const LEVELS_MAX: usize = 200;
/// The time for an input. Changes often make an expression endless, and a fuzzer would spend most
/// of its time on those.
const TIME_MAX: Duration = Duration::from_millis(if cfg!(fuzzing) { 20 } else { 1000 });
/// The bytes that a sort or the stages of a pipeline may keep.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// The time of `$$NOW`.
const NOW_MILLIS: i64 = 1_700_000_000_000;
/// Values of an input that are compared with each other.
const VALUES_MAX: usize = 16;
/// The code of a query that ran out of time.
const OUT_OF_TIME: i32 = 50;

/// Reads a BSON document and runs what its fields ask for over its `documents`: `filter`, `sort`,
/// `projection`, `key` of a distinct, and `pipeline`, with the variables of `let`.
pub(crate) fn mongo_query(bytes: &[u8]) {
    let Some(fields) = read(bytes) else {
        return;
    };
    check_order(&fields);
    let query = FuzzedQuery::new(&fields);
    query.check_filter();
    query.check_sort();
    query.check_projection();
    query.check_distinct();
    query.check_pipeline();
}

/// Returns the document of an input; `None` if it is none, or one that no listener passes on.
fn read(bytes: &[u8]) -> Option<Document> {
    if bytes.len() > INPUT_BYTES_MAX {
        return None;
    }
    let raw = RawDocumentBuf::from_reader(bytes).ok()?;
    let is_shallow = is_shallow(RawBsonRef::Document(&raw), LEVELS_MAX);
    is_shallow.then(|| Document::try_from(raw).ok())?
}

/// Returns whether a value can be read and has at most so many levels of documents and arrays.
fn is_shallow(value: RawBsonRef<'_>, levels: usize) -> bool {
    let is_below = |document: &RawDocument| {
        let mut fields = document.iter();
        levels > 0 && fields.all(|f| f.is_ok_and(|(_, value)| is_shallow(value, levels - 1)))
    };
    match value {
        RawBsonRef::Document(document) => is_below(document),
        RawBsonRef::Array(items) => {
            let mut items = items.into_iter();
            levels > 0 && items.all(|item| item.is_ok_and(|item| is_shallow(item, levels - 1)))
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => is_below(code.scope),
        _ => true,
    }
}

/// Asserts that values are in a total order, and that keys are equal where values are.
fn check_order(fields: &Document) {
    let (mut values, mut waiting) = (Vec::new(), vec![fields]);
    while let Some(document) = waiting.pop() {
        for value in document.values() {
            values.push(value);
            match value {
                Bson::Document(inside) => waiting.push(inside),
                Bson::Array(items) => {
                    values.extend(items);
                    waiting.extend(items.iter().filter_map(Bson::as_document));
                }
                _ => {}
            }
        }
        if values.len() > VALUES_MAX {
            values.truncate(VALUES_MAX);
            break;
        }
    }
    let key = |value: &Bson| {
        let mut key = Vec::new();
        put_key(value, &mut key);
        key
    };
    values.sort_by(|a, b| compare(a, b));
    let keys: Vec<Vec<u8>> = values.iter().map(|value| key(value)).collect();
    for (a, (value_a, key_a)) in values.iter().zip(&keys).enumerate() {
        for (value_b, key_b) in values.iter().zip(&keys).skip(a) {
            let order = compare(value_a, value_b);
            assert_ne!(order, Ordering::Greater, "{value_a:?}, {value_b:?}");
            assert_eq!(
                order.reverse(),
                compare(value_b, value_a),
                "{value_a:?}, {value_b:?}"
            );
            assert_eq!(order.is_eq(), key_a == key_b, "{value_a:?}, {value_b:?}");
        }
    }
}

/// An input, with the surroundings of its expressions.
struct FuzzedQuery<'a> {
    fields: &'a Document,
    documents: Vec<Document>,
    context: ExpressionContext,
    scope: ExpressionScope,
}

impl<'a> FuzzedQuery<'a> {
    fn new(fields: &'a Document) -> Self {
        let mut context = ExpressionContext::new(DateTime::from_millis(NOW_MILLIS));
        context.deadline = Some(Instant::now() + TIME_MAX);
        let nothing = Document::new();
        let scope = checked(context.bind(fields.get_document("let").unwrap_or(&nothing)));
        let scope = scope.unwrap_or_else(|| {
            let empty = context.bind(&nothing);
            empty.expect("no variable is a fault")
        });
        Self {
            fields,
            documents: documents_of(fields, "documents").unwrap_or_default(),
            context,
            scope,
        }
    }

    fn check_filter(&self) {
        let Ok(given) = self.fields.get_document("filter") else {
            return;
        };
        let Some(filter) = checked(Filter::parse_in(given, &self.scope)) else {
            return;
        };
        let inverse = doc! { "$nor": [given.clone()] };
        let inverse = checked(Filter::parse_in(&inverse, &self.scope));
        for document in &self.documents {
            let is_match = filter.matches(document, &self.context);
            assert_same(&is_match, &filter.matches(document, &self.context), given);
            if let Some(inverse) = &inverse {
                let is_other = inverse.matches(document, &self.context);
                assert_same(&is_match, &is_other.map(|is_match| !is_match), given);
            }
            if checked(is_match) == Some(true) {
                for conjunct in filter.conjuncts() {
                    self.check_conjunct(conjunct, document);
                }
            }
        }
    }

    /// Asserts that a document meets one condition of a filter that it matches.
    fn check_conjunct(&self, conjunct: Conjunct<'_>, document: &Document) {
        let condition = match conjunct.test {
            ConjunctTest::Eq(value) => doc! { "$eq": value.clone() },
            ConjunctTest::Gt(value) => doc! { "$gt": value.clone() },
            ConjunctTest::Gte(value) => doc! { "$gte": value.clone() },
            ConjunctTest::Lt(value) => doc! { "$lt": value.clone() },
            ConjunctTest::Lte(value) => doc! { "$lte": value.clone() },
            ConjunctTest::In(values) => doc! { "$in": values.to_vec() },
        };
        let condition = doc! { conjunct.path: condition };
        let filter = Filter::parse(&condition).expect("a condition of a filter is a filter");
        let is_met = filter.matches(document, &self.context);
        assert_same(&is_met, &Ok(true), &(condition, document));
    }

    fn check_sort(&self) {
        let Ok(given) = self.fields.get_document("sort") else {
            return;
        };
        let Some(sort) = checked(Sort::parse(given)) else {
            return;
        };
        let sort = Arc::new(sort);
        let Some(sorted) = self.first_of_sort(&sort, None) else {
            return;
        };
        for pair in sorted.windows(2) {
            assert!(sort.key(&pair[0]) <= sort.key(&pair[1]), "{given}");
        }
        let (mut before, after) = (encoded(&self.documents), encoded(&sorted));
        let limit = after.len() / 2;
        let first = self.first_of_sort(&sort, Some(limit));
        let first = first.expect("fewer documents need no more memory");
        assert!(encoded(&first) == after[..limit], "{given}");
        let mut same = after;
        before.sort();
        same.sort();
        assert!(before == same, "{given}");
    }

    fn first_of_sort(&self, sort: &Arc<Sort>, limit: Option<usize>) -> Option<Vec<Document>> {
        let mut top = TopK::new(Arc::clone(sort), limit, KEPT_BYTES_MAX);
        for document in &self.documents {
            checked(top.push(document.clone()))?;
        }
        Some(top.finish())
    }

    fn check_projection(&self) {
        let Ok(given) = self.fields.get_document("projection") else {
            return;
        };
        if let Some(projection) = checked(Projection::parse(given)) {
            let results = self.documents.iter().map(|d| projection.apply(d));
            encoded(&results.filter_map(checked).collect::<Vec<_>>());
        }
    }

    fn check_distinct(&self) {
        let Ok(key) = self.fields.get_str("key") else {
            return;
        };
        let mut values = DistinctValues::new(key);
        for document in &self.documents {
            if checked(values.push(document)).is_none() {
                return;
            }
        }
        let mut values = values.finish();
        encoded(&[doc! { "values": values.clone() }]);
        values.sort_by(compare);
        for pair in values.windows(2) {
            assert!(compare(&pair[0], &pair[1]).is_lt(), "{pair:?}");
        }
    }

    fn check_pipeline(&self) {
        let Some(stages) = documents_of(self.fields, "pipeline") else {
            return;
        };
        let Some(pipeline) = checked(Pipeline::parse(&stages, &self.scope)) else {
            return;
        };
        if let Some(PipelineSink::Merge {
            when_matched: WhenMatched::Pipeline { stages, .. },
            ..
        }) = pipeline.sink()
        {
            checked(Pipeline::parse(stages, &self.scope));
        }
        self.check_counted(&pipeline);
        let results = self.run(&pipeline, &self.documents);
        assert_same(&results, &self.run(&pipeline, &self.documents), &stages);
        let Some(results) = checked(results) else {
            return;
        };
        // The stages in two pipelines, one behind the other, have the same results.
        let (first, second) = stages.split_at(stages.len() / 2);
        let halves = [first, second].map(|part| Pipeline::parse(part, &self.scope));
        let [Ok(first), Ok(second)] = halves else {
            return;
        };
        let between = self.run(&first, &self.documents);
        if let Ok(other) = between.and_then(|between| self.run(&second, &decoded(&between))) {
            assert!(other == results, "{stages:?}");
        }
    }

    /// Asserts that a document pushed three times has the results of its read fields, counted as
    /// three: as documents, and as columns.
    fn check_counted(&self, pipeline: &Pipeline) {
        let uses = pipeline.counted_inputs(0);
        let Some(fields) = uses.as_ref().and_then(FieldUses::fields) else {
            return;
        };
        let documents = self.documents.iter();
        let documents = documents.filter(|d| !d.values().any(has_array));
        let documents: Vec<&Document> = documents.collect();
        let parts: Vec<Document> = documents.iter().map(|d| read_part(d, fields)).collect();
        let (single, counted) = (self.surroundings(), self.surroundings());
        let (mut run, mut counted_run) = (pipeline.start(0, &single), pipeline.start(0, &counted));
        let (mut results, mut counted_results) = (Vec::new(), Vec::new());
        let mut push = |(document, part): (&&Document, &Document)| {
            for _ in 0..3 {
                run.push((*document).clone(), &mut results)?;
            }
            counted_run.push_times(part.clone(), 3)
        };
        if documents
            .iter()
            .zip(&parts)
            .try_for_each(&mut push)
            .is_err()
        {
            return;
        }
        let ends = (
            run.finish(&mut results),
            counted_run.finish(&mut counted_results),
        );
        if ends == (Ok(()), Ok(())) {
            assert!(
                encoded(&results) == encoded(&counted_results),
                "{pipeline:?}"
            );
            assert_eq!(counted.kept.kept(), 0, "nothing is kept at the end");
            let columns = self.surroundings();
            if let Some(groups) = pipeline.start_columns(0, &columns) {
                let grouped = group_documents(groups, &parts, &vec![3; parts.len()]);
                let grouped = grouped.map(|(results, _)| encoded(&results));
                assert_same(&grouped, &Ok(encoded(&counted_results)), pipeline);
            }
        }
    }

    fn surroundings(&self) -> PipelineContext {
        PipelineContext {
            expressions: self.context.clone(),
            kept: KeptBytes::new(KEPT_BYTES_MAX),
        }
    }

    /// Returns the results of a pipeline in BSON.
    fn run(&self, pipeline: &Pipeline, documents: &[Document]) -> Result<Vec<Vec<u8>>> {
        let context = self.surroundings();
        let (mut run, mut results) = (pipeline.start(0, &context), Vec::new());
        for document in documents {
            let flow = run.push(document.clone(), &mut results)?;
            assert!(context.kept.kept() <= KEPT_BYTES_MAX);
            if flow == StageFlow::Done {
                break;
            }
        }
        run.finish(&mut results)?;
        assert_eq!(context.kept.kept(), 0, "nothing is kept at the end");
        Ok(encoded(&results))
    }
}

fn has_array(value: &Bson) -> bool {
    match value {
        Bson::Array(_) => true,
        Bson::Document(inside) => inside.values().any(has_array),
        _ => false,
    }
}

/// Returns the fields of a document that are read, dates cut to the grain in which they are.
fn read_part(document: &Document, fields: &BTreeMap<String, DateGrain>) -> Document {
    let mut part = Document::new();
    for (name, value) in document {
        let is_in = |path: &str| path.split('.').next() == Some(name);
        let reads = fields.iter().filter(|(path, _)| is_in(path));
        let unit_ms = match reads.map(|(_, grain)| *grain).min() {
            None => continue,
            Some(DateGrain::Exact) => 1,
            Some(DateGrain::Second) => 1000,
            Some(DateGrain::Minute) => 60_000,
            Some(DateGrain::Hour) => 3_600_000,
            Some(DateGrain::Day) => 86_400_000,
        };
        let value = match value {
            Bson::DateTime(time) => {
                let ms = time.timestamp_millis();
                let cut = ms.checked_sub(ms.rem_euclid(unit_ms));
                Bson::DateTime(DateTime::from_millis(cut.unwrap_or(ms)))
            }
            value => value.clone(),
        };
        part.insert(name, value);
    }
    part
}

/// Returns the documents of an array; `None` if there is none of this name.
fn documents_of(fields: &Document, name: &str) -> Option<Vec<Document>> {
    let items = fields.get_array(name).ok()?;
    let documents = items.iter().filter_map(Bson::as_document);
    Some(documents.cloned().collect())
}

/// Returns the value of a result, after looking at its error.
fn checked<T>(result: Result<T>) -> Option<T> {
    result
        .inspect_err(|error| {
            assert!(error.code > 0, "{error:?}");
            assert!(!error.message.is_empty(), "{error:?}");
        })
        .ok()
}

/// Asserts that two results are the same, unless one ran out of time.
fn assert_same<T: PartialEq + Debug>(a: &Result<T>, b: &Result<T>, of: &impl Debug) {
    let is_late = |result: &Result<T>| {
        let error = result.as_ref().err();
        error.is_some_and(|error| error.code == OUT_OF_TIME)
    };
    assert!(a == b || is_late(a) || is_late(b), "{of:?}");
}

/// Encodes documents, and asserts that they are decoded to the same.
fn encoded(documents: &[Document]) -> Vec<Vec<u8>> {
    let encoded = documents.iter().map(|document| {
        let bytes = document.to_vec().expect("a document has an encoding");
        let again = Document::from_reader(bytes.as_slice()).expect("an encoding is a document");
        assert!(again.to_vec().is_ok_and(|again| again == bytes));
        // The size of an old pointer is a guess.
        if !format!("{document:?}").contains("DbPointer") {
            assert_eq!(encoded_bytes(document), bytes.len(), "{document:?}");
        }
        bytes
    });
    encoded.collect()
}

fn decoded(documents: &[Vec<u8>]) -> Vec<Document> {
    let decode = |bytes: &Vec<u8>| Document::from_reader(bytes.as_slice());
    let documents = documents.iter().map(decode);
    documents
        .map(|document| document.expect("an encoding is a document"))
        .collect()
}
