//! Writes a record as a JSON object.

use serde::{Serialize, Serializer};

use crate::stamp;

/// Microseconds since 1970 from which on a number is read as such, by its magnitude.
const NUMBER_MIN: i64 = 100_000_000_000_000;

/// A time as JSON: a number where its magnitude tells the unit, else RFC 3339.
struct Microseconds(i64);

impl Serialize for Microseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 >= NUMBER_MIN {
            true => serializer.serialize_i64(self.0),
            false => serializer.serialize_str(&stamp::write(self.0)),
        }
    }
}

/// Writes one object, field by field.
pub(super) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> ObjectWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self {
            out,
            is_empty: true,
        }
    }

    /// Writes a field of any value that JSON holds.
    pub(super) fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        write(self.out, name);
        self.out.push(b':');
        write(self.out, value);
    }

    /// Writes the time of an event in nanoseconds since 1970 as `time`. A store keeps
    /// microseconds; the digits behind them, if any, are the field `time_nanos`.
    pub(super) fn time(&mut self, ns: i64) {
        self.field("time", &Microseconds(ns.div_euclid(1000)));
        let rest = ns.rem_euclid(1000);
        if rest != 0 {
            self.field("time_nanos", &rest);
        }
    }

    /// Writes the time of an event in nanoseconds since 1970, in the range of protobuf.
    pub(super) fn time_unsigned(&mut self, ns: u64) {
        match i64::try_from(ns) {
            Ok(ns) => self.time(ns),
            // Behind the year 2262 no event can be: the parser quarantines the record.
            Err(_) => self.field("time", &ns),
        }
    }

    /// Writes a field unless its value is the default, as which protobuf has a missing one.
    pub(super) fn field_unless_default<T>(&mut self, name: &str, value: &T)
    where
        T: Serialize + IsDefault + ?Sized,
    {
        if !value.is_default() {
            self.field(name, value);
        }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// A value that may be the default of its type.
pub(super) trait IsDefault {
    fn is_default(&self) -> bool;
}

impl IsDefault for str {
    fn is_default(&self) -> bool {
        self.is_empty()
    }
}

impl IsDefault for String {
    fn is_default(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl IsDefault for $number {
            fn is_default(&self) -> bool {
                *self == 0
            }
        })+
    };
}

numbers!(i32, u32, u64);

fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = serde_json::to_writer(out, value);
    written.expect("BUG: a buffer takes any bytes, and every map has texts for keys");
}
