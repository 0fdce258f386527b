//! One component's states of many cells, flat.
//!
//! Three things make a column: events ([`Column::of_events`]), groups of finer or partial cells
//! ([`Column::reduce`]), and a tile. No cell owns an allocation: histogram entries and coupons lie
//! in flat arrays with offsets per cell, registers as canonical bodies in one arena.

use crate::calendar::Level;
use crate::definition::Component;
use crate::group::Grouping;
use crate::intern::Numbers;
use crate::state::{
    COUPONS_MAX, Layout, REGISTERS, Registers, decode_registers, encode_registers, observe,
};

/// An event's value has no bucket.
pub(crate) const NO_BUCKET: u32 = u32::MAX;
/// An event's value lies above the histogram's max.
pub(crate) const OVERFLOWS: u32 = u32::MAX - 1;
/// An event has no value to tell apart.
pub(crate) const NO_COUPON: u32 = u32::MAX;

/// Number of values, sums and extremes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Numeric {
    /// Values that fit.
    pub(crate) n: Vec<u64>,
    /// Values that do not; empty when no cell has any.
    pub(crate) unfit: Vec<u64>,
    pub(crate) sum: Vec<i128>,
    /// Smallest and largest, 0 where `n` is 0.
    pub(crate) range: Option<(Vec<i128>, Vec<i128>)>,
}

/// Counts by bucket of values: cell `c` has the entries `offsets[c]..offsets[c + 1]`, rising.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Buckets {
    pub(crate) layout: Layout,
    pub(crate) offsets: Vec<usize>,
    pub(crate) index: Vec<u32>,
    pub(crate) counts: Vec<u64>,
    /// Values above the layout's max; empty when no cell has any.
    pub(crate) overflow: Vec<u64>,
}

/// Sets of coupon ids, rising within a cell; a cell with registers has no coupons.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sets {
    pub(crate) offsets: Vec<usize>,
    pub(crate) ids: Vec<u32>,
    /// The cells with registers, rising.
    pub(crate) dense_cells: Vec<u32>,
    /// Their canonical bodies: the `r`-th is `bodies[dense_offsets[r]..dense_offsets[r + 1]]`.
    pub(crate) dense_offsets: Vec<usize>,
    pub(crate) bodies: Vec<u8>,
}

/// The states of one component.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Column {
    Numeric(Numeric),
    Buckets(Buckets),
    Sets(Sets),
}

