//! The two dictionaries of a tile file: keys and coupons.
//!
//! Keys, bytes: varint number of keys; per key column a stream of 0 or 1 per key (1: null), then
//! for text the lengths of the prefix shared with the key before, the lengths of the rest, and the
//! rests; for integers zigzag values. Coupons: varint number, then the distance of each from the
//! one before (wrapping, from 0). Both are ordered by frequency class and then by value, so that
//! ids are small and neighbours alike.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use super::stream::{Packer, UNPACK_MAX, Unpacker};
use crate::bytes_io::{ByteReader, put_varint, unzigzag, zigzag};
use crate::definition::{Definition, KeyType};
use crate::error::{Error, Result};
use crate::keys::{Keys, int_column};

pub(super) fn write_keys(packer: &mut Packer, keys: &Keys, out: &mut Vec<u8>) {
    put_varint(out, keys.len as u128);
    for column in &keys.columns {
        let nulls: Vec<u64> = (0..keys.len)
            .map(|row| u64::from(column.is_null(row)))
            .collect();
        packer.integers(&nulls, out);
        if let Some(texts) = column.as_string_opt::<i32>() {
            let (mut prefixes, mut rests, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
            let mut before: &[u8] = &[];
            for text in texts {
                let text = text.unwrap_or_default().as_bytes();
                let shared = text.iter().zip(before).take_while(|(a, b)| a == b).count();
                prefixes.push(shared as u64);
                rests.push((text.len() - shared) as u64);
                bytes.extend_from_slice(&text[shared..]);
                before = text;
            }
            packer.integers(&prefixes, out);
            packer.integers(&rests, out);
            packer.bytes(&bytes, out);
        } else {
            let wide = cast(column, &DataType::Int64).expect("BUG: key types are text or integers");
            let values = wide
                .as_primitive::<Int64Type>()
                .iter()
                .map(|v| zigzag(v.unwrap_or(0).into()) as u64);
            packer.integers(&values.collect::<Vec<_>>(), out);
        }
    }
}

pub(super) fn read_keys(
    unpacker: &mut Unpacker,
    reader: &mut ByteReader<'_>,
    definition: &Definition,
) -> Result<Keys> {
    let len = reader.varint_len()?;
    let mut columns = Vec::new();
    for key in definition.by() {
        let nulls = unpacker.integers(reader, len)?;
        columns.push(match key.key_type {
            KeyType::Text => read_texts(unpacker, reader, &nulls)?,
            KeyType::Int16 | KeyType::Int64 => {
                let at = reader.offset();
                let values = unpacker.integers(reader, len)?;
                let values = values
                    .iter()
                    .zip(&nulls)
                    .map(|(value, null)| (*null == 0).then_some(unzigzag((*value).into()) as i64));
                int_column(key.key_type, values)
                    .map_err(|v| Error::corrupt(at, format!("key {v} exceeds 16 bits")))?
            }
        });
    }
    Ok(Keys { columns, len })
}

fn read_texts(
    unpacker: &mut Unpacker,
    reader: &mut ByteReader<'_>,
    nulls: &[u64],
) -> Result<ArrayRef> {
    let prefixes = unpacker.integers(reader, nulls.len())?;
    let rests = unpacker.integers(reader, nulls.len())?;
    let at = reader.offset();
    let bytes = unpacker.bytes(reader)?;
    let total: u128 = prefixes.iter().chain(&rests).map(|l| u128::from(*l)).sum();
    // A shared prefix is stored once and read many times; the bound is that of a zstd frame.
    let bound = (bytes.len() + nulls.len())
        .saturating_mul(UNPACK_MAX)
        .min(i32::MAX as usize);
    if total > bound as u128 {
        return Err(Error::corrupt(
            at,
            "the keys are longer than the file can hold",
        ));
    }
    let mut rest = ByteReader::new(&bytes, at);
    let mut texts = StringBuilder::with_capacity(nulls.len(), total as usize);
    let mut text: Vec<u8> = Vec::new();
    for ((prefix, len), null) in prefixes.iter().zip(&rests).zip(nulls) {
        if *prefix as usize > text.len() {
            return Err(Error::corrupt(
                at,
                "a key shares more than the key before it has",
            ));
        }
        text.truncate(*prefix as usize);
        text.extend_from_slice(rest.take(*len as usize)?);
        if *null != 0 {
            texts.append_null();
        } else {
            texts.append_value(
                std::str::from_utf8(&text).map_err(|_| Error::corrupt(at, "a key is not UTF-8"))?,
            );
        }
    }
    rest.finish()?;
    Ok(Arc::new(texts.finish()))
}

pub(super) fn write_coupons(packer: &mut Packer, coupons: &[u64], out: &mut Vec<u8>) {
    put_varint(out, coupons.len() as u128);
    let mut before = 0_u64;
    let distance = |coupon: &u64| coupon.wrapping_sub(std::mem::replace(&mut before, *coupon));
    packer.integers(&coupons.iter().map(distance).collect::<Vec<_>>(), out);
}

pub(super) fn read_coupons(
    unpacker: &mut Unpacker,
    reader: &mut ByteReader<'_>,
) -> Result<Vec<u64>> {
    let len = reader.varint_len()?;
    let mut coupons = unpacker.integers(reader, len)?;
    let mut before = 0_u64;
    for coupon in &mut coupons {
        before = before.wrapping_add(*coupon);
        *coupon = before;
    }
    Ok(coupons)
}
