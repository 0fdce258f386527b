//! Sequences of what happens to logs, against a model: every line that was ever written whole comes
//! into the store once, and nothing else does.

mod headers;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Parser as _;
use ingest::Format;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use storage::{Identity, SourcePosition};

use super::sink::SourcePiece;
use super::*;
use crate::cli::{Cli, Command};
use crate::source_id::SourceMemory;

/// States of a producer that a store remembers.
const STATES_MAX: usize = 128;

/// A store that keeps lines and holds producers to their ranges.
#[derive(Default)]
struct Lines {
    taken: Vec<String>,
    sources: BTreeMap<String, Vec<SourcePosition>>,
    piece_bytes: usize,
    /// It takes so many pieces more, then the import is killed.
    fails_after: Option<usize>,
}

impl SourceMemory for Lines {
    fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.sources.keys().filter(|n| n.starts_with(prefix));
        Ok(names.cloned().collect())
    }

    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        Ok(self.sources.get(producer).cloned().unwrap_or_default())
    }
}

impl Sink for Lines {
    fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    fn multiline(&self) -> Option<ingest::Multiline> {
        None
    }

    fn begin(&mut self, _: &Format) {}

    fn take(&mut self, piece: SourcePiece<'_>, summary: &mut Summary) -> Result<Format> {
        if let Some(left) = &mut self.fails_after {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => return Err(Failure::new(FAILED, "killed")),
            }
        }
        let text = String::from_utf8(piece.block.bytes).expect("text");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some(Identity::Range {
            producer,
            from,
            to,
            content,
        }) = piece.identity
        {
            let states = self.sources.entry(producer.clone()).or_default();
            if let Some(last) = states.last() {
                assert_eq!(last.to, from, "{producer} has a gap or comes twice");
            }
            states.push(SourcePosition { to, content });
            let oldest = states.len().saturating_sub(STATES_MAX);
            states.drain(..oldest);
        }
        let count = lines.len() as u64;
        let ack = storage::Ack {
            accepted: count,
            quarantined: 0,
            first_seq: Some(self.taken.len() as u64),
            last_seq: Some(self.taken.len() as u64 + count),
            duplicate: false,
            shard: None,
        };
        self.taken.extend(lines);
        summary.add(&ack, count, 0, to_u64(text.len()), []);
        Ok(Format::Common)
    }

    fn drain(&mut self, _: &mut Summary) -> Result<()> {
        Ok(())
    }
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).expect("a length")
}

/// Runs an import of files into the lines; whether it came to its end.
fn import(lines: &mut Lines, files: &[PathBuf], more: &[&str]) -> bool {
    import_as(Format::Common, lines, files, more)
}

/// As [`import`], of files in any format.
fn import_as(format: Format, sink: &mut dyn Sink, files: &[PathBuf], more: &[&str]) -> bool {
    let files = files.iter().map(|f| f.to_str().expect("a path of UTF-8"));
    let words = ["logmill", "import", "--stream", "access"];
    let words = words.into_iter().chain(files).chain(more.iter().copied());
    let Command::Import(args) = Cli::try_parse_from(words).expect("usage").command else {
        panic!("an import")
    };
    let options = ParseOptions {
        format,
        site: args.site.clone(),
        ..ParseOptions::default()
    };
    let inputs = InputFiles::find(&args).expect("files");
    let mut import = Import {
        args: &args,
        inputs: &inputs.files,
        options: &options,
        interrupt: Interrupt::default(),
        files: None,
    };
    import.all(sink, &mut Summary::start()).is_ok()
}

/// A folder of logs as a server and logrotate leave it.
struct Folder {
    dir: tempfile::TempDir,
    random: SmallRng,
    /// Lines that were written to their end.
    whole: Vec<String>,
    /// Its end is not written yet.
    half: bool,
    files: u32,
    /// Nothing was written to the log since its last import.
    at_rest: bool,
}

