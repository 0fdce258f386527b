//! States of accumulators.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use bson::{Array, Bson};

use super::AccumulatorFunction;
use super::merged::{MergedObjects, PeakBytes};
use crate::mongo::error::Result;
use crate::mongo::expression::Evaluated;
use crate::mongo::number::{NumberDeviation, NumberTotal, NumberType, integer};
use crate::mongo::size::{check_value_bytes, value_bytes, weigh};
use crate::mongo::value::{BsonNumber, compare, put_key};

/// The bytes of an element of an array in BSON beside its value, about.
const INDEX_BYTES: usize = 8;

/// The state of an accumulator in one group.
#[derive(Debug)]
pub(in crate::mongo) enum AccumulatorState {
    Sum(NumberTotal),
    Avg(NumberTotal, u64),
    /// The best value so far, and the order of a better one to it.
    Extreme(Option<Bson>, Ordering, PeakBytes),
    /// The first value, `None` before it.
    First(Option<Evaluated>),
    Last(Evaluated, PeakBytes),
    Push(Array, usize),
    AddToSet(Array, HashSet<Vec<u8>>, usize),
    Count(i64),
    Deviation {
        deviation: NumberDeviation,
        is_sample: bool,
    },
    /// The values, and the parts that are asked for; none for the median.
    Percentile(Vec<f64>, Option<Arc<[f64]>>),
    MergeObjects(MergedObjects),
}

impl AccumulatorState {
    pub(super) fn new(function: &AccumulatorFunction) -> Self {
        let peak = PeakBytes::default();
        match function {
            AccumulatorFunction::Sum => Self::Sum(NumberTotal::default()),
            AccumulatorFunction::Avg => Self::Avg(NumberTotal::default(), 0),
            AccumulatorFunction::Min => Self::Extreme(None, Ordering::Less, peak),
            AccumulatorFunction::Max => Self::Extreme(None, Ordering::Greater, peak),
            AccumulatorFunction::First => Self::First(None),
            AccumulatorFunction::Last => Self::Last(None, peak),
            AccumulatorFunction::Push => Self::Push(Array::new(), 0),
            AccumulatorFunction::AddToSet => Self::AddToSet(Array::new(), HashSet::new(), 0),
            AccumulatorFunction::Count => Self::Count(0),
            AccumulatorFunction::StdDevPop | AccumulatorFunction::StdDevSamp => Self::Deviation {
                deviation: NumberDeviation::default(),
                is_sample: *function == AccumulatorFunction::StdDevSamp,
            },
            AccumulatorFunction::Percentile(parts) => {
                Self::Percentile(Vec::new(), Some(Arc::clone(parts)))
            }
            AccumulatorFunction::Median => Self::Percentile(Vec::new(), None),
            AccumulatorFunction::MergeObjects => Self::MergeObjects(MergedObjects::default()),
        }
    }

    /// Takes a value, `None` for a missing one, and returns by how many bytes the state has grown.
    ///
    /// # Errors
    /// 40400 if `$mergeObjects` gets no object, 17419 if the result gets too large.
    pub(in crate::mongo) fn add(&mut self, value: Evaluated) -> Result<usize> {
        match self {
            Self::Count(count) => *count += 1,
            Self::First(Some(_)) => {}
            Self::First(first) => {
                let bytes = value.as_ref().map(weigh).transpose()?;
                *first = Some(value);
                return Ok(bytes.unwrap_or(0));
            }
            Self::Last(last, peak) => {
                let bytes = value.as_ref().map(weigh).transpose()?;
                *last = value;
                return Ok(peak.grow_to(bytes.unwrap_or(0)));
            }
            state => {
                if let Some(value) = value {
                    return state.add_present(value);
                }
            }
        }
        Ok(0)
    }

