//! Bugs inserted into the code on purpose, to prove that the tests find them.
//!
//! Bugs are compiled only into the tests of this crate and of others that use its simulated disk;
//! everywhere else [`is`] always returns `false`.
//! `LOGMILL_BUG=<name>` chooses one for the whole process.

/// A bug that can be inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A file is renamed into place without having been synced.
    FileSyncSkipped,
    /// The directories of a seal's files are not synced.
    DirectorySyncSkipped,
    /// A seal commits its parts in one edit and its tiles in the next.
    TilesApart,
    /// The identities of earlier batches are not read at a start.
    DedupReset,
    /// A group shares a block with data that is already synced.
    UnalignedGroup,
    /// Journal segments are removed before the edit that makes them unnecessary.
    JournalDeletedEarly,
    /// A seal does not wait for the journal's sync.
    SealPastSync,
    /// After an unclean stop the sequence continues where the journal ends.
    SequenceReused,
    /// A seal writes below the floor of a level.
    FloorIgnored,
    /// Sections that were merged stay beside the section that replaces them.
    CompactedTwice,
    /// A backup's manifest is written before the names of its files are durable.
    BackupUnsynced,
    /// A partition is detached before the names in its folder are durable.
    DetachedUnsynced,
    /// A partition that was attached remains detached as well.
    AttachedTwice,
    /// Resolutions of quarantined items are not read from the checkpoints at a start.
    SettledForgotten,
    /// The items of a resolving batch are checked against visible batches only, not against those
    /// of its own group.
    SettledInGroup,
    /// An erasure is committed before the names of its files are durable.
    ErasedUnsynced,
    /// A merge of parts leaves out one row and repeats another.
    PartRowLost,
    /// A writer does not check that its lock is still in place.
    LockUnchecked,
    /// A version of the manifest is written to one folder only.
    ManifestCopySkipped,
    /// After a repair of the journal the sequence continues at the end of the records that were
    /// salvaged.
    GapForgotten,
    /// Events are written into the disk space that is reserved for operations that free disk
    /// space.
    ReserveTaken,
    /// A commit that the object store refuses counts as one that never happened.
    RefusalBelieved,
    /// A commit without an answer counts as one that never happened.
    TimeoutBelieved,
    /// Files in the object store are named by their number alone, without the writer's epoch.
    EpochUnnamed,
    /// Files of any epoch that the manifest does not name are deleted from the object store.
    OrphansOfAnyEpoch,
    /// A manifest is committed before its files are in the object store.
    PutAfterCommit,
    /// A file is deleted from the object store as soon as a manifest without it is written.
    DroppedAtOnce,
    /// A store is brought to a prefix that another one has claimed.
    ClaimIgnored,
    /// A batch is acknowledged when its message is in the shared journal, as decided before.
    AckedOnDelivery,
    /// A seal commits its position in the shared journal in an edit of its own.
    PositionApart,
    /// A seal commits its identities in an edit of its own.
    IdentitiesApart,
    /// An event that belongs to another shard leaves the division of its stream as it is.
    DivisionKept,
    /// A seal does not record the divisions of streams.
    DivisionUnsealed,
    /// Messages of earlier epochs count.
    LateMessageTaken,
    /// A message of the shared journal that was sent twice counts twice.
    RetryTaken,
    /// A writer serves before it has read its fence.
    FenceIgnored,
}

impl Bug {
    /// Every bug, with the name by which it is chosen.
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
        (Self::ErasedUnsynced, "erased_unsynced"),
        (Self::PartRowLost, "part_row_lost"),
        (Self::LockUnchecked, "lock_unchecked"),
        (Self::ManifestCopySkipped, "manifest_copy_skipped"),
        (Self::GapForgotten, "gap_forgotten"),
        (Self::ReserveTaken, "reserve_taken"),
        (Self::RefusalBelieved, "refusal_believed"),
        (Self::TimeoutBelieved, "timeout_believed"),
        (Self::EpochUnnamed, "epoch_unnamed"),
        (Self::OrphansOfAnyEpoch, "orphans_of_any_epoch"),
        (Self::PutAfterCommit, "put_after_commit"),
        (Self::DroppedAtOnce, "dropped_at_once"),
        (Self::ClaimIgnored, "claim_ignored"),
        (Self::AckedOnDelivery, "acked_on_delivery"),
        (Self::PositionApart, "position_apart"),
        (Self::IdentitiesApart, "identities_apart"),
        (Self::DivisionKept, "division_kept"),
        (Self::DivisionUnsealed, "division_unsealed"),
        (Self::LateMessageTaken, "late_message_taken"),
        (Self::RetryTaken, "retry_taken"),
        (Self::FenceIgnored, "fence_ignored"),
    ];
}

/// Checks whether this bug is inserted.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("LOGMILL_BUG").ok()?;
        // Names that are not known here belong to bugs of another crate.
        let known = Bug::ALL.iter().find(|(_, n)| *n == name);
        known.map(|(bug, _)| *bug)
    });
    *chosen == Some(bug)
}

/// Returns false: no bug is inserted here.
#[cfg(not(any(test, feature = "sim")))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
