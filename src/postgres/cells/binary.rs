//! Values in PostgreSQL's binary format (its functions `*send`).

use bytes::{BufMut, BytesMut};

use super::{Cells, EPOCH_S, numeric, values_of};

const MICROS_PER_SECOND: i64 = 1_000_000;
const NANOS_PER_MICRO: i64 = 1_000;
const DAY_S: i64 = 86_400;
/// Version of the format of `jsonb`.
const JSONB_VERSION: u8 = 1;

impl Cells {
    /// Appends a value that is not null.
    pub(in crate::postgres) fn binary(&self, row: usize, out: &mut BytesMut) {
        match self {
            Self::Null => {}
            Self::Bool(a) => out.put_u8(a.value(row).into()),
            Self::Int2(a) => out.put_i16(a.value(row)),
            Self::Int4(a) => out.put_i32(a.value(row)),
            Self::Int8(a) => out.put_i64(a.value(row)),
            Self::Oid(a) => out.put_u32(a.value(row)),
            Self::Unsigned(a) => numeric::put(&a.value(row).to_string(), out),
            Self::Float4(a) => out.put_f32(a.value(row)),
            Self::Float8(a) => out.put_f64(a.value(row)),
            Self::Text(a) => out.put_slice(a.value(row).as_bytes()),
            Self::View(a) => out.put_slice(a.value(row).as_bytes()),
            Self::Bytes(a) => out.put_slice(a.value(row)),
            Self::Json(a) => {
                out.put_u8(JSONB_VERSION);
                out.put_slice(a.value(row).as_bytes());
            }
            Self::Timestamp(a, _) => {
                // The extremes of the type are its infinities.
                out.put_i64(a.value(row).saturating_sub(EPOCH_S * MICROS_PER_SECOND));
            }
            Self::Date(a) => {
                let epoch = i32::try_from(EPOCH_S / DAY_S).expect("BUG: 10,957 days");
                out.put_i32(a.value(row).saturating_sub(epoch));
            }
            Self::Time(a) => out.put_i64(a.value(row)),
            Self::Interval(a) => {
                let value = a.value(row);
                out.put_i64(value.nanoseconds / NANOS_PER_MICRO);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            Self::Numeric(a) => numeric::put(a.value(row), out),
            Self::List(a, values, oid) => list(values, values_of(a, row), *oid, out),
        }
    }
}

/// Appends a value with its length before it; -1 for null.
pub(in crate::postgres) fn put_value(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let at = out.len();
    out.put_i32(0);
    write(out);
    let length = i32::try_from(out.len() - at - 4).expect("BUG: a value has less than 2 GiB");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a list as an array of one dimension, from 1 on; an empty one has none.
fn list(values: &Cells, rows: std::ops::Range<usize>, oid: u32, out: &mut BytesMut) {
    let has_null = rows.clone().any(|row| values.is_null(row));
    out.put_i32(i32::from(!rows.is_empty()));
    out.put_i32(has_null.into());
    out.put_u32(oid);
    if rows.is_empty() {
        return;
    }
    out.put_i32(i32::try_from(rows.len()).expect("BUG: a list has less than 2^31 values"));
    out.put_i32(1);
    for row in rows {
        match values.is_null(row) {
            true => out.put_i32(-1),
            false => put_value(out, |out| values.binary(row, out)),
        }
    }
}
