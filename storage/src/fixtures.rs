//! Stores of every format that was ever written, sound and damaged, and what opening them must say.
//!
//! Each folder below `storage/fixtures/FORMAT/` is the files of one store, and beside them `EXPECT`,
//! one line: `opens: …`, or `refused: …` with the message to the letter. Old formats stay for ever.
//! The ones of the format of today are compared with what is written today, and written anew by
//! `LOGMILL_WRITE_FIXTURES=1 cargo test -p logmill-storage format_of_today`; what they are to say comes
//! from what was written and what was damaged, never from what the readers make of it.

mod make;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::error::Error;
use crate::manifest;
use crate::memtable::column;
use crate::model::{Name, QUARANTINE, SEQ};
use crate::part::read_part;
use crate::reader::Reader;
use crate::rot::life::{DATA, Files, options};
use crate::snapshot::Snapshot;
use crate::store::Store;

const EXPECT: &str = "EXPECT";
/// The folders: two development versions, and the format as it was frozen.
const FORMATS: [&str; 3] = ["dev-1", "dev-2", "1"];

/// The folder of a format's fixtures.
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
}

impl Rows {
    /// Adds rows of a stream: what is not null, by the names of the columns.
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
                    line += &format!(" {name}={}", text.value(row));
                }
            }
            self.lines.push((*seq, line));
        }
    }

    /// What a store that holds these rows is to say.
    fn told(mut self, torn: u64) -> String {
        self.lines.sort();
        let text: Vec<String> = self.lines.into_iter().map(|(_, line)| line).collect();
        format!(
            "opens: {} events, {} quarantined, torn {torn}, content {:08x}",
            self.events,
            self.quarantined,
            crc32c::crc32c(text.join("\n").as_bytes())
        )
    }
}

/// Everything that a snapshot holds, in memory and in parts.
fn rows_of(snapshot: &Snapshot) -> Rows {
    let mut rows = Rows::default();
    for (stream, chunks) in &snapshot.chunks {
        chunks.iter().for_each(|c| rows.add(stream, &c.events));
    }
    for part in &snapshot.manifest().parts {
        let bytes = snapshot.read(&part.file).expect("a sound part");
        for batch in read_part(bytes, None).expect("a part") {
            rows.add(&part.stream, &batch);
        }
    }
    rows
}

fn refusal(error: &Error) -> String {
    format!(
        "refused: {}",
        error.to_string().replace(&format!("{DATA}/"), "")
    )
}

/// What a reader says, and what a writer does.
fn opened(files: &Files) -> (String, String) {
    let data = Path::new(DATA);
    let fs = files.disk();
    let store = Store::open(data, options(&fs));
    let writer = match &store {
        Ok(store) => rows_of(&store.snapshot()).told(store.status().torn_bytes),
        Err(error) => refusal(error),
    };
    let torn = store.map_or(0, |store| store.status().torn_bytes);
    let reader = match Reader::open(Arc::new(files.disk()), data) {
        Ok(reader) => {
            let snapshot = reader.snapshot();
            // A reader tells nothing of a torn tail.
            format!(
                "{}, next {}",
                rows_of(&snapshot).told(torn),
                snapshot.next_seq()
            )
        }
        Err(error) => refusal(&error),
    };
    (reader, writer)
}

/// The files of a folder on the disk, and what they are to say.
fn load(folder: &Path) -> (Files, String) {
    let mut files = Files::default();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let below = path
                    .strip_prefix(folder)
                    .expect("it lies there")
                    .to_path_buf();
                files.0.insert(below, std::fs::read(&path).expect("read"));
            }
        }
    }
    let expected = files
        .0
        .remove(Path::new(EXPECT))
        .expect("it says what it is");
    let expected = String::from_utf8(expected).expect("text");
    (files, expected.trim_end().to_owned())
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
        let (files, expected) = load(&folder);
        let (reader, writer) = opened(&files);
        // A writer's numbers go on elsewhere.
        let (for_writer, _) = expected.split_once(", next ").unwrap_or((&expected, ""));
        if reader != expected || writer != for_writer {
            wrong.push(format!(
                "{name}\n  expected {expected}\n  reader   {reader}\n  writer   {writer}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is written today is what the fixtures hold: the format does not change by accident.
#[test]
fn the_format_of_today_is_that_of_its_fixtures() {
    let format = folder(&manifest::FORMAT.to_string());
    if std::env::var_os("LOGMILL_WRITE_FIXTURES").is_some() {
        write(&format);
    }
    for (name, (files, expected)) in make::NAMES.into_iter().zip(make::fixtures()) {
        let (found, says) = load(&format.join(name));
        assert_eq!(says, expected, "{name}");
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

fn write(format: &Path) {
    if format.exists() {
        std::fs::remove_dir_all(format).expect("removed");
    }
    for (name, (files, expected)) in make::NAMES.into_iter().zip(make::fixtures()) {
        let mut all = files.0;
        all.insert(EXPECT.into(), format!("{expected}\n").into_bytes());
        for (path, bytes) in all {
            let path = format.join(name).join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, bytes).expect("written");
        }
    }
}
