//! A backfill beside live traffic: its effect on the acknowledgements and on the charts.
//!
//!     cargo bench --bench backfill -- [--lines 5000000] [--days 400] [--seconds 20] [--rate 20000]
//!         [--rounds 1] [--dir target/bench] [--keep]
//!
//! A real server has a day of events. Senders on four connections bring events of now at a steady
//! rate, each request waiting for `j=true`; a dashboard asks five charts, four a second. First
//! alone, then while `logmill import` brings old events whose stamps are scattered over all the
//! days, then alone again. An acknowledgement counts from the moment at which its request was
//! due.

mod charts;
#[path = "../common/mod.rs"]
mod common;
mod file;
mod live;

use common::{machine, program};

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use charts::Charts;
use live::Live;
use machine::{Account, Spent};
use program::Server;

struct Settings {
    lines: u64,
    days: i64,
    seconds: u64,
    rate: usize,
    rounds: usize,
    dir: PathBuf,
    keep: bool,
    logmill: PathBuf,
}

fn settings() -> Settings {
    let mut s = Settings {
        lines: 5_000_000,
        days: 400,
        seconds: 20,
        rate: 20_000,
        rounds: 1,
        dir: "target/bench".into(),
        keep: false,
        logmill: env!("CARGO_BIN_EXE_logmill").into(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--lines" => s.lines = value().parse().expect("a number"),
            "--days" => s.days = value().parse().expect("a number"),
            "--seconds" => s.seconds = value().parse().expect("a number"),
            "--rate" => s.rate = value().parse().expect("a number"),
            "--rounds" => s.rounds = value().parse().expect("a number"),
            "--dir" => s.dir = value().into(),
            "--keep" => s.keep = true,
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    std::fs::create_dir_all(&s.dir).expect("a directory");
    s
}

fn main() {
    let s = settings();
    let old = file::scattered(&s);
    println!(
        "                 events/s    ack ms: median     p99     max   charts ms: median    95th"
    );
    for _ in 0..s.rounds {
        round(&s, &old);
    }
    if !s.keep {
        std::fs::remove_file(&old).expect("removed");
    }
}

fn round(s: &Settings, old: &Path) {
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let data = temporary.path().join("store");
    let day = temporary.path().join("day.log");
    file::last_day(s, &day);
    run(
        s,
        &["import", "--stream", live::STREAM, "--data"],
        &[&data, &day],
    );
    let server = Server::start(&s.logmill, &data, &[]);
    let live = Live::start(&server.address, s.rate);
    let charts = Charts::start(&server.address);
    let process = server.process().to_string();
    let look = |what: &str, account: Account| {
        let spent = account.close();
        print_phase(what, &spent, live.take(), charts.take());
        spent.seconds
    };
    // The first seconds, with cold caches, count for neither.
    std::thread::sleep(Duration::from_secs(3));
    live.take();
    charts.take();
    let account = Account::open(&process);
    std::thread::sleep(Duration::from_secs(s.seconds));
    look("alone", account);
    let account = Account::open(&process);
    let url = format!("http://{}", server.address);
    let import = ["import", "--stream", live::STREAM, "--server", &url];
    run(s, &import, &[old]);
    let seconds = look("backfill", account);
    let account = Account::open(&process);
    std::thread::sleep(Duration::from_secs(s.seconds));
    look("after it", account);
    println!(
        "  {:.0} old events/s in; {}; peak {:.0} MiB",
        s.lines as f64 / seconds,
        charts::parts(&server.address),
        machine::peak_mib(server.process())
    );
    live.stop();
    charts.stop();
}

fn print_phase(what: &str, spent: &Spent, mut acks: Vec<f64>, mut charts: Vec<f64>) {
    acks.sort_by(f64::total_cmp);
    charts.sort_by(f64::total_cmp);
    let at = |all: &[f64], share: f64| {
        let nth = (all.len() as f64 * share) as usize;
        all.get(nth.min(all.len().saturating_sub(1))).copied()
    };
    let ms = |all: &[f64], share| at(all, share).unwrap_or(f64::NAN);
    println!(
        "{what:>10} {:>14.0} {:>19.2} {:>7.2} {:>7.2} {:>19.2} {:>7.2}",
        acks.len() as f64 * live::BATCH as f64 / spent.seconds,
        ms(&acks, 0.5),
        ms(&acks, 0.99),
        ms(&acks, 1.0),
        ms(&charts, 0.5),
        ms(&charts, 0.95),
    );
    let mut busy: Vec<_> = spent.threads.iter().filter(|t| *t.1 >= 0.01).collect();
    busy.sort_by(|a, b| b.1.total_cmp(a.1));
    let busy: Vec<_> = busy
        .iter()
        .map(|(name, cores)| format!("{name} {cores:.2}"))
        .collect();
    println!("           cores {:.2}: {}", spent.cores, busy.join(", "));
}

/// Runs the program and checks that it succeeds.
fn run(s: &Settings, args: &[&str], paths: &[&Path]) {
    let status = Command::new(&s.logmill)
        .args(args)
        .args(paths)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the program runs");
    assert!(status.success(), "{args:?} failed");
}
