//! The reports of several stores as one.

use serde_json::{Map, Value};

/// Members of an entry of a list that tell its subject; all other numbers are counts.
const SUBJECT: [&str; 6] = ["stream", "level", "partition_us", "against", "why", "left"];

/// Adds the report of another store: counts are added, something happened if it happened in one
/// store, and texts are those of the first. Lists are joined; entries about the same subject are
/// one entry.
pub(super) fn add(report: &mut Value, other: Value) {
    match (report, other) {
        (Value::Object(report), Value::Object(other)) => add_members(report, other),
        (Value::Array(report), Value::Array(other)) => {
            for entry in other {
                match report.iter_mut().find(|known| is_about_same(known, &entry)) {
                    Some(known) => add(known, entry),
                    None => report.push(entry),
                }
            }
        }
        (Value::Bool(report), Value::Bool(other)) => *report |= other,
        (report @ Value::Number(_), Value::Number(other)) => {
            let sum = report.as_u64().zip(other.as_u64()).map(|(a, b)| a + b);
            *report = sum.into();
        }
        (report @ Value::Null, other) => *report = other,
        _ => {}
    }
}

fn add_members(report: &mut Map<String, Value>, other: Map<String, Value>) {
    for (name, value) in other {
        match report.get_mut(&name) {
            Some(_) if SUBJECT.contains(&&*name) => {}
            Some(known) => add(known, value),
            None => drop(report.insert(name, value)),
        }
    }
}

/// Returns whether two entries of lists have the same subject.
fn is_about_same(known: &Value, other: &Value) -> bool {
    let has_subject = SUBJECT.iter().any(|name| known.get(name).is_some());
    has_subject
        && SUBJECT
            .iter()
            .all(|name| known.get(name) == other.get(name))
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::json;
    use storage::{EraseReport, Leaving, Name, PartsReport, Rebuilt, Why};

    use super::*;
    use crate::quarantine::ReplayReport;

    fn sum<T: Serialize + DeserializeOwned>(reports: &[T]) -> T {
        let mut values = reports
            .iter()
            .map(|report| serde_json::to_value(report).expect("JSON"));
        let mut first = values.next().expect("a report");
        values.for_each(|report| add(&mut first, report));
        serde_json::from_value(first).expect("a report")
    }

    #[test]
    fn counts_are_added() {
        let of = |events| EraseReport {
            events,
            still_counted: 1,
            parts: 2,
            rollups: 3,
            detached: 0,
        };
        let expected = EraseReport {
            events: 12,
            still_counted: 2,
            parts: 4,
            rollups: 6,
            detached: 0,
        };
        assert_eq!(sum(&[of(5), of(7)]), expected);
        let none = PartsReport::default();
        assert_eq!(sum(&[none, none]), none);
        let replayed = |bad: &[(&str, u64)]| ReplayReport {
            looked_at: 10,
            replayed: 4,
            still_bad: bad.iter().map(|(why, n)| ((*why).to_owned(), *n)).collect(),
            settled_meanwhile: 0,
        };
        let both = sum(&[replayed(&[("a", 5), ("b", 1)]), replayed(&[("b", 6)])]);
        assert_eq!(both.looked_at, 20);
        let bad: Vec<_> = both.still_bad.into_iter().collect();
        assert_eq!(bad, [("a".to_owned(), 5), ("b".to_owned(), 7)]);
    }

    #[test]
    fn entries_about_the_same_subject_are_one() {
        let leaving = |stream: &str, partition_us, events| Leaving {
            stream: Name::new(stream).expect("a name"),
            partition_us,
            parts: 1,
            events,
            bytes: 100,
            why: Why::Age,
        };
        let (first, second) = (leaving("a", 10, 3), leaving("b", 10, 4));
        let (again, other) = (leaving("a", 10, 5), leaving("a", 20, 6));
        let both = sum(&[vec![first, second.clone()], vec![again, other.clone()]]);
        let expected = Leaving {
            parts: 2,
            bytes: 200,
            ..leaving("a", 10, 8)
        };
        assert_eq!(both, [expected, second, other]);
        let rebuilt = |events, left: Option<&str>| Rebuilt {
            level: "stats.hourly".to_owned(),
            partition_us: 3_600_000_000,
            events,
            left: left.map(str::to_owned),
        };
        let both = sum(&[
            vec![rebuilt(3, None)],
            vec![rebuilt(4, None)],
            vec![rebuilt(5, Some("some are gone"))],
        ]);
        assert_eq!(both, [rebuilt(7, None), rebuilt(5, Some("some are gone"))]);
    }

    #[test]
    fn texts_are_those_of_the_first_and_truth_is_that_of_any() {
        let mut report = json!({ "dropped": "stats", "events": 3, "created": false });
        add(
            &mut report,
            json!({ "dropped": "stats", "events": 4, "created": true, "reason": null }),
        );
        let expected = json!({ "dropped": "stats", "events": 7, "created": true, "reason": null });
        assert_eq!(report, expected);
    }
}
