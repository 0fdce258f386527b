//! A folder of logs as their writers, logrotate and gzip leave it, at any moment.

use std::io::Write;
use std::path::PathBuf;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A line with which some files begin.
const HEADER: &str = "time path status";

/// A copy that is being made; the writer waits once it is whole, until the log is cut off.
struct Copying {
    to: PathBuf,
    bytes: usize,
    is_whole: bool,
}

/// A file that is being compressed.
struct Zipping {
    from: PathBuf,
    to: PathBuf,
    packed: Vec<u8>,
    bytes: usize,
}

/// A log with its writer.
struct Log {
    name: &'static str,
    /// The beginning of a line that is written, and the rest of the line.
    half: Option<(String, String)>,
    /// A line was written since the file began, besides its header.
    has_lines: bool,
    copying: Option<Copying>,
}

pub(super) struct Folder {
    dir: tempfile::TempDir,
    random: SmallRng,
    /// Lines that were written to their end.
    pub(super) whole: Vec<String>,
    logs: Vec<Log>,
    zipping: Option<Zipping>,
    /// Some files begin with the same line.
    has_headers: bool,
    next: u64,
}

impl Folder {
    pub(super) fn new(seed: u64, has_headers: bool) -> Self {
        let logs = ["a.log", "b.log"].map(|name| Log {
            name,
            half: None,
            has_lines: false,
            copying: None,
        });
        let mut folder = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            random: SmallRng::seed_from_u64(seed),
            whole: Vec::new(),
            logs: logs.into(),
            zipping: None,
            has_headers,
            next: 0,
        };
        for nth in 0..2 {
            folder.begin(nth);
        }
        folder
    }

    pub(super) fn pattern(&self) -> PathBuf {
        self.dir.path().join("*.log*")
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn path(&self, nth: usize) -> PathBuf {
        self.dir.path().join(self.logs[nth].name)
    }

    fn append(&mut self, nth: usize, text: &str) {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(self.path(nth))
            .expect("the log");
        file.write_all(text.as_bytes()).expect("a write");
    }

    /// Begins a file anew: another one, or the same cut off.
    fn begin(&mut self, nth: usize) {
        std::fs::write(self.path(nth), "").expect("a file");
        self.logs[nth].has_lines = false;
        if self.has_headers && self.random.random_bool(0.5) {
            self.append(nth, &format!("{HEADER}\n"));
            self.whole.push(HEADER.to_owned());
        }
    }

    fn line(&mut self) -> String {
        let number = self.number();
        let length = match self.random.random_range(0..50) {
            0 => 5000,
            _ => self.random.random_range(0..80),
        };
        format!("{number} {}", "x".repeat(length))
    }

    fn write_lines(&mut self, nth: usize) {
        self.end_line(nth);
        for _ in 0..self.random.random_range(1..40) {
            let line = self.line();
            self.append(nth, &format!("{line}\n"));
            self.whole.push(line);
        }
        self.logs[nth].has_lines = true;
    }

    fn write_half(&mut self, nth: usize) {
        if self.logs[nth].half.is_none() {
            let line = self.line();
            let at = self.random.random_range(1..line.len());
            self.append(nth, &line[..at]);
            self.logs[nth].half = Some((line[..at].to_owned(), line[at..].to_owned()));
        }
    }

    fn end_line(&mut self, nth: usize) {
        if let Some((begun, rest)) = self.logs[nth].half.take() {
            self.append(nth, &format!("{rest}\n"));
            self.whole.push(begun + &rest);
        }
    }

    fn rotate(&mut self, nth: usize) {
        if !self.logs[nth].has_lines {
            self.write_lines(nth);
        }
        // Its writer is killed, and another one begins the next file.
        let half = match self.random.random_bool(0.5) {
            true => self.logs[nth].half.take(),
            false => None,
        };
        self.whole.extend(half.map(|(begun, _)| begun));
        self.end_line(nth);
        let number = self.number();
        let to = format!("{}.{number}", self.logs[nth].name);
        std::fs::rename(self.path(nth), self.dir.path().join(to)).expect("a rename");
        self.begin(nth);
    }

    /// Begins or goes on with a copy of a log, and cuts the log off in the end.
    fn copy_and_cut(&mut self, nth: usize) -> &'static str {
        let Some(copying) = self.logs[nth].copying.take() else {
            if !self.logs[nth].has_lines {
                self.write_lines(nth);
            }
            self.end_line(nth);
            let number = self.number();
            let to = format!("{}.{number}", self.logs[nth].name);
            self.logs[nth].copying = Some(Copying {
                to: self.dir.path().join(to),
                bytes: 0,
                is_whole: false,
            });
            return "a copy begins";
        };
        if copying.is_whole {
            self.begin(nth);
            return "cut off";
        }
        self.end_line(nth);
        let content = std::fs::read(self.path(nth)).expect("the log");
        let bytes = match self.random.random_bool(0.5) {
            true => content.len(),
            false => self.random.random_range(copying.bytes..=content.len()),
        };
        let mut copy = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&copying.to)
            .expect("the copy");
        let piece = &content[copying.bytes..bytes];
        copy.write_all(piece).expect("a write");
        let is_whole = bytes == content.len();
        self.logs[nth].copying = Some(Copying {
            bytes,
            is_whole,
            ..copying
        });
        match is_whole {
            true => "a copy is whole",
            false => "a copy grows",
        }
    }

    /// Returns a file that nothing is appended to any more.
    fn rotated(&mut self) -> Option<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path()).expect("the folder");
        let mut rotated: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
        let busy = self
            .logs
            .iter()
            .filter_map(|log| Some(log.copying.as_ref()?.to.clone()));
        let busy: Vec<PathBuf> = busy.collect();
        rotated.retain(|path| {
            let is_log = path.extension().is_some_and(|e| e == "log" || e == "gz");
            !is_log && !busy.contains(path)
        });
        rotated.sort();
        let nth = self.random.random_range(0..rotated.len().max(1));
        (!rotated.is_empty()).then(|| rotated.swap_remove(nth))
    }

    fn zip(&mut self) -> &'static str {
        if let Some(mut zipping) = self.zipping.take() {
            let left = zipping.packed.len() - zipping.bytes;
            if left == 0 {
                std::fs::remove_file(zipping.from).expect("a file");
                return "compressed";
            }
            let bytes = zipping.bytes + self.random.random_range(1..=left);
            std::fs::write(&zipping.to, &zipping.packed[..bytes]).expect("a write");
            zipping.bytes = bytes;
            self.zipping = Some(zipping);
            return "a compressed file grows";
        }
        let Some(from) = self.rotated() else {
            return "";
        };
        let content = std::fs::read(&from).expect("a file");
        let level = flate2::Compression::fast();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), level);
        packed.write_all(&content).expect("a write");
        let mut to = from.clone().into_os_string();
        to.push(".gz");
        self.zipping = Some(Zipping {
            from,
            to: to.into(),
            packed: packed.finish().expect("a write"),
            bytes: 0,
        });
        "a compression begins"
    }

    fn shift(&mut self) -> &'static str {
        let from = self.rotated();
        let is_zipped = |path: &PathBuf| self.zipping.as_ref().is_some_and(|z| z.from == *path);
        let Some(from) = from.filter(|path| !is_zipped(path)) else {
            return "";
        };
        let to = from.with_extension(self.number().to_string());
        std::fs::rename(from, to).expect("a rename");
        "moved"
    }

    /// Something happens. Returns its name.
    pub(super) fn step(&mut self) -> &'static str {
        let nth = self.random.random_range(0..2);
        let waits = self.logs[nth].copying.as_ref().is_some_and(|c| c.is_whole);
        match self.random.random_range(0..10) {
            0..3 if !waits => {
                self.write_lines(nth);
                "written"
            }
            3 if !waits => {
                self.write_half(nth);
                "half a line"
            }
            4 if self.logs[nth].copying.is_none() => {
                self.rotate(nth);
                "renamed"
            }
            5 | 6 => self.copy_and_cut(nth),
            7 | 8 => self.zip(),
            9 => self.shift(),
            _ => "",
        }
    }

    /// Ends everything that is half done.
    pub(super) fn finish(&mut self) {
        while self.zipping.is_some() {
            self.zip();
        }
        for nth in 0..2 {
            while self.logs[nth].copying.is_some() {
                self.copy_and_cut(nth);
            }
            self.end_line(nth);
            self.write_lines(nth);
        }
    }
}
