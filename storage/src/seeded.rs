//! Faults put into the code on purpose, so that it is known that the tests would find them.
//!
//! They are compiled into the tests of this crate, and of others that use its simulated disk, alone;
//! everywhere else [`is`] is `false` for ever.
//! `LOGMILL_BUG=<name>` chooses one for the whole process.

/// A fault that can be put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A file is renamed into place without having been synced.
    FileSyncSkipped,
    /// The directories of a seal's files are not synced.
    DirectorySyncSkipped,
    /// A seal commits its parts in one edit and its tiles in the next.
    TilesApart,
    /// What is known of earlier batches is not read at a start.
    DedupReset,
    /// A group shares a block with data that is synced.
    UnalignedGroup,
    /// Journal segments are removed before the edit that does without them.
    JournalDeletedEarly,
    /// A seal does not wait for the journal's sync.
    SealPastSync,
    /// After an unclean stop the sequence goes on where the journal ends.
    SequenceReused,
    /// A seal writes below the floor of a level.
    FloorIgnored,
    /// Sections that were merged stay beside what they were merged into.
    CompactedTwice,
    /// A backup's manifest is written before the names of its files are durable.
    BackupUnsynced,
    /// A partition is detached before the names in its folder are durable.
    DetachedUnsynced,
    /// A partition that was attached stays detached as well.
    AttachedTwice,
    /// What is settled of the quarantine is not read from the checkpoints at a start.
    SettledForgotten,
    /// What a batch settles is looked up in what is visible, and not in its own group.
    SettledInGroup,
    /// A merge of parts leaves out a row and has another twice.
    PartRowLost,
    /// A writer does not look whether its lock is still in place.
    LockUnchecked,
    /// A version of the manifest is written to one place alone.
    ManifestCopySkipped,
    /// After a repair of the journal the sequence goes on where what was had of it ends.
    GapForgotten,
    /// Events are taken into the room that was kept back for what gives room.
    ReserveTaken,
}

impl Bug {
    /// Every fault, with the name by which it is chosen.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) const ALL: &'static [(Self, &'static str)] = &[
        (Self::FileSyncSkipped, "file_sync_skipped"),
        (Self::DirectorySyncSkipped, "directory_sync_skipped"),
        (Self::TilesApart, "tiles_apart"),
        (Self::DedupReset, "dedup_reset"),
        (Self::UnalignedGroup, "unaligned_group"),
        (Self::JournalDeletedEarly, "journal_deleted_early"),
        (Self::SealPastSync, "seal_past_sync"),
        (Self::SequenceReused, "sequence_reused"),
        (Self::FloorIgnored, "floor_ignored"),
        (Self::CompactedTwice, "compacted_twice"),
        (Self::BackupUnsynced, "backup_unsynced"),
        (Self::DetachedUnsynced, "detached_unsynced"),
        (Self::AttachedTwice, "attached_twice"),
        (Self::SettledForgotten, "settled_forgotten"),
        (Self::SettledInGroup, "settled_in_group"),
        (Self::PartRowLost, "part_row_lost"),
        (Self::LockUnchecked, "lock_unchecked"),
        (Self::ManifestCopySkipped, "manifest_copy_skipped"),
        (Self::GapForgotten, "gap_forgotten"),
        (Self::ReserveTaken, "reserve_taken"),
    ];
}

/// Whether this fault is in.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("LOGMILL_BUG").ok()?;
        // Names that are not known here are those of another crate's faults.
        let known = Bug::ALL.iter().find(|(_, n)| *n == name);
        known.map(|(bug, _)| *bug)
    });
    *chosen == Some(bug)
}

/// Whether this fault is in: never.
#[cfg(not(any(test, feature = "sim")))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
