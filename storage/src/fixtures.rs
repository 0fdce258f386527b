//! Stores of every format that was ever written, sound and damaged, and the results of opening
//! them.
//!
//! Each folder below `storage/fixtures/FORMAT/` holds the files of one store, and `EXPECT` with
//! the expected results. The first line is the result of opening the store: `opens: …`, or
//! `refused: …` with the exact message. For a store that opens, the next line is the result of a
//! check. `like: NAME` takes all other files from another fixture, except those of
//! `without: FILE` lines. Fixtures of old formats stay for ever.
//! Fixtures of the current format are compared with the files written now, and
//! `LOGMILL_WRITE_FIXTURES=1 cargo test -p logmill-storage format_of_today`
//! writes them anew. Expected results are derived from the batches that were written and the
//! damage that was done, never from the output of the readers.

mod lived;
mod make;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::check::check;
use crate::error::{Error, Kind, Result};
use crate::manifest;
use crate::memtable::column;
use crate::model::{Name, QUARANTINE, SEQ};
use crate::part::read_part;
use crate::read_only_store::ReadOnlyStore;
use crate::repair::repair;
use crate::resolutions::Settlement;
use crate::rot::life::{DATA, Files, options};
use crate::snapshot::Snapshot;
use crate::store::Store;
use make::Fixture;

const EXPECT: &str = "EXPECT";
/// Folders of the formats.
const FORMATS: [&str; 1] = ["1"];

/// Returns the folder of a format's fixtures.
fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(format)
}

/// Rows of a store as text: one line each, in the order of their sequence numbers.
#[derive(Debug, Default)]
struct Rows {
    lines: Vec<(u64, String)>,
    events: usize,
    quarantined: usize,
    /// Number of items of the quarantine that are resolved.
    settled: u64,
    /// Number of events in detached partitions, which are not read.
    detached: u64,
}

impl Rows {
    /// Adds rows of a stream: their values by column name, without nulls. An integer has the same
    /// text in a column that was widened to floats.
    fn add(&mut self, stream: &Name, rows: &RecordBatch) {
        let count = match stream.as_str() {
            QUARANTINE => &mut self.quarantined,
            _ => &mut self.events,
        };
        *count += rows.num_rows();
        let schema = rows.schema();
        let mut names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        names.sort_unstable();
        let options = FormatOptions::default();
        let seqs: &UInt64Array = column(rows, SEQ);
        for (row, seq) in seqs.values().iter().enumerate() {
            let mut line = format!("{stream}");
            for name in &names {
                let values = rows.column_by_name(name).expect("it is named there");
                if values.is_valid(row) {
                    let text = ArrayFormatter::try_new(values, &options).expect("has a form");
                    let value = text.value(row).to_string();
                    let whole = match values.data_type() {
                        DataType::Float64 => value.strip_suffix(".0"),
                        _ => None,
                    };
                    line += &format!(" {name}={}", whole.unwrap_or(&value));
                }
            }
            self.lines.push((*seq, line));
        }
    }

    /// Returns the expected line for a store that holds these rows.
    fn summary(mut self, torn: u64) -> String {
        self.lines.sort();
        let text: Vec<String> = self.lines.into_iter().map(|(_, line)| line).collect();
        let more = [(self.settled, "settled"), (self.detached, "detached")];
        let more = more.map(|(count, what)| match count {
            0 => String::new(),
            count => format!("{count} {what}, "),
        });
        format!(
            "opens: {} events, {} quarantined, {}torn {torn}, content {:08x}",
            self.events,
            self.quarantined,
            more.concat(),
            crc32c::crc32c(text.join("\n").as_bytes())
        )
    }
}

/// Returns all rows of a snapshot, in memory and in parts.
fn rows_of(snapshot: &Snapshot) -> Result<Rows> {
    let manifest = snapshot.manifest();
    let mut rows = Rows {
        settled: Settlement::ALL
            .map(|how| snapshot.settled().items(how).count())
            .iter()
            .sum(),
        detached: manifest.detached.iter().map(|d| d.rows()).sum(),
        ..Rows::default()
    };
    for (stream, chunks) in &snapshot.chunks {
        chunks.iter().for_each(|c| rows.add(stream, &c.events));
    }
    for part in &manifest.parts {
        let bytes = snapshot.read(&part.file)?;
        for batch in read_part(bytes, None).expect("a part") {
            rows.add(&part.stream, &batch);
        }
    }
    Ok(rows)
}

