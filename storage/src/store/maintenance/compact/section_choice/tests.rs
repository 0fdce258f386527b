//! Choice of the sections to merge: few remain, each cell is rewritten seldom, and no merge is
//! large.

use super::*;
use crate::manifest::TileMeta;
use crate::model::Name;

fn file(id: u64) -> FileRef {
    FileRef {
        path: format!("rollups/stats/{id:016x}.tile"),
        len: 10,
        crc: 7,
        blocks: Vec::new(),
        block_bytes: 256 * 1024,
    }
}

fn section(cells: u64) -> Section {
    Section {
        level: "hour".into(),
        partition_us: 0,
        bucket_min_us: 0,
        bucket_max_us: 0,
        cells,
        densest: cells,
        events: cells,
        offset: 0,
        len: cells * 8,
    }
}

/// Makes sections with these cells and returns the cells of the chosen ones.
fn chosen(cells: &[u64], quiet: bool) -> Option<Vec<u64>> {
    let files: Vec<TileFile> = (0..)
        .zip(cells)
        .map(|(id, cells)| TileFile {
            file: file(id),
            sections: vec![section(*cells)],
        })
        .collect();
    let placed = files.iter().map(|f| (&f.file, &f.sections[0])).collect();
    let chosen = alike(placed, quiet)?;
    Some(chosen.iter().map(|(_, s)| s.cells).collect())
}

#[test]
fn four_of_like_size_are_merged() {
    assert_eq!(chosen(&[5000, 5000, 5000], false), None);
    let four = Some(vec![4000, 4000, 5000, 9000]);
    assert_eq!(chosen(&[4000, 9000, 5000, 4000], false), four);
    // Smaller sections and a larger one are left alone.
    let sizes = [3, 200_000, 200_000, 90_000, 90_000, 90_000, 90_000];
    assert_eq!(
        chosen(
            &sizes[..1]
                .iter()
                .chain(&sizes[2..])
                .copied()
                .collect::<Vec<_>>(),
            false
        ),
        Some(vec![90_000, 90_000, 90_000, 90_000])
    );
    // Small sections count as equally large.
    assert_eq!(chosen(&[1, 60, 3, 20], false), Some(vec![1, 3, 20, 60]));
}

#[test]
fn in_a_quiet_partition_two_suffice_unless_one_is_much_larger() {
    assert_eq!(chosen(&[30_000, 9000], true), Some(vec![9000, 30_000]));
    assert_eq!(chosen(&[90_000, 9000], true), None);
    assert_eq!(chosen(&[90_000], true), None);
}

#[test]
fn a_merge_is_bounded_in_cells_and_bytes() {
    assert_eq!(
        chosen(&[CELLS_MAX / 2; 3], true),
        Some(vec![CELLS_MAX / 2; 2])
    );
    assert_eq!(chosen(&[CELLS_MAX, CELLS_MAX], true), None);
    let many = chosen(&[1000; 3000], false).expect("some");
    assert!(many.iter().sum::<u64>() <= CELLS_MAX);
}

#[test]
fn over_ten_thousand_seals_few_sections_stay_and_cells_are_rewritten_seldom() {
    for (seal, ratio_max) in [(10, 7.0), (2_000, 7.0), (40_000, 4.0)] {
        let (mut sections, mut written, mut most) = (Vec::new(), 0, 0);
        for _ in 0..10_000 {
            sections.push(seal);
            while let Some(merged) = chosen(&sections, false) {
                for cells in &merged {
                    let at = sections.iter().position(|s| s == cells);
                    sections.remove(at.expect("it was chosen of these"));
                }
                sections.push(merged.iter().sum());
                written += merged.iter().sum::<u64>();
            }
            let full = sections.iter().filter(|s| **s > CELLS_MAX / 2).count();
            most = most.max(sections.len() - full);
        }
        let ratio = written as f64 / (seal * 10_000) as f64;
        println!("{seal} cells a seal: {ratio:.2} times written again, {most} sections at most");
        assert!(ratio < ratio_max && most <= 24, "{seal}: {ratio}, {most}");
    }
}

/// Makes a manifest whose one rollup has these files. Each file lists its sections: the length,
/// and false for a dropped one.
fn manifest(files: &[&[(u64, bool)]]) -> Manifest {
    let mut manifest = Manifest::new("0123456789abcdef0123456789abcdef".into(), 0);
    let name = |name| Name::new(name).expect("a name");
    manifest.rollups.push(RollupMeta {
        id: 1,
        name: name("stats"),
        stream: name("events"),
        definition: serde_json::Value::Null,
        levels: vec!["hour".into()],
        first_seq: 0,
        created_us: 0,
        floors: BTreeMap::new(),
        history: None,
        zone_data: None,
    });
    let files = (1..).zip(files).map(|(id, sections)| {
        let (mut end, mut kept) = (50, Vec::new());
        for (nth, (len, is_kept)) in (0..).zip(*sections) {
            let placed = Section {
                partition_us: id * 10 + nth,
                offset: end,
                len: *len,
                ..section(*len)
            };
            end += len;
            kept.extend(is_kept.then_some(placed));
        }
        let file = FileRef {
            len: end,
            ..file(id as u64)
        };
        TileFile {
            file,
            sections: kept,
        }
    });
    manifest.tiles.push(TileMeta {
        rollup: 1,
        first_seq: 0,
        cutoff: 1,
        events: 0,
        files: files.collect(),
        dropped: BTreeMap::new(),
    });
    manifest
}

#[test]
fn what_is_left_in_a_file_that_was_mostly_given_up_moves_out_once() {
    let chosen = |manifest: &Manifest, is_quiet: bool| -> Vec<i64> {
        let quiet = |_: LevelPartition<'_>| is_quiet;
        let merges = choose(manifest, &quiet).map(|(_, merges)| merges);
        merges
            .unwrap_or_default()
            .iter()
            .map(|m| m.partition_us)
            .collect()
    };
    let mostly = [(100, true), (300, false), (300, false)];
    let hardly = [(300, true), (100, false), (300, true)];
    let alone = [(100, true)];
    let all = manifest(&[&mostly, &hardly, &alone]);
    assert_eq!(chosen(&all, true), [10]);
    assert!(chosen(&all, false).is_empty(), "not while it is written to");
    // A section alone in its file is left where it is.
    assert!(chosen(&manifest(&[&alone, &alone]), true).is_empty());
}
