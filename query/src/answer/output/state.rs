//! States of levels as JSON: a short description, from which no state can be made again.
//!
//! A histogram is `{"histogram":{"count":3,"sum":60,"min":10,"max":30,"p50":20,…,"overflow":0}}`
//! without any value `{"histogram":{"count":0}}`; a distinct count is `{"distinct":3}`. Numbers of
//! a decimal field are decimal.

use aggregator::state::{Distinct, Histogram, STATE, StateKind};
use arrow::datatypes::Field;
use serde_json::{Map, Value, json};

use crate::functions::states::SCALE;

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// Returns the kind of the states in a column; `None` for a column of other bytes.
pub(super) fn kind(field: &Field) -> Option<StateKind> {
    StateKind::named(field.metadata().get(STATE)?)
}

/// Returns a state as JSON; `None` for bytes that are no state of this kind.
pub(super) fn described(kind: StateKind, bytes: &[u8]) -> Option<String> {
    let described = match kind {
        StateKind::Histogram => json!({ "histogram": histogram(&Histogram::decode(bytes).ok()?) }),
        StateKind::Distinct => json!({ "distinct": Distinct::decode(bytes).ok()?.count() }),
    };
    Some(described.to_string())
}

fn histogram(state: &Histogram) -> Map<String, Value> {
    let number = |value: Option<i128>| match value {
        Some(value) if state.is_scaled() => json!(value as f64 / SCALE),
        Some(value) => i64::try_from(value).map_or_else(|_| json!(value as f64), |v| json!(v)),
        None => Value::Null,
    };
    let mut described = Map::new();
    described.insert("count".to_owned(), json!(state.count()));
    if state.count() == 0 {
        return described;
    }
    for (name, value) in [
        ("sum", state.sum()),
        ("min", state.min()),
        ("max", state.max()),
    ] {
        described.insert(name.to_owned(), number(value));
    }
    for (name, q) in QUANTILES {
        let value = match state.quantile(q) {
            Some(value) if !state.is_scaled() => json!(value as i64),
            value => json!(value),
        };
        described.insert(name.to_owned(), value);
    }
    described.insert("overflow".to_owned(), json!(state.overflow()));
    described
}

#[cfg(test)]
mod tests {
    use aggregator::state::Layout;

    use super::*;

    #[track_caller]
    fn check(kind: StateKind, bytes: &[u8], expected: &str) {
        assert_eq!(described(kind, bytes).as_deref(), Some(expected));
    }

    #[test]
    fn a_histogram_is_described_by_its_numbers() {
        let mut state = Histogram::new(Layout::DEFAULT, false);
        check(
            StateKind::Histogram,
            &state.encode(),
            r#"{"histogram":{"count":0}}"#,
        );
        for value in [10, 20, 30] {
            state.record(value);
        }
        let expected = r#"{"histogram":{"count":3,"sum":60,"min":10,"max":30,"p50":20,"p90":30,"p95":30,"p99":30,"overflow":0}}"#;
        check(StateKind::Histogram, &state.encode(), expected);
        let mut state = Histogram::new(Layout::DEFAULT, true);
        state.record(1_500_000);
        let text = described(StateKind::Histogram, &state.encode()).expect("a state");
        assert!(text.contains(r#""sum":1.5,"min":1.5"#), "{text}");
    }

    #[test]
    fn a_distinct_count_is_described_by_its_count() {
        let mut state = Distinct::new();
        for hash in [1, 2, 2] {
            state.insert(hash);
        }
        check(StateKind::Distinct, &state.encode(), r#"{"distinct":2}"#);
    }

    #[test]
    fn other_bytes_are_no_state() {
        assert_eq!(described(StateKind::Histogram, b"H"), None);
        assert_eq!(described(StateKind::Distinct, &[]), None);
    }
}
