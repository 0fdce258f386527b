//! Maintenance, the work between seals: streams and levels drop data beyond their retention,
//! rollups count their history, settled partitions of the quarantine are dropped, tiles and parts
//! are compacted, and parts get the wanted indexes.
//!
//! A thread with low priority runs the jobs (`thread`), and pauses for foreground requests.
//! Operators run the same jobs, and others, by the methods of [`Store`] below. Either way a job
//! that writes to the job log goes through `Shared::run_job`.

mod backfill;
mod compact;
mod detach;
mod disk_forecast;
mod drop;
mod erase;
mod index;
mod jobs;
mod objects;
mod part_rewrite;
pub(super) mod quarantine;
mod quiet;
mod rebuild;
mod retain;
mod retain_levels;
mod rollups;
mod thread;

pub use compact::{CompactReport, Debt, PartsReport, compaction_debt};
pub use disk_forecast::DiskForecast;
pub use drop::PartitionReport;
pub use erase::EraseReport;
pub use index::IndexReport;
pub(super) use index::open as open_indexes;
pub(crate) use rebuild::LevelRebuild;
pub use rebuild::Rebuilt;
pub(super) use rollups::new_rollups;
pub(super) use thread::maintenance_loop;

use super::pace::Pace;
use super::{Shared, Store};
use crate::error::Result;
use crate::index::IndexKind;
use crate::job_log::JobLog;
use crate::limits::Retention;
use crate::model::Name;
use crate::retention::Leaving;

impl Store {
    /// Drops the raw events of every partition of `stream` that begins in `[from_us, to_us)`,
    /// microseconds since 1970, in one edit, detached ones too; its rollups keep counting them.
    /// `dry` only reports what would be dropped. In both cases the memtable is sealed first, so
    /// that its events are counted.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is no such stream, or the error of the seal or the
    /// commit.
    pub fn drop_partitions(
        &self,
        stream: &Name,
        (from_us, to_us): (i64, i64),
        dry: bool,
    ) -> Result<PartitionReport> {
        drop::run_drop(self.writable()?, stream, (from_us, to_us), dry)
    }

    /// Moves the raw events of every partition of `stream` that begins in `[from_us, to_us)`,
    /// microseconds since 1970, into folders of their own, `detached/NAME/date=…/`, in one edit.
    /// Queries no longer see these events; the rollups of the stream keep counting them. `dry`
    /// only reports what would be moved. In both cases the memtable is sealed first.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is no such stream; [`crate::Error::Invalid`] when a
    /// detached partition of the range has live events again, or when the range has detached
    /// partitions only; or the error of the seal, a write or the commit.
    pub fn detach_partitions(
        &self,
        stream: &Name,
        range_us: (i64, i64),
        dry: bool,
    ) -> Result<PartitionReport> {
        detach::run_detach(self.writable()?, stream, range_us, dry)
    }

    /// Attaches every detached partition of `stream` that begins in `[from_us, to_us)` again, in
    /// one edit, provided that its folder is unchanged.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is none, [`crate::Error::Invalid`] when a file of its
    /// folder is missing or was changed; or the error of a write or the commit.
    pub fn attach_partitions(
        &self,
        stream: &Name,
        range_us: (i64, i64),
    ) -> Result<PartitionReport> {
        let report = detach::run_attach(self.writable()?, stream, range_us);
        self.shared.request_maintenance();
        report
    }

    /// Changes the retention of a stream, which may not be there yet; the default is none. It is
    /// kept until it is changed again; [`crate::Config::retention`] tells it. Returns the new one.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when the configuration sets it, or the error of the commit.
    pub fn set_retention(
        &self,
        stream: &Name,
        change: impl FnOnce(Retention) -> Retention,
    ) -> Result<Retention> {
        retain::set(self.writable()?, stream, change)
    }

    /// Drops partitions beyond the retention of one stream, or of all. Maintenance does the same;
    /// here the wall clock is trusted without a check. `dry` only reports what would be dropped.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is no such stream, or the error of the seal or the
    /// commit.
    pub fn retain(&self, only: Option<&Name>, dry: bool) -> Result<Vec<Leaving>> {
        retain::retain(self.writable()?, only, dry)
    }

    /// Erases the events of `stream` with these sequence numbers: from its parts, its rollups, its
    /// indexes and the journal, in one edit. The memtable is sealed first, so that every
    /// acknowledged event can be erased. The manifest records when and how many. `dry` only reports
    /// what would be erased. Detached partitions are not read.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is no such stream, or the error of the seal, a read or
    /// the commit; nothing is erased then.
    pub fn erase(&self, stream: &Name, seqs: Vec<u64>, dry: bool) -> Result<EraseReport> {
        let shared = self.writable()?;
        let report = erase::run_erase(shared, stream, seqs, dry, &|| self.cut_journal())?;
        if report.events > 0 && !dry {
            // The files of an index hold values of the rows.
            index::remove_files(shared)?;
            shared.request_maintenance();
        }
        Ok(report)
    }

    /// Drops every partition of the quarantine that is over and whose items are all settled.
    /// Maintenance does the same.
    ///
    /// # Errors
    /// The error of a read or the commit; the partitions stay as they are.
    pub fn drop_settled(&self) -> Result<PartitionReport> {
        quarantine::run_drop_settled(self.writable()?)
    }