/// What a component is made of, per event.
#[derive(Debug)]
pub(crate) enum EventValues<'a> {
    Numbers(&'a Numbers),
    /// Bucket of each event, [`NO_BUCKET`] or [`OVERFLOWS`].
    Buckets(&'a [u32], Layout),
    /// Coupon id of each event or [`NO_COUPON`].
    Coupons(&'a [u32]),
}

impl Column {
    /// No cells.
    pub(crate) fn empty(component: &Component, level: Level) -> Self {
        match component {
            Component::Numeric { .. } => Self::Numeric(Numeric {
                range: component.range_at(level).then(Default::default),
                ..Numeric::default()
            }),
            Component::Histogram { layout, .. } => Self::Buckets(Buckets::new(*layout)),
            Component::Distinct { .. } => Self::Sets(Sets::new()),
        }
    }

    /// The states of groups of events.
    pub(crate) fn of_events(
        values: &EventValues<'_>,
        groups: &Grouping,
        range: bool,
        coupons: &[u64],
    ) -> Self {
        match values {
            EventValues::Numbers(numbers) => {
                Self::Numeric(Numeric::of_events(numbers, groups, range))
            }
            EventValues::Buckets(index, layout) => {
                Self::Buckets(Buckets::of_events(index, *layout, groups))
            }
            EventValues::Coupons(ids) => Self::Sets(Sets::of_events(ids, groups, coupons)),
        }
    }

    /// The states of groups of cells. `range` says whether the coarser level has extremes.
    pub(crate) fn reduce(&self, groups: &Grouping, range: bool, coupons: &[u64]) -> Self {
        match self {
            Self::Numeric(c) => Self::Numeric(c.reduce(groups, range)),
            Self::Buckets(c) => Self::Buckets(c.reduce(groups)),
            Self::Sets(c) => Self::Sets(c.reduce(groups, coupons)),
        }
    }

    /// Some cells, in the order given.
    pub(crate) fn take(&self, cells: &[u32]) -> Self {
        match self {
            Self::Numeric(c) => Self::Numeric(c.take(cells)),
            Self::Buckets(c) => Self::Buckets(c.take(cells)),
            Self::Sets(c) => Self::Sets(c.take(cells)),
        }
    }

    /// Adds the cells of another column of `cells` cells after the `before` cells of this one;
    /// `coupon_map` gives the other's coupon ids their ids here.
    pub(crate) fn append(&mut self, other: &Self, before: usize, cells: usize, coupon_map: &[u32]) {
        match (self, other) {
            (Self::Numeric(a), Self::Numeric(b)) => a.append(b, before, cells),
            (Self::Buckets(a), Self::Buckets(b)) => a.append(b, before, cells),
            (Self::Sets(a), Self::Sets(b)) => a.append(b, before, coupon_map),
            _ => unreachable!("BUG: columns of one component are of one kind"),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Numeric(c) => {
                c.n.len() * 24
                    + c.unfit.len() * 8
                    + c.range.as_ref().map_or(0, |(min, _)| min.len() * 32)
            }
            Self::Buckets(c) => c.offsets.len() * 8 + c.index.len() * 12 + c.overflow.len() * 8,
            Self::Sets(c) => {
                c.offsets.len() * 8 + c.ids.len() * 4 + c.dense_cells.len() * 12 + c.bodies.len()
            }
        }
    }

    pub(crate) fn numeric(&self) -> &Numeric {
        match self {
            Self::Numeric(c) => c,
            _ => unreachable!("BUG: a numeric component has a numeric column"),
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

/// A value of a vector that is empty when it holds nothing but zeros.
pub(crate) fn or_zero(values: &[u64], cell: usize) -> u64 {
    values.get(cell).copied().unwrap_or(0)
}

fn sparse_zeros(values: Vec<u64>) -> Vec<u64> {
    if values.iter().any(|v| *v > 0) {
        values
    } else {
        Vec::new()
    }
}

fn append_or_zero(mine: &mut Vec<u64>, before: usize, other: &[u64], cells: usize) {
    if mine.is_empty() && other.is_empty() {
        return;
    }
    mine.resize(before, 0);
    mine.extend_from_slice(other);
    mine.resize(before + cells, 0);
}

impl Numeric {
    fn of_events(numbers: &Numbers, groups: &Grouping, range: bool) -> Self {
        let mut out = Self::with_capacity(groups.len(), range);
        let mut unfit_values = Vec::new();
        for (group, events) in groups.iter().enumerate() {
            let (mut n, mut sum, mut unfit) = (0, 0_i128, 0);
            let (mut min, mut max) = (i128::MAX, i128::MIN);
            for event in events {
                match numbers.get(*event as usize) {
                    Some(Ok(value)) => {
                        n += 1;
                        sum = sum.wrapping_add(value);
                        (min, max) = (min.min(value), max.max(value));
                    }
                    Some(Err(())) => unfit += 1,
                    None => {}
                }
            }
            out.push(n, sum, min, max);
            if unfit > 0 {
                unfit_values.resize(group, 0);
                unfit_values.push(unfit);
            }
        }
        if !unfit_values.is_empty() {
            unfit_values.resize(groups.len(), 0);
        }
        out.unfit = unfit_values;
        out
    }

    fn with_capacity(cells: usize, range: bool) -> Self {
        let range = range.then(|| (Vec::with_capacity(cells), Vec::with_capacity(cells)));
        Self {
            n: Vec::with_capacity(cells),
            unfit: Vec::new(),
            sum: Vec::with_capacity(cells),
            range,
        }
    }

    fn push(&mut self, n: u64, sum: i128, min: i128, max: i128) {
        self.n.push(n);
        self.sum.push(sum);
        if let Some((mins, maxs)) = &mut self.range {
            mins.push(if n == 0 { 0 } else { min });
            maxs.push(if n == 0 { 0 } else { max });
        }
    }

    fn reduce(&self, groups: &Grouping, range: bool) -> Self {
        let extremes = self.range.as_ref().filter(|_| range);
        let mut out = Self::with_capacity(groups.len(), extremes.is_some());
        for cells in groups.iter() {
            let (mut n, mut sum) = (0_u64, 0_i128);
            let (mut min, mut max) = (i128::MAX, i128::MIN);
            for cell in cells.iter().map(|c| *c as usize) {
                n = n.wrapping_add(self.n[cell]);
                sum = sum.wrapping_add(self.sum[cell]);
                if let Some((mins, maxs)) = extremes
                    && self.n[cell] > 0
                {
                    (min, max) = (min.min(mins[cell]), max.max(maxs[cell]));
                }
            }
            out.push(n, sum, min, max);
        }
        out.unfit = reduce_or_zero(&self.unfit, groups);
        out
    }

    fn take(&self, cells: &[u32]) -> Self {
        let range = self
            .range
            .as_ref()
            .map(|(min, max)| (gather(min, cells), gather(max, cells)));
        Self {
            n: gather(&self.n, cells),
            unfit: take_or_zero(&self.unfit, cells),
            sum: gather(&self.sum, cells),
            range,
        }
    }

    fn append(&mut self, other: &Self, before: usize, cells: usize) {
        self.n.extend_from_slice(&other.n);
        self.sum.extend_from_slice(&other.sum);
        append_or_zero(&mut self.unfit, before, &other.unfit, cells);
        if let (Some((min, max)), Some((other_min, other_max))) = (&mut self.range, &other.range) {
            min.extend_from_slice(other_min);
            max.extend_from_slice(other_max);
        }
    }
}

fn gather<T: Copy>(values: &[T], cells: &[u32]) -> Vec<T> {
    cells.iter().map(|c| values[*c as usize]).collect()
}

fn take_or_zero(values: &[u64], cells: &[u32]) -> Vec<u64> {
    if values.is_empty() {
        Vec::new()
    } else {
        sparse_zeros(gather(values, cells))
    }
}

fn reduce_or_zero(values: &[u64], groups: &Grouping) -> Vec<u64> {
    if values.is_empty() {
        return Vec::new();
    }
    let sum = |cells: &[u32]| {
        cells
            .iter()
            .fold(0_u64, |sum, c| sum.wrapping_add(values[*c as usize]))
    };
    sparse_zeros(groups.iter().map(sum).collect())
}

/// Sums the entries of one cell: a dense count per bucket, and which were touched.
struct Tally {
    counts: Vec<u64>,
    touched: Vec<u32>,
}

impl Tally {
    fn new(layout: Layout) -> Self {
        Self {
            counts: vec![0; layout.len() as usize],
            touched: Vec::new(),
        }
    }

    fn add(&mut self, index: u32, count: u64) {
        let slot = &mut self.counts[index as usize];
        if *slot == 0 {
            self.touched.push(index);
        }
        *slot = slot.wrapping_add(count);
    }

    fn flush(&mut self, out: &mut Buckets) {
        self.touched.sort_unstable();
        for index in self.touched.drain(..) {
            out.index.push(index);
            out.counts
                .push(std::mem::take(&mut self.counts[index as usize]));
        }
        out.offsets.push(out.index.len());
    }
}

impl Buckets {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            offsets: vec![0],
            index: Vec::new(),
            counts: Vec::new(),
            overflow: Vec::new(),
        }
    }

    /// Adds an entry to the cell under way.
    pub(crate) fn push(&mut self, index: u32, count: u64) {
        self.index.push(index);
        self.counts.push(count);
    }

    /// The entries of a cell.
    pub(crate) fn entries(&self, cell: usize) -> (&[u32], &[u64]) {
        let range = self.offsets[cell]..self.offsets[cell + 1];
        (&self.index[range.clone()], &self.counts[range])
    }

    fn of_events(values: &[u32], layout: Layout, groups: &Grouping) -> Self {
        let mut out = Self::new(layout);
        let mut tally = Tally::new(layout);
        let mut overflow = vec![0; groups.len()];
        for (group, events) in groups.iter().enumerate() {
            for event in events {
                match values[*event as usize] {
                    NO_BUCKET => {}
                    OVERFLOWS => overflow[group] += 1,
                    index => tally.add(index, 1),
                }
            }
            tally.flush(&mut out);
        }
        out.overflow = sparse_zeros(overflow);
        out
    }

    fn reduce(&self, groups: &Grouping) -> Self {
        let mut out = Self::new(self.layout);
        let mut tally = Tally::new(self.layout);
        for cells in groups.iter() {
            if let [cell] = cells {
                let (index, counts) = self.entries(*cell as usize);
                out.index.extend_from_slice(index);
                out.counts.extend_from_slice(counts);
                out.offsets.push(out.index.len());
                continue;
            }
            for cell in cells {
                let (index, counts) = self.entries(*cell as usize);
                index
                    .iter()
                    .zip(counts)
                    .for_each(|(index, count)| tally.add(*index, *count));
            }
            tally.flush(&mut out);
        }
        out.overflow = reduce_or_zero(&self.overflow, groups);
        out
    }

    fn take(&self, cells: &[u32]) -> Self {
        let mut out = Self::new(self.layout);
        for cell in cells {
            let (index, counts) = self.entries(*cell as usize);
            out.index.extend_from_slice(index);
            out.counts.extend_from_slice(counts);
            out.offsets.push(out.index.len());
        }
        out.overflow = take_or_zero(&self.overflow, cells);
        out
    }

    fn append(&mut self, other: &Self, before: usize, cells: usize) {
        let base = self.index.len();
        self.index.extend_from_slice(&other.index);
        self.counts.extend_from_slice(&other.counts);
        self.offsets
            .extend(other.offsets[1..].iter().map(|o| o + base));
        append_or_zero(&mut self.overflow, before, &other.overflow, cells);
    }
}

/// Collects the set of one cell: coupons are told apart by a stamp each, which costs the same for a
/// cell of one event and of a million.
struct Collector<'a> {
    coupons: &'a [u64],
    stamps: Vec<u32>,
    round: u32,
    unique: Vec<u32>,
    registers: Box<Registers>,
    dense: bool,
}

impl<'a> Collector<'a> {
    fn new(coupons: &'a [u64]) -> Self {
        let stamps = vec![0; coupons.len()];
        Self {
            coupons,
            stamps,
            round: 1,
            unique: Vec::new(),
            registers: Box::new([0; REGISTERS]),
            dense: false,
        }
    }

    fn add(&mut self, id: u32) {
        let stamp = &mut self.stamps[id as usize];
        if *stamp != self.round {
            *stamp = self.round;
            self.unique.push(id);
        }
    }

    fn add_registers(&mut self, body: &[u8]) {
        decode_registers(body, &mut self.registers)
            .expect("BUG: bodies are checked when they are read");
        self.dense = true;
    }

    fn flush(&mut self, out: &mut Sets) {
        if self.dense || self.unique.len() > COUPONS_MAX {
            for id in self.unique.drain(..) {
                observe(&mut self.registers, self.coupons[id as usize]);
            }
            out.push_registers(&self.registers);
            self.registers.fill(0);
            self.dense = false;
        } else {
            self.unique.sort_unstable();
            out.ids.append(&mut self.unique);
            out.offsets.push(out.ids.len());
        }
        self.round += 1;
    }
}

impl Sets {
    pub(crate) fn new() -> Self {
        let (ids, dense_cells, bodies) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            offsets: vec![0],
            ids,
            dense_cells,
            dense_offsets: vec![0],
            bodies,
        }
    }

    /// The coupon ids of a cell.
    pub(crate) fn coupons(&self, cell: usize) -> &[u32] {
        &self.ids[self.offsets[cell]..self.offsets[cell + 1]]
    }

    /// The body of a cell's registers.
    pub(crate) fn body(&self, cell: usize) -> Option<&[u8]> {
        let nth = self.dense_cells.binary_search(&(cell as u32)).ok()?;
        Some(&self.bodies[self.dense_offsets[nth]..self.dense_offsets[nth + 1]])
    }

    /// Adds a cell with registers.
    pub(crate) fn push_registers(&mut self, registers: &Registers) {
        self.dense_cells.push((self.offsets.len() - 1) as u32);
        encode_registers(registers, &mut self.bodies);
        self.dense_offsets.push(self.bodies.len());
        self.offsets.push(self.ids.len());
    }

    /// Adds a cell of another column with the same coupons.
    fn push_cell(&mut self, other: &Self, cell: usize) {
        self.ids.extend_from_slice(other.coupons(cell));
        if let Some(body) = other.body(cell) {
            self.dense_cells.push((self.offsets.len() - 1) as u32);
            self.bodies.extend_from_slice(body);
            self.dense_offsets.push(self.bodies.len());
        }
        self.offsets.push(self.ids.len());
    }

    fn of_events(values: &[u32], groups: &Grouping, coupons: &[u64]) -> Self {
        let mut out = Self::new();
        let mut collector = Collector::new(coupons);
        for events in groups.iter() {
            if let [event] = events {
                let id = values[*event as usize];
                out.ids.extend(Some(id).filter(|id| *id != NO_COUPON));
                out.offsets.push(out.ids.len());
                continue;
            }
            for event in events {
                let id = values[*event as usize];
                if id != NO_COUPON {
                    collector.add(id);
                }
            }
            collector.flush(&mut out);
        }
        out
    }

    fn reduce(&self, groups: &Grouping, coupons: &[u64]) -> Self {
        let mut out = Self::new();
        let mut collector = Collector::new(coupons);
        for cells in groups.iter() {
            if let [cell] = cells {
                out.push_cell(self, *cell as usize);
                continue;
            }
            for cell in cells.iter().map(|c| *c as usize) {
                self.coupons(cell).iter().for_each(|id| collector.add(*id));
                if self.coupons(cell).is_empty()
                    && let Some(body) = self.body(cell)
                {
                    collector.add_registers(body);
                }
            }
            collector.flush(&mut out);
        }
        out
    }

    fn take(&self, cells: &[u32]) -> Self {
        let mut out = Self::new();
        cells
            .iter()
            .for_each(|cell| out.push_cell(self, *cell as usize));
        out
    }

    fn append(&mut self, other: &Self, before: usize, coupon_map: &[u32]) {
        let base = self.ids.len();
        for cell in 0..other.offsets.len() - 1 {
            let start = self.ids.len();
            self.ids.extend(
                other
                    .coupons(cell)
                    .iter()
                    .map(|id| coupon_map[*id as usize]),
            );
            self.ids[start..].sort_unstable();
        }
        self.offsets
            .extend(other.offsets[1..].iter().map(|o| o + base));
        self.dense_cells
            .extend(other.dense_cells.iter().map(|c| c + before as u32));
        let arena = self.bodies.len();
        self.bodies.extend_from_slice(&other.bodies);
        self.dense_offsets
            .extend(other.dense_offsets[1..].iter().map(|o| o + arena));
    }
}
