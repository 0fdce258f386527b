//! Faults put into the code on purpose, to prove that the tests find them.
//!
//! Only this crate's tests can choose a fault; everywhere else [`is`] returns `false`.
//! `LOGMILL_BUG=<name>` chooses one for the whole process. (Storage has other faults, chosen in the
//! same way.)

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampMicrosecondType;
use storage::{RollupMeta, Snapshot, TIME};

use crate::calendar::Bucket;
use crate::cascade::cascade;
use crate::cells::CellSet;
use crate::definition::Definition;
use crate::error::Result;
use crate::raw::Raw;

/// A fault that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A seal's tile holds the totals of its buckets, not the deltas.
    TotalsNotDeltas,
    /// Buckets exclude both of their ends: an event exactly at an end is not counted.
    OpenEnds,
    /// Buckets follow one fixed zone instead of the rollup's.
    ServerLocal,
    /// The last day of a month belongs to the next one.
    MonthOffByOne,
    /// Sums are added up as doubles.
    FloatSums,
    /// The sketch merged last overwrites the registers of the one before.
    SketchOrder,
    /// A seal admits keys as if nothing had been sealed before.
    OtherPerSeal,
}

impl Bug {
    /// Every fault, with the name by which it is chosen.
    #[cfg(test)]
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (Self::TotalsNotDeltas, "totals_not_deltas"),
        (Self::OpenEnds, "open_ends"),
        (Self::ServerLocal, "server_local"),
        (Self::MonthOffByOne, "month_off_by_one"),
        (Self::FloatSums, "float_sums"),
        (Self::SketchOrder, "sketch_order"),
        (Self::OtherPerSeal, "other_per_seal"),
    ];
}

/// Returns whether this fault was chosen.
#[cfg(test)]
pub(crate) fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("LOGMILL_BUG").ok()?;
        // An unknown name is that of another crate's fault.
        let chosen = Bug::ALL.into_iter().find(|(_, n)| *n == name);
        chosen.map(|(bug, _)| bug)
    });
    *chosen == Some(bug)
}

/// Returns `false`: outside this crate's tests no fault can be chosen.
#[cfg(not(test))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

/// Applies [`Bug::TotalsNotDeltas`]: each set of a seal also counts all events sealed before.
pub(crate) fn totals(
    sets: &mut [CellSet],
    rollups: &[&RollupMeta],
    definitions: &[&Definition],
    events: &[RecordBatch],
    sealed: &Snapshot,
) -> Result<()> {
    const ALWAYS: Bucket = Bucket {
        start_us: i64::MIN,
        end_us: i64::MAX,
    };
    for ((set, meta), definition) in sets.iter_mut().zip(rollups).zip(definitions) {
        let mut all = events.to_vec();
        for before in Raw::sealed(sealed, meta, definition, ALWAYS).events() {
            all.extend(before?);
        }
        for whole in cascade(&[definition], &all)? {
            set.levels = whole.levels;
        }
    }
    Ok(())
}

/// Applies [`Bug::OpenEnds`]: returns the events that are not exactly at the start of a minute.
pub(crate) fn open_ends(events: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let inside = |batch: &RecordBatch| {
        let times = batch[TIME].as_primitive::<TimestampMicrosecondType>();
        let inside = times.values().iter().map(|t| Some(t % 60_000_000 != 0));
        Ok(filter_record_batch(batch, &inside.collect())?)
    };
    events.iter().map(inside).collect()
}
