//! Distinct counts: a set of 64-bit hashes while it is small, HyperLogLog registers above.
//!
//! Up to 128 different hashes ("coupons") are kept as they are, so small counts are exact. With one
//! more the state becomes 4096 registers of 6 bits: the first 12 bits of a hash choose the
//! register, and the position of the first 1 among the other 52 bits (1 to 53) raises it. Both
//! forms are functions of the set of hashes alone. Registers are read by the estimator of O. Ertl,
//! "New cardinality estimation algorithms for HyperLogLog sketches" (2017), section 4; standard
//! error 1.6 %.
//!
//! Bytes of a state: `D`, version 1, then a body. Body 0: varint number of coupons, the coupons in
//! rising order, 8 bytes each, little endian. Body 1: 4096 registers of 6 bits, four to three
//! bytes, least significant first. Body 2: varint number of registers above zero, per register its
//! distance from the one before (from -1) as a varint and its value. Registers are written as the
//! shorter of bodies 1 and 2, and as body 1 when both have the same length.

use crate::bytes_io::{ByteReader, put_varint, varint_len};
use crate::error::{Error, Result};
use crate::seeded::{self, Bug};

const KIND: u8 = b'D';
const VERSION: u8 = 1;
/// Most coupons of a state; with more it becomes registers.
pub(crate) const COUPONS_MAX: usize = 128;
const INDEX_BITS: u32 = 12;
/// Number of registers.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;
/// The largest value of a register.
pub(crate) const RHO_MAX: u8 = (64 - INDEX_BITS) as u8 + 1;
const DENSE_BYTES: usize = REGISTERS / 4 * 3;

/// Registers, one byte each.
pub(crate) type Registers = [u8; REGISTERS];

/// Raises the register of a hash.
pub(crate) fn observe(registers: &mut Registers, hash: u64) {
    let register = &mut registers[(hash >> (64 - INDEX_BITS)) as usize];
    let rest = hash << INDEX_BITS;
    let rho = if rest == 0 {
        RHO_MAX
    } else {
        rest.leading_zeros() as u8 + 1
    };
    *register = rho.max(*register);
}

/// Appends the canonical body of some registers.
pub(crate) fn encode_registers(registers: &Registers, out: &mut Vec<u8>) {
    let mut sparse = 0;
    let mut raised = 0;
    let mut next = 0;
    for (index, rho) in registers.iter().enumerate() {
        if *rho > 0 {
            sparse += varint_len((index + 1 - next) as u64) + 1;
            raised += 1;
            next = index + 1;
        }
    }
    if sparse + varint_len(raised) >= DENSE_BYTES {
        out.push(1);
        for four in registers.chunks_exact(4) {
            let word = four
                .iter()
                .rev()
                .fold(0_u32, |word, rho| word << 6 | u32::from(*rho));
            out.extend_from_slice(&word.to_le_bytes()[..3]);
        }
        return;
    }
    out.push(2);
    put_varint(out, raised.into());
    let mut next = 0;
    for (index, rho) in registers.iter().enumerate() {
        if *rho > 0 {
            put_varint(out, (index + 1 - next) as u128);
            out.push(*rho);
            next = index + 1;
        }
    }
}

/// Merges the registers of a body into `registers`: each keeps the larger value.
///
/// # Errors
/// [`Error::Corrupt`] when `body` is not a body of registers.
pub(crate) fn decode_registers(body: &[u8], registers: &mut Registers) -> Result<()> {
    let mut reader = ByteReader::new(body, 0);
    match reader.u8()? {
        1 => {
            let dense = reader.take(DENSE_BYTES)?;
            for (three, four) in dense.chunks_exact(3).zip(registers.chunks_exact_mut(4)) {
                let word = u32::from_le_bytes([three[0], three[1], three[2], 0]);
                for (nth, register) in four.iter_mut().enumerate() {
                    let rho = (word >> (6 * nth)) as u8 & 0x3f;
                    if rho > RHO_MAX {
                        return Err(Error::corrupt(reader.offset(), "a register is too large"));
                    }
                    *register = rho.max(*register);
                }
            }
        }
        2 => {
            let mut next = 0_usize;
            for _ in 0..reader.varint_len()? {
                let distance = reader.varint_len()?;
                let index = next
                    .checked_add(distance)
                    .filter(|i| distance > 0 && *i <= REGISTERS);
                let Some(index) = index else {
                    return Err(Error::corrupt(
                        reader.offset(),
                        "a register is out of order or range",
                    ));
                };
                let rho = reader.u8()?;
                if rho == 0 || rho > RHO_MAX {
                    return Err(Error::corrupt(
                        reader.offset(),
                        "the value of a register is out of range",
                    ));
                }
                let before = registers[index - 1];
                let before = if seeded::is(Bug::SketchOrder) {
                    0
                } else {
                    before
                };
                registers[index - 1] = rho.max(before);
                next = index;
            }
        }
        _ => return Err(Error::corrupt(0, "unknown encoding of registers")),
    }
    reader.finish()
}

