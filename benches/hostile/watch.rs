//! The peaks of a process's memory and of a folder's size.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(2);
/// The folder is measured once in so many samples.
const FOLDER_EVERY: u32 = 10;
const PAGE_BYTES: f64 = 4096.0;
const MIB: f64 = 1024.0 * 1024.0;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peak {
    pub(crate) resident_mib: f64,
    pub(crate) temp_mib: f64,
}

/// A thread that takes samples until the program ends.
pub(crate) struct Watch(Arc<Mutex<Peak>>);

impl Watch {
    pub(crate) fn start(process: u32, temp: PathBuf) -> Self {
        let peak = Arc::<Mutex<Peak>>::default();
        let seen = Arc::clone(&peak);
        std::thread::spawn(move || {
            for look in 0_u32.. {
                let resident = resident_mib(process);
                let in_temp = match look % FOLDER_EVERY {
                    0 => temp_bytes(&temp) as f64 / MIB,
                    _ => 0.0,
                };
                let mut peak = seen.lock().expect("no panic");
                peak.resident_mib = peak.resident_mib.max(resident);
                peak.temp_mib = peak.temp_mib.max(in_temp);
                drop(peak);
                std::thread::sleep(EVERY);
            }
        });
        Self(peak)
    }

    /// Returns the peaks since the last call.
    pub(crate) fn take(&self) -> Peak {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

pub(crate) fn resident_mib(process: u32) -> f64 {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|f| f.parse::<f64>().ok());
    pages.unwrap_or(0.0) * PAGE_BYTES / MIB
}

/// Returns the bytes of all files below a folder.
pub(crate) fn temp_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => temp_bytes(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

/// Returns the seconds of processor time that a process has computed with, as the kernel counts
/// them: in hundredths.
pub(crate) fn user_cpu(process: &str) -> f64 {
    let stat =
        std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the process is there");
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().nth(11);
    ticks.and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
}
