//! Bugs inserted into the store on purpose: the model finds each of them.

use std::process::{Command, Output};
use std::time::Instant;

use crate::seeded::Bug;

const HISTORIES: &str = "store::model::a_history_keeps_its_promises_over_kills_and_power_cuts";
const TWO_WRITERS: &str =
    "store::lock::tests::of_two_writers_that_meet_at_any_moment_neither_loses_what_it_acknowledged";
const REPAIRS: &str = "repair::tests::whatever_is_damaged_or_gone_every_sound_event_is_had_back_and_no_number_is_given_twice";
const MACHINES: &str =
    "store::model::machines::machines_with_one_object_store_lose_nothing_that_is_sealed";
const RESERVE: &str = "store::reserve::tests::nobody_takes_events_into_the_room_that_was_kept_back";

const WRITERS: &str =
    "store::model::writers::writers_with_one_journal_lose_nothing_that_is_acknowledged";

/// Returns the test that finds a bug; histories have one writer at a time.
fn test_of(bug: Bug) -> &'static str {
    match bug {
        Bug::AckedOnDelivery
        | Bug::PositionApart
        | Bug::IdentitiesApart
        | Bug::LateMessageTaken
        | Bug::RetryTaken
        | Bug::FenceIgnored => WRITERS,
        Bug::LockUnchecked => TWO_WRITERS,
        Bug::GapForgotten => REPAIRS,
        Bug::ReserveTaken => RESERVE,
        Bug::RefusalBelieved
        | Bug::TimeoutBelieved
        | Bug::EpochUnnamed
        | Bug::OrphansOfAnyEpoch
        | Bug::PutAfterCommit
        | Bug::DroppedAtOnce
        | Bug::ClaimIgnored => MACHINES,
        _ => HISTORIES,
    }
}

/// Runs a test in a process of its own.
fn run(name: &str, bug: Option<&str>, seconds: u64) -> Output {
    let mut test = Command::new(std::env::current_exe().expect("known"));
    test.args(["--exact", name, "--nocapture"])
        .env("LOGMILL_SIM_SECONDS", seconds.to_string())
        .env("RUST_BACKTRACE", "0")
        .env_remove("LOGMILL_SIM_SEED")
        .env_remove("LOGMILL_BUG");
    if let Some(bug) = bug {
        test.env("LOGMILL_BUG", bug);
    }
    test.output().expect("started")
}

/// Returns the possible messages of the model when it finds a bug.
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
        // The bug also removes dropped parts and merged tiles too early, while a reader uses
        // them.
        Bug::JournalDeletedEarly => &[
            "the segment is missing",
            "a part is there: Io",
            "a tile is there: Io",
            "entity not found",
        ],
        Bug::SealPastSync => &["sealed and not synced"],
        Bug::SequenceReused => &["was given before"],
        Bug::FloorIgnored => &["lies below its floor"],
        Bug::CompactedTwice => &["of tile"],
        Bug::BackupUnsynced => &["is there: Io", "the segment is missing", "NotFound"],
        Bug::DetachedUnsynced => &["a part is there: Io", "a card is there: Kind(NotFound)"],
        Bug::AttachedTwice => &["are detached,"],
        Bug::SettledForgotten => &["what is settled", "is lost", "failed: \"/backup"],
        Bug::SettledInGroup => &["settles what was settled before", "are already resolved"],
        Bug::ErasedUnsynced => &["a part is there: Io", "a tile is there: Io", "NotFound"],
        Bug::PartRowLost => &["the merged rows differ"],
        Bug::ManifestCopySkipped => &["the manifest is in one place alone"],
        Bug::GapForgotten => &[" after "],
        Bug::ReserveTaken => &["no room yet"],
        Bug::RefusalBelieved | Bug::TimeoutBelieved => {
            &["superseded by itself", "the owner is refused"]
        }
        Bug::EpochUnnamed | Bug::ClaimIgnored => &["is corrupt", "Corrupt", "is there: "],
        Bug::OrphansOfAnyEpoch | Bug::PutAfterCommit | Bug::DroppedAtOnce => &["is there: "],
        // A message that counts again, or without its acknowledgement, may do any of these:
        // refused at first, it may be taken at its next copy.
        Bug::AckedOnDelivery | Bug::LateMessageTaken | Bug::RetryTaken | Bug::FenceIgnored => &[
            "two events have number",
            "two numbers are of event",
            "acknowledged and is lost",
            "was refused, and is stored",
            "are in the quarantine",
        ],
        Bug::PositionApart => &["its journal is sealed up to"],
        Bug::IdentitiesApart => &[
            "two numbers are of event",
            "it is stored again",
            "was acknowledged, then",
        ],
        Bug::DivisionKept | Bug::DivisionUnsealed => &["the division of events"],
        Bug::LockUnchecked => &["acknowledged and lost", "is corrupt", "opens after both"],
    }
}

#[test]
fn every_bug_put_in_on_purpose_is_found() {
    let healthy = run(HISTORIES, None, 2);
    let text = String::from_utf8_lossy(&healthy.stdout);
    let passes = healthy.status.success() && text.contains(" 1 passed");
    assert!(passes, "{text}");
    for &(bug, name) in Bug::ALL {
        let started = Instant::now();
        // Models of several machines take a fourth of the time that they are given.
        let output = run(test_of(bug), Some(name), 240);
        let text = String::from_utf8_lossy(&output.stderr);
        let seed = text.lines().find_map(|l| l.strip_prefix("failed: "));
        let reason = text
            .lines()
            .find(|l| reasons(bug).iter().any(|r| l.contains(r)));
        println!("{name}: {seed:?} in {:.1?}: {reason:?}", started.elapsed());
        // A test without seeds prints the damage in its message.
        let is_history = test_of(bug) == HISTORIES;
        let named = seed.is_some() || !is_history;
        let found = !output.status.success() && named && reason.is_some();
        assert!(found, "{name} was not found, or for another reason: {text}");
    }
}
