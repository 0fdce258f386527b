//! Changes of inputs that stay BSON.
//!
//! Changes of single bytes break the lengths in an input, so that few of them reach more than the
//! decoder. These change the tree of values, and libFuzzer the texts and bytes in it.

use std::sync::LazyLock;

use bson::raw::RawDocumentBuf;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp, doc};
use libfuzzer_sys::fuzzer_mutate;

/// Longest text that libFuzzer changes.
const TEXT_BYTES_MAX: usize = 256;
/// The operators, and the names and texts that mean something in queries.
static WORDS: LazyLock<(Vec<&str>, Vec<&str>)> = LazyLock::new(|| {
    let lines = include_str!("../mongo_query.dict").lines();
    let words = lines.filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
    words.partition(|word| word.starts_with('$'))
});
const LONGS: [i64; 14] = [
    0,
    1,
    -1,
    2,
    3,
    7,
    100,
    -21,
    i32::MAX as i64,
    i32::MIN as i64,
    i64::MAX,
    i64::MIN,
    1 << 53,
    253_402_300_800_000,
];
const PATHS: [&str; 14] = [
    "$a", "$b", "$s", "$l", "$m.k", "$o", "$d", "$n", "$$ROOT", "$$NOW", "$$REMOVE", "$$this",
    "$$value", "$$v",
];
const DOUBLES: [f64; 10] = [
    -0.0,
    0.5,
    -2.5,
    1e15,
    1e300,
    5e-324,
    9_223_372_036_854_775_808.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];
const DECIMALS: [&str; 9] = [
    "0",
    "-0E+3",
    "1.5",
    "9.999999999999999999999999999999999E+6144",
    "1E-6176",
    "-1E+6111",
    "NaN",
    "-Infinity",
    "9223372036854775808",
];

/// Changes the first `size` bytes of an input in place, and returns their new number.
pub fn change(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random(seed.into());
    let given = match random.below(16) {
        0 => None,
        _ => read(&data[..size]),
    };
    let Some(given) = given else {
        return fuzzer_mutate(data, size, max_size);
    };
    let mut root = Bson::Document(given);
    for _ in 0..1 + random.below(4) {
        let donor = root.clone();
        change_tree(&mut root, &donor, &mut random);
    }
    match write(&root, data, max_size) {
        Some(size) => size,
        None => fuzzer_mutate(data, size, max_size),
    }
}

/// Puts a value of the second input in the place of one of the first. Returns the bytes of the
/// result, 0 for none.
pub fn cross(first: &[u8], second: &[u8], out: &mut [u8], seed: u32) -> usize {
    let mut random = Random(seed.into());
    let (Some(first), Some(second)) = (read(first), read(second)) else {
        return 0;
    };
    let (mut root, donor) = (Bson::Document(first), Bson::Document(second));
    let (at, from) = (random.below(count(&root)), random.below(count(&donor)));
    let given = nth(&donor, from).clone();
    match (nth_mut(&mut root, at), given) {
        // A field more, rather than another document.
        (Bson::Document(place), Bson::Document(given)) if random.below(2) == 0 => {
            place.extend(given)
        }
        (place, given) => *place = given,
    }
    let max_size = out.len();
    write(&root, out, max_size).unwrap_or(0)
}

fn read(bytes: &[u8]) -> Option<Document> {
    let raw = RawDocumentBuf::from_reader(bytes).ok()?;
    Document::try_from(raw).ok()
}

fn write(root: &Bson, into: &mut [u8], max_size: usize) -> Option<usize> {
    let bytes = root.as_document()?.to_vec().ok()?;
    let is_short = bytes.len() <= max_size.min(into.len());
    into.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    is_short.then_some(bytes.len())
}

/// A source of numbers (splitmix64).
struct Random(u64);

impl Random {
    /// Returns a number below `bound`, or 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) as usize).checked_rem(bound).unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn name(&mut self) -> String {
        match self.below(3) {
            0 => self.pick(&WORDS.1).to_owned(),
            _ => self.pick(&WORDS.0).to_owned(),
        }
    }
}

