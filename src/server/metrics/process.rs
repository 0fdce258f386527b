//! Metrics of the process from the kernel, under the names of Prometheus' own clients.

use std::time::{SystemTime, UNIX_EPOCH};

use super::exposition::Exposition;
use crate::serve::descriptors;

/// Fields of `/proc/self/stat` after the name of the program, which may hold spaces.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const THREADS: usize = 17;
/// The kernel's unit of time in that file, the same on every machine that runs Linux today.
const TICKS_PER_SECOND: f64 = 100.0;

/// Writes the figures of the process, without those that the kernel does not report.
pub(super) fn write(text: &mut Exposition, started: SystemTime) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<f64> = fields
        .split_ascii_whitespace()
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    if let (Some(user), Some(system)) = (fields.get(USER_TICKS), fields.get(SYSTEM_TICKS)) {
        let help = "Time of the processors that this process has used.";
        let seconds = (user + system) / TICKS_PER_SECOND;
        text.single("process_cpu_seconds_total", "counter", help, seconds);
    }
    if let Some(threads) = fields.get(THREADS) {
        let help = "Threads of this process.";
        text.single("process_threads", "gauge", help, threads);
    }
    text.single(
        "process_resident_memory_bytes",
        "gauge",
        "Memory that this process holds.",
        storage::resident_bytes(),
    );
    if let Some(open) = descriptors::open() {
        let help = "File descriptors that are open.";
        text.single("process_open_fds", "gauge", help, open);
    }
    if let Some(most) = descriptors::limit() {
        let help = "File descriptors that may be open.";
        text.single("process_max_fds", "gauge", help, most);
    }
    if let Ok(since) = started.duration_since(UNIX_EPOCH) {
        let help = "When this process started, in seconds since 1970.";
        let seconds = since.as_secs_f64();
        text.single("process_start_time_seconds", "gauge", help, seconds);
    }
}
