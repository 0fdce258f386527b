//! Merges cells that have different dictionaries.
//!
//! The inputs are concatenated under one dictionary of keys and one of coupons, grouped by (bucket,
//! key) and reduced: the same reduction that takes the cascade from level to level.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::row::{RowConverter, SortField};
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::xxh3_64;

use crate::calendar::{Cursor, Level};
use crate::cells::{Cells, Grain, Projection};
use crate::column::StateColumn;
use crate::definition::Definition;
use crate::group::group;
use crate::keys::Keys;

/// A key id or coupon id that no cell uses.
const UNUSED: u32 = u32::MAX;

/// Merges cells of one level from any number of tiles and memtable chunks, each with its own
/// dictionaries. The result holds the states that every input has, and one cell per (bucket, key).
pub fn merge(definition: &Definition, level: Level, inputs: &[&Cells]) -> Cells {
    merge_to(&Grain::whole(definition), definition, level, inputs)
}

/// As [`merge`], with one cell for all cells that the grain does not distinguish.
pub fn merge_to(grain: &Grain, definition: &Definition, level: Level, inputs: &[&Cells]) -> Cells {
    let projection = shared_by(definition, inputs);
    let inputs: Vec<&Cells> = inputs.iter().copied().filter(|i| !i.is_empty()).collect();
    if let [one] = inputs[..]
        && *grain == Grain::whole(definition)
    {
        let mut one = one.clone();
        for (column, wanted) in one.columns.iter_mut().zip(&projection.components) {
            if !wanted {
                *column = None;
            }
        }
        return one;
    }
    grouped(joined(grain, definition, level, &projection, &inputs))
}

/// As [`merge`], but frees the inputs before the reduction.
pub(crate) fn merge_all(definition: &Definition, level: Level, inputs: Vec<Cells>) -> Cells {
    let by_reference: Vec<&Cells> = inputs.iter().filter(|i| !i.is_empty()).collect();
    let projection = shared_by(definition, &by_reference);
    let whole = Grain::whole(definition);
    let all = joined(&whole, definition, level, &projection, &by_reference);
    drop(inputs);
    grouped(all)
}

/// Returns the states that every input has.
fn shared_by(definition: &Definition, inputs: &[&Cells]) -> Projection {
    let has = |nth: usize| inputs.iter().all(|input| input.columns[nth].is_some());
    Projection {
        components: (0..definition.components().len()).map(has).collect(),
    }
}

/// Concatenates the inputs under one dictionary of keys and one of coupons. Cells that the grain
/// does not distinguish get one bucket and one key.
fn joined(
    grain: &Grain,
    definition: &Definition,
    level: Level,
    projection: &Projection,
    inputs: &[&Cells],
) -> Cells {
    let mut all = Cells::empty(definition, level, projection);
    if inputs.is_empty() {
        return all;
    }
    let (keys, key_maps) = unify_keys(inputs, &grain.keys);
    let (coupons, coupon_maps) = unify_coupons(inputs);
    for ((input, key_map), coupon_map) in inputs.iter().zip(&key_maps).zip(&coupon_maps) {
        let before = all.len();
        all.bucket.extend_from_slice(&input.bucket);
        all.key
            .extend(input.key.iter().map(|k| key_map[*k as usize]));
        all.count.extend_from_slice(&input.count);
        for (mine, other) in all.columns.iter_mut().zip(&input.columns) {
            if let (Some(mine), Some(other)) = (mine, other) {
                mine.append(other, before, input.len(), Some(coupon_map));
            }
        }
    }
    if !grain.buckets {
        let first = all.bucket.iter().copied().min().unwrap_or(0);
        all.bucket.fill(first);
    }
    all.keys = Arc::new(keys);
    all.coupons = Arc::new(coupons);
    all
}