/// Returns the line for a snapshot: its rows, or the error of reading them.
fn summary_of(snapshot: &Snapshot, torn: u64) -> String {
    match rows_of(snapshot) {
        Ok(rows) => rows.summary(torn),
        Err(error) => format!("opens, and reading says: {}", message(&error)),
    }
}

fn message(error: &Error) -> String {
    error.to_string().replace(&format!("{DATA}/"), "")
}

fn refusal(error: &Error) -> String {
    format!("refused: {}", message(error))
}

/// Returns the line of a check; `None` for a store that does not open.
fn checked(files: &Files) -> Option<String> {
    let reader = ReadOnlyStore::open(Arc::new(files.disk()), Path::new(DATA)).ok()?;
    let report = check(&reader.snapshot());
    let damage = report.damage.iter();
    let damage = damage.map(|(path, what)| format!("{}: {what}", path.display()));
    let away = report.away.iter();
    let away = away.map(|folder| format!("{} is away", folder.display()));
    let words: Vec<String> = damage.chain(away).collect();
    Some(match &words[..] {
        [] => "check: sound".to_owned(),
        some => format!("check: {}", some.join("; ")).replace(&format!("{DATA}/"), ""),
    })
}

/// Opens a store with a reader and with a writer, and returns the line for each.
fn opened(files: &Files) -> (String, String) {
    let data = Path::new(DATA);
    let fs = files.disk();
    let store = Store::open(data, options(&fs));
    let writer = match &store {
        Ok(store) => summary_of(&store.snapshot(), store.status().torn_bytes),
        Err(error) => refusal(error),
    };
    let torn = store.map_or(0, |store| store.status().torn_bytes);
    let reader = match ReadOnlyStore::open(Arc::new(files.disk()), data) {
        Ok(reader) => {
            let snapshot = reader.snapshot();
            // A reader does not report a torn tail.
            format!(
                "{}, next {}",
                summary_of(&snapshot, torn),
                snapshot.next_seq()
            )
        }
        Err(error) => refusal(&error),
    };
    (reader, writer)
}

/// Content of `EXPECT`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expect {
    says: String,
    check: Option<String>,
    like: Option<String>,
    without: Vec<PathBuf>,
}

impl Expect {
    fn read(text: &str) -> Self {
        let mut expect = Self::default();
        for line in text.lines() {
            match line.split_once(": ") {
                Some(("check", _)) => expect.check = Some(line.into()),
                Some(("like", name)) => expect.like = Some(name.into()),
                Some(("without", path)) => expect.without.push(path.into()),
                _ => expect.says = line.into(),
            }
        }
        expect
    }

    fn write(&self) -> String {
        let mut text = format!("{}\n", self.says);
        if let Some(check) = &self.check {
            text += &format!("{check}\n");
        }
        if let Some(like) = &self.like {
            text += &format!("like: {like}\n");
        }
        for path in &self.without {
            text += &format!("without: {}\n", path.display());
        }
        text
    }
}

/// Returns the files of a fixture and its expected results.
fn load(folder: &Path) -> (Files, Expect) {
    let mut own = files_in(folder);
    let expect = own.0.remove(Path::new(EXPECT)).expect("it says what it is");
    let expect = Expect::read(&String::from_utf8(expect).expect("text"));
    let Some(like) = &expect.like else {
        return (own, expect);
    };
    let mut files = files_in(&folder.with_file_name(like));
    files.0.remove(Path::new(EXPECT));
    for path in &expect.without {
        files.0.remove(path).expect("it was there");
    }
    files.0.extend(own.0);
    (files, expect)
}

fn files_in(folder: &Path) -> Files {
    let mut files = Files::default();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let below = path.strip_prefix(folder).expect("it lies there");
                let bytes = std::fs::read(&path).expect("read");
                files.0.insert(below.to_path_buf(), bytes);
            }
        }
    }
    files
}

