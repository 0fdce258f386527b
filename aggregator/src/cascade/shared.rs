//! The columns of events that several rollups share, each read once.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::calendar::{Calendar, Level};
use crate::definition::{Component, Definition, KeyType, Number};
use crate::error::Result;
use crate::expression::{Condition, Expression};
use crate::intern::{Identities, KeyValues, Numbers, bucket_ranks, coupons, times};
use crate::state::Layout;

/// A small map with a linear search: there are a handful of columns.
pub(super) type Assoc<K, V> = Vec<(K, V)>;

pub(super) fn lookup<'a, K: PartialEq<Q>, Q: ?Sized, V>(assoc: &'a Assoc<K, V>, key: &Q) -> &'a V {
    &assoc
        .iter()
        .find(|(k, _)| k == key)
        .expect("BUG: every column a definition needs was read")
        .1
}

/// A dictionary of coupons, and per field the coupon of each event.
pub(super) type Coupons = (Arc<Vec<u64>>, Vec<Vec<u32>>);

/// The columns of events that the definitions need, each once.
pub(super) struct SharedColumns {
    pub(super) rows: usize,
    /// The instant of each event.
    pub(super) times: Vec<i64>,
    pub(super) numbers: Assoc<Number, Numbers>,
    pub(super) buckets: Assoc<(Number, Layout), Vec<u32>>,
    pub(super) key_values: Assoc<(Expression, KeyType), KeyValues>,
    /// Coupons by list of fields.
    pub(super) coupons: Assoc<Vec<String>, Coupons>,
    /// Per condition, a flag per event: true if it passes.
    pub(super) passing: Assoc<Condition, Vec<bool>>,
    /// By calendar and level: the rank of each event's bucket, and the starts of the buckets.
    pub(super) ranks: Assoc<(Calendar, Level), (Vec<u32>, Vec<i64>)>,
}

impl SharedColumns {
    pub(super) fn of(definitions: &[&Definition], events: &[RecordBatch]) -> Result<Self> {
        let rows = events.iter().map(RecordBatch::num_rows).sum();
        let times = times(events, rows)?;
        let mut shared = Self {
            rows,
            times,
            numbers: Vec::new(),
            buckets: Vec::new(),
            key_values: Vec::new(),
            coupons: Vec::new(),
            passing: Vec::new(),
            ranks: Vec::new(),
        };
        let mut identities: Assoc<String, Identities> = Vec::new();
        for definition in definitions {
            for key in definition.by() {
                let name = (key.value(), key.key_type);
                if !shared.key_values.iter().any(|(k, _)| *k == name) {
                    let values = KeyValues::of(events, rows, &name.0, key.key_type)?;
                    shared.key_values.push((name, values));
                }
            }
            for component in definition.components() {
                shared.read(definition, component, events)?;
            }
            let fields = distinct_fields(definition);
            for field in &fields {
                if !identities.iter().any(|(k, _)| k == field) {
                    identities.push((field.clone(), Identities::of(events, rows, field)?));
                }
            }
            if !shared.coupons.iter().any(|(k, _)| *k == fields) {
                let own: Vec<&Identities> = fields.iter().map(|f| lookup(&identities, f)).collect();
                let (dictionary, per_event) = coupons(&own);
                shared
                    .coupons
                    .push((fields, (Arc::new(dictionary), per_event)));
            }
            for level in definition
                .levels()
                .iter()
                .filter(|l| definition.source(**l).is_none())
            {
                let name = (definition.calendar(), *level);
                if !shared.ranks.iter().any(|(k, _)| *k == name) {
                    shared
                        .ranks
                        .push((name, bucket_ranks(&shared.times, name.0, name.1)));
                }
            }
        }
        Ok(shared)
    }

    /// Reads the columns of a component. Numbers come before their histograms in a definition.
    fn read(
        &mut self,
        definition: &Definition,
        component: &Component,
        events: &[RecordBatch],
    ) -> Result<()> {
        if let Some(filter) = definition.filter_of(component)
            && !self.passing.iter().any(|(k, _)| k == filter)
        {
            let passing = filter.passing(events, self.rows)?;
            self.passing.push((filter.clone(), passing));
        }
        match component {
            Component::Numeric { field, .. } if !self.numbers.iter().any(|(k, _)| k == field) => {
                self.numbers
                    .push((field.clone(), Numbers::of(events, self.rows, field)?));
            }
            Component::Histogram {
                layout, numeric, ..
            } => {
                let name = (number_of(definition, *numeric).clone(), *layout);
                if !self.buckets.iter().any(|(k, _)| *k == name) {
                    let index = lookup(&self.numbers, &name.0).buckets(*layout, name.0.scaled);
                    self.buckets.push((name, index));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn number_of(definition: &Definition, component: usize) -> &Number {
    match &definition.components()[component] {
        Component::Numeric { field, .. } => field,
        _ => unreachable!("BUG: a histogram and squares refer to their numbers"),
    }
}

/// Returns the fields of distinct counts, each once.
pub(super) fn distinct_fields(definition: &Definition) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for component in definition.components() {
        if let Component::Distinct { field, .. } = component
            && !fields.contains(field)
        {
            fields.push(field.clone());
        }
    }
    fields
}