impl Folder {
    fn new(seed: u64) -> Self {
        let folder = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            random: SmallRng::seed_from_u64(seed),
            whole: Vec::new(),
            half: false,
            files: 0,
            at_rest: true,
        };
        std::fs::write(folder.log(), "").expect("a file");
        folder
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("access.log")
    }

    fn next_name(&mut self) -> PathBuf {
        self.files += 1;
        self.dir.path().join(format!("access.log.{}", self.files))
    }

    fn append(&mut self, text: &str) {
        self.at_rest = false;
        let mut log = std::fs::OpenOptions::new()
            .append(true)
            .open(self.log())
            .expect("the log");
        log.write_all(text.as_bytes()).expect("a write");
    }

    fn write_lines(&mut self) {
        self.end_line();
        for _ in 0..self.random.random_range(1..30) {
            let line = self.line();
            self.append(&format!("{line}\n"));
            self.whole.push(line);
        }
    }

    fn line(&mut self) -> String {
        let (nth, size) = (self.whole.len(), self.random.random_range(0..100_000));
        format!("h - - [10/Oct/2000:13:55:36 -0700] \"GET /{nth} HTTP/1.0\" 200 {size}")
    }

    /// The writer is interrupted in the middle of a line.
    fn write_half(&mut self) {
        if self.half {
            return;
        }
        let line = self.line();
        let at = self.random.random_range(1..=line.len());
        self.append(&line[..at]);
        let rest = line[at..].to_owned();
        self.whole.push(line);
        std::fs::write(self.dir.path().join("rest"), rest).expect("a file");
        self.half = true;
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.half) {
            let rest = std::fs::read_to_string(self.dir.path().join("rest")).expect("the rest");
            self.append(&format!("{rest}\n"));
        }
    }

    fn logs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path()).expect("the folder");
        let paths = entries.map(|e| e.expect("an entry").path());
        let is_log = |p: &PathBuf| p.file_name().is_some_and(|n| n != "rest");
        let mut logs: Vec<PathBuf> = paths.filter(is_log).collect();
        logs.sort();
        logs
    }

    /// A file that nothing is appended to.
    fn rotated(&mut self) -> Option<PathBuf> {
        let log = self.log();
        let mut rotated: Vec<PathBuf> = self.logs().into_iter().filter(|p| *p != log).collect();
        (!rotated.is_empty()).then(|| {
            let nth = self.random.random_range(0..rotated.len());
            rotated.swap_remove(nth)
        })
    }

    /// Something happens; its name, for the message of a failure.
    fn step(&mut self) -> &'static str {
        match self.random.random_range(0..8) {
            0 | 1 => {
                self.write_lines();
                "written"
            }
            2 => {
                self.write_half();
                "half a line"
            }
            3 => {
                self.end_line();
                let to = self.next_name();
                std::fs::rename(self.log(), to).expect("a rename");
                std::fs::write(self.log(), "").expect("a file");
                self.at_rest = true;
                "renamed"
            }
            4 => {
                self.end_line();
                let to = self.next_name();
                std::fs::copy(self.log(), to).expect("a copy");
                std::fs::write(self.log(), "").expect("a file cut off");
                self.at_rest = true;
                "copied and cut off"
            }
            5 => {
                let Some(from) = self.rotated() else {
                    return "";
                };
                let name = from.file_name().and_then(|n| n.to_str()).expect("a name");
                self.files += 1;
                let to = self.dir.path().join(format!("old{}-{name}", self.files));
                if self.random.random_bool(0.5) {
                    std::fs::copy(&from, &to).expect("a copy");
                    "copied"
                } else {
                    std::fs::rename(&from, &to).expect("a rename");
                    "moved"
                }
            }
            6 => {
                let Some(from) = self
                    .rotated()
                    .filter(|f| f.extension().is_none_or(|e| e != "gz"))
                else {
                    return "";
                };
                let content = std::fs::read(&from).expect("a file");
                let mut to = from.clone().into_os_string();
                to.push(".gz");
                let to = std::fs::File::create(to).expect("a file");
                let mut packed = flate2::write::GzEncoder::new(to, flate2::Compression::fast());
                packed.write_all(&content).expect("a write");
                packed.finish().expect("a write");
                if self.random.random_bool(0.7) {
                    std::fs::remove_file(from).expect("a file");
                }
                "compressed"
            }
            // A copy that ends within a line would never be whole.
            _ if self.at_rest && !self.half => {
                let to = self.next_name();
                std::fs::copy(self.log(), to).expect("a copy");
                "copied while at rest"
            }
            _ => "",
        }
    }
}

fn random_files(folder: &mut Folder) -> Vec<PathBuf> {
    let mut files = folder.logs();
    for i in (1..files.len()).rev() {
        let other = folder.random.random_range(0..=i);
        files.swap(i, other);
    }
    files
}