/// Returns the number of values in a tree, with its root.
fn count(value: &Bson) -> usize {
    1 + match value {
        Bson::Document(fields) => fields.values().map(count).sum(),
        Bson::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

/// Returns the value with so many before it.
fn nth(value: &Bson, mut nth_inside: usize) -> &Bson {
    let inside: Vec<&Bson> = match value {
        _ if nth_inside == 0 => return value,
        Bson::Document(fields) => fields.values().collect(),
        Bson::Array(items) => items.iter().collect(),
        _ => return value,
    };
    nth_inside -= 1;
    for value in inside {
        match count(value) {
            within if nth_inside < within => return nth(value, nth_inside),
            within => nth_inside -= within,
        }
    }
    value
}

fn nth_mut(value: &mut Bson, mut nth_inside: usize) -> &mut Bson {
    if nth_inside == 0 || !matches!(value, Bson::Document(_) | Bson::Array(_)) {
        return value;
    }
    nth_inside -= 1;
    let inside: Vec<&mut Bson> = match value {
        Bson::Document(fields) => fields.iter_mut().map(|(_, value)| value).collect(),
        Bson::Array(items) => items.iter_mut().collect(),
        _ => unreachable!("BUG: the others are returned"),
    };
    for value in inside {
        match count(value) {
            within if nth_inside < within => return nth_mut(value, nth_inside),
            within => nth_inside -= within,
        }
    }
    unreachable!("BUG: a place is below the count")
}

fn change_tree(root: &mut Bson, donor: &Bson, random: &mut Random) {
    let at = 1 + random.below(count(root).saturating_sub(1));
    let at = if count(root) == 1 { 0 } else { at };
    let other = |random: &mut Random| match random.below(2) {
        0 => nth(donor, random.below(count(donor))).clone(),
        _ => scalar(random),
    };
    let value = nth_mut(root, at);
    match random.below(8) {
        0 => *value = other(random),
        1 => {
            let inside = std::mem::replace(value, Bson::Null);
            *value = around(inside, other(random), random);
        }
        2 => {
            let inside = nth(value, 1.min(count(value) - 1)).clone();
            *value = inside;
        }
        _ => match value {
            Bson::Document(fields) => change_fields(fields, other(random), random),
            Bson::Array(items) => change_items(items, other(random), random),
            scalar => change_scalar(scalar, random),
        },
    }
    if !matches!(root, Bson::Document(_)) {
        *root = donor.clone();
    }
}

/// Returns a value as an operand of an operator.
fn around(inside: Bson, other: Bson, random: &mut Random) -> Bson {
    let operator = random.pick(&WORDS.0);
    match random.below(6) {
        0 => Bson::Array(vec![inside]),
        1 => doc! { operator: inside }.into(),
        2 => doc! { operator: [inside, other] }.into(),
        3 => doc! { operator: [other, inside] }.into(),
        4 => doc! { operator: { "input": inside, random.pick(&WORDS.1): other } }.into(),
        _ => doc! { operator: { "date": inside, random.pick(&WORDS.1): other } }.into(),
    }
}

fn change_fields(fields: &mut Document, other: Bson, random: &mut Random) {
    let at = random.below(fields.len());
    let name = fields.keys().nth(at).cloned();
    match (random.below(4), name) {
        (0, Some(name)) => _ = fields.remove(name),
        (1, Some(_)) | (2, Some(_)) => {
            let new = random.name();
            let renamed = std::mem::take(fields).into_iter().enumerate();
            let renamed = renamed.map(|(place, (name, value))| match place == at {
                true => (new.clone(), value),
                false => (name, value),
            });
            *fields = renamed.collect();
        }
        _ => _ = fields.insert(random.name(), other),
    }
}

fn change_items(items: &mut Vec<Bson>, other: Bson, random: &mut Random) {
    let (a, b) = (random.below(items.len()), random.below(items.len()));
    match random.below(4) {
        _ if items.is_empty() => items.push(other),
        0 => _ = items.remove(a),
        1 => items.swap(a, b),
        2 => items.insert(a, items[b].clone()),
        _ => items.insert(a, other),
    }
}

fn change_scalar(value: &mut Bson, random: &mut Random) {
    match value {
        Bson::String(text) if random.below(3) > 0 => *text = changed_text(text),
        Bson::RegularExpression(regex) if random.below(3) > 0 => {
            let text = changed_text(regex.pattern.as_str()).replace('\0', "");
            if let Ok(pattern) = text.try_into() {
                regex.pattern = pattern;
            }
        }
        Bson::Int32(number) if random.below(2) == 0 => *number = number.wrapping_neg(),
        Bson::Int32(number) => *number = number.wrapping_add(random.below(9) as i32 - 4),
        Bson::Int64(number) => *number = number.wrapping_add(random.below(9) as i64 - 4),
        Bson::Double(number) => *number *= random.pick(&DOUBLES),
        Bson::DateTime(date) => {
            let by = random.pick(&LONGS) / 1000;
            *date = DateTime::from_millis(date.timestamp_millis().wrapping_add(by));
        }
        value => *value = scalar(random),
    }
}

fn changed_text(text: &str) -> String {
    let mut bytes = vec![0; TEXT_BYTES_MAX.max(text.len())];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    let max_size = bytes.len();
    let size = fuzzer_mutate(&mut bytes, text.len(), max_size);
    String::from_utf8_lossy(&bytes[..size]).into_owned()
}

fn scalar(random: &mut Random) -> Bson {
    let decimal = |text: &str| text.parse::<Decimal128>().map_or(Bson::Null, Bson::from);
    match random.below(16) {
        0 => Bson::Null,
        1 => Bson::Boolean(random.below(2) == 0),
        2 | 3 => Bson::Int32(random.below(6) as i32 - 1),
        4 => Bson::Int32(random.pick(&LONGS) as i32),
        5 => Bson::Int64(random.pick(&LONGS)),
        6 => Bson::Double(random.pick(&DOUBLES)),
        7 => decimal(random.pick(&DECIMALS)),
        8 => Bson::DateTime(DateTime::from_millis(random.pick(&LONGS))),
        9 => Bson::Array(Vec::new()),
        10 => Bson::Document(Document::new()),
        11 => match random.below(5) {
            0 => Bson::MinKey,
            1 => Bson::MaxKey,
            2 => Bson::Undefined,
            3 => Bson::Symbol("a".to_owned()),
            _ => Bson::JavaScriptCode("a".to_owned()),
        },
        12 => match random.below(2) {
            0 => Bson::Timestamp(Timestamp {
                time: 1,
                increment: random.below(3) as u32,
            }),
            _ => Bson::Binary(Binary {
                subtype: random.pick(&[BinarySubtype::Generic, BinarySubtype::BinaryOld]),
                bytes: vec![1; random.below(3)],
            }),
        },
        13 => Bson::String("äß€😀".to_owned()),
        14 => Bson::String(random.pick(&PATHS).to_owned()),
        _ => Bson::String(random.pick(&WORDS.1).to_owned()),
    }
}
