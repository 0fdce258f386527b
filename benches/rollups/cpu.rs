//! CPU time to the nanosecond, from the scheduler's accounts of each thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// CPU time of threads that have ended, as far as they reported it.
static ENDED_NS: AtomicU64 = AtomicU64::new(0);

fn schedstat_ns(path: &str) -> u64 {
    // A thread may end meanwhile.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Returns the CPU time of the calling thread.
pub(crate) fn thread_ns() -> u64 {
    // The account of a thread that runs is brought up to date when it yields.
    std::thread::yield_now();
    schedstat_ns("/proc/thread-self/schedstat")
}

/// Records that the calling thread is about to end; returns its CPU time.
pub(crate) fn ending() -> u64 {
    let ns = thread_ns();
    ENDED_NS.fetch_add(ns, Relaxed);
    ns
}

/// Returns the CPU time of the process, if threads that end call [`ending`].
pub(crate) fn process_ns() -> u64 {
    std::thread::yield_now();
    let tasks = std::fs::read_dir("/proc/self/task").expect("this process is there");
    let of =
        |task: std::fs::DirEntry| schedstat_ns(&format!("{}/schedstat", task.path().display()));
    tasks.flatten().map(of).sum::<u64>() + ENDED_NS.load(Relaxed)
}
