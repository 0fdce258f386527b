//! One late event in each old day, compared with making the rollups again from the raw events.

use aggregator::{Sample, verify};
use storage::{Name, Store};

use crate::account::{Accounted, Cost};
use crate::events::{DAY_US, MINUTE_US, START_US, Traffic};
use crate::{Settings, files, seal};

/// Seeds from here on are those of no day.
const SEED: u64 = 1 << 32;

/// Prints both costs.
pub(crate) fn measure(s: &Settings) {
    let traffic = Traffic::new();
    if !s.history().exists() {
        seal::fill(&s.history(), &traffic, s.days, s.events_per_day(), true);
    }
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let data = temporary.path().join("late");
    files::link(&s.history(), &data);
    let accounted = Accounted::open(&data);
    let late = (0..s.days)
        .flat_map(|day| {
            let noon_us = START_US + day as i64 * DAY_US + DAY_US / 2;
            traffic.batches(SEED + day, (noon_us, MINUTE_US), 1)
        })
        .collect();
    println!(
        "  {:<28} CPU ms    wall ms      cells   tile bytes  part bytes  manifest bytes  edits",
        ""
    );
    let ((), written) = accounted.cost(|_| accounted.write(late));
    let (sealed, seal) = accounted.cost(Store::seal);
    assert_eq!(sealed.expect("sealed").events, s.days);
    let compaction = accounted.compact(false);
    print("ingest", written);
    print("seal", seal);
    print("compaction", compaction);
    let whole: Cost = [written, seal, compaction].into_iter().sum();
    print("together", whole);
    check(&accounted.store);
    let mut rebuilt = Cost::default();
    for rollup in ["stats", "traffic"] {
        let name = Name::new(rollup).expect("a good name");
        let (done, cost) = accounted.cost(|store| store.rebuild(&name, (i64::MIN, i64::MAX)));
        let done = done.expect("rebuilt");
        assert!(done.iter().all(|partition| partition.left.is_none()));
        print(&format!("rebuild of {rollup}"), cost);
        rebuilt += cost;
    }
    print("rebuild of both", rebuilt);
    check(&accounted.store);
    println!(
        "  late against rebuild: CPU {:.3} %, cells {:.3} %, tile bytes {:.3} %",
        share(whole.cpu_us(), rebuilt.cpu_us()),
        share(cells(whole), cells(rebuilt)),
        share(whole.tiles.written as f64, rebuilt.tiles.written as f64),
    );
    println!(
        "  all bytes that the late events wrote, parts and manifest too, against the tile bytes of the rebuild: {:.2} %",
        share(
            (whole.tiles.written + whole.parts.written + whole.manifest.written) as f64,
            rebuilt.tiles.written as f64
        )
    );
}

fn cells(cost: Cost) -> f64 {
    (cost.rolled.all_cells() + cost.merged_into_cells) as f64
}

fn share(part: f64, whole: f64) -> f64 {
    part / whole * 100.0
}

fn print(what: &str, cost: Cost) {
    println!(
        "  {what:<24} {:>10.1} {:>10.0} {:>10.0} {:>12} {:>11} {:>15} {:>6}",
        cost.cpu_us() / 1e3,
        cost.seconds * 1e3,
        cells(cost),
        cost.tiles.written,
        cost.parts.written,
        cost.manifest.written,
        cost.manifest.files,
    );
}

/// Checks that every rollup equals its raw events.
fn check(store: &Store) {
    let snapshot = store.snapshot();
    for rollup in &snapshot.manifest().rollups {
        let found = verify(&snapshot, rollup, Sample::ALL).expect("verified");
        let cells: u64 = found.levels.iter().map(|l| l.cells).sum();
        println!(
            "  verify {}: {} differences in {cells} cells, {} events",
            found.rollup,
            found.differences(),
            found.events
        );
        assert_eq!(found.differences(), 0);
    }
}
