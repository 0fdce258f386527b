//! Drivers' own tests: those of mongodb/specifications with pymongo's runner
//! (`tests/clients/specifications.py`).

use serde_json::Value;

use super::{script, served};
use crate::support::{Home, finish};

/// Tests that pass: fewer of them would mean that something is refused that was not.
const PASSED_MIN: u64 = 317;

#[test]
fn the_tests_of_drivers_pass() {
    let Ok(sources) = std::env::var("LOGMILL_PYMONGO_SOURCES") else {
        println!(
            "skipped: LOGMILL_PYMONGO_SOURCES names no folder of pymongo's source distribution"
        );
        return;
    };
    let home = Home::new();
    let (server, address) = served(&home);
    let Some(mut client) = script("specifications.py", &address, &[&sources]) else {
        return;
    };
    let told = finish(&mut client, &[]).code(0).stdout;
    let last = told.lines().last().unwrap_or_default();
    if last.starts_with("skipped") {
        println!("{last}");
        return;
    }
    println!("{told}");
    let counts: Value = serde_json::from_str(last).expect("the counts are JSON");
    assert_eq!(counts["failed"], 0);
    let passed = counts["passed"].as_object().expect("counts by folder");
    let passed: u64 = passed.values().filter_map(Value::as_u64).sum();
    assert!(passed >= PASSED_MIN, "{passed} passed");
    assert_eq!(server.stop(), Some(0));
}
