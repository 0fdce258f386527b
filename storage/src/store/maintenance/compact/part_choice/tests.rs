//! Choice of the parts to merge: few remain, each row is rewritten seldom, and no merge is large.

use super::*;
use crate::file::FileRef;
use crate::sim::Random;

/// Bytes of a row.
const ROW_BYTES: u64 = 20;

fn part(id: u64, rows: u64) -> PartMeta {
    PartMeta {
        id,
        stream: Name::new("events").expect("a name"),
        partition_us: 0,
        file: FileRef {
            path: format!("{id:016x}"),
            len: rows * ROW_BYTES,
            crc: 0,
            blocks: Vec::new(),
            block_bytes: 256 * 1024,
        },
        rows,
        seq: (0, 0),
        time: (0, 0),
        text_range: BTreeMap::new(),
    }
}

/// Makes parts with these rows and returns the rows of the chosen ones.
fn chosen(rows: &[u64], quiet: bool) -> Vec<u64> {
    let parts: Vec<PartMeta> = (0..).zip(rows).map(|(id, rows)| part(id, *rows)).collect();
    let mut parts: Vec<&PartMeta> = parts.iter().collect();
    let alike = alike(&mut parts, quiet);
    parts[..alike].iter().map(|p| p.rows).collect()
}

#[test]
fn parts_are_merged_with_as_many_rows_as_they_hold() {
    let none: [u64; 0] = [];
    assert_eq!(chosen(&[5000, 5000, 5000], false), none);
    assert_eq!(
        chosen(&[5000, 4000, 9000, 4000], false),
        [4000, 4000, 5000, 9000]
    );
    assert_eq!(chosen(&[4000, 4000, 4000, 12_001], false), none);
    // Small parts count as equally large.
    assert_eq!(chosen(&[1, 250, 3, 20], false), [1, 3, 20, 250]);
    // Parts smaller than the merged ones are merged too.
    assert_eq!(
        chosen(&[300, 1, 5000, 6000, 90_000], true),
        [1, 300, 5000, 6000]
    );
}

#[test]
fn a_few_late_rows_do_not_rewrite_a_day() {
    let none: [u64; 0] = [];
    assert_eq!(chosen(&[40_000, 10_000], true), [10_000, 40_000]);
    assert_eq!(chosen(&[40_001, 10_000], true), none);
    assert_eq!(chosen(&[1_000_000, 3, 200], true), [3, 200]);
    assert_eq!(chosen(&[1_000_000], true), none);
}

#[test]
fn a_merge_is_bounded_in_rows_bytes_and_inputs() {
    assert_eq!(chosen(&[ROWS_MAX / 2; 3], true), [ROWS_MAX / 2; 2]);
    assert_eq!(chosen(&[ROWS_MAX, ROWS_MAX], true).len(), 0);
    assert_eq!(chosen(&[100; 1000], false).len(), INPUTS_MAX);
    let mut wide = [part(0, 1000), part(1, 1000), part(2, 1000)];
    for part in &mut wide {
        part.file.len = BYTES_MAX / 2;
    }
    assert_eq!(alike(&mut wide.each_ref(), true), 2);
}

#[test]
fn few_large_parts_are_open_at_a_time() {
    let of = |len: u64| {
        let mut parts: Vec<PartMeta> = (0..20).map(|id| part(id, 40_000)).collect();
        parts.iter_mut().for_each(|part| part.file.len = len);
        let mut parts: Vec<&PartMeta> = parts.iter().collect();
        alike(&mut parts, false)
    };
    assert_eq!(of(10 << 20), 4);
    assert_eq!(of(2 << 20), 16);
    assert_eq!(of(1 << 20), 20);
}

/// Returns the cost of a part: its rows, and a footer.
fn cost(rows: u64) -> u64 {
    rows + SMALL
}

/// Merges until nothing is left to do. Returns the cost of the written parts.
fn settle(parts: &mut Vec<u64>, quiet: bool) -> u64 {
    let mut written = 0;
    loop {
        let merged = chosen(parts, quiet);
        if merged.is_empty() {
            return written;
        }
        for rows in &merged {
            let at = parts.iter().position(|p| p == rows);
            parts.swap_remove(at.expect("it was chosen of these"));
        }
        let rows = merged.iter().sum();
        parts.push(rows);
        written += cost(rows);
    }
}

fn is_full(rows: u64) -> bool {
    rows > ROWS_MAX / 2
}

#[test]
fn whatever_arrives_few_parts_stay_and_rows_are_rewritten_seldom() {
    let (mut worst_ratio, mut most, mut most_quiet) = (0.0_f64, 0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let largest = 1 + random.below([10, 300, 4_000, 40_000][seed as usize % 4]);
        let arrivals = 20 + random.below(1500);
        let (mut parts, mut rows, mut came, mut written) = (Vec::new(), 0, 0, 0);
        for _ in 0..arrivals {
            // Most parts are small beside the largest, as those of late events are.
            let some = 1 + random.below(largest) / (1 + random.below(20));
            parts.push(some);
            rows += some;
            came += cost(some);
            written += settle(&mut parts, false);
            let busy = parts.iter().filter(|p| !is_full(**p)).count();
            most = most.max(busy);
            // A quiet hour comes now and then.
            if random.below(50) == 0 {
                written += settle(&mut parts, true);
            }
        }
        written += settle(&mut parts, true);
        let quiet = parts.iter().filter(|p| !is_full(**p)).count();
        most_quiet = most_quiet.max(quiet);
        assert_eq!(parts.iter().sum::<u64>(), rows, "seed {seed}");
        let ratio = written as f64 / came as f64;
        let log = (rows as f64).log2();
        assert!(
            ratio <= log,
            "seed {seed}: {ratio:.1} times of {rows} rows, log {log:.1}"
        );
        worst_ratio = worst_ratio.max(ratio / log);
    }
    println!("{worst_ratio:.2} of log2, {most} parts at most, {most_quiet} when quiet");
    assert!(most <= 16 && most_quiet <= 5, "{most}, {most_quiet}");
}

#[test]
fn ten_thousand_equal_seals_are_a_handful_of_parts() {
    for (rows, ratio_max, most_max) in [(10, 9.0, 16), (2_000, 9.0, 12), (40_000, 6.0, 12)] {
        let (mut parts, mut written, mut most) = (Vec::new(), 0, 0);
        for _ in 0..10_000 {
            parts.push(rows);
            written += settle(&mut parts, false);
            most = most.max(parts.iter().filter(|p| !is_full(**p)).count());
        }
        let ratio = written as f64 / (cost(rows) * 10_000) as f64;
        println!("{rows} rows a seal: {ratio:.2} times written again, {most} parts at most");
        assert!(
            ratio < ratio_max && most <= most_max,
            "{rows}: {ratio}, {most}"
        );
    }
}
