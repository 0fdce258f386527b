//! `$group`, and `$bucket` as a group by the bucket of a value.
//!
//! # Invariants
//! * Groups are found by the key of their `_id`, so that numbers of all types that are equal make
//!   one group. They come in the order in which they were first seen, buckets in that of values.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{Bson, Document};

use super::flow::{RunningStage, StageFlow};
use super::{KeptBytes, PipelineContext};
use crate::mongo::accumulator::{AccumulatorState, GroupAccumulator};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::{Evaluated, Expression, ExpressionScope};
use crate::mongo::size::weigh;
use crate::mongo::value::{compare, put_key};

/// The bytes of a group beside its key and its accumulators.
const GROUP_BYTES: usize = size_of::<Bson>() + size_of::<Vec<u8>>() + size_of::<usize>();

/// A stage of groups.
#[derive(Debug)]
pub(in crate::mongo) struct GroupSpec {
    /// The value by which documents are grouped.
    pub(in crate::mongo) by: Expression,
    /// The buckets of the value; `None` if each value has a group.
    pub(in crate::mongo) buckets: Option<BucketBounds>,
    /// The fields beside `_id`.
    pub(in crate::mongo) fields: Vec<(String, GroupAccumulator)>,
}

/// The buckets of `$bucket`.
#[derive(Debug)]
pub(in crate::mongo) struct BucketBounds {
    /// The lower bounds, and the upper bound of the last.
    pub(in crate::mongo) boundaries: Vec<Bson>,
    /// The `_id` of values in none.
    pub(in crate::mongo) default: Option<Bson>,
}

impl GroupSpec {
    /// Reads `$group`.
    pub(super) fn parse(spec: &Bson, scope: &ExpressionScope) -> Result<Self> {
        let Bson::Document(spec) = spec else {
            let message = "$group needs an object with '_id' and accumulators";
            return Err(QueryError::located(15947, message));
        };
        let Some(id) = spec.get("_id") else {
            let message = "$group has no '_id'; name the value to group by, or null for one group";
            return Err(QueryError::located(15955, message));
        };
        Ok(Self {
            by: Expression::parse(id, scope)?,
            buckets: None,
            fields: accumulators(spec, scope)?,
        })
    }
}

/// Reads the fields of a group but `_id`.
pub(super) fn accumulators(
    spec: &Document,
    scope: &ExpressionScope,
) -> Result<Vec<(String, GroupAccumulator)>> {
    let mut fields = Vec::with_capacity(spec.len());
    for (name, accumulator) in spec.iter().filter(|(name, _)| *name != "_id") {
        if name.contains('.') {
            let message = format!("the field '{name}' of a group has a dot; choose another name");
            return Err(QueryError::located(40235, message));
        }
        if name.starts_with('$') {
            let message =
                format!("the field '{name}' of a group begins with $; choose another name");
            return Err(QueryError::located(40236, message));
        }
        let accumulator = GroupAccumulator::parse(name, accumulator, scope)?;
        fields.push((name.clone(), accumulator));
    }
    Ok(fields)
}

impl BucketBounds {
    /// Returns the `_id` of the bucket of a value.
    fn bucket(&self, value: Option<&Bson>) -> Result<Bson> {
        if let Some(value) = value {
            let above = self
                .boundaries
                .partition_point(|bound| compare(bound, value).is_le());
            if (1..self.boundaries.len()).contains(&above) {
                return Ok(self.boundaries[above - 1].clone());
            }
        }
        self.default.clone().ok_or_else(|| {
            let message = "a value lies in no bucket of $bucket; give it a 'default'";
            QueryError::located(40066, message)
        })
    }
}

/// `$group` at work.
#[derive(Debug)]
pub(super) struct GroupStage {
    group: Arc<GroupSpec>,
    context: PipelineContext,
    places: HashMap<Vec<u8>, usize>,
    groups: Vec<(Bson, Vec<AccumulatorState>)>,
    bytes: usize,
}

