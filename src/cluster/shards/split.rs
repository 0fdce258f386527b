//! The parts of a batch.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use storage::{Batch, Identity, Quarantined};

use crate::cluster::catalog::CatalogStream;

/// The shards of a batch's items.
#[derive(Debug)]
pub(super) struct ItemShards {
    pub(super) events: Vec<u16>,
    pub(super) quarantine: Vec<u16>,
}

impl ItemShards {
    /// Returns the shards of the items of a batch whose home is `home`: those of events by the
    /// stream's key, and the home for lines that are none.
    pub(super) fn of(
        batch: &Batch,
        stream: Option<&CatalogStream>,
        home: u16,
        shards: u16,
    ) -> Self {
        let hot = stream.map(CatalogStream::hot_values).unwrap_or_default();
        let of = |events: &RecordBatch| match stream {
            Some(stream) => stream.shard_key.places(events, shards, home, &hot),
            None => vec![home; events.num_rows()],
        };
        let of_item = |item: &Quarantined| item.event.as_ref().map_or(home, |event| of(event)[0]);
        Self {
            events: of(&batch.events),
            quarantine: batch.quarantine.iter().map(of_item).collect(),
        }
    }
}

/// Divides a batch among shards: each gets the items whose place it is. Returns the parts, of which
/// the home's is the first if there is one.
///
/// The parts of an ordered source go to all shards, that of a key always to the home, too.
///
/// # Errors
/// If the columns of a part would be too long.
pub(super) fn split(
    batch: Batch,
    places: &ItemShards,
    home: u16,
    shards: u16,
) -> storage::Result<Vec<(u16, Batch)>> {
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); usize::from(shards)];
    for (row, place) in (0..).zip(&places.events) {
        rows[usize::from(*place)].push(row);
    }
    let identity = batch.identity.as_ref();
    let needs = |shard: u16| match identity {
        Some(Identity::Range { .. }) => true,
        Some(_) if shard == home => true,
        _ => places.quarantine.contains(&shard),
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
        let mut quarantine = Vec::new();
        for ((before, item), place) in (0..).zip(&batch.quarantine).zip(&places.quarantine) {
            if *place == shard {
                // The items with a lower rank are quarantined ones and events, in their order.
                let events = item.rank - before;
                let own = quarantine.len() + rows.partition_point(|row| *row < events);
                let rank = u32::try_from(own).expect("BUG: a rank above that in the batch");
                quarantine.push(Quarantined {
                    rank,
                    ..item.clone()
                });
            }
        }
        let part = Batch {
            stream: batch.stream.clone(),
            kind: batch.kind,
            received_us: batch.received_us,
            source: Arc::clone(&batch.source),
            events: taken(&batch.events, rows)?,
            quarantine,
            identity: batch.identity.clone(),
        };
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