    /// Merges sections of tiles until there is nothing to merge. Maintenance does the same.
    /// `quiet` treats every time partition as one that gets no more events: then fewer sections
    /// remain, and later events cost more to merge.
    ///
    /// # Errors
    /// The error of a merge; sections not merged stay as they are.
    pub fn compact_tiles(&self, quiet: bool) -> Result<CompactReport> {
        compact::compact_tiles(self.writable()?, &|_| quiet)
    }

    /// Merges parts of `stream`, or of all streams, until there is nothing to merge. Maintenance
    /// does the same. `quiet` treats every partition as one that gets no more events, as above.
    ///
    /// # Errors
    /// The error of a merge; other merges may have succeeded, and parts not merged stay as they
    /// are.
    pub fn compact_parts(&self, stream: Option<&Name>, quiet: bool) -> Result<PartsReport> {
        let shared = self.writable()?;
        let report = compact::compact_parts(shared, stream, &|_| quiet, Pace::Foreground);
        // The merged parts have no indexes yet.
        shared.request_maintenance();
        report
    }

    /// Creates an index of a column, which is kept until it is dropped and built in the
    /// background. Returns whether it is a new one.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is no such stream or column, [`crate::Error::Invalid`]
    /// when the column cannot have an index or has one of the other kind; or an error of the file
    /// system.
    pub fn create_index(&self, stream: &Name, field: &str, kind: IndexKind) -> Result<bool> {
        index::create(self.writable()?, stream, field, kind)
    }

    /// Creates an index as [`Store::create_index`] does, also of a column that is not there yet: of
    /// a stream that a first event will create, or that a document will bring. It is built once the
    /// column is there.
    ///
    /// # Errors
    /// As of [`Store::create_index`], but for a stream or a column that is missing.
    pub fn want_index(&self, stream: &Name, field: &str, kind: IndexKind) -> Result<bool> {
        index::want(self.writable()?, stream, field, kind)
    }

    /// Drops an index and its files.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is none, [`crate::Error::Invalid`] when it is
    /// configured; or an error of the file system.
    pub fn drop_index(&self, stream: &Name, field: &str) -> Result<()> {
        index::drop(self.writable()?, stream, field)
    }

    /// Builds the wanted indexes that are missing. Maintenance does the same.
    ///
    /// # Errors
    /// The error of a build; other builds may have succeeded. Queries scan parts without an
    /// index.
    pub fn build_indexes(&self) -> Result<IndexReport> {
        index::build(self.writable()?, Pace::Foreground).map(|(report, _)| report)
    }

    /// Drops the buckets beyond the retention of the rollups' levels. Maintenance does the same.
    /// Returns the number of events that those levels no longer count.
    ///
    /// # Errors
    /// The error of the edit; the levels stay as they are.
    pub fn retain_levels(&self) -> Result<u64> {
        retain_levels::run_retain_levels(self.writable()?, self.shared.now_us())
    }

    /// Counts one step of the history of rollups that were added to streams with events.
    /// Maintenance does the same. Returns whether more remains.
    pub fn backfill(&self) -> bool {
        self.writable().is_ok_and(backfill::step)
    }

    /// Drops a rollup that the configuration does not want any more, with everything that it has
    /// counted. Returns the number of events that it counted.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is no such rollup, [`crate::Error::Invalid`] when the
    /// configuration wants it; or an error of the file system.
    pub fn drop_rollup(&self, rollup: &Name) -> Result<u64> {
        rollups::drop_rollup(self.writable()?, rollup)
    }

    /// Returns the rollups of the store that its configuration does not want. New events still
    /// feed them until they are dropped.
    pub fn unwanted_rollups(&self) -> Vec<Name> {
        rollups::unwanted(&self.shared)
    }

    /// Rebuilds from raw events every (level, time partition) of a rollup that reaches into
    /// `[from_us, to_us)`, microseconds since 1970, where all of its raw events are there.
    /// Returns the outcome of each.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when there is no such rollup, or the error of the seal, a read or
    /// the commit.
    pub fn rebuild(&self, rollup: &Name, range: (i64, i64)) -> Result<Vec<Rebuilt>> {
        rebuild::run_rebuild(self.writable()?, rollup, range)
    }

    /// Deletes from the object store what nobody needs any more, and removes copies beyond the
    /// limit from the disk. Maintenance does the same.
    ///
    /// # Errors
    /// The error of the object store; the next run tries again.
    pub fn tend_objects(&self) -> Result<()> {
        self.writable()?.tend_objects()
    }

    /// Returns the log of maintenance jobs, past and running. Callers that do maintenance beyond
    /// the store's own (scrub, replay, backup) record their jobs in it too.
    pub fn maintenance(&self) -> &JobLog {
        &self.shared.log
    }

    /// Returns the disk space, and the time until it is used up.
    pub fn disk_forecast(&self) -> DiskForecast {
        disk_forecast::forecast(&self.shared)
    }

    /// Returns the state that jobs change, unless the store was opened for reading only.
    fn writable(&self) -> Result<&Shared> {
        self.shared.check_writable()?;
        Ok(&self.shared)
    }
}
