//! Reads the block of a distinct count.

use super::Payload;
use crate::bytes_io::ByteReader;
use crate::column::Sets;
use crate::error::{Error, Result};
use crate::state::{REGISTERS, RHO_MAX};
use crate::tile::layout::{DENSE, LISTED_MAX};

impl Payload<'_> {
    pub(super) fn sets(
        &mut self,
        block: &mut ByteReader<'_>,
        counts: &[u64],
        coupons: usize,
    ) -> Result<Sets> {
        let at = block.offset();
        let wrong = || Error::corrupt(at, "its sets are not in order");
        let lacking = self.unpacker.integers(block, counts.len())?;
        let lens = counts
            .iter()
            .zip(&lacking)
            .map(|(count, lacking)| (*count).min(DENSE).checked_sub(*lacking))
            .collect::<Option<Vec<u64>>>()
            .ok_or_else(wrong)?;
        let total: u64 = lens.iter().filter(|len| **len != DENSE).sum();
        let mut ids = self
            .unpacker
            .integers(block, usize::try_from(total).map_err(|_| wrong())?)?
            .into_iter();
        let raised = self
            .unpacker
            .integers(block, lens.iter().filter(|len| **len == DENSE).count())?;
        if raised.iter().any(|r| *r > REGISTERS as u64) {
            return Err(wrong());
        }
        let listed: u64 = raised.iter().filter(|r| **r < LISTED_MAX as u64).sum();
        let mut places = self
            .unpacker
            .integers(block, usize::try_from(listed).map_err(|_| wrong())?)?
            .into_iter();
        let rhos = self.unpacker.bytes(block)?;
        let dense = self.unpacker.bytes(block)?;
        let (mut rhos, mut dense) = (rhos.iter(), dense.chunks_exact(REGISTERS));
        let mut raised = raised.into_iter();
        let mut out = Sets::new();
        let mut registers = Box::new([0; REGISTERS]);
        for len in lens {
            if len != DENSE {
                let mut next = 0_u64;
                for _ in 0..len {
                    let id = ids
                        .next()
                        .and_then(|d| next.checked_add(d))
                        .filter(|id| *id < coupons as u64);
                    let id = id.ok_or_else(wrong)?;
                    out.ids.push(id as u32);
                    next = id + 1;
                }
                out.offsets.push(out.ids.len());
                continue;
            }
            let here = raised.next().ok_or_else(wrong)? as usize;
            if here < LISTED_MAX {
                registers.fill(0);
                let mut next = 0_u64;
                for _ in 0..here {
                    let place = places
                        .next()
                        .and_then(|d| next.checked_add(d))
                        .filter(|p| *p < REGISTERS as u64);
                    let place = place.ok_or_else(wrong)?;
                    registers[place as usize] = *rhos.next().ok_or_else(wrong)?;
                    next = place + 1;
                }
            } else {
                registers.copy_from_slice(dense.next().ok_or_else(wrong)?);
            }
            if registers.iter().filter(|r| **r > 0).count() != here
                || registers.iter().any(|r| *r > RHO_MAX)
            {
                return Err(wrong());
            }
            out.push_registers(&registers);
        }
        Ok(out)
    }
}
