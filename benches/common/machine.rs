//! The kernel's accounts: CPU by thread, CPU of the whole machine, memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Unit of the times in /proc/PID/stat; Linux has had 100 for every user program.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the kernel's three load averages.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Returns the CPU seconds of each thread of a process (`self` or a number), summed by name.
pub(crate) fn cpu_by_thread(process: &str) -> BTreeMap<String, f64> {
    let mut by_name: BTreeMap<String, f64> = BTreeMap::new();
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process is there");
    for task in tasks.flatten() {
        // A thread may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else {
            continue;
        };
        let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else {
            continue;
        };
        let ticks: f64 = stat[close + 2..]
            .split(' ')
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<f64>().ok())
            .sum();
        *by_name.entry(stat[open + 1..close].to_owned()).or_default() += ticks / TICKS_PER_SECOND;
    }
    by_name
}

/// Returns the CPU seconds of the whole machine, all processes together, without idling and
/// waiting for disks.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("the machine's accounts");
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .map(|f| f.parse().unwrap_or(0.0))
        .collect();
    // user, nice, system; then idle, iowait; then irq, softirq, steal.
    let counted = [0, 1, 2, 5, 6, 7];
    counted.iter().filter_map(|i| fields.get(*i)).sum::<f64>() / TICKS_PER_SECOND
}

/// The accounts of a process and of the machine from one moment to another.
pub(crate) struct Account {
    process: String,
    began: Instant,
    busy: f64,
    threads: BTreeMap<String, f64>,
}

/// CPU use during a stretch of time.
pub(crate) struct Spent {
    pub(crate) seconds: f64,
    /// Cores busy on the whole machine.
    pub(crate) cores: f64,
    /// Cores busy with each thread of the process.
    pub(crate) threads: BTreeMap<String, f64>,
}

impl Account {
    pub(crate) fn open(process: &str) -> Self {
        Self {
            process: process.to_owned(),
            began: Instant::now(),
            busy: busy(),
            threads: cpu_by_thread(process),
        }
    }

    pub(crate) fn close(self) -> Spent {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut threads = cpu_by_thread(&self.process);
        for (name, cpu) in &mut threads {
            *cpu = (*cpu - self.threads.get(name).unwrap_or(&0.0)) / seconds;
        }
        Spent {
            seconds,
            cores: (busy() - self.busy) / seconds,
            threads,
        }
    }
}

impl Spent {
    /// Returns the CPU seconds of the process.
    pub(crate) fn cpu(&self) -> f64 {
        self.threads.values().sum::<f64>() * self.seconds
    }

    /// Returns the cores busy with the threads of this name.
    pub(crate) fn of(&self, name: &str) -> f64 {
        self.threads.get(name).copied().unwrap_or(0.0)
    }
}

/// Returns the peak of a process's resident memory, MiB.
pub(crate) fn peak_mib(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Returns the value below which the share `q` of the sorted times lies, microseconds.
pub(crate) fn quantile_us(sorted: &[Duration], q: f64) -> f64 {
    let at = (sorted.len() as f64 * q) as usize;
    let found = sorted.get(at.min(sorted.len().saturating_sub(1)));
    found.map_or(0.0, |t| t.as_secs_f64() * 1e6)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}
