//! Faults put into the rollups on purpose: a test finds each of them, for the right reason.

use std::process::{Command, Output};

use super::Bug;

/// The test that is to find a fault, and what it says.
fn found_by(bug: Bug) -> (&'static str, &'static str) {
    match bug {
        Bug::OtherPerSeal => (
            "names::tests::histories::late_events_of_a_day_without_raw_events_find_its_names",
            "`left == right` failed: by_0 minute",
        ),
    }
}

/// Runs a test in a process of its own.
fn run(test: &str, bug: Option<&str>) -> Output {
    let mut program = Command::new(std::env::current_exe().expect("known"));
    program
        .args(["--exact", test, "--nocapture"])
        .env("RUST_BACKTRACE", "0")
        .env_remove("LOGMILL_BUG");
    if let Some(bug) = bug {
        program.env("LOGMILL_BUG", bug);
    }
    program.output().expect("started")
}

#[test]
fn every_bug_put_in_on_purpose_is_found() {
    for (bug, name) in Bug::ALL {
        let (test, reason) = found_by(bug);
        let healthy = run(test, None);
        let text = String::from_utf8_lossy(&healthy.stdout);
        let passes = healthy.status.success() && text.contains(" 1 passed");
        assert!(passes, "{text}");
        let output = run(test, Some(name));
        let text = String::from_utf8_lossy(&output.stderr);
        let found = !output.status.success() && text.contains(reason);
        assert!(found, "{name} was not found, or for another reason: {text}");
    }
}
