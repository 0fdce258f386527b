//! Durations and sizes in queries and in the values of labels.

/// Units of durations, nanoseconds.
const DURATIONS: [(&str, f64); 10] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
    ("d", 86_400e9),
    ("w", 604_800e9),
    ("y", 31_536_000e9),
];
/// Units of sizes, bytes. Those of the first column count in thousands, as in Loki.
const SIZES: [(&str, f64); 17] = [
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("pb", 1e15),
    ("eb", 1e18),
    ("k", 1e3),
    ("m", 1e6),
    ("g", 1e9),
    ("t", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
    ("pib", 1_125_899_906_842_624.0),
    ("eib", 1_152_921_504_606_846_976.0),
];

/// Returns the nanoseconds of a duration such as `1h30m` or `-1.5s`; `None` for other texts and
/// beyond 292 years.
pub fn duration_ns(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let letters = after.find(|c: char| !c.is_alphabetic());
        let (unit, next) = after.split_at(letters.unwrap_or(after.len()));
        let (_, ns) = DURATIONS.iter().find(|(name, _)| *name == unit)?;
        total += number * ns;
        rest = next;
    }
    let total = sign * total;
    (total.abs() < i64::MAX as f64).then_some(total as i64)
}

/// Returns the bytes of a size such as `10KB` or `1.5MiB`; `None` for other texts.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = number(text)?;
    let unit = unit.trim().to_lowercase();
    let factor = match unit.as_str() {
        "" => 1.0,
        unit => SIZES.iter().find(|(name, _)| *name == unit)?.1,
    };
    let total = number * factor;
    (total < u64::MAX as f64).then_some(total as u64)
}

/// Returns a decimal number at the start of a text, and the rest.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let number: f64 = digits.parse().ok()?;
    Some((number, rest))
}
