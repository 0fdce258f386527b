//! Faults put into the store on purpose: the model finds each of them.

use std::process::{Command, Output};
use std::time::Instant;

use crate::seeded::Bug;

const HISTORIES: &str = "store::model::a_history_keeps_its_promises_over_kills_and_power_cuts";

/// Runs the histories in a process of their own.
fn histories(bug: Option<&str>, seconds: u64) -> Output {
    let mut test = Command::new(std::env::current_exe().expect("known"));
    test.args(["--exact", HISTORIES, "--nocapture"])
        .env("LOGMILL_SIM_SECONDS", seconds.to_string())
        .env("RUST_BACKTRACE", "0")
        .env_remove("LOGMILL_SIM_SEED")
        .env_remove("LOGMILL_BUG");
    if let Some(bug) = bug {
        test.env("LOGMILL_BUG", bug);
    }
    test.output().expect("started")
}

/// What the model says when it finds a fault: one of these.
fn reasons(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::FileSyncSkipped => &["no head line", "is corrupt", "Corrupt"],
        Bug::DirectorySyncSkipped => &["NotFound", "is missing"],
        Bug::TilesApart => &["tiles end at", "tiles less what was dropped"],
        Bug::DedupReset => &[
            "how far the sources were taken",
            "was stored again",
            "is lost",
        ],
        Bug::UnalignedGroup => &["is lost", "is corrupt"],
        // Parts that were dropped and tiles that were merged go too early with it, from under a reader.
        Bug::JournalDeletedEarly => &[
            "the segment is missing",
            "a part is there: Io",
            "a tile is there: Io",
        ],
        Bug::SealPastSync => &["sealed and not synced"],
        Bug::SequenceReused => &["was given before"],
        Bug::FloorIgnored => &["lies below its floor"],
        Bug::CompactedTwice => &["of tile"],
        Bug::BackupUnsynced => &["is there: Io", "the segment is missing", "NotFound"],
        Bug::DetachedUnsynced => &["a part is there: Io"],
        Bug::AttachedTwice => &["are detached,"],
        Bug::SettledForgotten => &["what is settled", "is lost"],
        Bug::SettledInGroup => &["settles what was settled before", "no longer wait"],
        Bug::PartRowLost => &["are not the rows that were merged"],
    }
}

#[test]
fn every_bug_put_in_on_purpose_is_found() {
    let healthy = histories(None, 2);
    let text = String::from_utf8_lossy(&healthy.stdout);
    let passes = healthy.status.success() && text.contains(" 1 passed");
    assert!(passes, "{text}");
    for &(bug, name) in Bug::ALL {
        let started = Instant::now();
        let output = histories(Some(name), 60);
        let text = String::from_utf8_lossy(&output.stderr);
        let seed = text.lines().find_map(|l| l.strip_prefix("failed: "));
        let reason = text
            .lines()
            .find(|l| reasons(bug).iter().any(|r| l.contains(r)));
        println!("{name}: {seed:?} in {:.1?}: {reason:?}", started.elapsed());
        let found = !output.status.success() && seed.is_some() && reason.is_some();
        assert!(found, "{name} was not found, or for another reason: {text}");
    }
}