/// Merges cells of a finer level into those of a coarser one. The result has only the states that
/// the finer level holds.
pub(crate) fn coarsen(definition: &Definition, level: Level, finer: &Cells) -> Cells {
    let mut cursor = Cursor::new(definition.calendar());
    let mut coarser = finer.clone();
    for bucket in &mut coarser.bucket {
        *bucket = cursor.bucket(level, *bucket).start_us;
    }
    grouped(coarser)
}

/// Merges the cells of each (bucket, key) into one.
fn grouped(all: Cells) -> Cells {
    let (ranks, starts) = ranks_of_buckets(&all.bucket);
    let groups = group(&ranks, &all.key, starts.len(), all.keys.len);
    // Each column is freed as soon as it is reduced.
    let reduced = |column: StateColumn| column.reduce(&groups, true, &all.coupons);
    let columns = all.columns.into_iter().map(|c| c.map(reduced)).collect();
    Cells {
        bucket: groups.firsts().map(|c| all.bucket[c]).collect(),
        key: groups.firsts().map(|c| all.key[c]).collect(),
        count: groups
            .iter()
            .map(|g| {
                g.iter()
                    .fold(0, |sum, c| all.count[*c as usize].wrapping_add(sum))
            })
            .collect(),
        columns,
        keys: all.keys,
        coupons: all.coupons,
    }
}

