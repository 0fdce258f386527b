//! Distinct counts: sets of coupons, and registers for large sets.

use crate::group::Grouping;
use crate::intern::NO_COUPON;
use crate::state::{
    COUPONS_MAX, REGISTERS, Registers, decode_registers, encode_registers, observe,
};

/// Sets of coupon ids, ascending within a cell; a cell with registers has no coupons.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sets {
    pub(crate) offsets: Vec<usize>,
    pub(crate) ids: Vec<u32>,
    /// Cells with registers, ascending.
    pub(crate) dense_cells: Vec<u32>,
    /// Offsets of the canonical bodies: `bodies[dense_offsets[r]..dense_offsets[r + 1]]` is the
    /// body of the `r`-th cell with registers.
    pub(crate) dense_offsets: Vec<usize>,
    pub(crate) bodies: Vec<u8>,
}

/// Collects the set of one cell. A stamp per coupon marks the coupons seen in this cell: a lookup
/// costs the same in a cell of one event and of a million.
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

    /// Returns the coupon ids of a cell.
    pub(crate) fn coupons(&self, cell: usize) -> &[u32] {
        &self.ids[self.offsets[cell]..self.offsets[cell + 1]]
    }

    /// Returns the body of a cell's registers, if it has registers.
    pub(crate) fn body(&self, cell: usize) -> Option<&[u8]> {
        let nth = self.dense_cells.binary_search(&(cell as u32)).ok()?;
        Some(&self.bodies[self.dense_offsets[nth]..self.dense_offsets[nth + 1]])
    }

    /// Appends a cell with registers.
    pub(crate) fn push_registers(&mut self, registers: &Registers) {
        self.dense_cells.push((self.offsets.len() - 1) as u32);
        encode_registers(registers, &mut self.bodies);
        self.dense_offsets.push(self.bodies.len());
        self.offsets.push(self.ids.len());
    }

    /// Appends a cell of another column with the same dictionary of coupons.
    fn push_cell(&mut self, other: &Self, cell: usize) {
        self.ids.extend_from_slice(other.coupons(cell));
        if let Some(body) = other.body(cell) {
            self.dense_cells.push((self.offsets.len() - 1) as u32);
            self.bodies.extend_from_slice(body);
            self.dense_offsets.push(self.bodies.len());
        }
        self.offsets.push(self.ids.len());
    }

    pub(super) fn of_events(values: &[u32], groups: &Grouping, coupons: &[u64]) -> Self {
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

    pub(super) fn reduce(&self, groups: &Grouping, coupons: &[u64]) -> Self {
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

    pub(super) fn take(&self, cells: &[u32]) -> Self {
        let mut out = Self::new();
        cells
            .iter()
            .for_each(|cell| out.push_cell(self, *cell as usize));
        out
    }

    pub(super) fn append(&mut self, other: &Self, before: usize, coupon_map: Option<&[u32]>) {
        let base = self.ids.len();
        match coupon_map {
            None => self.ids.extend_from_slice(&other.ids),
            Some(map) => {
                for cell in 0..other.offsets.len() - 1 {
                    let start = self.ids.len();
                    let coupons = other.coupons(cell).iter();
                    self.ids.extend(coupons.map(|id| map[*id as usize]));
                    self.ids[start..].sort_unstable();
                }
            }
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
