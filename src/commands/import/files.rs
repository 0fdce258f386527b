//! The files that the arguments of an import stand for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::cli::ImportArgs;
use crate::dates;
use crate::failure::{FAILED, Failure, Result};
use crate::file_patterns::{in_folder, is_hidden, is_pattern, matching};

/// A file to import; `-` is standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputFile {
    pub(super) path: PathBuf,
    /// Its length as it lies on disk; `None` for standard input and pipes.
    pub(super) bytes: Option<u64>,
    changed: Option<SystemTime>,
}

/// The files of an import, in the order in which they are taken.
#[derive(Debug, Default)]
pub(super) struct InputFiles {
    pub(super) files: Vec<InputFile>,
    /// Files that were last changed before `--since`.
    pub(super) older: u64,
}

impl InputFiles {
    /// Finds the files: those that are named, those below a folder, and those that match a pattern;
    /// of a folder or a pattern the oldest first, so that events come in the order of their time.
    ///
    /// # Errors
    /// If a file is not there, a pattern matches none, or a folder cannot be read.
    pub(super) fn find(args: &ImportArgs) -> Result<Self> {
        let since = args.since.as_deref().map(since).transpose()?;
        let mut found = Self::default();
        let mut named = BTreeSet::new();
        for argument in &args.files {
            for file in stood_for(argument)? {
                if since.is_some_and(|since| file.changed.is_some_and(|at| at < since)) {
                    found.older += 1;
                } else if named.insert(file.path.clone()) {
                    found.files.push(file);
                }
            }
        }
        Ok(found)
    }

    /// Returns the length of all files together, if each has one.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

fn stood_for(argument: &Path) -> Result<Vec<InputFile>> {
    let failed = |e: std::io::Error| Failure::new(FAILED, format!("{}: {e}", argument.display()));
    if argument.as_os_str() == "-" {
        return Ok(vec![InputFile {
            path: argument.to_owned(),
            bytes: None,
            changed: None,
        }]);
    }
    let mut paths = BTreeSet::new();
    if is_pattern(argument).map_err(Failure::usage)? {
        if let Some((folder, error)) = matching(argument, &mut paths).into_iter().next() {
            let why = format!("{}: {error}", folder.display());
            return Err(Failure::new(FAILED, why));
        }
        paths.retain(|path| path.is_file());
        if paths.is_empty() {
            let why = format!("{}: no file matches", argument.display());
            return Err(Failure::new(FAILED, why));
        }
    } else if argument.is_dir() {
        below(argument, &mut paths).map_err(failed)?;
    } else {
        return Ok(vec![read(argument.to_owned()).map_err(failed)?]);
    }
    let files = paths.into_iter().map(read).collect::<Result<_, _>>();
    let mut files: Vec<InputFile> = files.map_err(failed)?;
    files.sort_by(|a, b| (a.changed, &a.path).cmp(&(b.changed, &b.path)));
    Ok(files)
}

fn read(path: PathBuf) -> std::io::Result<InputFile> {
    let metadata = std::fs::metadata(&path)?;
    Ok(InputFile {
        bytes: metadata.is_file().then_some(metadata.len()),
        changed: metadata.modified().ok(),
        path,
    })
}

/// Adds the files below a folder, but hidden ones. Links to folders are not followed.
fn below(folder: &Path, found: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
    let mut entries = BTreeSet::new();
    in_folder(folder, |name| !is_hidden(name), &mut entries)?;
    for entry in entries {
        let kind = std::fs::symlink_metadata(&entry)?.file_type();
        if kind.is_dir() {
            below(&entry, found)?;
        } else if entry.is_file() {
            found.insert(entry);
        }
    }
    Ok(())
}

/// Parses `--since`: a date, or the time that has passed since.
fn since(text: &str) -> Result<SystemTime> {
    if let Ok(span) = humantime::parse_duration(text) {
        return Ok(SystemTime::now()
            .checked_sub(span)
            .unwrap_or(SystemTime::UNIX_EPOCH));
    }
    let (from_us, _) = dates::range(text).map_err(|_| {
        Failure::usage(format!(
            "--since {text:?} is neither a date as 2026-01, 2026-01-31 or 2026-01-31T13, nor a time that has passed as 90d"
        ))
    })?;
    let from = Duration::from_micros(u64::try_from(from_us).unwrap_or(0));
    Ok(SystemTime::UNIX_EPOCH + from)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn args(words: &[&str]) -> ImportArgs {
        let begin = ["logmill", "import", "--stream", "web"];
        let parsed = Cli::try_parse_from(begin.iter().chain(words)).expect("a command");
        match parsed.command {
            Command::Import(args) => args,
            _ => panic!("an import"),
        }
    }

    #[test]
    fn arguments_stand_for_files_the_oldest_first() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("years/2025")).expect("folders");
        let day = |days: u64| SystemTime::now() - Duration::from_secs(days * 86_400);
        for (name, days) in [
            ("web.log", 0),
            ("web.log.1", 1),
            ("web.log.2.gz", 2),
            ("years/2025/web.log.9", 300),
            ("years/web.log.10.gz", 310),
            ("years/.hidden", 5),
        ] {
            let file = std::fs::File::create(at(name)).expect("a file");
            file.set_modified(day(days)).expect("a time");
        }
        let found = |words: &[&str]| -> (Vec<String>, u64) {
            let absolute: Vec<String> = words
                .iter()
                .map(|word| match word.starts_with("--") || word.ends_with('h') {
                    true => (*word).to_owned(),
                    false => at(word).display().to_string(),
                })
                .collect();
            let words: Vec<&str> = absolute.iter().map(String::as_str).collect();
            let found = InputFiles::find(&args(&words)).expect("files");
            let names = found.files.iter().map(|file| {
                let inner = file.path.strip_prefix(dir.path()).expect("inside");
                inner.display().to_string()
            });
            (names.collect(), found.older)
        };
        let all = found(&["web*", "years"]).0;
        let (rotated, years) = all.split_at(3);
        assert_eq!(rotated, ["web.log.2.gz", "web.log.1", "web.log"]);
        assert_eq!(years, ["years/web.log.10.gz", "years/2025/web.log.9"]);
        // A file that two arguments stand for is one.
        assert_eq!(
            found(&["web.log", "web.*"]).0,
            ["web.log", "web.log.2.gz", "web.log.1"]
        );
        let (newer, older) = found(&["web*", "years", "--since", "36h"]);
        assert_eq!((newer.len(), older), (2, 3));
        let wrong = |words: &[&str]| InputFiles::find(&args(words)).is_err();
        assert!(wrong(&["no/such/file"]));
        assert!(wrong(&["/no/such/*.log"]));
        assert!(wrong(&["-", "--since", "yesterday"]));
    }
}
