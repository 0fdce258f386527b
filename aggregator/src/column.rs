//! Columns: one component's states of many cells, in flat arrays.
//!
//! A column is built from events ([`StateColumn::of_events`]), from groups of finer or partial
//! cells ([`StateColumn::reduce`]), or from a tile. No cell owns an allocation: histogram entries
//! and coupons lie in flat arrays with offsets per cell, registers as canonical bodies in one
//! arena.

mod buckets;
mod numeric;
mod sets;
mod squares;
mod vectors;

pub(crate) use buckets::Buckets;
pub(crate) use numeric::Numeric;
pub(crate) use sets::Sets;
pub(crate) use squares::{Squares, square};
pub(crate) use vectors::or_zero;

use crate::calendar::Level;
use crate::definition::Component;
use crate::group::Grouping;
use crate::intern::Numbers;
use crate::state::Layout;
use vectors::{gather, sum_of};

/// The states of one component.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StateColumn {
    /// Events that passed a filter.
    Counts(Vec<u64>),
    Numeric(Numeric),
    Squares(Squares),
    Buckets(Buckets),
    Sets(Sets),
}

/// The values per event from which a component is computed.
#[derive(Debug)]
pub(crate) enum EventValues<'a> {
    /// No values: events are counted.
    Events,
    Numbers(&'a Numbers),
    Squares(&'a Numbers),
    /// Bucket of each event, `NO_BUCKET` or `OVERFLOWS`.
    Buckets(&'a [u32], Layout),
    /// Coupon id of each event or `NO_COUPON`.
    Coupons(&'a [u32]),
}

impl StateColumn {
    /// Returns a column without cells.
    pub(crate) fn empty(component: &Component, level: Level) -> Self {
        match component {
            Component::Count { .. } => Self::Counts(Vec::new()),
            Component::Numeric { .. } => Self::Numeric(Numeric {
                range: component.range_at(level).then(Default::default),
                ..Numeric::default()
            }),
            Component::Squares { .. } => Self::Squares(Squares::default()),
            Component::Histogram { layout, .. } => Self::Buckets(Buckets::new(*layout)),
            Component::Distinct { .. } => Self::Sets(Sets::new()),
        }
    }

    /// Computes the states of groups of events. `range` requests extremes.
    pub(crate) fn of_events(
        values: &EventValues<'_>,
        groups: &Grouping,
        range: bool,
        coupons: &[u64],
    ) -> Self {
        match values {
            EventValues::Events => {
                Self::Counts(groups.iter().map(|events| events.len() as u64).collect())
            }
            EventValues::Numbers(numbers) => {
                Self::Numeric(Numeric::of_events(numbers, groups, range))
            }
            EventValues::Squares(numbers) => Self::Squares(Squares::of_events(numbers, groups)),
            EventValues::Buckets(index, layout) => {
                Self::Buckets(Buckets::of_events(index, *layout, groups))
            }
            EventValues::Coupons(ids) => Self::Sets(Sets::of_events(ids, groups, coupons)),
        }
    }

    /// Merges the states of groups of cells. `range` is true if the coarser level has extremes.
    pub(crate) fn reduce(&self, groups: &Grouping, range: bool, coupons: &[u64]) -> Self {
        match self {
            Self::Counts(c) => Self::Counts(groups.iter().map(|cells| sum_of(c, cells)).collect()),
            Self::Numeric(c) => Self::Numeric(c.reduce(groups, range)),
            Self::Squares(c) => Self::Squares(c.reduce(groups)),
            Self::Buckets(c) => Self::Buckets(c.reduce(groups)),
            Self::Sets(c) => Self::Sets(c.reduce(groups, coupons)),
        }
    }

    /// Returns the given cells, in the given order.
    pub(crate) fn take(&self, cells: &[u32]) -> Self {
        match self {
            Self::Counts(c) => Self::Counts(gather(c, cells)),
            Self::Numeric(c) => Self::Numeric(c.take(cells)),
            Self::Squares(c) => Self::Squares(c.take(cells)),
            Self::Buckets(c) => Self::Buckets(c.take(cells)),
            Self::Sets(c) => Self::Sets(c.take(cells)),
        }
    }

    /// Appends the `cells` cells of `other` to the `before` cells of this column. `coupon_map` maps
    /// the other's coupon ids to ids of this column; `None` if they are the same.
    pub(crate) fn append(
        &mut self,
        other: &Self,
        before: usize,
        cells: usize,
        coupon_map: Option<&[u32]>,
    ) {
        match (self, other) {
            (Self::Counts(a), Self::Counts(b)) => a.extend_from_slice(b),
            (Self::Numeric(a), Self::Numeric(b)) => a.append(b, before, cells),
            (Self::Squares(a), Self::Squares(b)) => a.append(b),
            (Self::Buckets(a), Self::Buckets(b)) => a.append(b, before, cells),
            (Self::Sets(a), Self::Sets(b)) => a.append(b, before, coupon_map),
            _ => unreachable!("BUG: columns of one component are of one kind"),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Counts(c) => c.len() * 8,
            Self::Numeric(c) => {
                c.n.len() * 24
                    + c.unfit.len() * 8
                    + c.range.as_ref().map_or(0, |(min, _)| min.len() * 32)
            }
            Self::Squares(c) => c.sums.len() * 32,
            Self::Buckets(c) => c.offsets.len() * 8 + c.index.len() * 12 + c.overflow.len() * 8,
            Self::Sets(c) => {
                c.offsets.len() * 8 + c.ids.len() * 4 + c.dense_cells.len() * 12 + c.bodies.len()
            }
        }
    }

    pub(crate) fn counts(&self) -> &[u64] {
        match self {
            Self::Counts(c) => c,
            _ => unreachable!("BUG: a filtered count has a column of counts"),
        }
    }

    pub(crate) fn numeric(&self) -> &Numeric {
        match self {
            Self::Numeric(c) => c,
            _ => unreachable!("BUG: a numeric component has a numeric column"),
        }
    }

    pub(crate) fn squares(&self) -> &Squares {
        match self {
            Self::Squares(c) => c,
            _ => unreachable!("BUG: a component of squares has their column"),
        }
    }

    pub(crate) fn buckets(&self) -> &Buckets {
        match self {
            Self::Buckets(c) => c,
            _ => unreachable!("BUG: a histogram component has a column of buckets"),
        }
    }

    pub(crate) fn sets(&self) -> &Sets {
        match self {
            Self::Sets(c) => c,
            _ => unreachable!("BUG: a distinct component has a column of sets"),
        }
    }
}