#[test]
fn each_fixture_says_what_it_is_expected_to() {
    let mut wrong = Vec::new();
    let names = |format: &str| {
        let mut names: Vec<PathBuf> = std::fs::read_dir(folder(format))
            .expect("a folder of fixtures")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        names.sort_unstable();
        names
    };
    for folder in FORMATS.into_iter().flat_map(names) {
        let name = folder.display();
        let (files, expect) = load(&folder);
        let (reader, writer) = opened(&files);
        if let Some(check) = &expect.check {
            let found = checked(&files).unwrap_or_else(|| "nothing to check".to_owned());
            if &found != check {
                wrong.push(format!("{name}\n  expected {check}\n  found    {found}"));
            }
        }
        let expected = &expect.says;
        // A writer continues with other sequence numbers.
        let (for_writer, _) = expected.split_once(", next ").unwrap_or((expected, ""));
        if &reader != expected || writer != for_writer {
            wrong.push(format!(
                "{name}\n  expected {expected}\n  reader   {reader}\n  writer   {writer}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The files written now are those of the fixtures: the format does not change by accident.
#[test]
fn the_format_of_today_is_that_of_its_fixtures() {
    let format = folder(&manifest::FORMAT.to_string());
    if std::env::var_os("LOGMILL_WRITE_FIXTURES").is_some() {
        write(&format);
    }
    let made = make::fixtures();
    for (name, made, (own, expected)) in made.iter().map(|(n, m)| (n, m, kept(m, &made))) {
        let (found, says) = load(&format.join(name));
        assert_eq!(says, expected, "{name}");
        assert_eq!(files_in(&format.join(name)).0.len(), own.0.len() + 1);
        let files = &made.files;
        let changed = |path: &&PathBuf| found.0.get(*path) != files.0.get(*path);
        let paths: BTreeSet<&PathBuf> = files.0.keys().chain(found.0.keys()).collect();
        let changed: Vec<&PathBuf> = paths.into_iter().filter(changed).collect();
        assert!(
            changed.is_empty(),
            "{name}: {changed:?} would be written otherwise; raise the format's version if a reader \
             must know, and write with LOGMILL_WRITE_FIXTURES=1"
        );
    }
}

/// Returns the files that are stored for a fixture, and its `EXPECT`.
fn kept(made: &Fixture, all: &[(&str, Fixture)]) -> (Files, Expect) {
    let mut own = made.files.clone();
    let mut expect = Expect {
        says: made.says.clone(),
        check: made.check.clone(),
        like: made.like.map(str::to_owned),
        without: Vec::new(),
    };
    if let Some(like) = made.like {
        let (_, base) = all.iter().find(|(n, _)| *n == like).expect("it is made");
        own.0
            .retain(|path, bytes| base.files.0.get(path) != Some(bytes));
        let gone = base.files.0.keys();
        let gone = gone.filter(|path| !made.files.0.contains_key(*path));
        expect.without = gone.cloned().collect();
    }
    (own, expect)
}

fn write(format: &Path) {
    if format.exists() {
        std::fs::remove_dir_all(format).expect("removed");
    }
    let made = make::fixtures();
    for (name, fixture) in &made {
        let (mut files, expect) = kept(fixture, &made);
        files.0.insert(EXPECT.into(), expect.write().into_bytes());
        for (path, bytes) in files.0 {
            let path = format.join(name).join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, bytes).expect("written");
        }
    }
}

#[test]
fn a_store_of_another_format_is_left_as_it_is() {
    let (newer, _) = load(&folder("1").join("manifest_too_new"));
    let (mut older, _) = load(&folder("1").join("closed"));
    let manifest = older.below(manifest::DIR).pop().expect("a manifest");
    let head = b"logmill manifest 2 2 0d0d0d0d\n{}";
    older.0.insert(manifest, head.to_vec());
    for (files, what) in [(newer, "use a newer"), (older, "a development version")] {
        let (fs, data) = (files.disk(), Path::new(DATA));
        let refusals = [
            ReadOnlyStore::open(Arc::new(fs.clone()), data).map(|_| ()),
            Store::open(data, options(&fs)).map(|_| ()),
            repair(data, &options(&fs)).map(|_| ()),
        ];
        for refused in refusals {
            let error = refused.expect_err("refused");
            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        let mut after = Files::left_by(&fs);
        after.0.remove(Path::new("LOCK"));
        assert!(after.0 == files.0, "{:?}", after.0.keys());
    }
}