/// Estimates the number of different hashes from their registers.
pub(crate) fn estimate(registers: &Registers) -> f64 {
    let mut of_value = [0_u32; RHO_MAX as usize + 1];
    for rho in registers {
        of_value[*rho as usize] += 1;
    }
    let m = REGISTERS as f64;
    let mut z = m * tau(1.0 - f64::from(of_value[RHO_MAX as usize]) / m);
    for count in of_value[1..RHO_MAX as usize].iter().rev() {
        z = 0.5 * (z + f64::from(*count));
    }
    z += m * sigma(f64::from(of_value[0]) / m);
    m * m / (2.0 * std::f64::consts::LN_2 * z)
}

/// Computes `x + sum of x^(2^k) * 2^(k-1)` over `k >= 1`.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// Computes `(1 - x - sum of (1 - x^(2^-k))^2 * 2^-k) / 3` over `k >= 1`.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// The state of a distinct count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distinct(Repr);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Repr {
    /// At most [`COUPONS_MAX`], rising.
    Coupons(Vec<u64>),
    Registers(Box<Registers>),
}

impl Default for Distinct {
    fn default() -> Self {
        Self::new()
    }
}

impl Distinct {
    /// Creates the state of the empty set.
    pub fn new() -> Self {
        Self(Repr::Coupons(Vec::new()))
    }

    /// Adds the hash of a value.
    pub fn insert(&mut self, hash: u64) {
        match &mut self.0 {
            Repr::Coupons(coupons) => {
                if let Err(at) = coupons.binary_search(&hash) {
                    coupons.insert(at, hash);
                    self.overflow();
                }
            }
            Repr::Registers(registers) => observe(registers, hash),
        }
    }

    /// Reads canonical bytes.
    ///
    /// # Errors
    /// [`Error::State`] when the bytes are not those of a distinct count.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fail = |what: &str| Error::state(format!("not a state of a distinct count: {what}"));
        let body = bytes
            .strip_prefix(&[KIND, VERSION])
            .ok_or_else(|| fail("wrong kind or version"))?;
        if let Some(coupons) = body.strip_prefix(&[0]) {
            let mut reader = ByteReader::new(coupons, 3);
            let mut read = || -> Result<Vec<u64>> {
                let len = reader.varint_len()?;
                if len > COUPONS_MAX {
                    return Err(Error::corrupt(
                        reader.offset(),
                        "there are too many coupons",
                    ));
                }
                let coupons = (0..len).map(|_| reader.u64()).collect::<Result<Vec<_>>>()?;
                reader.finish()?;
                Ok(coupons)
            };
            let coupons = read().map_err(|e| fail(&e.to_string()))?;
            if !coupons.is_sorted_by(|a, b| a < b) {
                return Err(fail("its coupons are not in increasing order"));
            }
            return Ok(Self(Repr::Coupons(coupons)));
        }
        let mut registers = Box::new([0; REGISTERS]);
        decode_registers(body, &mut registers).map_err(|e| fail(&e.to_string()))?;
        let mut canonical = Vec::new();
        encode_registers(&registers, &mut canonical);
        if canonical != body {
            return Err(fail("it is not in canonical form"));
        }
        Ok(Self(Repr::Registers(registers)))
    }

    /// Returns the canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.0 {
            Repr::Coupons(coupons) => Self::encode_coupons(coupons, &mut out),
            Repr::Registers(registers) => {
                out.extend([KIND, VERSION]);
                encode_registers(registers, &mut out);
            }
        }
        out
    }

    /// Appends the state of at most [`COUPONS_MAX`] rising coupons.
    pub(crate) fn encode_coupons(coupons: &[u64], out: &mut Vec<u8>) {
        out.extend([KIND, VERSION, 0]);
        put_varint(out, coupons.len() as u128);
        out.extend(coupons.iter().flat_map(|c| c.to_le_bytes()));
    }

    /// Appends the state with a body of registers.
    pub(crate) fn encode_body(body: &[u8], out: &mut Vec<u8>) {
        out.extend([KIND, VERSION]);
        out.extend_from_slice(body);
    }

    /// Adds another state to this one.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Repr::Registers(a), Repr::Registers(b)) => {
                for (a, b) in a.iter_mut().zip(b.iter()) {
                    *a = (*a).max(*b);
                }
            }
            (_, Repr::Coupons(coupons)) => coupons.iter().for_each(|c| self.insert(*c)),
            (Repr::Coupons(coupons), Repr::Registers(b)) => {
                let mut registers = b.clone();
                coupons.iter().for_each(|c| observe(&mut registers, *c));
                self.0 = Repr::Registers(registers);
            }
        }
    }

    /// Returns the number of different values: exact up to 128, estimated above.
    pub fn count(&self) -> u64 {
        match &self.0 {
            Repr::Coupons(coupons) => coupons.len() as u64,
            Repr::Registers(registers) => estimate(registers).round() as u64,
        }
    }

    /// Replaces the coupons by registers when there are too many.
    fn overflow(&mut self) {
        let Repr::Coupons(coupons) = &self.0 else {
            return;
        };
        if coupons.len() > COUPONS_MAX {
            let mut registers = Box::new([0; REGISTERS]);
            coupons.iter().for_each(|c| observe(&mut registers, *c));
            self.0 = Repr::Registers(registers);
        }
    }
}

#[cfg(test)]
mod tests;
