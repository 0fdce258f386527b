//! Checks that the model finds each fault put into the cascade or the store on purpose.

use std::process::{Command, Output};
use std::time::Instant;

use crate::seeded::Bug;

const HISTORIES: &str = "model::every_level_shows_the_acknowledged_events_after_every_step";
/// Faults of storage that concern tiles, each with the message of the manifest when it refuses
/// their result.
const OF_STORAGE: [(&str, &[&str]); 3] = [
    ("tiles_apart", &["tiles end at"]),
    ("floor_ignored", &["lies below its floor"]),
    ("compacted_twice", &["events, the tile"]),
];

/// Runs the histories in a separate process.
fn histories(bug: Option<&str>, seconds: u64) -> Output {
    let mut test = Command::new(std::env::current_exe().expect("known"));
    test.args(["--exact", HISTORIES, "--nocapture"])
        .env("LOGMILL_SIM_SECONDS", seconds.to_string())
        .env("RUST_BACKTRACE", "0")
        .env_remove("LOGMILL_SIM_SEED")
        .env_remove("LOGMILL_SIM_HISTORIES")
        .env_remove("LOGMILL_BUG");
    if let Some(bug) = bug {
        test.env("LOGMILL_BUG", bug);
    }
    test.output().expect("started")
}

/// Returns the messages of which the model reports one when it finds the fault.
fn reasons(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::TotalsNotDeltas => &["without a fault: /data/manifest is corrupt"],
        Bug::OpenEnds => &[": left is there", "cells, expected"],
        Bug::ServerLocal => &[
            "another cell",
            "bucket_end at",
            "another partition",
            "floors",
        ],
        Bug::MonthOffByOne => &[".month in", ".year in", "another partition", "floors"],
        Bug::FloatSums => &["bytes at", "average at", "size_sum at", "size_mean at"],
        Bug::OtherPerSeal => &["another cell", "hits at", "cells, expected"],
        Bug::SketchOrder => &[
            "visitors_state at",
            "victims_state at",
            "visitors at",
            "victims at",
        ],
    }
}

#[test]
fn every_bug_put_in_on_purpose_is_found() {
    let healthy = histories(None, 2);
    let text = String::from_utf8_lossy(&healthy.stdout);
    let passes = healthy.status.success() && text.contains(" 1 passed");
    assert!(passes, "{text}");
    let own = Bug::ALL.map(|(bug, name)| (name, reasons(bug)));
    for (name, reasons) in own.into_iter().chain(OF_STORAGE) {
        let started = Instant::now();
        let output = histories(Some(name), 60);
        let text = String::from_utf8_lossy(&output.stderr);
        let seed = text.lines().find_map(|l| l.strip_prefix("failed: "));
        let reason = text.lines().find(|l| reasons.iter().any(|r| l.contains(r)));
        println!("{name}: {seed:?} in {:.1?}: {reason:?}", started.elapsed());
        let found = !output.status.success() && seed.is_some() && reason.is_some();
        assert!(found, "{name} was not found, or for another reason: {text}");
    }
}
