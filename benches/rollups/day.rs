//! A seal each minute of one day: the last costs what the first does.

use crate::Settings;
use crate::account::{Accounted, Cost, Step};
use crate::events::{MINUTE_US, START_US, Traffic};
use crate::plot::{Panel, Series, svg};

const MINUTES: u64 = 1_440;
const EVENTS_PER_MINUTE: usize = 1_000;
/// Seals of a window.
const WINDOW: usize = 60;
/// Seeds from here on are those of no day.
const SEED: u64 = 1 << 33;

/// Prints what the seals cost.
pub(crate) fn measure(s: &Settings) {
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let accounted = Accounted::open(temporary.path());
    let traffic = Traffic::new();
    let step = |minute: u64| {
        let from_us = START_US + minute as i64 * MINUTE_US;
        let batches = traffic.batches(SEED + minute, (from_us, MINUTE_US), EVENTS_PER_MINUTE);
        accounted.step(batches)
    };
    let steps: Vec<Step> = (0..MINUTES).map(step).collect();
    let windows: Vec<Step> = steps
        .chunks_exact(WINDOW)
        .map(|window| window.iter().copied().sum())
        .collect();
    print(&windows);
    write_plot(s, &windows);
}

fn print(windows: &[Step]) {
    println!(
        "  a seal each minute of {EVENTS_PER_MINUTE} events; averages of {WINDOW} seals, for one seal"
    );
    println!(
        "  minutes         cells  tile B  read B  CPU ms: seal tiles  manifest kB/edit | merged cells: read written  B written  CPU ms  edits"
    );
    for nth in [0, 5, 11, 17, windows.len() - 1] {
        let Step {
            seal, compaction, ..
        } = windows[nth];
        let each = |sum: f64| sum / WINDOW as f64;
        println!(
            "  {:>4} to {:>4} {:>9.1} {:>7.0} {:>7} {:>13.2} {:>5.2} {:>17.1} | {:>18.0} {:>7.0} {:>10.0} {:>7.2} {:>6.2}",
            nth * WINDOW,
            (nth + 1) * WINDOW - 1,
            each(seal.rolled.all_cells() as f64),
            each(seal.tiles.written as f64),
            seal.tiles.read,
            each(seal.cpu_us()) / 1e3,
            each(seal.tiles_us()) / 1e3,
            seal.manifest_bytes_per_edit() / 1e3,
            each(compaction.merged_cells as f64),
            each(compaction.merged_into_cells as f64),
            each(compaction.tiles.written as f64),
            each(compaction.cpu_us()) / 1e3,
            each(compaction.manifest.files as f64),
        );
    }
    let ratio = |of: fn(&Cost) -> f64| of(&windows[windows.len() - 1].seal) / of(&windows[0].seal);
    println!(
        "  last {WINDOW} against first {WINDOW}: cells {:.4}, tile bytes {:.4}, CPU of the seal {:.3}, of it cascade and tiles {:.3}",
        ratio(|c| c.rolled.all_cells() as f64),
        ratio(|c| c.tiles.written as f64),
        ratio(Cost::cpu_us),
        ratio(Cost::tiles_us),
    );
}

fn write_plot(s: &Settings, windows: &[Step]) {
    let series = |name, of: fn(&Step) -> f64| {
        let point = |(nth, window): (usize, &Step)| {
            let minute = (nth + 1) * WINDOW;
            (minute as f64, of(window) / WINDOW as f64)
        };
        let points = windows.iter().enumerate().map(point).collect();
        Series { name, points }
    };
    let panels = [
        Panel {
            label: "cells written by a seal",
            series: vec![series("seal", |w| w.seal.rolled.all_cells() as f64)],
        },
        Panel {
            label: "tiles written, kB",
            series: vec![
                series("seal", |w| w.seal.tiles.written as f64 / 1e3),
                series("compaction", |w| w.compaction.tiles.written as f64 / 1e3),
            ],
        },
        Panel {
            label: "CPU, milliseconds",
            series: vec![
                series("seal, with parts", |w| w.seal.cpu_us() / 1e3),
                series("of it tiles", |w| w.seal.tiles_us() / 1e3),
                series("compaction", |w| w.compaction.cpu_us() / 1e3),
            ],
        },
        Panel {
            label: "manifest, kB per edit",
            series: vec![series("seal", |w| {
                w.seal.manifest_bytes_per_edit() / 1e3 * WINDOW as f64
            })],
        },
    ];
    let title = format!("What a seal of a minute's {EVENTS_PER_MINUTE} events costs through a day");
    let path = s.dir.join("rollup-day.svg");
    std::fs::write(&path, svg(&title, "minute of the day", &panels)).expect("written");
    println!("  plot: {}", path.display());
}
