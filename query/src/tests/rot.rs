//! Damage to parts and tiles, through SQL: an answer is the right one or names the damaged file.
//!
//! `LOGMILL_FULL=1` does 2,000 damages of each kind of file instead of 60. Each damage meets an
//! engine of its own: one that has read a tile or a footer before keeps it in memory.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;
use storage::{Snapshot, StreamKind};

use super::support::{DAY_US, Fixture, Random, batch, mixture};
use crate::{Engine, EngineOptions, NoSystemInfo, Result, SliceArgs, slice_sql};

/// 2000-10-09T00:00:00Z.
const START: i64 = 971_049_600_000_000;

/// Makes three days in two seals, and events of each in the memtable.
fn store() -> Fixture {
    let fixture = Fixture::with_defaults();
    for round in 0..3 {
        for day in 0..3 {
            let from = START + day * DAY_US + round * 1_000_000;
            let events = mixture(150, from, DAY_US / 160);
            fixture.write("access", StreamKind::Access, batch(&events));
        }
        if round < 2 {
            fixture.store.seal().expect("seals");
        }
    }
    fixture
}

fn queries() -> Vec<String> {
    let slice = SliceArgs {
        stream: "access".into(),
        host: Some("gamma".into()),
        date: "2000-10-10".into(),
        ..SliceArgs::default()
    };
    let mut queries = vec![slice_sql(&slice).expect("a slice")];
    queries.extend(
        [
            "SELECT *, _seq FROM access ORDER BY _seq",
            "SELECT host, count(*), sum(response_size) FROM access GROUP BY host ORDER BY host",
            "SELECT count(*) FROM access WHERE time > '2000-10-09T11:00:00Z' AND status = 404",
            "SELECT * FROM stats.hourly",
            "SELECT * FROM stats.daily WHERE path = '/p3'",
            "SELECT * FROM traffic.minutely WHERE bucket >= '2000-10-11'",
            "SELECT * FROM traffic.yearly",
            "SELECT _id, daily, hourly, minute['9'] FROM stats.daily_documents",
            "SELECT * FROM traffic.monthly_documents",
            "SELECT * FROM system.parts",
            "SELECT * FROM system.tiles",
            "SELECT * FROM system.rollups",
            "SELECT * FROM system.partitions",
        ]
        .map(str::to_owned),
    );
    queries
}

async fn ask(snapshot: &Arc<Snapshot>, engine: &Engine, sql: &str) -> Result<Vec<Value>> {
    let system = Arc::new(NoSystemInfo);
    let answer = engine.sql(snapshot.clone(), system, sql, None).await?;
    let (schema, batches, _) = answer.collect().await?;
    let mut out = Vec::new();
    crate::answer::output::write(
        crate::answer::output::Output::Json,
        &schema,
        &batches,
        &mut out,
    )?;
    Ok(serde_json::from_slice(&out).expect("an array"))
}

fn engine() -> Engine {
    Engine::new(EngineOptions {
        target_partitions: 2,
        ..EngineOptions::default()
    })
    .expect("starts")
}

/// Returns the kind of the damage, and another content of a file, `None` when it is gone.
fn damage(
    whole: &[u8],
    others: &[PathBuf],
    random: &mut Random,
) -> (&'static str, Option<Vec<u8>>) {
    let mut bytes = whole.to_vec();
    let at = random.below(whole.len());
    let kind = match random.below(7) {
        0 => {
            bytes[at] ^= 1 << random.below(8);
            "a flipped bit"
        }
        1 => {
            let end = whole.len().min(at + 64);
            bytes[at..end].fill_with(|| random.below(256) as u8);
            "64 random bytes"
        }
        2 => {
            let sector = at / 512 * 512;
            let end = whole.len().min(sector + 512);
            bytes[sector..end].fill(0);
            "a sector of zeros"
        }
        3 => {
            bytes.truncate(at);
            "a cut"
        }
        4 => {
            bytes.extend((0..=random.below(4096)).map(|i| i as u8));
            "bytes added"
        }
        5 => {
            bytes = std::fs::read(&others[random.below(others.len())]).expect("read");
            "another file"
        }
        _ => return ("a lost file", None),
    };
    (kind, Some(bytes))
}

/// Outcomes of some damages.
#[derive(Default)]
struct Tally {
    damages: usize,
    right: usize,
    named: usize,
    faults: BTreeMap<String, usize>,
    told: String,
}

impl Tally {
    fn fault(&mut self, kind: &str, what: &str, detail: &str) {
        let count = self
            .faults
            .entry(format!("{kind} after {what}"))
            .or_default();
        *count += 1;
        if *count <= 3 {
            writeln!(self.told, "{kind} after {what}: {detail}").expect("text");
        }
    }
}

/// Damages files whose paths begin with `folder`, one at a time.
async fn rot(folder: &str, seed: u64) {
    let fixture = store();
    let snapshot = fixture.store.snapshot();
    let queries = queries();
    let mut sound = Vec::new();
    for sql in &queries {
        sound.push(ask(&snapshot, &engine(), sql).await.expect("a sound store"));
    }
    let files = snapshot.manifest().files().map(|f| &f.path);
    let files: Vec<PathBuf> = files
        .filter(|path| path.starts_with(folder))
        .map(|path| snapshot.data_dir().join(path))
        .collect();
    let full = std::env::var("LOGMILL_FULL").is_ok_and(|v| v == "1");
    let (mut random, mut tally) = (Random(seed), Tally::default());
    while tally.damages < if full { 2_000 } else { 60 } {
        let path = &files[random.below(files.len())];
        let whole = std::fs::read(path).expect("read");
        let (kind, damaged) = damage(&whole, &files, &mut random);
        if damaged.as_ref() == Some(&whole) {
            continue;
        }
        tally.damages += 1;
        match &damaged {
            Some(bytes) => std::fs::write(path, bytes).expect("written"),
            None => std::fs::remove_file(path).expect("removed"),
        }
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        let number = tally.damages;
        let place = format!("damage {number} of {name}");
        let engine = engine();
        for (sql, expected) in queries.iter().zip(&sound) {
            let answer = AssertUnwindSafe(ask(&snapshot, &engine, sql)).catch_unwind();
            match answer.await {
                Ok(Ok(rows)) if rows == *expected => tally.right += 1,
                Ok(Ok(_)) => tally.fault("another answer", kind, &format!("{place}: {sql}")),
                Ok(Err(error)) if error.to_string().contains(name) => tally.named += 1,
                Ok(Err(error)) => tally.fault(
                    "an error without the name",
                    kind,
                    &format!("{place}: {sql}: {error}"),
                ),
                Err(_) => tally.fault("a panic", kind, &format!("{place}: {sql}")),
            }
        }
        let report = storage::check(&snapshot);
        let blamed: Vec<&PathBuf> = report.damage.iter().map(|(path, _)| path).collect();
        if blamed != [path] {
            tally.fault("a false report", kind, &format!("{place}: {blamed:?}"));
        }
        std::fs::write(path, &whole).expect("restored");
    }
    println!(
        "{folder}: {} damages of {} files; {} right answers, {} that name the file, faults {:?}",
        tally.damages,
        files.len(),
        tally.right,
        tally.named,
        tally.faults
    );
    assert!(
        tally.named > tally.damages / 2,
        "the damages were looked at"
    );
    assert!(tally.faults.is_empty(), "\n{}", tally.told);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_tile_gives_no_wrong_answer() {
    rot("rollups/", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_part_gives_no_wrong_answer() {
    rot("streams/", 2).await;
}
