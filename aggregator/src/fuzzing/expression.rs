//! Expressions and conditions of rollups.

use crate::expression::{Condition, Expression};

/// Parses a value and a condition. Each that is accepted has one canonical spelling, which is
/// parsed as an equal one: the store keeps that spelling, and reads it at each start.
pub fn expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(value) = Expression::parse(text) {
        let spelling = value.to_string();
        let again = Expression::parse(&spelling).expect("the canonical spelling is read");
        assert_eq!(again, value, "{spelling}");
        assert_eq!(again.to_string(), spelling);
    }
    if let Ok(condition) = Condition::parse(text) {
        let spelling = condition.to_string();
        let again = Condition::parse(&spelling).expect("the canonical spelling is read");
        assert_eq!(again, condition, "{spelling}");
        assert_eq!(again.to_string(), spelling);
    }
}
