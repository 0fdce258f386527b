//! Recovery of the store alone: it reads back the journal that a killed writer has left.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use storage::{Options, Store, WriteConcern};

use crate::append::unsealed;
use crate::machine::{Account, median};
use crate::{Settings, events, files};

/// Environment variable with the victim's work: directory, events and batch, one to a line.
const VICTIM: &str = "LOGMILL_BENCH_VICTIM";
/// Distinct events that are written again and again.
const EVENTS: usize = 20_000;
/// Events in total and in a batch; a seal begins at half a million events or at 100,000 batches.
const CASES: [(usize, usize); 5] = [
    (125_000, 1000),
    (250_000, 1000),
    (500_000, 1000),
    (1_000_000, 1000),
    (99_000, 1),
];

/// Prints how fast journals of several sizes are replayed.
pub(crate) fn measure(s: &Settings) {
    println!(
        "   events batch  journal MB  memtable MiB  page cache   open ms: each; median     MB/s   events/s  CPU us/event"
    );
    for (count, size) in CASES {
        let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
        let left = temporary.path().join("left");
        kill_writer(s, &left, count, size);
        let journal = files::bytes(&left.join("journal")) as f64 / 1e6;
        for cold in [false, true] {
            let mut opened = Vec::new();
            for _ in 0..s.runs {
                let data = temporary.path().join("copy");
                files::link(&left, &data);
                if cold {
                    files::forget(&data);
                }
                opened.push(open(&data, count));
                std::fs::remove_dir_all(&data).expect("removed");
            }
            print_case((count, size), journal, cold, &opened);
        }
    }
}

/// One recovery.
struct Opened {
    seconds: f64,
    cpu_seconds: f64,
    memtable_bytes: usize,
}

fn print_case((count, size): (usize, usize), journal: f64, cold: bool, opened: &[Opened]) {
    let each: Vec<String> = opened
        .iter()
        .map(|o| format!("{:.0}", o.seconds * 1e3))
        .collect();
    let seconds = median(opened.iter().map(|o| o.seconds).collect());
    println!(
        "  {count:>7} {size:>5} {journal:>11.1} {:>13.0}  {:>10}   {}; {:.0} {:>8.0} {:>10.0} {:>13.2}",
        opened[0].memtable_bytes as f64 / f64::from(1 << 20),
        if cold { "cold" } else { "warm" },
        each.join(" "),
        seconds * 1e3,
        journal / seconds,
        count as f64 / seconds,
        median(opened.iter().map(|o| o.cpu_seconds).collect()) * 1e6 / count as f64,
    );
}

fn open(data: &Path, count: usize) -> Opened {
    let account = Account::open("self");
    let store = Store::open(data, unsealed(Options::default())).expect("recovered");
    let spent = account.close();
    let status = store.status();
    assert_eq!(status.replayed, count as u64, "all that was acknowledged");
    Opened {
        seconds: spent.seconds,
        cpu_seconds: spent.cpu(),
        memtable_bytes: status.memtable_bytes,
    }
}

/// Starts another process that writes a journal, and kills it when all is acknowledged.
fn kill_writer(s: &Settings, data: &Path, count: usize, size: usize) {
    let this = std::env::current_exe().expect("this program");
    let order = format!(
        "{}\n{}\n{count}\n{size}",
        data.display(),
        s.logmill.display()
    );
    let mut victim = Command::new(this)
        .env(VICTIM, order)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the writer starts");
    let stdout = victim.stdout.take().expect("BUG: its output is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    victim.kill().expect("a signal to our own child");
    victim.wait().expect("it ends");
    assert_eq!(line, "written\n", "the writer failed");
}

/// Returns whether this process is the writer that will be killed.
pub(crate) fn is_victim() -> bool {
    std::env::var_os(VICTIM).is_some()
}

/// Writes, reports the end, and waits to be killed.
pub(crate) fn be_victim() {
    let order = std::env::var(VICTIM).expect("an order");
    let mut words = order.lines();
    let mut word = || words.next().expect("a word").to_owned();
    let (data, logmill) = (PathBuf::from(word()), PathBuf::from(word()));
    let mut number = || word().parse::<usize>().expect("a number");
    let (count, size) = (number(), number());
    let lines = events::lines(&logmill, EVENTS);
    let batches = events::batches(&lines, size);
    let store = Store::open(&data, unsealed(Options::default())).expect("a new store");
    let (send, receive) = std::sync::mpsc::channel();
    for batch in batches.iter().cycle().take(count / size) {
        let send = send.clone();
        let reply = move |outcome| send.send(outcome).expect("the writer listens");
        store
            .submit(batch.clone(), WriteConcern::ACKNOWLEDGED, reply)
            .expect("taken");
    }
    drop(send);
    let acknowledged = receive
        .iter()
        .map(|ack| ack.expect("acknowledged").accepted);
    assert_eq!(acknowledged.sum::<u64>(), count as u64);
    println!("written");
    std::io::stdout().flush().expect("said");
    // The process ends by itself if its parent is gone.
    std::thread::sleep(Duration::from_secs(60));
}
