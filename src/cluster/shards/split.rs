//! The parts of a batch.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use storage::{Batch, Identity};

/// Divides a batch among shards: each gets the events whose place it is, and the home the
/// quarantined items. `places` has a shard for each event. Returns the parts, of which the home's
/// is the first if there is one.
///
/// The parts of an ordered source go to all shards, that of a key always to the home, too.
///
/// # Errors
/// If the columns of a part would be too long.
pub(super) fn split(
    batch: Batch,
    places: &[u16],
    home: u16,
    shards: u16,
) -> storage::Result<Vec<(u16, Batch)>> {
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); usize::from(shards)];
    for (row, place) in (0..).zip(places) {
        rows[usize::from(*place)].push(row);
    }
    let identity = batch.identity.as_ref();
    let needs = |shard: u16| match identity {
        Some(Identity::Range { .. }) => true,
        Some(_) => shard == home,
        None => shard == home && !batch.quarantine.is_empty(),
    };
    let has_part = |shard: &u16| !rows[usize::from(*shard)].is_empty() || needs(*shard);
    let mut with_part: Vec<u16> = (0..shards).filter(has_part).collect();
    if with_part.is_empty() {
        // A batch without items and identity: its outcome is that of any shard.
        with_part.push(home);
    }
    with_part.sort_by_key(|shard| *shard != home);
    if let [shard] = with_part[..] {
        return Ok(vec![(shard, batch)]);
    }
    let part = |shard: u16| {
        let rows = &rows[usize::from(shard)];
        let mut part = Batch {
            events: taken(&batch.events, rows)?,
            quarantine: Vec::new(),
            ..batch.clone()
        };
        if shard == home {
            part.quarantine.clone_from(&batch.quarantine);
            for (before, item) in (0..).zip(&mut part.quarantine) {
                // The items with a lower rank are quarantined ones and events, in their order.
                let events = item.rank - before;
                let own = rows.partition_point(|row| *row < events);
                item.rank = before + u32::try_from(own).expect("BUG: fewer rows than events");
            }
        }
        Ok((shard, part))
    };
    with_part.into_iter().map(part).collect()
}

fn taken(events: &RecordBatch, rows: &[u32]) -> storage::Result<RecordBatch> {
    if rows.len() == events.num_rows() {
        return Ok(events.clone());
    }
    let rows = UInt32Array::from(rows.to_vec());
    Ok(take_record_batch(events, &rows)?)
}
