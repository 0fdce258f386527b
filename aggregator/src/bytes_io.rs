//! Integers in bytes: LEB128 varints, zigzag, and a reader that never reads past its end.

use crate::error::{Error, Result};

/// Appends `value` in groups of seven bits, least significant first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the length of the varint of `value`, bytes.
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Maps small magnitudes of either sign to small numbers.
pub(crate) fn zigzag(value: i128) -> u128 {
    ((value << 1) ^ (value >> 127)) as u128
}

/// Inverts [`zigzag`].
pub(crate) fn unzigzag(value: u128) -> i128 {
    (value >> 1) as i128 ^ -((value & 1) as i128)
}

/// A reader of a byte slice. Every error carries the offset in the file.
#[derive(Debug, Clone)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of `bytes` in its file.
    base: usize,
}

impl<'a> ByteReader<'a> {
    /// Creates a reader of `bytes`, which begin at offset `base` of their file.
    pub(crate) fn new(bytes: &'a [u8], base: usize) -> Self {
        Self { bytes, at: 0, base }
    }

    /// Returns the number of bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the offset of the next byte in the file.
    pub(crate) fn offset(&self) -> usize {
        self.base + self.at
    }

    /// Reads the next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self
            .at
            .checked_add(len)
            .filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(Error::corrupt(
                self.offset(),
                format!("{len} bytes are expected, {} are left", self.left()),
            ));
        };
        let slice = &self.bytes[self.at..end];
        self.at = end;
        Ok(slice)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(
            bytes.try_into().expect("BUG: four bytes were taken"),
        ))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(
            bytes.try_into().expect("BUG: eight bytes were taken"),
        ))
    }

    /// Reads a varint of at most 128 bits, which must have its shortest form.
    pub(crate) fn varint(&mut self) -> Result<u128> {
        let start = self.offset();
        let mut value = 0_u128;
        for shift in (0..128).step_by(7) {
            let byte = self.u8()?;
            let bits = u128::from(byte & 0x7f);
            if shift == 126 && bits > 3 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                if byte == 0 && shift > 0 {
                    break;
                }
                return Ok(value);
            }
        }
        Err(Error::corrupt(start, "a number is too long"))
    }

    /// Reads a varint that fits 64 bits.
    pub(crate) fn varint_u64(&mut self) -> Result<u64> {
        let start = self.offset();
        u64::try_from(self.varint()?).map_err(|_| Error::corrupt(start, "a number exceeds 64 bits"))
    }

    /// Reads a varint that fits an offset or a length.
    pub(crate) fn varint_len(&mut self) -> Result<usize> {
        let start = self.offset();
        usize::try_from(self.varint()?)
            .map_err(|_| Error::corrupt(start, "a length exceeds the address space"))
    }

    /// Reads a zigzag varint.
    pub(crate) fn signed(&mut self) -> Result<i128> {
        Ok(unzigzag(self.varint()?))
    }

    /// Returns an error unless all bytes were read.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.left() == 0 {
            return Ok(());
        }
        Err(Error::corrupt(
            self.offset(),
            format!("{} bytes are left over", self.left()),
        ))
    }
}
