//! Tiles of every version since the first release, each with the sections that its manifest named.
//! Tiles of old versions stay for ever. Tiles of the present version are compared with newly
//! written ones;
//! `LOGMILL_WRITE_FIXTURES=1 cargo test -p logmill-aggregator the_version_of_today` writes them
//! anew. The expected rows are recomputed from the events.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono_tz::Tz;
use storage::Section;

use super::{BLOCK_CELLS_MAX, TileFile, encode_in_blocks};
use crate::cascade;
use crate::cells::{Cells, Filter, Projection};
use crate::definition::Definition;
use crate::read::merge;
use crate::testing::{AccessEvent, batch, default_definitions, filtered, recompute, rows};

fn folder(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/tile/fixtures")
        .join(version)
}

/// Returns the events that all fixtures count.
fn recorded() -> Vec<AccessEvent> {
    (0..400)
        .map(|i: i64| AccessEvent {
            time: 1_729_814_400_000_000 + i * 977_000_000,
            site: None,
            path: Some(format!("/page/{}", i % 11)),
            status: Some([200, 404, 500][i as usize % 3]),
            method: Some(["GET", "POST"][i as usize % 2].to_owned()),
            host: Some(format!("10.0.{}.{}", i % 2, i % 149)),
            size: (i % 13 > 0).then_some(i * i * 37),
        })
        .collect()
}

fn read(folder: &Path, name: &str) -> (Vec<u8>, Vec<Section>) {
    let bytes = |ending| std::fs::read(folder.join(format!("{name}.{ending}"))).expect("a fixture");
    let sections = serde_json::from_slice(&bytes("json")).expect("sections");
    (bytes("tile"), sections)
}

/// Checks that every level of a tile has the rows recomputed from the recorded events.
fn check(definition: &Definition, bytes: Vec<u8>, sections: &[Section]) {
    let file = TileFile::open(Arc::new(definition.clone()), bytes.into());
    let file = file.expect("the definition is known by the same hash");
    for level in definition.levels() {
        let own = sections.iter().filter(|s| s.level == level.as_str());
        let read = |s| file.read(s, &Projection::all(definition), &Filter::ALL);
        let cells: Vec<Cells> = own.map(|s| read(s).expect("whole")).collect();
        let cells = merge(definition, *level, &cells.iter().collect::<Vec<_>>());
        assert_eq!(
            rows(definition, *level, &cells),
            recompute(definition, *level, &recorded()),
            "{level}"
        );
    }
}

/// Returns name, definition and most cells of a block of each fixture of the present version.
fn of_today() -> Vec<(&'static str, Definition, usize)> {
    let [stats, traffic] = &default_definitions()[..] else {
        panic!("two defaults")
    };
    vec![
        ("stats", stats.clone(), BLOCK_CELLS_MAX),
        ("traffic", traffic.clone(), BLOCK_CELLS_MAX),
        ("stats-blocks", stats.clone(), 32),
        (
            "every-measure",
            filtered(&["path"], Tz::named("Europe/Berlin"), "hour"),
            32,
        ),
    ]
}

#[test]
fn tiles_of_older_versions_are_read() {
    for (name, definition, _) in of_today() {
        let (bytes, sections) = read(&folder("v2"), name);
        check(&definition, bytes, &sections);
    }
}

#[test]
fn tiles_of_the_version_of_today_are_read_and_written_the_same() {
    let folder = folder("v3");
    for (name, definition, block_cells) in of_today() {
        let set = cascade(&[&definition], &[batch(&recorded())])
            .expect("cells")
            .remove(0);
        let image = encode_in_blocks(&definition, &set, block_cells);
        if std::env::var_os("LOGMILL_WRITE_FIXTURES").is_some() {
            let json = serde_json::to_string_pretty(&image.sections).expect("JSON");
            std::fs::write(folder.join(format!("{name}.tile")), &image.bytes).expect("written");
            std::fs::write(folder.join(format!("{name}.json")), json + "\n").expect("written");
        }
        let (bytes, sections) = read(&folder, name);
        assert!(
            image.bytes == bytes,
            "{name} would be written otherwise; raise the version if a reader must know, and write \
             with LOGMILL_WRITE_FIXTURES=1"
        );
        assert_eq!(image.sections, sections, "{name}");
        check(&definition, bytes, &sections);
    }
}