/// Returns the rank of each cell's bucket, and the starts of the buckets that occur, rising.
pub(crate) fn ranks_of_buckets(buckets: &[i64]) -> (Vec<u32>, Vec<i64>) {
    let mut starts: Vec<i64> = Vec::new();
    for bucket in buckets {
        if starts.last() != Some(bucket) {
            starts.push(*bucket);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let mut last = 0;
    let rank = |bucket: &i64| {
        if starts[last] != *bucket {
            last = starts
                .binary_search(bucket)
                .expect("BUG: every bucket is listed");
        }
        last as u32
    };
    (buckets.iter().map(rank).collect(), starts)
}

/// Returns the rows of a dictionary of `len` rows that `ids` refer to, rising.
fn used<'a>(len: usize, ids: impl Iterator<Item = &'a u32>) -> Vec<u32> {
    let mut is_used = vec![false; len];
    ids.for_each(|id| is_used[*id as usize] = true);
    (0..len as u32).filter(|id| is_used[*id as usize]).collect()
}

/// Returns one dictionary of the keys that the inputs use, and for each input the new id of each of
/// its keys. Key columns that are not `kept` are null in it.
pub(crate) fn unify_keys(inputs: &[&Cells], kept: &[bool]) -> (Keys, Vec<Vec<u32>>) {
    let first = &inputs[0].keys;
    let columns_kept = || first.columns.iter().zip(kept).filter(|(_, kept)| **kept);
    let all_kept = kept.iter().all(|kept| *kept);
    if all_kept && inputs.iter().all(|i| Arc::ptr_eq(&i.keys, first)) {
        let same: Vec<u32> = (0..first.len as u32).collect();
        return (first.as_ref().clone(), vec![same; inputs.len()]);
    }
    let mut maps: Vec<Vec<u32>> = inputs.iter().map(|i| vec![UNUSED; i.keys.len]).collect();
    let null = |column: &ArrayRef, len| new_null_array(column.data_type(), len);
    if columns_kept().next().is_none() {
        maps.iter_mut().for_each(|map| map.fill(0));
        return (
            Keys {
                columns: first.columns.iter().map(|c| null(c, 1)).collect(),
                len: 1,
            },
            maps,
        );
    }
    let fields = columns_kept()
        .map(|(c, _)| SortField::new(c.data_type().clone()))
        .collect();
    let converter = RowConverter::new(fields).expect("BUG: key types have an order");
    let mut rows = converter.empty_rows(0, 0);
    // Source of each different key: (input, row of the input's dictionary).
    let mut sources: Vec<(usize, usize)> = Vec::new();
    // Hash and id of each different key.
    let mut table: HashTable<(u64, u32)> = HashTable::new();
    // Row in `rows` of each different key.
    let mut row_of: Vec<usize> = Vec::new();
    for (nth, input) in inputs.iter().enumerate() {
        let ids = used(input.keys.len, input.key.iter());
        let columns = select(&input.keys, &ids).columns.into_iter().zip(kept);
        let columns: Vec<ArrayRef> = columns.filter(|(_, kept)| **kept).map(|(c, _)| c).collect();
        let base = rows.num_rows();
        converter
            .append(&mut rows, &columns)
            .expect("BUG: dictionaries of one rollup have one type");
        for (at, id) in ids.iter().enumerate() {
            let row = rows.row(base + at);
            let hash = xxh3_64(row.as_ref());
            let found = table
                .entry(
                    hash,
                    |(h, key)| *h == hash && rows.row(row_of[*key as usize]) == row,
                    |(h, _)| *h,
                )
                .or_insert_with(|| {
                    sources.push((nth, *id as usize));
                    row_of.push(base + at);
                    (hash, sources.len() as u32 - 1)
                });
            maps[nth][*id as usize] = found.get().1;
        }
    }
    let columns = (0..first.columns.len())
        .map(|column| {
            if !kept[column] {
                return null(&first.columns[column], sources.len());
            }
            let arrays: Vec<&dyn Array> = inputs
                .iter()
                .map(|i| i.keys.columns[column].as_ref())
                .collect();
            interleave(&arrays, &sources).expect("BUG: dictionaries of one rollup have one type")
        })
        .collect();
    (
        Keys {
            columns,
            len: sources.len(),
        },
        maps,
    )
}

/// Returns the keys of a dictionary that `ids` name, in their order.
pub(crate) fn select(keys: &Keys, ids: &[u32]) -> Keys {
    let indices = UInt32Array::from(ids.to_vec());
    let column =
        |c: &ArrayRef| take(c, &indices, None).expect("BUG: key ids are rows of the dictionary");
    Keys {
        columns: keys.columns.iter().map(column).collect(),
        len: ids.len(),
    }
}

/// Returns the rank of each key that some cell uses, by value, null first. Other keys have rank 0.
pub(crate) fn key_ranks(keys: &Keys, used_by: &[u32]) -> Vec<u32> {
    let mut ranks = vec![0; keys.len];
    if keys.columns.is_empty() {
        return ranks;
    }
    let ids = used(keys.len, used_by.iter());
    let columns = select(keys, &ids).columns;
    let fields = columns
        .iter()
        .map(|c| SortField::new(c.data_type().clone()))
        .collect();
    let converter = RowConverter::new(fields).expect("BUG: key types have an order");
    let rows = converter
        .convert_columns(&columns)
        .expect("BUG: the converter was made for these");
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    order.sort_unstable_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
    for (rank, nth) in order.iter().enumerate() {
        ranks[ids[*nth as usize] as usize] = rank as u32;
    }
    ranks
}

/// Returns one dictionary of the coupons that the inputs use, and for each input the new id of
/// each of its coupons.
fn unify_coupons(inputs: &[&Cells]) -> (Vec<u64>, Vec<Vec<u32>>) {
    let mut dictionary = Vec::new();
    let mut table: HashMap<u64, u32> = HashMap::new();
    let mut maps = Vec::new();
    for input in inputs {
        let sets = input.columns.iter().flatten().filter_map(|c| {
            if let StateColumn::Sets(s) = c {
                Some(s)
            } else {
                None
            }
        });
        let mut map = vec![UNUSED; input.coupons.len()];
        for id in sets.flat_map(|s| &s.ids) {
            let slot = &mut map[*id as usize];
            if *slot == UNUSED {
                let hash = input.coupons[*id as usize];
                *slot = *table.entry(hash).or_insert_with(|| {
                    dictionary.push(hash);
                    dictionary.len() as u32 - 1
                });
            }
        }
        maps.push(map);
    }
    (dictionary, maps)
}
