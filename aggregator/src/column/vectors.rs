//! Vectors with a value per cell. A vector of counts that are all zero is empty.

use crate::group::Grouping;

/// Returns a cell's value from a vector that is empty if all its values are zero.
pub(crate) fn or_zero(values: &[u64], cell: usize) -> u64 {
    values.get(cell).copied().unwrap_or(0)
}

pub(super) fn sparse_zeros(values: Vec<u64>) -> Vec<u64> {
    if values.iter().any(|v| *v > 0) {
        values
    } else {
        Vec::new()
    }
}

pub(super) fn append_or_zero(mine: &mut Vec<u64>, before: usize, other: &[u64], cells: usize) {
    if mine.is_empty() && other.is_empty() {
        return;
    }
    mine.resize(before, 0);
    mine.extend_from_slice(other);
    mine.resize(before + cells, 0);
}

pub(super) fn gather<T: Copy>(values: &[T], cells: &[u32]) -> Vec<T> {
    cells.iter().map(|c| values[*c as usize]).collect()
}

pub(super) fn take_or_zero(values: &[u64], cells: &[u32]) -> Vec<u64> {
    if values.is_empty() {
        Vec::new()
    } else {
        sparse_zeros(gather(values, cells))
    }
}

pub(super) fn reduce_or_zero(values: &[u64], groups: &Grouping) -> Vec<u64> {
    if values.is_empty() {
        return Vec::new();
    }
    sparse_zeros(groups.iter().map(|cells| sum_of(values, cells)).collect())
}

pub(super) fn sum_of(values: &[u64], cells: &[u32]) -> u64 {
    let add = |sum: u64, cell: &u32| sum.wrapping_add(values[*cell as usize]);
    cells.iter().fold(0, add)
}
