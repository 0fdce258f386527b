//! Streams of integers and of bytes, the atoms of a tile file.
//!
//! A stream of integers is split into byte planes (all lowest bytes, then all second ones, …), so
//! that each plane is coded by its own statistics and planes of zeros vanish. Its bytes: a tag, 0
//! when every value is 0, else the number of planes (1 to 8) plus 16 when they are compressed; the
//! planes as they are, or a varint length and a zstd frame. The number of values is known to the
//! reader. A stream of bytes: a varint length, and unless it is 0 a tag (0 or 16) and the same.

use zstd::bulk::{Compressor, Decompressor};

use crate::bytes_io::{ByteReader, put_varint};
use crate::error::{Error, Result};

const COMPRESSED: u8 = 16;
/// Fewer bytes are not compressed: a zstd frame would not pay for its header.
const COMPRESS_MIN_BYTES: usize = 48;
/// No zstd frame unpacks to more than this many times its length (a run of a 128 KiB block takes
/// four bytes). A length that claims more is damage, so memory stays in proportion to the file.
pub(super) const UNPACK_MAX: usize = 32_768;
/// On these planes level 3 saved nothing (10.80 bytes per event of two million; level 1: 10.72) and
/// took a fifth longer: the rest is entropy.
const ZSTD_LEVEL: i32 = 1;

/// Writes streams.
pub(super) struct Packer {
    zstd: Compressor<'static>,
    planes: Vec<u8>,
    frame: Vec<u8>,
}

impl Packer {
    pub(super) fn new() -> Self {
        let zstd = Compressor::new(ZSTD_LEVEL).expect("BUG: zstd has this level");
        Self {
            zstd,
            planes: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// Appends integers.
    pub(super) fn integers(&mut self, values: &[u64], out: &mut Vec<u8>) {
        let all = values.iter().fold(0, |all, v| all | v);
        if all == 0 {
            out.push(0);
            return;
        }
        let width = (64 - all.leading_zeros()).div_ceil(8);
        let mut planes = std::mem::take(&mut self.planes);
        planes.clear();
        for plane in 0..width {
            planes.extend(values.iter().map(|v| (v >> (8 * plane)) as u8));
        }
        self.tagged(width as u8, &planes, out);
        self.planes = planes;
    }

    /// Appends 128-bit integers: their lower halves, then their upper ones.
    pub(super) fn wide(&mut self, values: &[u128], out: &mut Vec<u8>) {
        let low: Vec<u64> = values.iter().map(|v| *v as u64).collect();
        self.integers(&low, out);
        let high: Vec<u64> = values.iter().map(|v| (v >> 64) as u64).collect();
        self.integers(&high, out);
    }

    /// Appends bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        put_varint(out, bytes.len() as u128);
        if !bytes.is_empty() {
            self.tagged(0, bytes, out);
        }
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.len() >= COMPRESS_MIN_BYTES {
            self.frame.clear();
            self.frame
                .reserve(zstd::zstd_safe::compress_bound(bytes.len()));
            let len = self
                .zstd
                .compress_to_buffer(bytes, &mut self.frame)
                .expect("BUG: the buffer has room for the worst case");
            if len + 8 < bytes.len() {
                out.push(tag | COMPRESSED);
                put_varint(out, len as u128);
                out.extend_from_slice(&self.frame);
                return;
            }
        }
        out.push(tag);
        out.extend_from_slice(bytes);
    }
}

/// Reads streams.
pub(super) struct Unpacker {
    zstd: Decompressor<'static>,
    file_len: usize,
}

/// Fails when a file of `file_len` bytes cannot hold as many values as `values`.
pub(super) fn check_len(reader: &ByteReader<'_>, values: usize, file_len: usize) -> Result<()> {
    if values <= file_len.saturating_mul(UNPACK_MAX) && u32::try_from(values).is_ok() {
        return Ok(());
    }
    Err(Error::corrupt(
        reader.offset(),
        format!("a count of {values} values exceeds what the file can hold"),
    ))
}

impl Unpacker {
    /// Creates an unpacker for a file of `file_len` bytes.
    pub(super) fn new(file_len: usize) -> Self {
        let zstd = Decompressor::new().expect("BUG: zstd needs nothing but memory");
        Self { zstd, file_len }
    }

    /// Reads `len` integers.
    pub(super) fn integers(&mut self, reader: &mut ByteReader<'_>, len: usize) -> Result<Vec<u64>> {
        check_len(reader, len, self.file_len)?;
        let at = reader.offset();
        let tag = reader.u8()?;
        if tag == 0 {
            return Ok(vec![0; len]);
        }
        let width = usize::from(tag & !COMPRESSED);
        if width == 0 || width > 8 {
            return Err(Error::corrupt(at, "integers have one to eight bytes"));
        }
        let planes = self.tagged(reader, tag, len * width)?;
        let mut planes = planes.chunks_exact(len.max(1));
        let lowest = planes.next().unwrap_or_default();
        let mut values: Vec<u64> = lowest.iter().map(|byte| u64::from(*byte)).collect();
        for (nth, plane) in (1..).zip(planes) {
            for (value, byte) in values.iter_mut().zip(plane) {
                *value |= u64::from(*byte) << (8 * nth);
            }
        }
        Ok(values)
    }

    /// Reads `len` integers of 128 bits.
    pub(super) fn wide(&mut self, reader: &mut ByteReader<'_>, len: usize) -> Result<Vec<u128>> {
        let low = self.integers(reader, len)?;
        let high = self.integers(reader, len)?;
        Ok(low
            .iter()
            .zip(&high)
            .map(|(low, high)| u128::from(*high) << 64 | u128::from(*low))
            .collect())
    }

    /// Reads bytes.
    pub(super) fn bytes(&mut self, reader: &mut ByteReader<'_>) -> Result<Vec<u8>> {
        let len = reader.varint_len()?;
        check_len(reader, len, self.file_len)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let at = reader.offset();
        let tag = reader.u8()?;
        if tag & !COMPRESSED != 0 {
            return Err(Error::corrupt(at, "unknown encoding of a stream of bytes"));
        }
        Ok(self.tagged(reader, tag, len)?.into_owned())
    }

    fn tagged<'a>(
        &mut self,
        reader: &mut ByteReader<'a>,
        tag: u8,
        len: usize,
    ) -> Result<std::borrow::Cow<'a, [u8]>> {
        if tag & COMPRESSED == 0 {
            return Ok(reader.take(len)?.into());
        }
        let packed = reader.varint_len()?;
        let at = reader.offset();
        let frame = reader.take(packed)?;
        if len > packed.saturating_mul(UNPACK_MAX) {
            return Err(Error::corrupt(
                at,
                "a frame's length exceeds what it can hold",
            ));
        }
        match self.zstd.decompress(frame, len) {
            Ok(bytes) if bytes.len() == len => Ok(bytes.into()),
            Ok(bytes) => Err(Error::corrupt(
                at,
                format!("a frame holds {} bytes, not {len}", bytes.len()),
            )),
            Err(error) => Err(Error::corrupt(
                at,
                format!("a frame cannot be unpacked: {error}"),
            )),
        }
    }
}
