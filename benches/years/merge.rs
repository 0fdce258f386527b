//! The memory of one merge of large parts: it must not grow with their total size.
//!
//! Twenty parts of documents with long texts, each over the whole of the same day, so that every
//! row of the merge comes from another part than the one before.

use std::path::Path;
use std::sync::Arc;

use ingest::{Format, ParseOptions, Parser};
use storage::{Batch, Config, Name, Options, Store, WriteConcern};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::child::Child;
use crate::marks::at_most;
use crate::{Settings, files, generator, stamp};

const PARTS: u64 = 20;
/// Hex digits of a text; zstd compresses them to half as many bytes.
const DIGITS: usize = 480;
/// Bound for the worst case: each input has a full dictionary of these texts, and so has the
/// output.
const BEYOND_MIB_MAX: f64 = 256.0;

pub(crate) fn measure(s: &Settings) {
    let data = s.dir.join(format!("years-merge-{}", s.part_rows));
    if data.exists() {
        std::fs::remove_dir_all(&data).expect("removed");
    }
    std::fs::create_dir_all(&data).expect("a directory");
    fill(s, &data);
    let bytes = files::bytes(&data.join("streams"));
    let merge = Child::run(s, &data, &["partition", "compact"]);
    println!(
        "  {PARTS} parts, {bytes} bytes: {} ({:.1} s)",
        merge.said, merge.seconds
    );
    // The same command with nothing left to do.
    let base = Child::run(s, &data, &["partition", "compact"]);
    println!(
        "  {:.0} MiB at the peak, {:.0} with nothing to merge",
        merge.peak_mib, base.peak_mib
    );
    at_most(
        "memory of merges beyond that",
        merge.peak_mib - base.peak_mib,
        BEYOND_MIB_MAX,
        "MiB",
    );
    std::fs::remove_dir_all(&data).expect("removed");
}

fn fill(s: &Settings, data: &Path) {
    let options = Options {
        config: Config {
            tends: false,
            lag_us: i64::MAX / 2,
            memtable_bytes_max: 1 << 30,
            ..Config::default()
        },
        ..Options::default()
    };
    let store = Store::open(data, options).expect("opened");
    let mut parser = Parser::new(ParseOptions {
        format: Format::Auto,
        ..ParseOptions::default()
    });
    parser.set_received((generator::DEFAULT_START + 86_400) * 1_000_000);
    for part in 0..PARTS {
        for from in (0..s.part_rows).step_by(1000) {
            let rows = from..s.part_rows.min(from + 1000);
            let lines: String = rows.map(|row| document(part, row, s.part_rows)).collect();
            write(&store, &mut parser, lines.as_bytes());
        }
        store.seal().expect("sealed");
    }
    store.close().expect("closed");
}

fn document(part: u64, row: u64, rows: u64) -> String {
    let at = generator::DEFAULT_START + (row * 86_000 / rows) as i64;
    let text: String = (0..DIGITS as u64 / 32)
        .map(|nth| {
            format!(
                "{:032x}",
                xxh3_128_with_seed(&row.to_le_bytes(), part << 8 | nth)
            )
        })
        .collect();
    let time = stamp(at);
    format!("{{\"time\":\"{time}\",\"text\":\"{text}\"}}\n")
}

fn write(store: &Store, parser: &mut Parser, lines: &[u8]) {
    let parsed = parser.parse(lines).expect("parsed");
    assert!(parsed.quarantine.is_empty(), "every document parses");
    let batch = Batch {
        stream: Name::new("documents").expect("a name"),
        kind: parsed.kind,
        received_us: 0,
        source: Arc::from("bench"),
        events: parsed.events,
        quarantine: parsed.quarantine,
        identity: None,
    };
    store
        .write(batch, WriteConcern::ACKNOWLEDGED)
        .expect("taken");
}
