//! A seal a day while the history grows: its reads, writes and time, and the compaction after it.

use std::path::Path;

use storage::Batch;

use crate::account::{Accounted, Cost, Step};
use crate::events::Traffic;
use crate::machine::median;
use crate::metered::LEVELS;
use crate::plot::{Panel, Series, svg};
use crate::{Settings, files};

/// Seals of a window: single ones differ by chance.
const WINDOW: usize = 20;

/// A printed figure: its name, and its value from an account.
type Figure<T> = (&'static str, fn(&T) -> f64);

/// Prints what the seals cost, and leaves their store.
pub(crate) fn measure(s: &Settings) {
    let data = s.history();
    if data.exists() {
        std::fs::remove_dir_all(&data).expect("removed");
    }
    let traffic = Traffic::new();
    let steps = fill(&data, &traffic, s.days, s.events_per_day(), true);
    let windows: Vec<Step> = steps
        .chunks_exact(WINDOW)
        .map(|window| window.iter().copied().sum())
        .collect();
    print_windows(&windows);
    print_spread(&windows);
    write_plot(s, &windows);
    measure_pairs(s, &traffic);
}

/// Makes a store of so many days, a seal each.
pub(crate) fn fill(
    data: &Path,
    traffic: &Traffic,
    days: u64,
    events_per_day: usize,
    compacts: bool,
) -> Vec<Step> {
    let accounted = Accounted::open(data);
    let step = |nth: u64| {
        let batches = traffic.day(nth, events_per_day);
        if compacts {
            accounted.step(batches)
        } else {
            accounted.seal(batches)
        }
    };
    let steps = (0..days).map(step).collect();
    accounted.store.close().expect("closed");
    steps
}

fn print_windows(windows: &[Step]) {
    println!("  averages of {WINDOW} seals, each event once; compaction after each seal apart");
    println!(
        "  history   rows cells:  {} tile B  read B part B  CPU us: seal tiles  manifest kB/edit | merged cells: read written  B read B written  CPU us  edits",
        LEVELS.map(|level| format!("{level:>6}")).join(" "),
    );
    let mut last = 0;
    for part in [20, 10, 4, 2, 1] {
        let nth = windows.len() / part;
        if nth > last {
            println!("{}", row(windows[nth - 1], events_up_to(&windows[..nth])));
        }
        last = nth;
    }
}

fn events_up_to(windows: &[Step]) -> u64 {
    windows.iter().map(|w| w.events).sum()
}

fn row(window: Step, history: u64) -> String {
    let events = window.events as f64;
    let Step {
        seal, compaction, ..
    } = window;
    let cells = seal
        .rolled
        .cells
        .map(|c| format!("{:>6.4}", c as f64 / events));
    format!(
        "  {:>5.2} M {:>6.3} {:>6.4} {} {:>6.3} {:>7} {:>6.2} {:>12.3} {:>5.3} {:>17.1} | {:>18.4} {:>7.4} {:>7.2} {:>9.3} {:>7.3} {:>6.1}",
        history as f64 / 1e6,
        seal.rolled.rows as f64 / events,
        seal.rolled.all_cells() as f64 / events,
        cells.join(" "),
        seal.tiles.written as f64 / events,
        seal.tiles.read,
        seal.parts.written as f64 / events,
        seal.cpu_us() / events,
        seal.tiles_us() / events,
        seal.manifest_bytes_per_edit() / 1e3,
        compaction.merged_cells as f64 / events,
        compaction.merged_into_cells as f64 / events,
        compaction.tiles.read as f64 / events,
        compaction.tiles.written as f64 / events,
        compaction.cpu_us() / events,
        compaction.manifest.files as f64 / WINDOW as f64,
    )
}

/// Prints how far the windows lie from one another.
fn print_spread(windows: &[Step]) {
    let figures: [Figure<Cost>; 6] = [
        ("rows read", |c| c.rolled.rows as f64),
        ("cells written", |c| c.rolled.all_cells() as f64),
        ("tile bytes written", |c| c.tiles.written as f64),
        ("CPU us", Cost::cpu_us),
        ("of it cascade and tiles", Cost::tiles_us),
        ("of it parts and all else", |c| c.cpu_us() - c.tiles_us()),
    ];
    println!(
        "  seals, per event, over all {} windows: mean; least and greatest against it; last against first",
        windows.len()
    );
    for (name, of) in figures {
        let each: Vec<f64> = windows
            .iter()
            .map(|w| of(&w.seal) / w.events as f64)
            .collect();
        let mean = each.iter().sum::<f64>() / each.len() as f64;
        let share = |value: f64| (value / mean - 1.0) * 100.0;
        let least = each.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = each.iter().copied().fold(0.0, f64::max);
        println!(
            "  {name:<24} {mean:>10.4}  {:>+7.2} % {:>+7.2} %  {:>6.3}",
            share(least),
            share(greatest),
            each[each.len() - 1] / each[0],
        );
    }
    let read: u64 = windows.iter().map(|w| w.seal.tiles.read).sum();
    println!("  tile bytes read by all seals: {read}");
}

fn write_plot(s: &Settings, windows: &[Step]) {
    let series = |name, of: fn(&Step) -> f64| {
        let point = |nth: usize| {
            let history = events_up_to(&windows[..=nth]) as f64 / 1e6;
            (history, of(&windows[nth]))
        };
        let points = (0..windows.len()).map(point).collect();
        Series { name, points }
    };
    let panels = [
        Panel {
            label: "cells written per event",
            series: vec![
                series("by the seal", |w| {
                    w.seal.rolled.all_cells() as f64 / w.events as f64
                }),
                series("by compaction", |w| {
                    w.compaction.merged_into_cells as f64 / w.events as f64
                }),
            ],
        },
        Panel {
            label: "bytes of tiles per event",
            series: vec![
                series("written by the seal", |w| {
                    w.seal.tiles.written as f64 / w.events as f64
                }),
                series("read by the seal", |w| {
                    w.seal.tiles.read as f64 / w.events as f64
                }),
                series("written by compaction", |w| {
                    w.compaction.tiles.written as f64 / w.events as f64
                }),
                series("read by compaction", |w| {
                    w.compaction.tiles.read as f64 / w.events as f64
                }),
            ],
        },
        Panel {
            label: "CPU, microseconds per event",
            series: vec![
                series("seal, with parts", |w| w.seal.cpu_us() / w.events as f64),
                series("of it tiles", |w| w.seal.tiles_us() / w.events as f64),
                series("compaction", |w| w.compaction.cpu_us() / w.events as f64),
            ],
        },
        Panel {
            label: "manifest, kB per edit",
            series: vec![series("seal", |w| w.seal.manifest_bytes_per_edit() / 1e3)],
        },
    ];
    let title = format!(
        "What a seal of {} events costs while the history grows",
        s.events_per_day()
    );
    let path = s.dir.join("rollup-cost.svg");
    std::fs::write(&path, svg(&title, "history, million events", &panels)).expect("written");
    println!("  plot: {}", path.display());
}

/// Seals the same events into a store of a few days and into the large one, in turn.
fn measure_pairs(s: &Settings, traffic: &Traffic) {
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let (small, large) = (
        temporary.path().join("small"),
        temporary.path().join("large"),
    );
    fill(&small, traffic, WINDOW as u64, s.events_per_day(), true);
    files::link(&s.history(), &large);
    let stores = [small, large].map(|data| Accounted::open(&data));
    println!(
        "  the same {WINDOW} days into a store of {WINDOW} days and into that of {}",
        s.days
    );
    print_pairs(&stores, |nth| traffic.day(s.days + nth, s.events_per_day()));
    println!("  then {WINDOW} seals of one event each: what is left is the edit of the manifest");
    print_pairs(&stores, |nth| traffic.day(s.days + WINDOW as u64 + nth, 1));
}

fn print_pairs(stores: &[Accounted; 2], batches: impl Fn(u64) -> Vec<Batch>) {
    let round = |nth: u64| {
        let mut round = [Step::default(); 2];
        // Each store is first in every other round.
        let first = (nth % 2) as usize;
        for which in [first, 1 - first] {
            round[which] = stores[which].step(batches(nth));
        }
        round
    };
    let rounds: Vec<[Step; 2]> = (0..WINDOW as u64).map(round).collect();
    let figures: [Figure<Step>; 7] = [
        ("cells", |step| step.seal.rolled.all_cells() as f64),
        ("tile bytes", |step| step.seal.tiles.written as f64),
        ("CPU us of the seal", |step| step.seal.cpu_us()),
        ("of it cascade and tiles", |step| step.seal.tiles_us()),
        ("manifest bytes", |step| step.seal.manifest.written as f64),
        ("cells of compaction", |step| {
            step.compaction.merged_into_cells as f64
        }),
        ("CPU us of compaction", |step| step.compaction.cpu_us()),
    ];
    println!("                                small      large  medians; median of the ratios");
    for (name, of) in figures {
        let [small, large] = [0, 1].map(|which| rounds.iter().map(move |r| of(&r[which])));
        let ratios = small.clone().zip(large.clone()).map(|(a, b)| b / a);
        println!(
            "  {name:<24} {:>10.0} {:>10.0}  {:>6.3}",
            median(small.collect()),
            median(large.collect()),
            median(ratios.collect()),
        );
    }
}