#[test]
fn every_line_comes_once_whatever_happens_to_its_file() {
    let runs = std::env::var("LOGMILL_IMPORT_RUNS").map_or(40, |n| n.parse().expect("a number"));
    let first = std::env::var("LOGMILL_SEED").map_or_else(
        |_| u64::from(std::process::id()) << 20,
        |seed| seed.parse().expect("a number"),
    );
    for seed in first..first + runs {
        println!("LOGMILL_SEED={seed}");
        let mut folder = Folder::new(seed);
        let mut lines = Lines {
            piece_bytes: folder.random.random_range(1000..20_000),
            ..Lines::default()
        };
        let mut steps = Vec::new();
        for _ in 0..folder.random.random_range(5..40) {
            if folder.random.random_bool(0.3) {
                lines.fails_after = folder
                    .random
                    .random_bool(0.5)
                    .then(|| folder.random.random_range(0..6));
                let files = random_files(&mut folder);
                let done = import(&mut lines, &files, &[]);
                folder.at_rest |= done;
                steps.push(if done { "imported" } else { "killed" });
            } else {
                steps.push(folder.step());
            }
        }
        folder.end_line();
        lines.fails_after = None;
        let files = random_files(&mut folder);
        assert!(import(&mut lines, &files, &[]));
        let taken = lines.taken.len();
        lines.taken.sort();
        folder.whole.sort();
        assert!(
            lines.taken == folder.whole,
            "seed {seed}: {taken} lines taken of {} written: {steps:?}",
            folder.whole.len()
        );
        let files = random_files(&mut folder);
        assert!(import(&mut lines, &files, &[]));
        assert_eq!(lines.taken.len(), taken, "seed {seed}: {steps:?}");
    }
}

/// A file of so many lines of a name.
fn written(dir: &tempfile::TempDir, file: &str, lines: &[(&str, u32)]) -> PathBuf {
    let path = dir.path().join(file);
    let text: String = lines
        .iter()
        .flat_map(|(name, n)| (0..*n).map(move |i| format!("{name} {i}\n")))
        .collect();
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn files_that_only_begin_alike_are_two() {
    for (piece_bytes, alike, others) in [
        (1 << 20, 3, 300),
        (1 << 20, 5_000, 300),
        (1 << 20, 5_000, 500),
        (300, 3, 300),
        (300, 20, 500),
        (3000, 5_000, 300),
        (3000, 5_000, 500),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut lines = Lines {
            piece_bytes,
            ..Lines::default()
        };
        let one = written(&dir, "one", &[("alike", alike), ("one", 400)]);
        let other = written(&dir, "other", &[("alike", alike), ("other", others)]);
        assert!(import(&mut lines, &[one.clone(), other.clone()], &[]));
        let all = |name: &str| lines.taken.iter().filter(|l| l.starts_with(name)).count();
        assert_eq!(
            (all("one"), all("other")),
            (400, others as usize),
            "{piece_bytes}, {alike}, {others}"
        );
        let taken = lines.taken.len();
        assert!(import(&mut lines, &[other, one], &[]));
        assert_eq!(lines.taken.len(), taken);
    }
}

#[test]
fn a_file_of_one_line_that_grows_is_known() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut lines = Lines {
        piece_bytes: 1 << 20,
        ..Lines::default()
    };
    let mut taken = 0;
    for n in [0, 1, 2, 3, 90, 4_000, 4_001] {
        let file = written(&dir, &format!("access.log.{n}"), &[("a", n)]);
        assert!(import(&mut lines, &[file], &[]));
        assert_eq!(
            lines.taken.len() - taken,
            n as usize - taken,
            "at {n} lines"
        );
        taken = n as usize;
    }
}

#[test]
fn the_site_tells_the_same_content_apart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut lines = Lines {
        piece_bytes: 1 << 20,
        ..Lines::default()
    };
    let file = [written(&dir, "log", &[("a", 10)])];
    for (site, wanted) in [
        ("", 10),
        ("a", 20),
        ("a:b", 30),
        ("b", 40),
        ("a", 40),
        ("", 40),
    ] {
        let more: Vec<&str> = [site].into_iter().filter(|s| !s.is_empty()).collect();
        let more = more
            .iter()
            .flat_map(|site| ["--site", site])
            .collect::<Vec<_>>();
        assert!(import(&mut lines, &file, &more));
        assert_eq!(lines.taken.len(), wanted, "{site}");
    }
}
