//! The real program as a command that ends: its last line, its duration, its peak of memory.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Settings;
use crate::machine::peak_mib;

/// Interval at which the peak is read; the kernel keeps it, but only as long as the process lives.
const LOOK: Duration = Duration::from_millis(2);

pub(crate) struct Child {
    /// Last line of its output.
    pub(crate) said: String,
    pub(crate) seconds: f64,
    pub(crate) peak_mib: f64,
}

impl Child {
    pub(crate) fn run(s: &Settings, data: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(&s.logmill);
        command.args(args).arg("--data").arg(data);
        Self::watch(command)
    }

    /// Runs a command that sends requests to a server.
    pub(crate) fn run_at(s: &Settings, address: &str, args: &[&str]) -> Self {
        let mut command = Command::new(&s.logmill);
        command.args(args).args(["--server", address]);
        Self::watch(command)
    }

    fn watch(mut command: Command) -> Self {
        let began = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut peak: f64 = 0.0;
        while child.try_wait().expect("waits").is_none() {
            peak = peak.max(peak_mib(child.id()));
            std::thread::sleep(LOOK);
        }
        let seconds = began.elapsed().as_secs_f64();
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{command:?} failed");
        let text = String::from_utf8_lossy(&output.stdout);
        Self {
            said: text.trim().lines().last().unwrap_or_default().to_owned(),
            seconds,
            peak_mib: peak,
        }
    }
}

/// Returns the resident memory of a process now, MiB.
pub(crate) fn resident_mib(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kib.expect("a number") / 1024.0
}