impl GroupStage {
    pub(super) fn new(group: &Arc<GroupSpec>, context: &PipelineContext) -> Self {
        Self {
            group: Arc::clone(group),
            context: context.clone(),
            places: HashMap::new(),
            groups: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a group that is in none of the documents.
    ///
    /// # Errors
    /// 292 if the groups are too large.
    pub(super) fn put(&mut self, id: Bson, states: Vec<AccumulatorState>) -> Result<()> {
        let mut key = Vec::new();
        put_key(&id, &mut key);
        let bytes = self.insert(key, id, states)?.1;
        self.keep(bytes)
    }

    /// Counts bytes that the groups take.
    ///
    /// # Errors
    /// 292 if they are too many.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.context.kept.keep(bytes, "$group")
    }

    /// Adds a new group, and returns its place and its bytes.
    fn insert(
        &mut self,
        key: Vec<u8>,
        id: Bson,
        states: Vec<AccumulatorState>,
    ) -> Result<(usize, usize)> {
        let bytes =
            GROUP_BYTES + key.len() + weigh(&id)? + states.len() * size_of::<AccumulatorState>();
        let place = self.groups.len();
        self.places.insert(key, place);
        self.groups.push((id, states));
        Ok((place, bytes))
    }

    fn budget(&self) -> &KeptBytes {
        &self.context.kept
    }

    /// Returns the place of the group of a document, and the bytes of a new one.
    fn place(&mut self, document: &Document) -> Result<(usize, usize)> {
        let value = self
            .context
            .expressions
            .evaluate(&self.group.by, document)?;
        let id = match &self.group.buckets {
            Some(buckets) => buckets.bucket(value.as_ref())?,
            None => value.unwrap_or(Bson::Null),
        };
        let mut key = Vec::new();
        put_key(&id, &mut key);
        if let Some(place) = self.places.get(&key) {
            return Ok((*place, 0));
        }
        let states = self.group.fields.iter().map(|(_, of)| of.start()).collect();
        self.insert(key, id, states)
    }

    /// Adds a document to the states of its group, each in one way.
    fn add(
        &mut self,
        document: &Document,
        add: impl Fn(&mut AccumulatorState, Evaluated) -> Result<usize>,
    ) -> Result<StageFlow> {
        let (place, bytes) = self.place(document)?;
        self.keep(bytes)?;
        let states = &mut self.groups[place].1;
        for ((_, accumulator), state) in self.group.fields.iter().zip(states) {
            let expressions = &self.context.expressions;
            let value = expressions.evaluate(accumulator.argument(), document)?;
            let bytes = add(state, value)?;
            self.bytes += bytes;
            self.context.kept.keep(bytes, "$group")?;
        }
        Ok(StageFlow::More)
    }
}

impl RunningStage for GroupStage {
    fn push(&mut self, document: Document, _out: &mut Vec<Document>) -> Result<StageFlow> {
        self.add(&document, AccumulatorState::add)
    }

    fn push_times(
        &mut self,
        document: Document,
        times: u64,
        _out: &mut Vec<Document>,
    ) -> Result<StageFlow> {
        self.add(&document, |state, value| state.add_times(value, times))
    }

    fn finish(&mut self, out: &mut Vec<Document>) -> Result<()> {
        self.places = HashMap::new();
        let mut groups = std::mem::take(&mut self.groups);
        if self.group.buckets.is_some() {
            groups.sort_by(|(a, _), (b, _)| compare(a, b));
        }
        out.reserve(groups.len());
        let meter = self.context.expressions.meter();
        for (id, states) in groups {
            meter.step()?;
            let mut result = Document::new();
            result.insert("_id", id);
            for ((name, _), state) in self.group.fields.iter().zip(states) {
                result.insert(name, state.finish());
            }
            out.push(result);
        }
        Ok(())
    }

    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.budget().release(bytes);
    }
}
