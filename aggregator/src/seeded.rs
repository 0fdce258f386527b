//! Faults put into the code on purpose, so that it is known that the tests would find them.
//!
//! They are chosen in this crate's tests alone; everywhere else [`is`] is `false` for ever.
//! `LOGMILL_BUG=<name>` chooses one for the whole process. (Storage has others, chosen alike.)

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

/// A fault that can be put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A seal's tile holds what its buckets come to, not what is new in them.
    TotalsNotDeltas,
    /// Buckets have neither of their ends: what lies exactly at one is not counted.
    OpenEnds,
    /// Buckets are those of one zone, whatever the rollup's.
    ServerLocal,
    /// The last day of a month belongs to the next one.
    MonthOffByOne,
    /// Sums are added up as doubles.
    FloatSums,
    /// What is merged last of two sketches has the last word.
    SketchOrder,
    /// A seal decides which keys have a name as if nothing had been sealed before.
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

/// Whether this fault is in.
#[cfg(test)]
pub(crate) fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("LOGMILL_BUG").ok()?;
        // Names that are not known here are those of another crate's faults.
        let known = Bug::ALL.into_iter().find(|(_, n)| *n == name);
        known.map(|(bug, _)| bug)
    });
    *chosen == Some(bug)
}

/// Whether this fault is in: never.
#[cfg(not(test))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

/// [`Bug::TotalsNotDeltas`]: each set of a seal counts all that was sealed before, too.
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

/// [`Bug::OpenEnds`]: the events that do not lie exactly where a minute begins.
pub(crate) fn open_ends(events: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let inside = |batch: &RecordBatch| {
        let times = batch[TIME].as_primitive::<TimestampMicrosecondType>();
        let inside = times.values().iter().map(|t| Some(t % 60_000_000 != 0));
        Ok(filter_record_batch(batch, &inside.collect())?)
    };
    events.iter().map(inside).collect()
}
