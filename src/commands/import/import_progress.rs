//! Progress of an import over all of its files: a bar on a terminal, a line every few seconds
//! elsewhere. Its measure is bytes of the files as they lie on disk, compressed or not.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::units::{grouped, human_bytes};

const LINE_EVERY: Duration = Duration::from_secs(3);

/// Progress of an import.
#[derive(Debug)]
pub(super) struct ImportProgress {
    bar: Option<ProgressBar>,
    began: Instant,
    told: Instant,
    files: usize,
    /// Bytes of all files; `None` if one has no length.
    bytes: Option<u64>,
    files_done: usize,
    bytes_done: u64,
    /// Bytes that an earlier import had taken: their speed says nothing about the rest.
    bytes_known: u64,
    file_known: u64,
    file_bytes: u64,
    /// Bytes of the file that were read.
    file_read: Arc<AtomicU64>,
}

impl ImportProgress {
    pub(super) fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        Self {
            bar: is_terminal.then(ProgressBar::new_spinner),
            began: now,
            told: now,
            files: 0,
            bytes: None,
            files_done: 0,
            bytes_done: 0,
            bytes_known: 0,
            file_known: 0,
            file_bytes: 0,
            file_read: Arc::default(),
        }
    }

    /// Notes the number of the files, and their bytes if each has a length.
    pub(super) fn expect(&mut self, files: usize, bytes: Option<u64>) {
        self.files = files;
        self.bytes = bytes;
        let Some(bar) = &self.bar else { return };
        let template = match bytes {
            Some(bytes) => {
                bar.set_length(bytes);
                "{msg} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}, {eta} to go"
            }
            None => "{spinner} {msg} {decimal_bytes} {decimal_bytes_per_sec}",
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    }

    /// Begins a file; its reader counts what it has read in the result.
    pub(super) fn begin(&mut self, name: &str, bytes: Option<u64>) -> Arc<AtomicU64> {
        self.end_file();
        self.files_done += 1;
        self.file_bytes = bytes.unwrap_or(0);
        if let Some(bar) = &self.bar {
            let nth = match self.files {
                0 | 1 => String::new(),
                files => format!("{}/{files} ", self.files_done),
            };
            bar.set_message(format!("{nth}{name}"));
        }
        Arc::clone(&self.file_read)
    }

    fn end_file(&mut self) {
        self.bytes_done += match self.file_bytes {
            0 => self.file_read.load(Ordering::Relaxed),
            bytes => bytes,
        };
        self.bytes_known += std::mem::take(&mut self.file_known);
        self.file_bytes = 0;
        self.file_read = Arc::default();
    }

    /// Notes that what was read of the file so far was known.
    pub(super) fn skip(&mut self) {
        self.file_known = self.file_read.load(Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        let of_file = self.file_read.load(Ordering::Relaxed);
        self.bytes_done
            + match self.file_bytes {
                0 => of_file,
                bytes => of_file.min(bytes),
            }
    }

    /// Shows the progress, if it is time to.
    pub(super) fn show(&mut self, lines: u64, events_per_second: f64) {
        let read = self.read();
        match &self.bar {
            Some(bar) => bar.set_position(read),
            None if self.told.elapsed() >= LINE_EVERY => {
                self.told = Instant::now();
                eprintln!(
                    "{}",
                    self.line(lines, events_per_second, self.began.elapsed())
                );
            }
            None => {}
        }
    }

    fn line(&self, lines: u64, events_per_second: f64, elapsed: Duration) -> String {
        let read = self.read();
        let mut line = match self.files {
            0 | 1 => String::new(),
            files => format!("{} of {files} files, ", self.files_done),
        };
        line += &format!("{} lines, {}", grouped(lines), human_bytes(read));
        if let Some(bytes) = self.bytes {
            line += &format!(" of {} read", human_bytes(bytes));
        }
        line += &format!(", {} events/s", grouped(events_per_second as u64));
        if let Some(left) = self.left(elapsed) {
            line += &format!(", {} to go", HumanDuration(left));
        }
        line
    }

    /// Returns the time that the rest takes at the speed so far.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let known = self.bytes_known + self.file_known;
        let new = self.read().saturating_sub(known);
        let missing = self.bytes?.saturating_sub(self.read());
        let seconds = elapsed.as_secs_f64() * missing as f64 / new as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_the_files_their_bytes_and_the_time_to_go() {
        let mut progress = ImportProgress::new();
        progress.expect(3, Some(4_000_000));
        let read = progress.begin("a.gz", Some(1_000_000));
        read.store(500_000, Ordering::Relaxed);
        let at = Duration::from_secs(10);
        let line = progress.line(1234, 5678.9, at);
        assert_eq!(
            line,
            format!(
                "1 of 3 files, 1,234 lines, {} of {} read, 5,678 events/s, 70 seconds to go",
                human_bytes(500_000),
                human_bytes(4_000_000)
            )
        );
        // A decompressor reads ahead, and a file that is done counts as a whole.
        let read = progress.begin("b.log", Some(2_000_000));
        read.store(1_000_000, Ordering::Relaxed);
        progress.skip();
        read.store(1_500_000, Ordering::Relaxed);
        // Of 2.5 MB that were read, 1 MB was known: 1.5 MB in 10 s, 1.5 MB are left.
        assert_eq!(progress.left(at), Some(at));
        progress.expect(1, None);
        assert_eq!(progress.left(at), None);
    }
}