    /// Takes a value so many times, at least once, as [`Self::add`] does. The accumulator is one
    /// for which
    /// [`counts_equal_values`](super::GroupAccumulator::counts_equal_values) is true.
    pub(in crate::mongo) fn add_times(&mut self, value: Evaluated, times: u64) -> Result<usize> {
        match (self, value) {
            (Self::Count(count), _) => *count = count.saturating_add_unsigned(times),
            (Self::Sum(total), Some(value)) => _ = total.add_times(&value, times),
            (Self::Avg(total, count), Some(value)) => {
                *count += match total.add_times(&value, times) {
                    true => times,
                    false => 0,
                };
            }
            (state, value) => return state.add(value),
        }
        Ok(0)
    }

    fn add_present(&mut self, value: Bson) -> Result<usize> {
        match self {
            Self::Sum(total) => _ = total.add(&value),
            Self::Avg(total, count) => *count += u64::from(total.add(&value)),
            Self::Extreme(best, wanted, peak) => {
                let is_null = matches!(value, Bson::Null | Bson::Undefined);
                let is_better = best
                    .as_ref()
                    .is_none_or(|best| compare(&value, best) == *wanted);
                if is_better && !is_null {
                    let bytes = weigh(&value)?;
                    *best = Some(value);
                    return Ok(peak.grow_to(bytes));
                }
            }
            Self::Push(items, bytes) => {
                let grown = weigh(&value)?;
                *bytes += value_bytes(&value) + INDEX_BYTES;
                check_value_bytes(*bytes)?;
                items.push(value);
                return Ok(grown);
            }
            Self::AddToSet(items, keys, bytes) => return add_to_set(items, keys, bytes, value),
            Self::Deviation { deviation, .. } => deviation.add(&value),
            Self::Percentile(values, _) => {
                if let Some(number) = BsonNumber::of(&value) {
                    values.push(number.to_double());
                    return Ok(size_of::<f64>());
                }
            }
            Self::MergeObjects(merged) => return merged.add(value),
            Self::First(_) | Self::Last(..) | Self::Count(_) => {}
        }
        Ok(0)
    }

    /// Returns the result: null where there is none.
    pub(in crate::mongo) fn finish(self) -> Bson {
        match self {
            Self::Sum(total) => total.finish(),
            Self::Avg(_, 0) => Bson::Null,
            Self::Avg(total, count) => total.mean(count),
            Self::Extreme(value, ..) | Self::Last(value, _) => value.unwrap_or(Bson::Null),
            Self::First(value) => value.flatten().unwrap_or(Bson::Null),
            Self::Push(items, _) | Self::AddToSet(items, ..) => Bson::Array(items),
            Self::Count(count) => integer(count.into(), NumberType::Int32),
            Self::Deviation {
                deviation,
                is_sample,
            } => deviation.finish(is_sample),
            Self::Percentile(mut values, parts) => {
                values.sort_by(|a, b| BsonNumber::Double(*a).compare(&BsonNumber::Double(*b)));
                match parts {
                    None => discrete(&values, 0.5),
                    Some(parts) => {
                        let parts = parts.iter().map(|part| discrete(&values, *part));
                        Bson::Array(parts.collect())
                    }
                }
            }
            Self::MergeObjects(merged) => merged.finish(),
        }
    }
}

fn add_to_set(
    items: &mut Array,
    keys: &mut HashSet<Vec<u8>>,
    bytes: &mut usize,
    value: Bson,
) -> Result<usize> {
    let mut key = Vec::new();
    put_key(&value, &mut key);
    let grown = weigh(&value)?;
    let key_bytes = key.len();
    if !keys.insert(key) {
        return Ok(0);
    }
    *bytes += value_bytes(&value) + INDEX_BYTES;
    check_value_bytes(*bytes)?;
    items.push(value);
    Ok(grown + key_bytes + 2 * size_of::<Vec<u8>>())
}

/// Returns the value of sorted ones that at least a part of them do not exceed; null of none.
fn discrete(sorted: &[f64], part: f64) -> Bson {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    let value = sorted.get(rank.saturating_sub(1));
    value.map_or(Bson::Null, |value| Bson::Double(*value))
}
